"""Traces that can't be written to their end (H39): what no file takes is counted as lost, and the rest can be read."""
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest
from harness import Snapshot, Trace, small_file_system, state, summary_rows, until

CALLS = 300000


@pytest.fixture
def small_disk(scratch):
    """A file system of 1 MiB."""
    with small_file_system(scratch, "1M") as path:
        yield path


@pytest.mark.parametrize("how, why", [("disk", "recording stopped"), ("limit", "File too large")])
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
    last = errors.splitlines()[-1]
    if how == "disk":  # before it is full: something is left
        assert re.fullmatch(rf"dyntrace: only \d+ KiB are left on the file system of '{output}': {why} \(.*\)", last), errors
        assert os.statvfs(small_disk).f_bavail > 0
    else:
        assert last == f"dyntrace: cannot write the trace in '{output}': {why}", errors
    hits, lost = (int(summary_rows(errors)["foo"][title]) for title in ("hits", "lost"))
    assert re.search(rf"^{hits} events, {lost} lost, ", errors, re.M), errors
    assert hits + lost == CALLS and lost > 0 and (hits > 0 or how == "limit")
    assert not hits or len(Trace(output).events) == hits
    one.finish()


def test_events_for_removed_files_are_lost_and_counted(dyntrace, program):
    """The second half of the calls comes when the trace's directory is gone."""
    one = program("spin", "--calls", 3000, "--rounds", 2).wait_ready()
    running = dyntrace.start_trace(one.pid, "--probe", "foo")
    one.go().wait_ready()
    until(lambda: os.path.exists(os.path.join(running.output, "stream_0")), "the first events in the trace")
    shutil.rmtree(running.output)
    one.go().wait_ready()
    _, errors = running.process.communicate(timeout=60)
    assert running.process.returncode == 125
    assert errors.startswith("dyntrace: tracing ") and f"dyntrace: cannot write the trace in '{running.output}': its files were removed\n" in errors
    hits, lost = (int(summary_rows(errors)["foo"][title]) for title in ("hits", "lost"))
    assert re.search(rf"^{hits} events, {lost} lost, .*; no trace$", errors, re.M), errors
    assert hits + lost == 6000 and lost >= 3000
    one.finish()


@pytest.fixture
def cgroup():
    """A memory cgroup: its folder, and the name of the file with its limit."""
    for root, limit in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]:
        folder = os.path.join(root, f"dyntrace-test-{os.getpid()}")
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folder, limit)):
            yield folder, limit
            until(lambda: gone(folder), "the cgroup to be empty")
            return
        os.rmdir(folder)
    pytest.skip("no memory cgroup can be made here")


def gone(folder):
    try:
        os.rmdir(folder)
    except OSError:
        return False
    return True


def write(folder, name, text):
    with open(os.path.join(folder, name), "w") as file:
        file.write(str(text))


@pytest.mark.parametrize("kib, fits", [(4096, True), (200, False)])
def test_memory_that_the_target_s_cgroup_lacks_isn_t_taken(cgroup, dyntrace, program, kib, fits):
    """(H17) The kernel would kill the target at its next page."""
    folder, limit = cgroup
    write(folder, limit, kib * 1024)
    one = program("spin", "--calls", 1000, "--rounds", 1).wait_ready()
    write(folder, "cgroup.procs", one.pid)
    before = Snapshot(one.pid)
    if fits:
        running = dyntrace.start_trace(one.pid, "--function", "foo", "-e")
        one.go().wait_ready()
        assert running.stop().names() == {"foo_entry": 1000, "foo_exit": 1000}
    else:
        errors = dyntrace.fails("trace", "-p", one.pid, "--function", "foo", "-e", "-o", dyntrace.new_output(), status=125)
        assert re.fullmatch(rf"process {one.pid} has \d+ KiB left in its memory cgroup, and tracing may take \d+ KiB of it "
                            r"\(raise the cgroup's limit\)", errors), errors
        one.go().wait_ready()
        before.assert_unchanged()
    one.finish()
