"""kill -9 of a controller at a chosen step: strace delivers it at the nth system call of a kind."""
import os
import re
import signal
import subprocess

from harness import Snapshot

MAP_LONE = 0x100022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
STEPS = ("ptrace", "pwrite64")  # system calls that affect the target


def watched(call, words, extra, **options):
    """Runs a controller under strace. (Its --seccomp-bpf would be faster, and leaves injected signals out.)"""
    return subprocess.run(["strace", "-f", "-qq", "-e", f"trace={call}", *extra, *map(str, words)], stderr=subprocess.DEVNULL,
                          **options)


def trace_words(dyntrace, pid, words):
    return [dyntrace.path, "trace", "-p", pid, "--for", "0.05", "-q", "-o", dyntrace.new_output(), *words]


def change_words(dyntrace, pid, second):
    """A controller that exchanges sites while it records."""
    folder = os.path.dirname(dyntrace.path)
    return ["env", f"DYNTRACE_AGENT={folder}/libdyntrace-agent.so", f"{folder}/tests/unit/changer", pid, dyntrace.new_output(), "foo", second]


def spinner(program):
    return program("spin", "--threads", 3, "--calls", 10, "--rounds", 3).wait_ready()


def kill_at(dyntrace, program, number, make, call="ptrace", start=spinner):
    """kill -9 of the controller at its nth call; the target goes on, and the next controller leaves it as it was. Tells whether the
    controller came that far."""
    target = start(program)
    before = Snapshot(target.pid)
    ended = watched(call, make(target.pid), ["-o", "/dev/null", "-e", f"inject={call}:signal=SIGKILL:when={number}"])
    target.go().wait_ready()
    result = dyntrace("detach", target.pid, status=None)
    assert result.returncode == 0 or "is not traced" in result.stderr, result.stderr
    before.assert_unchanged()
    target.go().wait_ready()
    target.finish()
    return ended.returncode == -signal.SIGKILL  # (strace ends as its tracee has)


def count_calls(dyntrace, program, make, call="ptrace"):
    """The number of these calls in a whole run."""
    target = program("spin", "--threads", 3, "--calls", 10, "--rounds", 1).wait_ready()
    log = os.path.join(dyntrace.scratch, call)
    watched(call, make(target.pid), ["-o", log], check=True)
    target.finish()
    with open(log) as file:
        return sum(f"{call}(" in line for line in file)


def steps_that_map(dyntrace, program, make, start=spinner):
    """For each private mapping without a file that the controller makes at a place of its choice, by size: the numbers of
    two ptrace calls, while the target makes it and just after it."""
    target = start(program)
    log = os.path.join(dyntrace.scratch, "mapping")
    watched("ptrace", make(target.pid), ["-o", log], check=True)
    target.finish()
    with open(log) as file:
        calls = [line for line in file if " ptrace(" in line]
    found = {}
    for number, line in enumerate(calls, 1):
        sets = re.search(r"SETREGS.* r10=0x(\w+),.* rax=0x9,.* rdx=0x3, rsi=0x(\w+), rdi=0x", line)
        if sets and int(sets[1], 16) & MAP_LONE == MAP_LONE:
            found[int(sets[2], 16)] = range(number + 1, number + 6, 3)
    return found


def steps_ahead(dyntrace, program, make, start=spinner):
    """The numbers of the ptrace calls around each list of calls that the target makes in one go: registers and mask are set, (a
    signal is sent), the thread goes on, and is met at the end."""
    target = start(program)
    log = os.path.join(dyntrace.scratch, "ahead")
    watched("ptrace,tgkill", make(target.pid), ["-o", log], check=True)
    target.finish()
    number, found = 0, []
    with open(log) as file:
        for line in file:
            number += " ptrace(" in line
            if " tgkill(" in line:
                found += range(number - 1, number + 4)
    return found


def second_instruction(dyntrace, path, function):
    """The location of a function's second instruction."""
    listed = subprocess.run([dyntrace.path, "coverage", "--list", path], capture_output=True, text=True, check=True).stdout
    places = [int(line.split()[0], 16) for line in listed.splitlines() if line.split()[2] == function]
    return f"{function}+{places[1] - places[0]}"
