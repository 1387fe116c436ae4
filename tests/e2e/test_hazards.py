"""Targets of other users and in other pid namespaces."""
import os
import signal
import subprocess

import pytest

from harness import Cgroup, Program, Snapshot, Trace, count_events, counts, text, threads, until

AS_NOBODY = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups"]


def wrapped(processes, scratch, words, path, *arguments):
    """Starts a program of tests/programs through another command."""
    script = os.path.join(scratch, "start")
    with open(script, "w") as file:
        file.write("#!/bin/sh\nexec " + " ".join([*words, path]) + ' "$@"\n')
    os.chmod(script, 0o755)
    return Program(processes, script, arguments)


@pytest.fixture
def another_user(scratch):
    if os.getuid() != 0:
        pytest.skip("needs root to become somebody else")
    scope = "/proc/sys/kernel/yama/ptrace_scope"
    if os.path.exists(scope) and open(scope).read().strip() != "0":
        pytest.skip("this kernel lets users trace only what they have started")
    os.chmod(scratch, 0o777)


def test_takeover_without_root(dyntrace, program_path, processes, scratch, another_user):
    """A user's dyntrace is killed, and the user's next dyntrace takes over: all events are saved, the target is left clean."""
    command, spin = dyntrace.for_others(program_path("spin"))
    target = wrapped(processes, scratch, AS_NOBODY, spin, "--threads", 3, "--calls", 4000, "--rounds", 2)
    target.wait_ready()
    before, output = Snapshot(target.pid), os.path.join(scratch, "trace")
    tracing = processes.start([*AS_NOBODY, command, "trace", "-p", target.pid, "-o", output, "--probe", "foo"],
                              stderr=subprocess.PIPE, text=True)
    assert "tracing spin" in tracing.stderr.readline()
    target.go().wait_ready()
    tracing.kill()
    tracing.wait()
    target.go().wait_ready()
    assert text(target.pid) != before.text
    result = subprocess.run([*AS_NOBODY, command, "detach", str(target.pid)], capture_output=True, text=True)
    assert result.returncode == 0 and "removed 1 probe of a dyntrace that was killed" in result.stderr, result.stderr
    before.assert_unchanged()
    assert count_events(output) == (2 * 3 * 4000, 0)
    target.finish()
    target.close()


def test_takeover_of_another_users(dyntrace, program_path, processes, scratch, another_user):
    """dyntrace never writes into another user's trace: it cleans the target, and reports the events as lost."""
    command, spin = dyntrace.for_others(program_path("spin"))
    target = wrapped(processes, scratch, AS_NOBODY, spin, "--calls", 100, "--rounds", 1).wait_ready()
    before, output = Snapshot(target.pid), os.path.join(scratch, "trace")
    tracing = processes.start([*AS_NOBODY, command, "trace", "-p", target.pid, "-o", output, "--probe", "foo"],
                              stderr=subprocess.PIPE, text=True)
    assert "tracing spin" in tracing.stderr.readline()
    tracing.kill()
    tracing.wait()
    target.go().wait_ready()
    stamp = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(output)}
    result = dyntrace("detach", target.pid)
    assert "could not be saved" in result.stderr
    assert {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(output)} == stamp
    before.assert_unchanged()
    target.finish()
    target.close()


@pytest.fixture
def starve():
    """Lets a process have no processor for seconds at a time, whatever else runs: its quota is 1 ms per second, and the kernel lets it
    wait off what it uses beyond that. start(pid) gives a condition: it waits."""
    cgroup, choice = Cgroup.find([("/sys/fs/cgroup/cpu", {"cpu.cfs_period_us": "1000000", "cpu.cfs_quota_us": "1000"}, ("cpu.cfs_quota_us", "-1")),
                                  ("/sys/fs/cgroup", {"cpu.max": "1000 1000000"}, ("cpu.max", "max"))])
    if not cgroup:
        pytest.skip("there is no cgroup here with a quota of processor time")
    _, limits, unlimited = choice

    def start(pid):
        for name, value in limits.items():
            cgroup.write(name, value)
        cgroup.write("cgroup.procs", pid)
        return lambda: "nr_throttled 0\n" not in cgroup.read("cpu.stat")
    yield start
    cgroup.write(*unlimited)
    cgroup.end()


@pytest.mark.limit(120)
def test_a_process_without_a_processor(dyntrace, program, starve):
    """(S13) Its thread is ready to run, and can't stop before the kernel lets it: it is waited for, and left as it was."""
    target = program("spin", "--calls", 10 ** 12).wait_ready()
    before = Snapshot(target.pid)
    is_starved = starve(target.pid)
    target.go()
    until(is_starved, "it to wait for a processor")
    result = dyntrace("trace", "-p", target.pid, "--tracer", "count", "--function", "foo", "--for", "0.01")
    assert "tracing spin" in result.stderr
    before.assert_unchanged()


def test_pid_namespace(dyntrace, program_path, processes, scratch):
    """Traced from outside: events have the ids of both namespaces."""
    words = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.getuid() != 0 or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces here")
    target = wrapped(processes, scratch, words, program_path("spin"), "--threads", 2, "--calls", 50, "--rounds", 2)
    target.wait_ready()
    pid = int(open(f"/proc/{target.pid}/task/{target.pid}/children").read())
    tids = threads(pid)
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "-p", pid, "-o", output, "--probe", "foo"], stderr=subprocess.PIPE,
                              text=True)
    assert "tracing spin" in tracing.stderr.readline()
    target.go().wait_ready()
    tracing.send_signal(signal.SIGINT)
    tracing.communicate(timeout=30)
    trace = Trace(output)
    assert (sum(trace.per_tid("foo").values()), trace.lost) == (100, 0)
    assert trace.per_tid("foo") == {tid: 50 for tid in tids}
    lines = subprocess.run(["babeltrace2", output], capture_output=True, text=True).stdout
    inner = dict(counts(target.finish()))
    for tid, calls in inner.items():
        assert lines.count(f"vtid = {tid},") == calls // 2
    assert all(tid < 100 for tid in inner)
    target.close()


# Makes the kernel look older than 6.11: no ioctl that translates ids between pid namespaces.
OLDER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
int ioctl(int fd, unsigned long what, ...)
{
\tva_list list;
\tva_start(list, what);
\tvoid *data = va_arg(list, void *);
\tva_end(list);
\tif ((what >> 8 & 0xff) == 0xb7)
\t\treturn errno = ENOTTY, -1;
\treturn ((int (*)(int, unsigned long, void *))dlsym(RTLD_NEXT, "ioctl"))(fd, what, data);
}
"""


@pytest.mark.parametrize("older", [False, True])
def test_h36_ended_threads_of_a_pid_namespace(dyntrace, program_path, processes, scratch, older):
    """More threads come and go than the buffer has first chunks: each ended thread's is read and used again. No event is lost:
    a thread that finds no room waits, and 10 s would end its wait."""
    words = ["unshare", "--pid", "--fork", "--kill-child"]
    if os.getuid() != 0 or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no pid namespaces here")
    prefix = []
    if older:
        source, shim = os.path.join(scratch, "older.c"), os.path.join(scratch, "older.so")
        with open(source, "w") as file:
            file.write(OLDER)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", shim, source], check=True)
        prefix = ["env", f"LD_PRELOAD={shim}"]
    target = wrapped(processes, scratch, words, program_path("churn"), "--rounds", 10, "--threads", 400, "--calls", 5)
    target.wait_ready()
    pid = int(open(f"/proc/{target.pid}/task/{target.pid}/children").read())
    output = dyntrace.new_output()
    tracing = processes.start([*prefix, dyntrace.path, "trace", "-p", pid, "-o", output, "--probe", "foo", "--buffer-size", "8M",
                               "--mode", "block"], stderr=subprocess.PIPE, text=True)
    assert "tracing churn" in tracing.stderr.readline()
    target.go().wait_ready()
    tracing.send_signal(signal.SIGINT)
    tracing.communicate(timeout=60)
    trace = Trace(output)
    target.finish()
    target.close()
    assert (trace.names(), trace.lost) == ({"foo": 20000}, 0)
