"""The daemon traces programs behind filters of system calls (seccomp): its asker reads them, workers go by what it says (D12, E3)."""
import contextlib
import glob
import os
import signal
import subprocess

import pytest
from daemon_harness import alive
from harness import Snapshot, Trace, status, until
from test_containers import container  # noqa: F401 - a fixture
from test_fenced import CALLS, MOUNT, OURS, QUIET, RESTART

SYS_PTRACE, SYS_ADMIN, SYS_NICE = 19, 21, 23
EVERYTHING = ["-e", "-t", "backtrace", "-t", "comm"]
NEEDED = {"rt_sigreturn", "memfd_create", "mmap", "mremap", "munmap", "munlock", "close", "madvise", "prctl", "rt_sigaction"}


def askers(daemon):
    """The asker of this daemon: its child."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                if file.read() == b"dyntraced\0--asker\0" and status(pid, "PPid") == str(daemon.process.pid):
                    found.append(pid)
        except OSError:
            continue
    return found


def record(daemon, fenced, rounds=1):
    """Both threads' calls with strings, exits and names; the target is as before. Gives the trace."""
    before = Snapshot(fenced.pid)
    for name in ("foo", "outer"):
        daemon.add(f"{fenced.pid}:{name}", *EVERYTHING)
    for _ in range(rounds):
        fenced.go().wait_ready()
    trace = daemon.finish(fenced.pid)
    before.assert_unchanged()
    total = 2 * CALLS * rounds
    assert trace.lost == 0
    assert trace.names() == {name: total for name in ("foo_entry", "foo_exit", "outer_entry", "outer_exit")}
    return trace


def test_a_filter_that_allows_all_we_need_changes_nothing(daemon, program):
    fenced = program("fenced", "--deny", MOUNT, "--calls", CALLS, "--rounds", 2).wait_ready()
    for _ in range(2):
        for event in record(daemon, fenced).named("foo_entry"):
            assert event.fields["text"] == "a text of its own" and event.fields["comm"] == "fenced"
            assert len(event.fields["backtrace"]) >= 3
    assert fenced.finish().split()[0] == str(4 * CALLS)


def no_death(daemon, program, name):
    """The daemon suspends no filter: what the controller needs must be allowed, and else the refusal names the call."""
    fenced = program("fenced", "--deny", {**OURS, **RESTART}[name], "--calls", CALLS).wait_ready()
    if name in NEEDED:
        before = Snapshot(fenced.pid)
        said = daemon.fails("add", f"{fenced.pid}:foo", "-e")
        assert f"its filter kills for {name}" in said, said
        assert ("'dyntrace trace' as root" in said) == (name != "rt_sigreturn"), said
        before.assert_unchanged()
        fenced.go().wait_ready()
    else:
        trace = record(daemon, fenced)
        known = name not in {"prctl"} | QUIET
        assert all(event.fields["comm"] == "fenced" for event in trace.named("foo_entry")) or not known
    assert fenced.finish().split()[0] == str(2 * CALLS)


# one of each kind; make torture tries each call
FEW = ["memfd_create", "rt_sigreturn", "process_vm_readv", "gettid", "restart_syscall"]


@pytest.mark.parametrize("name", FEW)
def test_no_call_of_ours_kills(daemon, program, name):
    no_death(daemon, program, name)


def last_comm(trace):
    found = Trace(trace).named("foo")
    return found[-1].fields["comm"] if found else None


def test_a_filter_that_comes_later_is_judged(daemon, program):
    """The worker asks again: the agent goes over to what the filter allows, and names of threads come back."""
    fenced = program("fenced", "--deny", MOUNT, "--late", 1, "--calls", 5, "--rounds", 500).wait_ready()
    before = Snapshot(fenced.pid)
    daemon.add(f"{fenced.pid}:foo", "-t", "comm")
    trace = daemon.trace_of(fenced.pid)
    for rounds in range(1, 500):
        fenced.go().wait_ready()
        if rounds % 20 == 0 and daemon("flush", fenced.pid) and last_comm(trace) == "fenced":
            break
    found = daemon.finish(fenced.pid)
    before.assert_unchanged()
    assert found.names() == {"foo": 10 * rounds} and found.lost == 0
    assert found.named("foo")[-1].fields["comm"] == "fenced" and rounds < 499


@pytest.mark.parametrize("name", ["mount", "process_vm_readv", "prctl", "restart_syscall", "munmap"])
def test_a_filter_of_a_forked_child_is_judged(daemon, program, name):
    """(Q8, D12) The agent goes over to what the child's own filter allows, in the child only, and leaves the child, if that is allowed, too."""
    number = {**OURS, **RESTART, "mount": MOUNT}[name]
    fenced = program("fenced", "--deny", number, "--forked", 1, "--late", 1, "--heap", 1, "--calls", 5, "--rounds", 500).wait_ready()
    before = Snapshot(fenced.pid)
    daemon.add(f"{fenced.pid}:foo", "-e", "-t", "comm")
    trace = daemon.trace_of(fenced.pid)
    fenced.go().wait_ready()
    with open(f"/proc/{fenced.pid}/task/{fenced.pid}/children") as file:
        child = int(file.read())

    def last():
        found = Trace(trace).named("foo_entry")
        return (found[-1].fields["text"], found[-1].fields["comm"]) if found else None

    for rounds in range(1, 500):
        fenced.go().wait_ready()
        if rounds % 20 == 0 and daemon("flush", fenced.pid) and last() != ("(unreadable)", "(unreadable)"):
            break
    assert last()[1] == ("(unreadable)" if name == "prctl" else "fenced")
    assert name == "process_vm_readv" or last()[0] == "a text of its own"
    said = daemon("detach", fenced.pid, status=None).stderr
    with open(f"/proc/{child}/maps") as file:
        assert ("memfd:dyntrace" in file.read()) == (name == "munmap")
    assert "its filter kills for munmap" in said if name == "munmap" else said == "", said
    before.assert_unchanged()
    found = Trace(trace)
    assert found.names() == {"foo_entry": 10 * rounds, "foo_exit": 10 * rounds} and found.lost == 0
    fenced.go().wait_ready()
    os.kill(child, signal.SIGTERM)
    assert fenced.process.wait(30) == 0


@pytest.mark.parametrize("name", ["mount", "munmap"])
def test_leaving_a_program_that_locked_itself_in(daemon, program, name):
    """The filter comes while it is traced, and is judged before anything is taken out."""
    fenced = program("fenced", "--deny", {**OURS, "mount": MOUNT}[name], "--late", 1, "--calls", 100, "--rounds", 2).wait_ready()
    before = Snapshot(fenced.pid)
    daemon.add(f"{fenced.pid}:foo", "-e")
    fenced.go().wait_ready()
    trace = daemon.trace_of(fenced.pid)
    said = daemon("detach", fenced.pid, status=None).stderr
    assert Trace(trace).names() == {"foo_entry": 200, "foo_exit": 200}
    if name == "mount":
        assert said == ""
        before.assert_unchanged()
    else:
        assert "its filter kills for munmap" in said, said
    fenced.go().wait_ready()
    assert fenced.finish().split()[0] == "400"


@pytest.mark.parametrize("name", ["mount", "process_vm_readv", "gettid", "memfd_create", "rt_sigreturn"])
def test_threads_with_different_filters(daemon, program, name):
    """Only the second thread has a filter, and the strictest counts (E3): recorded whole, or refused by the call's name."""
    fenced = program("fenced", "--deny", {**OURS, "mount": MOUNT}[name], "--one", 1, "--calls", CALLS, "--rounds", 2).wait_ready()
    if name in NEEDED:
        before = Snapshot(fenced.pid)
        assert f"its filter kills for {name}" in daemon.fails("add", f"{fenced.pid}:foo")
        before.assert_unchanged()
        fenced.go().wait_ready().go().wait_ready()
    else:
        for _ in range(2):
            trace = record(daemon, fenced)
            assert all(event.fields["comm"] == ("(unreadable)" if name == "gettid" else "fenced") for event in trace.named("foo_entry"))
    assert fenced.finish().split()[0] == str(4 * CALLS)


def test_one_thread_takes_up_a_filter_later(daemon, program):
    """The others have none, or the first one only: the agent goes over to what all of them allow."""
    fenced = program("fenced", "--deny", MOUNT, "--late", 1, "--alone", 1, "--calls", 5, "--rounds", 500).wait_ready()
    before = Snapshot(fenced.pid)
    daemon.add(f"{fenced.pid}:foo", "-t", "comm")
    trace = daemon.trace_of(fenced.pid)
    for rounds in range(1, 500):
        fenced.go().wait_ready()
        if rounds % 20 == 0 and daemon("flush", fenced.pid) and last_comm(trace) == "fenced":
            break
    assert sorted(status(tid, "Seccomp") for tid in os.listdir(f"/proc/{fenced.pid}/task")) == ["0", "2"]
    found = daemon.finish(fenced.pid)
    before.assert_unchanged()
    assert found.names() == {"foo": 10 * rounds} and found.lost == 0 and rounds < 499


def test_the_asker_has_few_rights_and_ends_with_the_daemon(daemon, program):
    fenced = program("fenced", "--deny", MOUNT, "--calls", CALLS, "--rounds", 2).wait_ready()
    record(daemon, fenced)
    [first] = askers(daemon)
    capabilities = {number for number in range(64) if int(status(first, "CapEff"), 16) >> number & 1}
    assert capabilities == {SYS_PTRACE, SYS_ADMIN, SYS_NICE} and status(first, "NoNewPrivs") == "1"
    os.kill(first, signal.SIGKILL)
    until(lambda: askers(daemon) == [], "the asker's end")
    record(daemon, fenced)  # by another one
    [second] = askers(daemon)
    assert daemon.stop() == 0
    until(lambda: not alive(second), "the second asker's end")


def test_killed_a_daemon_finds_its_fenced_targets(daemon, program):
    """kill -9 of supervisor, worker and asker: the next daemon's worker asks before it touches anything."""
    fenced = program("fenced", "--deny", MOUNT, "--calls", CALLS, "--rounds", 3).wait_ready()
    before = Snapshot(fenced.pid)
    daemon.add(f"{fenced.pid}:foo", "-e")
    fenced.go().wait_ready()
    asker = askers(daemon)
    daemon.kill()
    for pid in [*asker, *daemon.workers(fenced.pid)]:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not daemon.workers(fenced.pid), "the worker's end")
    daemon.start()
    until(lambda: daemon.json("list-tracepoints", fenced.pid), "the tracepoint")
    fenced.go().wait_ready()
    trace = daemon.trace_of(fenced.pid)
    daemon("detach", fenced.pid)
    before.assert_unchanged()
    assert Trace(trace).names() == {"foo_entry": 4 * CALLS, "foo_exit": 4 * CALLS}
    assert fenced.go().wait_ready().finish().split()[0] == str(6 * CALLS)


def test_no_library_is_loaded_behind_a_filter(daemon, program):
    """Nobody knows before which calls a library makes."""
    fenced = program("fenced", "--deny", MOUNT, "--calls", 5).wait_ready()
    before = Snapshot(fenced.pid)
    for words in (["load", fenced.pid, "libm.so.6"], ["add", f"{fenced.pid}:foo", "lttng"]):
        said = daemon.fails(*words)
        assert "has a filter of system calls (seccomp), which might forbid what a library does" in said, said
        daemon("detach", fenced.pid, status=None)
        before.assert_unchanged()
    assert fenced.go().wait_ready().finish().split()[0] == "10"


def test_a_container_is_traced_by_the_daemon(daemon, container):
    """Podman's default profile, from the host."""
    inside = container([], "spin", "--threads", 3, "--calls", CALLS, "--rounds", 2)
    before = Snapshot(inside.pid)
    daemon.add(f"{inside.pid}:foo", *EVERYTHING)
    inside.go().wait_ready()
    trace = daemon.finish(inside.pid)
    before.assert_unchanged()
    assert (trace.names(), trace.lost) == ({"foo_entry": 3 * CALLS, "foo_exit": 3 * CALLS}, 0)
    for event in trace.named("foo_entry"):
        assert event.fields["text"] == "dyntrace" and event.fields["comm"] == "spin" and len(event.fields["backtrace"]) >= 3, event
    inside.go().wait_ready()
    assert [int(line.split()[1]) for line in inside.finish().splitlines()] == [2 * CALLS] * 3


def test_list_processes_tells_the_container(daemon, program, scratch):
    """By the control group, as podman, docker and Kubernetes name it; here of a hierarchy of whichever kind this machine has."""
    with open("/proc/self/cgroup") as file:
        groups = dict(line.rstrip("\n").split(":", 2)[1:] for line in file)
    kind, own = (["-t", "cgroup", "-o", "none,name=systemd"], groups["name=systemd"]) if "name=systemd" in groups else (["-t", "cgroup2"], groups[""])
    spin, name = program("spin").wait_ready(), f"{os.getpid():064x}"
    with mounted(scratch, kind) as hierarchy:
        group = os.path.join(hierarchy, own.lstrip("/"), f"libpod-{name}.scope")
        os.mkdir(group)
        try:
            move(spin.pid, group)
            daemon.attach(spin.pid)
            [listed] = daemon.json("list-processes")
            assert listed["container"] == name[:12] and listed["cgroup"].endswith(f"/libpod-{name}.scope")
            assert daemon("list-processes").stdout.splitlines()[1].split()[-1] == name[:12]
            daemon("detach", spin.pid)
        finally:
            move(spin.pid, os.path.dirname(group))
            os.rmdir(group)
    spin.finish()


def move(pid, group):
    with open(os.path.join(group, "cgroup.procs"), "w") as file:
        file.write(str(pid))


@contextlib.contextmanager
def mounted(scratch, kind):
    folder = os.path.join(scratch, "groups")
    os.mkdir(folder)
    subprocess.run(["mount", *kind, "none", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)
