"""Programs behind filters of system calls (seccomp): the filters are asked before anything is done, and no call of ours ever kills (H26)."""
import ctypes
import re
import signal
import struct
import subprocess

import pytest
from harness import LIBC, Snapshot, Trace

KILL, KILL_THREAD, TRAP, ERRNO, NOTIFY, TRACE, LOG = \
    0x80000000, 0, 0x30000, 0x50001, 0x7fc00000, 0x7ff00000, 0x7ffc0000
MOUNT = 165
# every system call in the table of src/control/fence/fence.c, by its number
OURS = {"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28,
        "getpid": 39, "recvmsg": 47, "socketpair": 53, "prctl": 157, "gettid": 186, "tkill": 200, "futex": 202,
        "clock_gettime": 228, "tgkill": 234, "munlock": 150, "munmap": 11, "mmap": 9, "close": 3,
        "process_vm_readv": 310, "process_vm_writev": 311, "memfd_create": 319}
RESTART = {"restart_syscall": 219}
NEEDED = {"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sched_yield", "getpid", "gettid", "futex", "clock_gettime", "tgkill"}
SUSPENDED = {"memfd_create", "mmap", "mremap", "munmap", "close", "madvise", "prctl"}  # made with the filter suspended (S6)
EVERYTHING = ["--function", "foo", "--function", "outer", "-e", "-t", "backtrace", "-t", "comm", "-t", "tid"]
CALLS = 300


def trace_whole(dyntrace, fenced, words=EVERYTHING, calls=CALLS, rounds=1, comm="fenced"):
    """Both threads' calls, with strings, backtraces, names and exits; the target is as it was."""
    tracing = dyntrace.start_trace(fenced.pid, *words)
    for _ in range(rounds):
        fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.lost == 0
    total = 2 * calls * rounds
    assert trace.names() == {name: total for name in ("foo_entry", "foo_exit", "outer_entry", "outer_exit")}
    for event in trace.named("foo_entry"):
        assert event.fields["text"] == "a text of its own" and event.fields["comm"] == comm, event
    return trace, tracing


def backtraces_are_whole(trace):
    """foo, its caller outer, call_all, and main or the thread's function."""
    return all(len(event.fields["backtrace"]) >= 3 for event in trace.named("foo_entry"))


def test_a_filter_that_allows_all_we_need_changes_nothing(dyntrace, program):
    fenced = program("fenced", "--deny", MOUNT, "--calls", CALLS, "--rounds", 2).wait_ready()
    trace, _ = trace_whole(dyntrace, fenced)
    assert backtraces_are_whole(trace)
    trace_whole(dyntrace, fenced)  # and once more
    assert fenced.finish().split() == [str(4 * CALLS)]


def test_the_table_has_every_call_that_is_made(dyntrace, program):
    """A filter that kills for all calls but those of the table and the program's own."""
    only = ",".join(map(str, [*OURS.values(), *RESTART.values()]))
    fenced = program("fenced", "--only", only, "--calls", 1500).wait_ready()
    trace, _ = trace_whole(dyntrace, fenced, calls=1500)
    assert backtraces_are_whole(trace)
    assert fenced.finish().split() == ["3000"]


@pytest.mark.parametrize("name", [*OURS, *RESTART])
def test_no_call_of_ours_kills(dyntrace, program, name):
    """Either everything is recorded, or the refusal names the call; the program lives. restart_syscall is the kernel's own (S5)."""
    fenced = program("fenced", "--deny", (OURS | RESTART)[name], "--calls", CALLS, "--rounds", 1).wait_ready()
    if name not in NEEDED:
        trace, tracing = trace_whole(dyntrace, fenced, comm="(unreadable)" if name == "prctl" else "fenced")
        assert backtraces_are_whole(trace) == (not name.startswith("process_vm"))
        assert ("filter of system calls was suspended for" in tracing.stderr) == (name in SUSPENDED), tracing.stderr
        assert ("kills for process_vm" in tracing.stderr) == name.startswith("process_vm")
    else:
        error = dyntrace.fails("trace", "-p", fenced.pid, *EVERYTHING, "--for", 20, status=125)
        assert f"can't be traced: its filter kills for {name} " in error, error
        fenced.go().wait_ready()
    assert fenced.finish().split() == [str(2 * CALLS)]


@pytest.mark.parametrize("answer, said", [(KILL_THREAD, "kills"), (TRAP, "sends SIGSYS"), (ERRNO, "answers EPERM"),
                                          (NOTIFY, "asks another process"), (TRACE, "asks a debugger"),
                                          (LOG, "writes to the system's log"), (0x12340000, "kills")])
def test_whatever_is_not_allowed_is_refused(dyntrace, program, answer, said):
    """With --no-suspend no call is made that the filter forbids."""
    fenced = program("fenced", "--deny", OURS["memfd_create"], "--answer", answer, "--calls", 5).wait_ready()
    error = dyntrace.fails("trace", "-p", fenced.pid, "--function", "foo", "--for", 20, "--no-suspend", status=125)
    assert f"can't be traced: its filter {said} for memfd_create " in error
    assert fenced.go().wait_ready().finish().split() == ["10"]


def test_every_thread_is_asked(dyntrace, program):
    """Only the second thread has a filter."""
    fenced = program("fenced", "--deny", OURS["gettid"], "--one", 1, "--calls", 5).wait_ready()
    error = dyntrace.fails("trace", "-p", fenced.pid, "--function", "foo", "--for", 20, status=125)
    assert "its filter kills for gettid " in error
    assert fenced.go().wait_ready().finish().split() == ["10"]


def test_a_second_filter_ends_the_calls_of_the_agent(dyntrace, program):
    """A filter that comes later may forbid what the first one allowed: hits that need a call are lost, and counted."""
    fenced = program("fenced", "--deny", MOUNT, "--twice", 1, "--calls", 2000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo")
    fenced.go().wait_ready()
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert len(trace.events) + trace.lost == 8000 and len(trace.events) >= 4000
    assert fenced.finish().split() == ["8000"]


@pytest.mark.parametrize("name", ["munmap", "rt_sigaction", "rt_sigreturn"])
@pytest.mark.parametrize("suspend", [False, True])
def test_leaving_a_program_that_locked_itself_in(dyntrace, program, name, suspend):
    """The filter comes while it is traced: what can't be taken out without the call stays, off, and dyntrace says so."""
    fenced = program("fenced", "--deny", OURS[name], "--late", 1, "--calls", 100, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "-e", *([] if suspend else ["--no-suspend"]))
    fenced.go().wait_ready()
    tracing.process.send_signal(signal.SIGINT)
    _, stderr = tracing.process.communicate(timeout=60)
    assert Trace(tracing.output).names() == {"foo_entry": 200, "foo_exit": 200}
    if name == "rt_sigreturn" or (name == "munmap" and not suspend):
        assert re.search(rf"its filter kills for {name}", stderr), stderr
    else:
        tracing.before.assert_unchanged()
    fenced.go().wait_ready()
    assert fenced.finish().split() == ["400"]


def test_strings_of_the_heap_are_unreadable_without_the_call(dyntrace, program):
    """The pointer is shown instead, and nothing faults."""
    fenced = program("fenced", "--deny", OURS["process_vm_readv"], "--heap", 1, "--calls", 50).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "-e")
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 100, "foo_exit": 100} and trace.lost == 0
    assert all(re.fullmatch(r"\(unreadable 0x[0-9a-f]+\)", event.fields["text"]) for event in trace.named("foo_entry"))
    assert fenced.finish().split() == ["100"]


def test_status_and_explain_tell_what_a_filter_allows(dyntrace, program):
    """Without changing anything; --explain shows the same in front of the code."""
    fenced = program("fenced", "--deny", OURS["process_vm_readv"], "--calls", 5).wait_ready()
    before = Snapshot(fenced.pid)
    shown = dyntrace("status", fenced.pid).stdout.splitlines()
    assert shown[:2] == [f"process:     {fenced.pid} (fenced)", "filter:      1 seccomp filter, of 2 threads"]
    assert shown[2:] == ["             kills for process_vm_readv: most values behind pointers can't be read, and backtraces end early"]
    assert dyntrace("trace", "-p", fenced.pid, "--explain", "foo").stdout.splitlines()[:2] == shown[1:]
    before.assert_unchanged()
    assert fenced.go().wait_ready().finish().split() == ["10"]


@pytest.mark.parametrize("deny, said", [(MOUNT, "allows all that dyntrace needs"), (OURS["gettid"], "kills for gettid: the process can't be traced"),
                                        (OURS["mremap"], "kills for mremap: dyntrace suspends the filter of one stopped thread for that")])
def test_status_of_other_filters(dyntrace, program, deny, said):
    fenced = program("fenced", "--deny", deny, "--calls", 5).wait_ready()
    assert said in dyntrace("status", fenced.pid).stdout
    assert fenced.go().wait_ready().finish().split() == ["10"]


def test_status_of_a_process_without_a_filter(dyntrace, program):
    spin = program("spin").wait_ready()
    assert "filter:      none" in dyntrace("status", spin.pid).stdout
    spin.finish()


def confine(number):
    """Makes a process, and what it starts, die of one system call (H26)."""
    code = b"".join(struct.pack("HBBI", *one) for one in [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, KILL), (0x06, 0, 0, 0x7fff0000)])
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(buffer))
    assert LIBC.prctl(38, 1, 0, 0, 0) == 0 and LIBC.prctl(22, 2, program, 0, 0) == 0


@pytest.mark.parametrize("name", ["process_vm_readv", "tkill", "sched_yield", "munlock", "mount"])
def test_a_dyntrace_behind_a_filter_tries_it(dyntrace, program_path, name):
    """Its command has the same filter, which nobody there can read: children of dyntrace's own try each call. No command dies of one."""
    output = dyntrace.new_output()
    result = subprocess.run([dyntrace.path, "trace", "-o", output, "--function", "foo", "-e", "-t", "backtrace", "--", program_path("spin"),
                             "--threads", "2", "--calls", str(CALLS)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                            preexec_fn=lambda: confine({**OURS, "mount": MOUNT}[name]))
    if name in NEEDED | {"munlock"}:  # nobody there may suspend the filter
        assert result.returncode == 125 and f"can't be traced: its filter kills for {name} " in result.stderr, result.stderr
        return
    assert (result.returncode, len(result.stdout.splitlines())) == (0, 2), result.stderr
    assert ("kills for process_vm_readv" in result.stderr) == (name == "process_vm_readv"), result.stderr
    trace = Trace(output)
    assert (trace.names(), trace.lost) == ({"foo_entry": 2 * CALLS, "foo_exit": 2 * CALLS}, 0)
    assert {event.fields["text"] for event in trace.named("foo_entry")} == {"dyntrace"}
