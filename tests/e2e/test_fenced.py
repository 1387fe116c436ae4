"""Programs behind filters of system calls (seccomp): the filters are asked before anything is done, and no call of ours ever kills (H26)."""
import ctypes
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys

import pytest
from harness import LIBC, Snapshot, Trace, status, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
KILL, KILL_THREAD, TRAP, ERRNO, NOTIFY, TRACE, LOG = \
    0x80000000, 0, 0x30000, 0x50001, 0x7fc00000, 0x7ff00000, 0x7ffc0000
MOUNT = 165
# every system call in the table of src/control/fence/fence.c, by its number
OURS = {"rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24, "mremap": 25, "madvise": 28,
        "getpid": 39, "recvmsg": 47, "socketpair": 53, "prctl": 157, "gettid": 186, "tkill": 200, "futex": 202,
        "clock_gettime": 228, "tgkill": 234, "rt_tgsigqueueinfo": 297, "sigaltstack": 131, "munlock": 150, "munmap": 11, "mmap": 9, "close": 3,
        "process_vm_readv": 310, "process_vm_writev": 311, "memfd_create": 319, "arch_prctl": 158}
RESTART = {"restart_syscall": 219}
NEEDED = {"rt_sigreturn"}  # the way home of a borrowed thread
QUIET = {"rt_sigprocmask", "sched_yield", "getpid", "gettid", "futex", "clock_gettime"}  # without one, the agent makes no call
SUSPENDED = {"memfd_create", "mmap", "mremap", "munmap", "close", "madvise", "prctl", "rt_sigaction"}  # made with the filter suspended (S6)
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
    assert fenced.finish().split()[0] == str(4 * CALLS)


def test_the_table_has_every_call_that_is_made(dyntrace, program):
    """A filter that kills for all calls but those of the table and the program's own."""
    only = ",".join(map(str, [*OURS.values(), *RESTART.values()]))
    fenced = program("fenced", "--only", only, "--calls", 1500).wait_ready()
    trace, _ = trace_whole(dyntrace, fenced, calls=1500)
    assert backtraces_are_whole(trace)
    assert fenced.finish().split()[0] == "3000"


def table():
    """Names of the calls in the table of src/control/fence/fence.c."""
    text = (ROOT / "src" / "control" / "fence" / "fence.c").read_text()
    return set(re.findall(r"\bSYS_(\w+)", text.partition("} calls[] = {")[2].partition("};")[0]))


def test_the_table_has_every_call_of_the_sources():
    """Those that the agent makes by itself (not as a linked library, when the program begins: register.c), and those in a borrowed thread."""
    agent = {word for path in (ROOT / "src" / "target").rglob("*.[chS]") if path.name != "register.c"
             for word in re.findall(r"(?:\w\(|\$)SYS_(\w+)", path.read_text())}
    borrowed = {word for path in (ROOT / "src" / "control").rglob("*.c")
                for word in re.findall(r"remote_(?:do|call|syscall)\([^;]*?\bSYS_(\w+)", path.read_text())}
    assert {"PROCESS_VM_READV", "TGKILL", "RT_SIGPROCMASK"} <= agent and {"memfd_create", "mremap", "recvmsg"} <= borrowed
    assert sorted({name.lower() for name in agent | borrowed} - table()) == []


@pytest.mark.parametrize("name", [*OURS, *RESTART])
def test_no_call_of_ours_kills(dyntrace, program, name):
    """Either everything is recorded, or the refusal names the call; the program lives. restart_syscall is the kernel's own (S5)."""
    fenced = program("fenced", "--deny", (OURS | RESTART)[name], "--calls", CALLS, "--rounds", 1).wait_ready()
    if name not in NEEDED:
        trace, tracing = trace_whole(dyntrace, fenced, comm="(unreadable)" if name in QUIET | {"prctl"} else "fenced")
        assert backtraces_are_whole(trace) == (name not in QUIET)
        if name != "arch_prctl":  # only where the processor has tiles (X8)
            assert ("filter of system calls was suspended for" in tracing.stderr) == (name in SUSPENDED - {"rt_sigaction"}), tracing.stderr
        assert (f"kills for {name}: dyntrace makes no system call in it" in tracing.stderr) == (name in QUIET)
        assert ("kills for process_vm" in tracing.stderr) == name.startswith("process_vm")
    else:
        error = dyntrace.fails("trace", "-p", fenced.pid, *EVERYTHING, "--for", 20, status=125)
        assert f"can't be traced: its filter kills for {name} " in error, error
        fenced.go().wait_ready()
    assert fenced.finish().split()[0] == str(2 * CALLS)


@pytest.mark.parametrize("how", [0, 1, 2])
def test_ways_to_block_signals(dyntrace, program, how):
    """SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK: recording needs the last one only (tor's filter forbids the first)."""
    fenced = program("fenced", "--deny", MOUNT, "--how", how, "--calls", CALLS).wait_ready()
    trace, _ = trace_whole(dyntrace, fenced, comm="(unreadable)" if how == 2 else "fenced")
    assert backtraces_are_whole(trace) == (how != 2)
    assert fenced.finish().split()[0] == str(2 * CALLS)


@pytest.mark.parametrize("answer, said", [(KILL_THREAD, "kills"), (TRAP, "sends SIGSYS"), (ERRNO, "answers EPERM"),
                                          (NOTIFY, "asks another process"), (TRACE, "asks a debugger"),
                                          (LOG, "writes to the system's log"), (0x12340000, "kills")])
def test_whatever_is_not_allowed_is_refused(dyntrace, program, answer, said):
    """With --no-suspend no call is made that the filter forbids."""
    fenced = program("fenced", "--deny", OURS["memfd_create"], "--answer", answer, "--calls", 5).wait_ready()
    error = dyntrace.fails("trace", "-p", fenced.pid, "--function", "foo", "--for", 20, "--no-suspend", status=125)
    assert f"can't be traced: its filter {said} for memfd_create " in error
    assert fenced.go().wait_ready().finish().split()[0] == "10"


def test_every_thread_is_asked(dyntrace, program):
    """Only the second thread has a filter."""
    fenced = program("fenced", "--deny", OURS["rt_sigreturn"], "--one", 1, "--calls", 5).wait_ready()
    error = dyntrace.fails("trace", "-p", fenced.pid, "--function", "foo", "--for", 20, status=125)
    assert "its filter kills for rt_sigreturn " in error
    assert fenced.go().wait_ready().finish().split()[0] == "10"


def test_a_second_filter_costs_no_event(dyntrace, program):
    """A filter that comes later may forbid what the first one allowed."""
    fenced = program("fenced", "--deny", MOUNT, "--twice", 1, "--calls", 2000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo")
    fenced.go().wait_ready()
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert len(trace.events) == 8000 and trace.lost == 0
    assert fenced.finish().split()[0] == "8000"


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
    assert fenced.finish().split()[0] == "400"


def test_strings_of_the_heap_are_loaded_without_the_call(dyntrace, program):
    """From each thread's first hit on: before it, the agent looks for the thread's own stack, and on that stack at its mask (X3)."""
    fenced = program("fenced", "--deny", OURS["process_vm_readv"], "--heap", 1, "--calls", 50).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "-e")
    until(lambda: int(status(fenced.pid, "SigCgt"), 16) >> signal.SIGSEGV - 1 & 1, "the handler of loads that fail")
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 100, "foo_exit": 100} and trace.lost == 0
    assert sorted(trace.per_tid("foo_entry").values()) == [50, 50]
    assert [event.fields["text"] for event in trace.named("foo_entry")] == 100 * ["a text of its own"]
    assert fenced.finish().split()[0] == "100"


def test_status_and_explain_tell_what_a_filter_allows(dyntrace, program):
    """Without changing anything; --explain shows the same in front of the code."""
    fenced = program("fenced", "--deny", OURS["process_vm_readv"], "--calls", 5).wait_ready()
    before = Snapshot(fenced.pid)
    shown = dyntrace("status", fenced.pid).stdout.splitlines()
    assert shown[:2] == [f"process:     {fenced.pid} (fenced)", "filter:      1 seccomp filter, of 2 threads"]
    assert shown[2:] == ["             kills for process_vm_readv: some values behind pointers can't be read, and backtraces may end early"]
    assert dyntrace("trace", "-p", fenced.pid, "--explain", "foo").stdout.splitlines()[:2] == shown[1:]
    before.assert_unchanged()
    assert fenced.go().wait_ready().finish().split()[0] == "10"


@pytest.mark.parametrize("deny, said", [(MOUNT, "allows all that dyntrace needs"), (OURS["gettid"], "kills for gettid: dyntrace makes no system call in it"),
                                        (OURS["rt_sigreturn"], "kills for rt_sigreturn: the process can't be traced"),
                                        (OURS["mremap"], "kills for mremap: dyntrace suspends the filter of one stopped thread for that")])
def test_status_of_other_filters(dyntrace, program, deny, said):
    fenced = program("fenced", "--deny", deny, "--calls", 5).wait_ready()
    assert said in dyntrace("status", fenced.pid).stdout
    assert fenced.go().wait_ready().finish().split()[0] == "10"


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


def test_strings_of_a_command_are_loaded_without_the_call(dyntrace, program_path):
    """Of both its threads. dyntrace itself, behind the same filter, doesn't make the call either."""
    output, ready, go = dyntrace.new_output(), os.pipe(), os.pipe()
    confined = [sys.executable, "-c", "import os, sys, test_fenced; test_fenced.confine(int(sys.argv[1])); os.execv(sys.argv[2], sys.argv[2:])"]
    tracing = dyntrace.processes.start(
        [*confined, OURS["process_vm_readv"], dyntrace.path, "trace", "-o", output, "--function", "foo", "-e", "--",
         program_path("fenced"), "--heap", 1, "--late", 1, "--calls", 50, "--ready-fd", ready[1], "--go-fd", go[0]],
        pass_fds=[ready[1], go[0]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=os.path.dirname(__file__))
    assert os.read(ready[0], 1) == b"r"
    with open(f"/proc/{tracing.pid}/task/{tracing.pid}/children") as file:
        [command] = file.read().split()
    until(lambda: int(status(command, "SigCgt"), 16) >> signal.SIGSEGV - 1 & 1, "the handler of loads that fail")
    os.write(go[1], b"gg")
    out, error = tracing.communicate(timeout=60)
    for fd in (*ready, *go):
        os.close(fd)
    assert (tracing.returncode, out.split()) == (0, ["100", "0"]), error
    trace = Trace(output)
    assert trace.names() == {"foo_entry": 100, "foo_exit": 100} and trace.lost == 0
    assert sorted(trace.per_tid("foo_entry").values()) == [50, 50]
    assert [event.fields["text"] for event in trace.named("foo_entry")] == 100 * ["a text of its own"]


def end(tracing):
    """Ends dyntrace; gives the hits and losses of its summary, by tracepoint: traces of many events take long to read."""
    tracing.process.send_signal(signal.SIGINT)
    tracing.stdout, tracing.stderr = tracing.process.communicate(timeout=60)
    lines = [line.split() for line in tracing.stderr.splitlines()]
    head = next(i for i, words in enumerate(lines) if {"hits", "function"} <= set(words))
    rows = [dict(zip(lines[head], words)) for words in lines[head + 1:] if len(words) == len(lines[head])]
    return {row["function"]: (int(row["hits"]), int(row.get("lost", 0))) for row in rows if row["hits"].isdigit()}


def only(*numbers):
    """A filter that kills for everything else: the way home, and the kernel's own restart."""
    return ["--only", ",".join(map(str, [OURS["rt_sigreturn"], RESTART["restart_syscall"], *numbers]))]


@pytest.mark.parametrize("late", [0, 1])
@pytest.mark.parametrize("words", [[], ["-e"], ["-e", "-t", "backtrace", "-t", "tid", "-t", "pid"]],
                         ids=["plain", "exits", "gathered"])
def test_nothing_is_allowed(dyntrace, program, words, late):
    """An agent without any call records all of it, through many chunks."""
    calls, rounds = 2000, 2
    fenced = program("fenced", *only(), "--late", late, "--calls", calls, "--rounds", 3).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", *words)
    for _ in range(rounds):
        fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    names = ["foo_entry", "foo_exit"] if "-e" in words else ["foo_entry"]
    assert trace.lost == 0
    assert trace.names() == {name: 2 * calls * rounds for name in names}
    numbers = [event.fields["number"] for event in trace.named("foo_entry")]
    assert sorted(numbers) == sorted(list(range(calls)) * 2 * rounds)
    assert all(event.fields["text"] == "a text of its own" for event in trace.named("foo_entry"))
    if "tid" in words:
        assert {event.fields["pid"] for event in trace.events} == {fenced.pid}
        assert len({event.fields["tid"] for event in trace.events}) == 2
    fenced.go().wait_ready()
    assert fenced.finish().split()[0] == str(2 * calls * 3)


@pytest.mark.parametrize("words", [[], ["-t", "backtrace"]], ids=["plain", "gathered"])
def test_signals_in_a_slow_path_that_blocks_none(dyntrace, program, words):
    """Every hit of the handler is recorded or counted (Q2), in the chunk that was taken (Q4), or beside an event in the making (Q5)."""
    calls = 200000
    fenced = program("fenced", *only(), "--alarm", 200, "--calls", calls).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "--buffer-size", "256M", *words)
    fenced.go().wait_ready()
    rows = end(tracing)
    tracing.before.assert_unchanged()
    done, alarms = map(int, fenced.finish().split())
    assert done == 2 * calls and alarms > 0
    assert sum(rows["foo"]) == done + alarms, tracing.stderr


def test_short_threads_behind_a_filter(dyntrace, program):
    """Nobody can ask which threads have ended: their thread blocks tell."""
    threads = 3000
    fenced = program("fenced", "--deny", OURS["gettid"], "--spawn", threads, "--calls", 10).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo")
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged(busy=True)
    assert trace.names() == {"foo_entry": 20 + threads} and trace.lost == 0
    assert fenced.finish().split()[0] == "20"


def test_block_mode_says_that_it_cannot_wait(dyntrace, program):
    fenced = program("fenced", *only(), "--calls", 100).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "--mode", "block", "--follow-exec")
    fenced.go().wait_ready()
    assert tracing.stop().names() == {"foo_entry": 200}
    assert "fenced: its threads can't wait for room: events are lost instead" in tracing.stderr
    assert "fenced: programs that it begins aren't followed" in tracing.stderr
    assert fenced.finish().split()[0] == "200"


@pytest.mark.parametrize("name", ["mount", "process_vm_readv"])
def test_a_filter_that_comes_later_is_judged(dyntrace, program, name):
    """The agent goes over to what the filter allows: values behind pointers come back, or not."""
    number = (OURS | {"mount": MOUNT})[name]
    fenced = program("fenced", "--deny", number, "--late", 1, "--heap", 1, "--calls", 5, "--rounds", 200).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "-t", "comm")

    def texts():
        return [(event.fields["text"], event.fields["comm"]) for event in Trace(tracing.output).named("foo_entry")]

    for rounds in range(1, 200):
        fenced.go().wait_ready()
        if rounds % 10 == 0 and texts()[-1][1] == "fenced":
            break
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 10 * (rounds + 1)} and trace.lost == 0
    assert all(text == "a text of its own" for text, _ in texts()[:10])
    text, comm = texts()[-1]
    assert comm == "fenced"
    assert (text == "a text of its own") == (name == "mount")


@pytest.mark.parametrize("name", ["mount", "process_vm_readv", "prctl"])
def test_a_filter_of_a_forked_child_is_judged(dyntrace, program, name):
    """(Q8) The agent goes over to what the child's own filter allows, in the child only: its parent, which has none, records as before."""
    number = (OURS | {"mount": MOUNT})[name]
    fenced = program("fenced", "--deny", number, "--forked", 1, "--late", 1, "--heap", 1, "--calls", 5, "--rounds", 200).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo", "-t", "comm")
    fenced.go().wait_ready()

    def values():
        return [(event.fields["text"], event.fields["comm"]) for event in Trace(tracing.output).named("foo_entry")]

    for rounds in range(1, 200):
        fenced.go().wait_ready()
        if rounds % 10 == 0 and values()[-1] != ("(unreadable)", "(unreadable)"):
            break
    assert values()[-1][1] == ("(unreadable)" if name == "prctl" else "fenced")
    assert name == "process_vm_readv" or values()[-1][0] == "a text of its own"
    with open(f"/proc/{fenced.pid}/task/{fenced.pid}/children") as file:
        os.kill(int(file.read()), signal.SIGTERM)
    assert fenced.process.wait(30) == 0
    assert tracing.process.wait(30) == 0
    trace = Trace(tracing.output)
    assert trace.names() == {"foo_entry": 10 * rounds + 1} and trace.lost == 0
    assert values()[0] == values()[-1] == ("a text of its own", "fenced")


def test_a_filter_for_all_threads_while_one_is_in_the_agent(dyntrace, program):
    """Nobody is in a system call of ours when the filter comes (Q6)."""
    fenced = program("fenced", *only(), "--during", 1, "--heap", 1, "--calls", 3000).wait_ready()
    tracing = dyntrace.start_trace(fenced.pid, "--function", "foo")
    fenced.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"foo_entry": 6000} and trace.lost == 0
    assert fenced.finish().split()[0] == "6000"


def test_a_handler_that_jumps_out_of_the_agent(dyntrace, processes, scratch):
    """The slow path that it left is gone, and the next one begins anew (Q3)."""
    path = os.path.join(scratch, "jumper")
    subprocess.run(["gcc", "-O1", "-x", "c", "-o", path, "-"], check=True, text=True, input=r"""
        #define _GNU_SOURCE
        #include <linux/filter.h>
        #include <linux/seccomp.h>
        #include <setjmp.h>
        #include <signal.h>
        #include <stddef.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        #include <sys/syscall.h>
        #include <sys/time.h>
        #include <unistd.h>
        static jmp_buf back;
        static volatile int jumps, inside, foos, bars;
        __attribute__((noinline)) void foo(void) { foos++; }
        __attribute__((noinline)) void bar(void) { bars++; }
        static void on_alarm(int signal) { if (inside) { jumps++; _longjmp(back, signal); } }
        static void tell(char c) { if (write(1, &c, 1) != 1 || read(0, &c, 1) != 1) _exit(1); }
        int main(void) {
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
            struct sock_fprog program = { 4, code };
            struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_NODEFER };
            struct itimerval timer = { { 0, 300 }, { 0, 300 } }, none = { 0 };
            sigaction(SIGALRM, &action, NULL);
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
            tell('r');
            setitimer(ITIMER_REAL, &timer, NULL);
            _setjmp(back);
            inside = 1;
            while (jumps < 300) foo();
            inside = 0;
            setitimer(ITIMER_REAL, &none, NULL);
            for (int i = 0; i < 20000; i++) bar();
            tell('d');
            return 0;
        }""")
    target = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert target.stdout.read(1) == b"r"
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "--function", "bar", "-t", "backtrace", "--buffer-size", "256M")
    target.stdin.write(b"g")
    target.stdin.flush()
    assert target.stdout.read(1) == b"d"
    rows = end(tracing)
    tracing.before.assert_unchanged()
    # a jump may leave a hole in the chunk of that moment (H21), which cuts off what follows there: 64 KiB at most
    assert 19000 < rows["bar"][0] <= 20000 and rows["bar"][1] == 0, tracing.stderr
    target.stdin.write(b"g")
    target.stdin.close()
    assert target.wait(timeout=30) == 0
