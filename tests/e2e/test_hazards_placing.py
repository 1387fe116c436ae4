"""Placing and removing in unusual processes, named by hazard. The parts alone are in
tests/unit/test_patch.c (H9: words on stacks, signal frames), test_stop.c (H11, H13, H16) and test_inject.c (H17)."""
import os
import resource
import subprocess

import pytest
from harness import Snapshot, Trace, status, text
from kills import kill_at, steps_ahead, trace_words


def test_h11_restartable_sequences(dyntrace, program):
    """Probes on all functions come and go while a thread is in a restartable sequence most of the time: an aborted sequence
    never commits."""
    target = program("rseq")
    target.wait_ready()
    before = Snapshot(target.pid)
    for _ in range(10):
        dyntrace.start_trace(target.pid, "--probe", "*@rseq").stop()
    before.assert_unchanged()
    assert target.finish().splitlines()[1] == "ok"


def test_h11_refused_inside(dyntrace, program_path):
    """The instructions of the sequence itself are refused, with the reason."""
    path = program_path("rseq")
    listing = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    spin = next(line for line in listing.splitlines() if "$0xbb8,%ecx" in line)
    address = "0x" + spin.split(":")[0].strip()
    result = dyntrace.fails("trace", "--probe", f"{address}@rseq", "--", path, status=125)
    assert "restartable" in result


def test_h13_process_that_shares_the_memory(dyntrace, program):
    """A process made with CLONE_VM, not a thread, runs in the patched text."""
    target = program("sharer").wait_ready()
    before = Snapshot(target.pid)
    for _ in range(5):
        dyntrace.start_trace(target.pid, "--probe", "*@sharer").stop()
    before.assert_unchanged()
    target.finish()


def test_h13_vfork(dyntrace, program):
    """A thread in vfork can't be stopped: an error in time, nothing left behind; afterwards it works."""
    target = program("sharer", "--vfork", 1).wait_ready()
    before = Snapshot(target.pid)
    result = dyntrace("trace", "-p", target.pid, "-o", dyntrace.new_output(), "--probe", "main", status=None)
    assert result.returncode == 125 and "uninterruptible" in result.stderr, result.stderr
    assert text(target.pid) == before.text
    target.go().wait_ready()
    dyntrace.start_trace(target.pid, "--probe", "main").stop()
    target.finish()


def test_h16_zombie_leader(dyntrace, program, processes):
    """The first thread has ended; the other is traced."""
    target = program("headless").wait_ready()
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "-p", target.pid, "-o", output, "--probe", "exit@libc.so.6"],
                              stderr=subprocess.PIPE, text=True)
    assert "tracing headless" in tracing.stderr.readline()
    target.finish(status=7)
    tracing.communicate(timeout=20)
    assert Trace(output).names() == {"exit": 1}


def test_h16_text_relocations(dyntrace, scratch):
    """Refused before the loader has relocated it, and nothing else is harmed."""
    source, library, program = (os.path.join(scratch, name) for name in ("t.s", "libtext.so", "uses"))
    with open(source, "w") as file:
        file.write(".globl f\n.type f, @function\nf: movabs $f, %rax\n ret\n.size f, . - f\n.section .note.GNU-stack,\"\"\n")
    subprocess.run(["gcc", "-shared", "-nostdlib", "-Wl,-z,notext", source, "-o", library], check=True, capture_output=True)
    with open(os.path.join(scratch, "u.c"), "w") as file:
        file.write("#include <stdio.h>\nvoid *f(void);\nint main(void)\n{\n\tputs(f() == (void *)f ? \"same\" : \"other\");\n}\n")
    subprocess.run(["gcc", os.path.join(scratch, "u.c"), library, "-o", program, "-Wl,-z,notext"], check=True, capture_output=True)
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--probe", "f@libtext.so", "--", program, status=None)
    assert result.returncode == 125 and "relocat" in result.stderr, result.stderr


@pytest.mark.parametrize("limit, value", [(resource.RLIMIT_NOFILE, 8), (resource.RLIMIT_MEMLOCK, 65536),
                                          (resource.RLIMIT_AS, 1 << 30)])
def test_h17_small_limits(dyntrace, program, limit, value):
    """Counted exactly, and the limits are as they were."""
    target = program("spin", "--threads", 2, "--calls", 1000, "--rounds", 2).wait_ready()
    hard = resource.prlimit(target.pid, limit)[1]
    resource.prlimit(target.pid, limit, (value, hard))
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    trace = tracing.stop()
    assert (trace.names(), trace.lost) == ({"foo": 2000}, 0)
    assert resource.prlimit(target.pid, limit) == (value, hard)
    before.assert_unchanged()
    target.finish()


def test_h17_no_address_space_left(dyntrace, program):
    """The error names the limit, and nothing is left behind."""
    target = program("spin", "--calls", 10, "--rounds", 1).wait_ready()
    before = Snapshot(target.pid)
    resource.prlimit(target.pid, resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))
    result = dyntrace("trace", "-p", target.pid, "-o", dyntrace.new_output(), "--probe", "foo", status=None)
    assert result.returncode == 125 and "RLIMIT_AS" in result.stderr, result.stderr
    before.assert_unchanged()
    resource.prlimit(target.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    target.finish()


def test_h14_killed_around_calls_made_ahead(dyntrace, program):
    """kill -9 at each step of the lists of calls that a thread makes in one go, two to map and one or two to unmap: it makes
    them, goes home, and the next controller finds what it left."""
    def make(pid):
        return trace_words(dyntrace, pid, ["--probe", "foo"])

    steps = steps_ahead(dyntrace, program, make)
    lists = len(steps) // 5
    assert len(steps) % 5 == 0 and lists in (3, 4)
    for number in steps[:-1]:
        assert kill_at(dyntrace, program, number, make)
    for number in range(1, lists + 1):
        assert kill_at(dyntrace, program, number, make, "tgkill")


@pytest.mark.parametrize("signals", ["caught", "blocked"])
def test_s10_signals_in_use(dyntrace, program, signals):
    """Every signal that could end a list is the program's own: the calls are made one by one, and no signal of ours arrives."""
    target = program("signals_in_use", "--" + signals, 1).wait_ready()
    before = Snapshot(target.pid)
    dyntrace.start_trace(target.pid, "--probe", "foo").stop()
    before.assert_unchanged()
    assert target.go().wait_ready().finish() == "0 signals\n"


CURRENT, FUTURE, ONFAULT = 1, 2, 4  # of mlockall


@pytest.mark.parametrize("mdwe, lock, limit", [
    (1, 0, 0), (1, CURRENT | FUTURE, 0), (1, CURRENT | FUTURE, 65536), (1, CURRENT | FUTURE | ONFAULT, 65536),
    (1, FUTURE, 65536), (0, CURRENT | FUTURE, 65536)])
def test_h35_no_right_to_execute_is_gained(dyntrace, program, mdwe, lock, limit):
    """The target lets no memory become executable (PR_SET_MDWE) and locks all it has: counted exactly, nothing of ours is
    locked, and everything is as before."""
    target = program("locked", "--mdwe", mdwe, "--lock", lock, "--limit", limit, "--calls", 1000).wait_ready()
    before, locked = Snapshot(target.pid), status(target.pid, "VmLck")
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "--function", "read@libc.so.6", "-e")
    if lock != FUTURE:  # with FUTURE alone nothing is locked yet, which is all that tells of it
        assert status(target.pid, "VmLck") == locked
    target.go().wait_ready()
    trace = tracing.stop()
    names = trace.names()
    assert (names["foo_entry"], names["foo_exit"], trace.lost) == (1000, 1000, 0)
    before.assert_unchanged()
    target.finish()
