"""Traces that can't be written to their end (H39): what no file takes is counted as lost, and the rest can be read."""
import errno
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile

import pytest
from harness import Cgroup, Snapshot, Trace, small_file_system, state, summary_rows, until

CALLS = 300000


@pytest.fixture
def small_disk(scratch):
    """A file system of 1 MiB."""
    with small_file_system(scratch, "1M") as path:
        yield path


def suspend(pid):
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T", "dyntrace to be stopped")


@pytest.mark.parametrize("how, why", [("disk", "recording stopped"), ("limit", "File too large")])
def test_events_that_no_file_takes_are_lost_and_counted(dyntrace, program, small_disk, how, why):
    """All calls are made while dyntrace is stopped: each is recorded or lost, and both are exact."""
    output = os.path.join(small_disk, "trace")
    one = program("spin", "--calls", CALLS, "--rounds", 1).wait_ready()
    if how == "disk":
        dyntrace.new_output = lambda: output
    running = dyntrace.start_trace(one.pid, "--probe", "foo").wait_told()
    tracing, output = running.process, running.output
    suspend(tracing.pid)
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
        assert last == f"dyntrace: cannot write the trace in '{output}': {why} (raise the limit of dyntrace with 'ulimit -f')", errors
    hits, lost = (int(summary_rows(errors)["foo"][title]) for title in ("hits", "lost"))
    assert re.search(rf"^{hits} events, {lost} lost, ", errors, re.M), errors
    assert hits + lost == CALLS and lost > 0 and (hits > 0 or how == "limit")
    assert not hits or len(Trace(output).events) == hits
    one.finish()


def test_what_a_killed_dyntrace_left_is_counted(dyntrace, program, small_disk):
    """Its events don't fit on the disk any more: `detach` tells how many it saved, and how many it couldn't."""
    output = os.path.join(small_disk, "trace")
    dyntrace.new_output = lambda: output
    one = program("spin", "--calls", CALLS, "--rounds", 1).wait_ready()
    running = dyntrace.start_trace(one.pid, "--probe", "foo").wait_told()
    suspend(running.process.pid)
    one.go().wait_ready()
    running.process.kill()
    running.process.communicate()
    result = dyntrace("detach", one.pid)
    told = re.search(r"removed 1 probe of a dyntrace that was killed; (\d+) unwritten events were saved in (.*), "
                     r"(\d+) could not be saved: .*", result.stderr)
    assert told and told[2] == output, result.stderr
    saved, lost = int(told[1]), int(told[3])
    assert saved + lost == CALLS and saved > 0 and lost > 0
    assert len(Trace(output).events) == saved
    running.before.assert_unchanged()
    one.finish()


@pytest.mark.parametrize("how, why", [("disk", "recording stopped"), ("limit", "File too large")])
def test_losses_of_a_daemon_s_trace_are_told(new_daemon, program, small_disk, how, why):
    """Watchers and the log hear what ended the recording, and how many events that cost; so does a trace on a full disk."""
    daemon = new_daemon().start()
    one = program("spin", "--calls", CALLS, "--rounds", 2).wait_ready()
    before = Snapshot(one.pid)
    watch = daemon.watch()
    output = os.path.join(small_disk if how == "disk" else daemon.scratch, "trace")
    daemon.add(f"{one.pid}:foo", "ctf", output)
    worker, = daemon.workers(one.pid)
    suspend(worker)  # all calls are made before it writes
    if how == "limit":
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (200000, resource.RLIM_INFINITY))
    one.go().wait_ready()
    os.kill(worker, signal.SIGCONT)
    assert why in watch.until("failed")[-1]["detail"]
    lost = int(re.fullmatch(r"(\d+) events", watch.until("lost")[-1]["detail"])[1])
    until(lambda: not daemon.json("list-processes"), "the process to be let go")
    assert re.search(rf"process {one.pid} \(spin\): lost: {lost} events$", daemon.log_text(), re.M), daemon.log_text()
    trace = Trace(output)
    assert len(trace.events) + lost == CALLS and lost > 0
    assert trace.lost == (lost if how == "disk" else 0)
    before.assert_unchanged()
    one.go().wait_ready()
    one.finish()


FAILING = """
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
	static long made;

	if (++made <= atol(getenv("WRITES")))
		return syscall(SYS_pwritev, fd, parts, count, at, 0);
	errno = atoi(getenv("ERROR"));
	return -1;
}
"""


@pytest.fixture(scope="module")
def failing():
    """A library that lets writes to files of a trace fail."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "failing.so")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], input=FAILING, text=True, check=True)
        yield path


@pytest.mark.parametrize("number, why, writes", [(errno.EIO, "Input/output error", 0), (errno.EIO, "Input/output error", 5),
                                                 (errno.EDQUOT, "Disk quota exceeded", 5)])
def test_events_that_a_broken_disk_refuses_are_lost_and_counted(dyntrace, program, failing, number, why, writes):
    """A disk that fails, a quota that is used up: from the first write on, or later."""
    one = program("spin", "--calls", CALLS, "--rounds", 1).wait_ready()
    before = Snapshot(one.pid)
    prefix = ["env", f"LD_PRELOAD={failing}", f"WRITES={writes}", f"ERROR={number}"]
    running = dyntrace.start_trace(one.pid, "--probe", "foo", prefix=prefix).wait_told()
    suspend(running.process.pid)  # all calls are made before the first write fails
    one.go().wait_ready()
    os.kill(running.process.pid, signal.SIGCONT)
    _, errors = running.process.communicate(timeout=60)
    assert running.process.returncode == 125
    hint = "the kernel's log, dmesg, may say more" if number == errno.EIO else "make room, or bound traces with --max-size"
    assert errors.splitlines()[-1] == f"dyntrace: cannot write the trace in '{running.output}': {why} ({hint})", errors
    hits, lost = (int(summary_rows(errors)["foo"][title]) for title in ("hits", "lost"))
    assert re.search(rf"^{hits} events, {lost} lost, ", errors, re.M), errors
    assert hits + lost == CALLS and lost > 0 and (hits > 0) == (writes > 0)
    assert not hits or len(Trace(running.output).events) == hits
    before.assert_unchanged()
    one.finish()


def test_buffers_larger_than_files_may_be_are_refused(dyntrace, program_path):
    """RLIMIT_FSIZE holds for shared memory, too."""
    command = [dyntrace.path, "trace", "--function", "foo", "-o", dyntrace.new_output(), "--", program_path("spin"), "--calls", "1"]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    assert result.returncode == 125
    assert re.fullmatch(r"dyntrace: cannot put the agent into process \d+: shared memory of \d+ KiB is larger than files may be "
                        r"\(raise the limit of dyntrace with 'ulimit -f'\)\n", result.stderr), result.stderr


def test_events_for_removed_files_are_lost_and_counted(dyntrace, program):
    """The second half of the calls comes when the trace's directory is gone."""
    one = program("spin", "--calls", 3000, "--rounds", 2).wait_ready()
    running = dyntrace.start_trace(one.pid, "--probe", "foo")
    one.go().wait_ready()
    until(lambda: os.path.exists(os.path.join(running.output, "stream_0")), "the first events in the trace")
    suspend(running.process.pid)  # all calls are made before it finds that out
    shutil.rmtree(running.output)
    one.go().wait_ready()
    os.kill(running.process.pid, signal.SIGCONT)
    _, errors = running.process.communicate(timeout=60)
    assert running.process.returncode == 125
    assert errors.startswith("dyntrace: tracing ") and f"dyntrace: cannot write the trace in '{running.output}': its files were removed\n" in errors
    hits, lost = (int(summary_rows(errors)["foo"][title]) for title in ("hits", "lost"))
    assert re.search(rf"^{hits} events, {lost} lost, .*; no trace$", errors, re.M), errors
    assert hits + lost == 6000 and lost >= 3000, (hits, lost)
    one.finish()


def test_a_full_shm_costs_nothing(dyntrace, program_path):
    """Buffers are anonymous memory: /dev/shm may have no room."""
    fill = "mount -t tmpfs -o size=4k none /dev/shm && head -c 4096 /dev/zero > /dev/shm/full && ! echo > /dev/shm/more && exec \"$@\""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        output = os.path.join(folder, "trace")
        command = [dyntrace.path, "trace", "-e", "--function", "foo", "-o", output, "--", program_path("spin"), "--calls", "1000"]
        result = subprocess.run(["unshare", "--mount", "sh", "-c", fill, "sh", *command], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, timeout=60)
        assert result.returncode == 0, result.stderr
        assert Trace(output).names() == {"foo_entry": 1000, "foo_exit": 1000}


@pytest.fixture
def cgroup():
    """A memory cgroup, and the name of the file with its limit."""
    made, choice = Cgroup.find([("/sys/fs/cgroup/memory", ["memory.limit_in_bytes"]), ("/sys/fs/cgroup", ["memory.max"])])
    if not made:
        pytest.skip("no memory cgroup can be made here")
    yield made, choice[1][0]
    made.end()


@pytest.mark.parametrize("kib, fits", [(4096, True), (200, False)])
def test_memory_that_the_target_s_cgroup_lacks_isn_t_taken(cgroup, dyntrace, program, kib, fits):
    """(H17) The kernel would kill the target at its next page."""
    group, limit = cgroup
    group.write(limit, kib * 1024)
    one = program("spin", "--calls", 1000, "--rounds", 1).wait_ready()
    group.write("cgroup.procs", one.pid)
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


@pytest.mark.parametrize("words, fits", [(["--buffer-size", "1M"], True), ([], False)])
def test_memory_that_dyntrace_s_own_cgroup_lacks_isn_t_taken(cgroup, dyntrace, program, words, fits):
    """The kernel would kill dyntrace without a word: a container with 32 MiB has no room for a buffer of 64."""
    group, limit = cgroup
    group.write(limit, 32 << 20)
    prefix = ["sh", "-c", f'echo $$ > {group.path}/cgroup.procs && exec "$@"', "sh"]
    one = program("spin", "--calls", 1000, "--rounds", 1).wait_ready()
    before = Snapshot(one.pid)
    if fits:
        running = dyntrace.start_trace(one.pid, "--function", "foo", "-e", *words, prefix=prefix)
        one.go().wait_ready()
        assert running.stop().names() == {"foo_entry": 1000, "foo_exit": 1000}
    else:
        result = subprocess.run([*prefix, dyntrace.path, "trace", "-p", str(one.pid), "--function", "foo", "-o", dyntrace.new_output()],
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert result.returncode == 125
        assert re.fullmatch(r"dyntrace: dyntrace has \d+ KiB left in its own memory cgroup, and its buffer takes 66560 KiB \(raise the "
                            r"cgroup's limit, or choose a smaller --buffer-size\)\n", result.stderr), result.stderr
        one.go().wait_ready()
    before.assert_unchanged()
    one.finish()
