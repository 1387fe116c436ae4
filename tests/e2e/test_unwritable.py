"""Traces that can't be written to their end (H39): what no file takes is counted as lost, and the rest can be read."""
import os
import re
import resource
import signal
import subprocess

import pytest
from harness import Trace, until

CALLS = 300000


def state(pid):
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


@pytest.fixture
def small_disk(scratch):
    """A file system of 1 MiB."""
    path = os.path.join(scratch, "small")
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", path], check=True)
    yield path
    subprocess.run(["umount", "--lazy", path], check=True)


@pytest.mark.parametrize("how, why", [("disk", "No space left on device"), ("limit", "File too large")])
def test_events_that_no_file_takes_are_lost_and_counted(dyntrace, program, small_disk, how, why):
    """All calls are made while dyntrace is stopped: each is recorded or lost, and both are exact."""
    output = os.path.join(small_disk, "trace")
    one = program("spin", "--calls", CALLS, "--rounds", 1).wait_ready()
    if how == "disk":
        dyntrace.new_output = lambda: output
    running = dyntrace.start_trace(one.pid, "--probe", "foo")
    tracing, output = running.process, running.output
    os.kill(tracing.pid, signal.SIGSTOP)
    until(lambda: state(tracing.pid) == "T", "dyntrace to be stopped")
    if how == "limit":
        resource.prlimit(tracing.pid, resource.RLIMIT_FSIZE, (200000, resource.RLIM_INFINITY))
    one.go().wait_ready()
    os.kill(tracing.pid, signal.SIGCONT)
    _, errors = tracing.communicate(timeout=60)
    assert tracing.returncode == 125
    assert errors.endswith(f"dyntrace: cannot write the trace in '{output}': {why}\n"), errors
    hits, lost = map(int, re.search(r"^foo +(\d+) +(\d+)$", errors, re.M).groups())
    assert re.search(rf"^{hits} events, {lost} lost, ", errors, re.M), errors
    assert hits + lost == CALLS and lost > 0 and (hits > 0 or how == "limit")
    assert not hits or len(Trace(output).events) == hits
    one.finish()
