"""One-byte traps (H10): where nothing else fits, they count exactly, and no use of SIGTRAP by the program kills it.
tests/programs/traps.c has the function and the modes."""
import os
import re
import signal
import subprocess

import pytest
from kills import kill_at, steps_that_map, trace_words
from harness import Program, Snapshot, Trace, maps, status, text, until
from stepper import Stepper
from test_plain_loads import has_handlers

CALLS = 10
ATTACHES = 12
RT_SIGPROCMASK = 14
SIGTRAP_BIT = 1 << (signal.SIGTRAP - 1)

# mode: calls of lone, by ten
MODES = {"plain": 1, "masked": 2, "handler": 3, "ignored": 1, "suspended": 4, "threads": 4, "forked": 3}


def catches_trap(pid):
    return bool(int(status(pid, "SigCgt"), 16) & SIGTRAP_BIT)


def has_trap(before, pid):
    now = text(pid)
    return any(len(code) == len(now[start]) and any(a == 0xc3 and b == 0xcc for a, b in zip(code, now[start]))
               for start, code in before.text.items() if code != now[start])


@pytest.mark.parametrize("mode", MODES)
def test_started(dyntrace, program_path, mode):
    result, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "--calls", CALLS, mode)
    assert result.stdout == f"{mode} ok\n"
    assert trace.names() == {"lone": MODES[mode] * CALLS} and trace.lost == 0


def test_started_with_all_of_them(dyntrace, program_path):
    modes = [mode for mode in MODES if mode != "handler"] + ["handler"]
    result, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "--calls", CALLS, *modes)
    assert result.stdout == "".join(f"{mode} ok\n" for mode in modes)
    assert len(trace.events) == sum(MODES.values()) * CALLS


def test_trap_after_plain_loads(daemon, program):
    """Plain loads have put a handler of dyntrace's with all signals blocked in front of SIGBUS and SIGSEGV (X4): what counts is the
    program's own."""
    target = program("traps", "--calls", CALLS, "plain", "meets").wait_ready()
    daemon.add(f"{target.pid}:say", "-t", "str(arg0)")
    until(lambda: has_handlers(target.pid), "handlers in front")
    assert "lone is placed by a trap" in daemon("add", f"{target.pid}:lone", status=None).stderr
    target.go().wait_ready()
    assert daemon.finish(target.pid).names() == {"lone": MODES["plain"] * CALLS}
    target.go()
    assert target.finish() == "plain ok\nmeets ok\n"


def test_signals_while_a_trap_is_handled(dyntrace, program_path):
    """A handler that interrupts the agent's own handler runs into a trap."""
    result = dyntrace("trace", "--probe", "lone", "--tracer", "count", "--", program_path("traps"), "interrupted")
    assert result.stdout.startswith("interrupted ok\n")


def test_actions_that_change_while_traps_come(dyntrace, program):
    """A thread that has passed the guard of a system call, and resets SIGTRAP after the first trap was placed, would die of it."""
    target = program("traps", "resetting").wait_ready()
    target.go()
    placed = 0
    for _ in range(ATTACHES):
        result = dyntrace("trace", "-p", target.pid, "--probe", "lone", "--tracer", "count", "--for", "0.01", status=None)
        assert target.process.poll() is None, f"killed after {placed} traps\n{result.stderr}"
        placed += result.returncode == 0
    assert placed
    os.kill(target.pid, signal.SIGUSR2)
    assert target.finish() == "resetting ok\n"


def test_threads_that_come_and_go(dyntrace, program):
    """Threads are born, change their alternate stacks and end while traps come and go, every third time by kill -9. (A thread that is
    just being born has SIGTRAP blocked: some traps are refused.)"""
    target = program("traps", "--calls", 50000, "born").wait_ready()
    before = Snapshot(target.pid)
    target.go()
    placed = 0
    for i in range(ATTACHES):
        words = [dyntrace.path, "trace", "-p", str(target.pid), "--probe", "lone", "--tracer", "count"]
        tracing = subprocess.Popen(words + ([] if i % 3 == 2 else ["--for", "0.01"]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: tracing.poll() is not None or has_trap(before, target.pid), "the trap")
        placed += has_trap(before, target.pid) or tracing.poll() == 0
        if i % 3 == 2:
            tracing.kill()
        tracing.wait()
        assert target.process.poll() is None, placed
    assert placed
    dyntrace("detach", target.pid, status=None)
    assert not catches_trap(target.pid)
    os.kill(target.pid, signal.SIGUSR2)
    assert target.finish() == "born ok\n"


def test_without_its_first_thread(dyntrace, program_path):
    """The memory of a process whose first thread has ended is read under another thread's id: a guard sees the mask (H10)."""
    result, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "--calls", CALLS, "leaderless")
    assert result.stdout == "leaderless ok\n"
    assert trace.names() == {"lone": 2 * CALLS} and trace.lost == 0


def test_a_guard_passed_before_the_first_trap(daemon, program):
    """The thread stands at its system call, which the guard has let through with SIGTRAP blocked; a handler runs meanwhile. No trap is
    placed then."""
    target = program("traps", "passing").wait_ready()
    daemon.add(f"{target.pid}:say", "-t", "backtrace")  # it reads memory, and plain loads have the same guards
    target.go().wait_ready()
    stepper = Stepper(target.pid)
    target.go()
    stepper.step()
    while not (stepper.is_in_ours() and stepper.is_at_call(RT_SIGPROCMASK)):
        stepper.step()
    os.kill(target.pid, signal.SIGUSR1)
    stepper.end()
    target.wait_ready()
    assert "a thread is in a system call that may block SIGTRAP" in daemon.fails("add", f"{target.pid}:lone")
    assert target.finish() == "passing ok\n"


def test_vfork_and_spawn(dyntrace, program_path):
    """A child that shares the memory resets SIGTRAP and runs into the trap; the parent's own action stays."""
    result, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "--calls", CALLS, "vforked", "handler",
                                   "vforked")
    assert result.stdout == "vforked ok\nhandler ok\nvforked ok\n"
    assert len(trace.events) == 2 * (CALLS + 1) + 3 * CALLS


@pytest.mark.parametrize("mode", ["dies", "int3"])
def test_a_trap_of_its_own_is_its_own_affair(dyntrace, program_path, mode):
    """A program without a handler dies of its own trap, as untraced."""
    alone = subprocess.run([program_path("traps"), mode], stdout=subprocess.DEVNULL, check=False)
    assert alone.returncode == -signal.SIGTRAP
    _, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "plain", mode, status=128 + signal.SIGTRAP)
    assert len(trace.events) == CALLS


@pytest.mark.parametrize("handler", [0, 1])
def test_attached_and_left(dyntrace, program, handler):
    """SIGTRAP's action and the text are restored; later calls aren't recorded."""
    target = program("traps", "--calls", CALLS, "--handler", handler, "plain", "handler", "threads").wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "lone")
    until(lambda: has_trap(before, target.pid), "the trap")
    assert catches_trap(target.pid)
    trace = tracing.stop()
    assert trace.events == []
    before.assert_unchanged()
    assert catches_trap(target.pid) == bool(handler)
    assert target.finish() == "plain ok\nhandler ok\nthreads ok\n"


def test_attached_while_it_runs(dyntrace, program):
    target = program("traps", "--calls", CALLS, "--handler", 1, "masked", "handler", "suspended").wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "lone")
    until(lambda: has_trap(before, target.pid), "the trap")
    assert target.finish() == "masked ok\nhandler ok\nsuspended ok\n"
    tracing.process.wait(timeout=20)
    assert Trace(tracing.output).names() == {"lone": (2 + 3 + 4) * CALLS}


@pytest.mark.parametrize("what, hits", [("lone", CALLS), ("behind", 0)])
@pytest.mark.parametrize("killed", [False, True])
def test_memory_that_grew_together(dyntrace, program, what, hits, killed):
    """The program maps memory beside ours, and the kernel makes one mapping of both. Handlers of signals still come back."""
    target = program("traps", "--calls", CALLS, "--handler", 1, "--fault-handler", 1, "faults", "plain", "gaps", "meets",
                     "faults", "handler").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", what)
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    before = anonymous(target.pid)
    target.go().wait_ready()
    assert len(before - anonymous(target.pid)) >= 1  # of ours at least, which its neighbours have joined
    if killed:
        tracing.process.kill()
        tracing.process.wait()
        dyntrace("detach", target.pid)
    else:
        assert len(tracing.stop().events) == hits
    assert not [line for line in maps(target.pid) if "memfd:dyntrace" in line]
    assert target.finish() == "faults ok\nplain ok\ngaps ok\nmeets ok\nfaults ok\nhandler ok\n"


def test_killed_around_the_mapping(dyntrace, program):
    """No page stays behind when dyntrace is killed before anything leads to the memory of the handler."""
    def start(program):
        return program("traps", "--calls", CALLS, "plain", "meets", "plain", "meets", "plain").wait_ready()

    def make(pid):
        return trace_words(dyntrace, pid, ["--probe", "lone"])

    *_, last = steps_that_map(dyntrace, program, make, start).values()
    assert all([kill_at(dyntrace, program, number, make, start=start) for number in last])


def anonymous(pid):
    """The bounds of writable memory that has no file."""
    return {line.split()[0] for line in maps(pid) if line.split()[1] == "rw-p" and len(line.split()) == 5}


def test_refused_where_it_is_blocked(dyntrace, program):
    target = program("traps", "blocked", "plain").wait_ready()
    before = Snapshot(target.pid)
    reason = dyntrace.fails("trace", "-p", target.pid, "--probe", "lone", status=125)
    assert reason.endswith(f"; trap: thread {target.pid} has SIGTRAP blocked: a trap there would kill the process")
    before.assert_unchanged()
    assert not catches_trap(target.pid)
    assert target.finish() == "blocked ok\nplain ok\n"


def test_refused_where_a_handler_blocks_it(dyntrace, program):
    """An existing handler with SIGTRAP in its mask might run into a trap."""
    target = program("traps", "--user-handler", 1, "plain").wait_ready()
    reason = dyntrace.fails("trace", "-p", target.pid, "--probe", "lone", status=125)
    assert reason == f"cannot probe 'lone': its handler of signal {signal.SIGUSR1:d} blocks SIGTRAP"
    assert target.finish() == "plain ok\n"


@pytest.mark.parametrize("name, what, why", [
    ("static", ["-static"], "no libc whose signal masks could be watched"),
    ("raw", ["-DRAW=58"], "tight: makes system call 58 itself, at 0x[0-9a-f]+"),
    ("mask", ["-DRAW=14"], "tight: makes its own system calls, which might block SIGTRAP"), ("harmless", ["-DRAW=39"], None)])
def test_refused_where_masks_cannot_be_watched(dyntrace, program_path, scratch, name, what, why):
    """(X10) No libc to watch, or system calls beside it that aren't harmless."""
    source = os.path.join(scratch, "tight.c")
    with open(source, "w") as file:
        file.write('__asm__(".globl lone\\n.type lone, @function\\nlone: ret\\n.size lone, 1\\n'
                   '.globl behind\\n.type behind, @function\\nbehind: .byte 5, 0, 0, 0, 0\\n ret\\n.size behind, 6\\n'
                   '.fill 200, 1, 0xf4\\n");\nvoid lone(void);\n'
                   'int main(int argc, char **argv)\n{\n#ifdef RAW\n\tlong r, all = -1;\n\tregister long size __asm__("r10") = 8;\n'
                   '\tif (RAW != 58 || argc > 1)\n\t\t__asm__ volatile("syscall" : "=a"(r) : "a"((long)RAW), "D"(0L), "S"(&all), "d"(0L), '
                   '"r"(size) : "rcx", "r11", "memory");\n#endif\n\tlone();\n\treturn 0;\n}\n')
    subprocess.run(["cc", "-O1", *what, "-o", f"{scratch}/tight", source], check=True)
    if why:
        assert re.search(f"trap: {why}$", dyntrace.fails("trace", "--probe", "lone", "--", f"{scratch}/tight", status=125))
    else:
        _, trace = dyntrace.trace("--probe", "lone", "--", f"{scratch}/tight")
        assert trace.names() == {"lone": 1} and trace.lost == 0


def test_constants_among_the_code_are_no_system_calls(dyntrace, scratch):
    """libcrypto keeps tables in its code, some bytes of which look like the instruction."""
    path = os.path.join(scratch, "traps")
    subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-pthread", "-o", path, os.path.join(os.path.dirname(__file__), "../programs/traps.c"),
                    "-Wl,--no-as-needed", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"], check=True)
    result, trace = dyntrace.trace("--probe", "lone", "--", path, "--calls", CALLS, "plain")
    assert result.stdout == "plain ok\n" and trace.names() == {"lone": CALLS}


def test_functions_that_dyntrace_calls(daemon, processes, scratch):
    """A constructor of a library that dyntrace loads runs into a trap."""
    path, library = os.path.join(scratch, "traps"), os.path.join(scratch, "builder.so")
    subprocess.run(["gcc", "-O1", "-D_GNU_SOURCE", "-pthread", "-rdynamic", "-o", path,
                    os.path.join(os.path.dirname(__file__), "../programs/traps.c")], check=True)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", "-x", "c", "-o", library, "-"], check=True, text=True,
                   input="void lone(void);\n__attribute__((constructor)) static void begin(void) { lone(); }\n")
    target = Program(processes, path, ["--calls", str(CALLS), "plain"]).wait_ready()
    assert daemon("add", f"{target.pid}:lone", "count", status=None).returncode == 0  # it tells of the trap
    assert re.search(r"placed +trap", daemon("list-tracepoints", target.pid, "-a").stdout)
    daemon("load", target.pid, library)
    assert re.search(r"hits +1\b", daemon("list-tracepoints", target.pid, "-a").stdout)
    daemon("detach", target.pid)
    assert target.finish() == "plain ok\n"
    target.close()


def test_after_a_kill(dyntrace, program):
    """The next controller gives SIGTRAP back."""
    target = program("traps", "--calls", CALLS, "plain", "masked", "handler").wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "lone")
    until(lambda: has_trap(before, target.pid), "the trap")
    tracing.process.kill()
    tracing.process.wait()
    assert catches_trap(target.pid)
    dyntrace("detach", target.pid)
    before.assert_unchanged()
    assert not catches_trap(target.pid)
    assert target.finish() == "plain ok\nmasked ok\nhandler ok\n"


def test_goes_on_after_a_kill(dyntrace, program):
    """The controller is dead, and the traps do no harm."""
    target = program("traps", "--calls", CALLS, *MODES).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "lone")
    until(lambda: has_trap(before, target.pid), "the trap")
    tracing.process.kill()
    tracing.process.wait()
    assert target.finish() == "".join(f"{mode} ok\n" for mode in MODES)


BLOCKER = """.globl block_all
.type block_all, @function
block_all: .cfi_startproc
push $-1
mov $14, %eax
xor %edi, %edi
mov %rsp, %rsi
xor %edx, %edx
mov $8, %r10d
syscall
pop %rax
ret
.cfi_endproc
.size block_all, . - block_all
.section .note.GNU-stack
"""


@pytest.mark.parametrize("mode, why", [
    ("plugged", "blocker.so: makes its own system calls, which might block SIGTRAP"),
    ("sandboxed", "it filters its system calls, and a trap needs one")])
def test_taken_out_in_time(dyntrace, program_path, scratch, mode, why):
    """A library loaded later blocks SIGTRAP by itself; a filter kills a thread that returns from a handler."""
    library = os.path.join(scratch, "blocker.so")
    subprocess.run(["cc", "-shared", "-x", "assembler", "-o", library, "-"], input=BLOCKER, text=True, check=True)
    result, trace = dyntrace.trace("--probe", "lone", "--", program_path("traps"), "--calls", CALLS, "plain", mode,
                                   env={**os.environ, "TRAPS_LIBRARY": library})
    assert result.stdout == f"plain ok\n{mode} ok\n"
    assert trace.names() == {"lone": CALLS} and trace.lost == 0
    assert f"not placed: lone: its trap was taken out: {why}\n" in result.stderr


def test_a_jump_that_shares_bytes(dyntrace, program_path):
    result, trace = dyntrace.trace("--probe", "hop", "--", program_path("traps"), "--calls", CALLS, "hops")
    assert result.stdout == "hops ok\n" and trace.names() == {"hop": CALLS}
    assert "tactic: pun (" in dyntrace("trace", "--explain", "hop", "-c", program_path("traps")).stdout


def test_a_jump_that_shares_bytes_after_a_kill(dyntrace, program):
    """The next controller finds and unmaps the page of the jump's target, too."""
    target = program("traps", "--calls", CALLS, "hops", "plain").wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "hop")
    tracing.process.kill()
    tracing.process.wait()
    assert text(target.pid) != before.text
    dyntrace("detach", target.pid)
    before.assert_unchanged()
    assert target.finish() == "hops ok\nplain ok\n"


def test_never_in_libc(dyntrace):
    text = dyntrace("coverage", "--json", "/lib/x86_64-linux-gnu/libc.so.6").stdout
    assert re.search(r'"trap": ?0\b', text), text


def test_how_it_is_shown(dyntrace, program_path):
    text = dyntrace("trace", "--explain", "lone", "-c", program_path("traps")).stdout
    assert "\ntactic: trap (" in text
    assert re.search(r"after:\n +[0-9a-f]+  cc +int3\n", text)


TINY = """
#include <stdio.h>
#define TINY __attribute__((noipa))
TINY long one(long x) { return x; }
TINY long two(long x) { return x; }
TINY int three(int x) { return x; }
TINY void four(int x) { }
TINY int five(int x) { return x + 34; }
TINY int six(int x) { return x + 92; }
TINY int seven(int x) { return 4; }
int main(void) {
	long sum = 0;
	for (int i = 0; i < 7; i++) { four(i); sum += one(i) + two(i) + three(i) + five(i) + six(i) + seven(i); }
	printf("%ld\\n", sum);
	return 0;
}
"""


@pytest.mark.parametrize("words", [["--function", "*"], ["-e", "--function", "*"]], ids=["entries", "exits"])
def test_tiny_neighbours_all_have_their_place(dyntrace, scratch, words):
    """Functions of one to four bytes in a row, without padding: no site takes bytes that another one needs."""
    source, path = os.path.join(scratch, "tiny.c"), os.path.join(scratch, "tiny")
    with open(source, "w") as file:
        file.write(TINY)
    subprocess.run(["gcc", "-O1", "-fno-align-functions", "-o", path, source], check=True)
    expected = subprocess.run([path], capture_output=True, text=True, check=True).stdout
    result, trace = dyntrace.trace(*words, "--", path)
    names = trace.names()
    assert result.stdout == expected and "not placed" not in result.stderr
    assert [names[name + "_entry"] for name in "one two three four five six seven".split()] == [7] * 7
