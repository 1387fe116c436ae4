"""Flight recorders whose targets crash at any moment, also while a hit asks for a snapshot: the last events of each thread are there,
without a gap. DYNTRACE_TORTURE: the share of the crashes."""
import glob
import os
import random
import signal
import time

import pytest
from harness import Trace

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
CRASHES = max(int(40 * FACTOR), 2)
CALLS = 2000
THREADS = 3
FIRST = 128  # events of 4 KiB, at most


def runs(trace):
    """Per thread: are the numbers of foo's calls one run, from any one on? A round begins at 0 again. The first events of a thread,
    4 KiB, may stay longer than later ones (docs/limits.md)."""
    numbers = {}
    for event in trace.events:
        numbers.setdefault(event.tid, []).append(event.fields["number"])
    for found in numbers.values():
        gaps = [index for index, (one, two) in enumerate(zip(found, found[1:], strict=False)) if two != (one + 1) % CALLS]
        assert not gaps or (len(gaps) == 1 and gaps[0] < FIRST), gaps
    return len(numbers)


@pytest.mark.limit(3000)
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT, signal.SIGKILL], ids=lambda number: number.name)
def test_crash_at_any_moment(dyntrace, program, number):
    chance = random.Random(int(number))
    for _ in range(CRASHES):
        one = program("spin", "--threads", THREADS, "--calls", CALLS, "--rounds", 1000000).wait_ready()
        running = dyntrace.start_trace(one.pid, "--function", "foo", "--buffer-size", "1M", "--snapshot-when", "number % 500 == 7",
                                       "--snapshot-every", "1ms", "--max-files", 3)
        end = time.monotonic() + chance.uniform(0, 0.3)
        while time.monotonic() < end:
            one.go().wait_ready()
        one.go()
        os.kill(one.pid, number)
        one.process.wait()
        _, errors = running.process.communicate(timeout=60)
        assert f"killed by {number.name}" in errors or "has ended" in errors, errors
        assert runs(Trace(running.output)) <= THREADS
        for path in glob.glob(f"{running.output}.snapshot-*"):
            runs(Trace(path))
        one.close()
