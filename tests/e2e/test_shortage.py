"""The summary tells how large the buffer must be (V6)."""

import os
import re
import signal

import pytest

from harness import count_events

HITS = 160000
NEEDED = re.compile(r"events were lost because the buffer was full: --buffer-size (\d+)M would have held them")


def record(dyntrace, program, size, threads, words):
    """(events, lost, output): all hits come while nobody reads the buffer."""
    one = program("spin", "--calls", HITS // threads, "--threads", threads).wait_ready()
    running = dyntrace.start_trace(one.pid, *words, "--buffer-size", size).wait_told()
    os.kill(running.process.pid, signal.SIGSTOP)
    one.go().wait_ready()
    os.kill(running.process.pid, signal.SIGCONT)
    running.process.send_signal(signal.SIGINT)
    _, errors = running.process.communicate()
    one.finish()
    found = re.search(r"^(\d+) events, (\d+) lost, ", errors, re.M)
    events, lost = int(found[1]), int(found[2])
    assert count_events(running.output) == (events, lost)
    return events, lost, errors


@pytest.mark.parametrize("threads, words", [(1, ["--probe", "foo"]), (4, ["--function", "foo"])], ids=["bare", "fields"])
def test_a_buffer_of_that_size_loses_nothing(dyntrace, program, threads, words):
    events, lost, output = record(dyntrace, program, "1M", threads, words)
    assert events + lost == HITS and lost
    size = NEEDED.search(output)[1]
    events, lost, output = record(dyntrace, program, f"{size}M", threads, words)
    assert (events, lost) == (HITS, 0)
    assert "buffer" not in output
