"""What is done while the target is held, as strace sees it: whatever can be done before or after a stop isn't done in it."""
import os
import re
import subprocess

import pytest

CALLS = "trace=ptrace,openat,getdents64"
RESUMES = re.compile(r"ptrace\((PTRACE_SYSCALL|PTRACE_CONT),")


def first_stop(build, scratch, pid, words):
    """The calls of dyntrace from the moment in which it asks the first thread to stop to that in which it lets the first one go."""
    log = os.path.join(scratch, "calls")
    subprocess.run(["strace", "-qq", "-o", log, "-e", CALLS, os.path.join(build, "dyntrace"), "trace", "-p", str(pid), "--function", "foo", *words,
                    "--for", "0.01", "-o", os.path.join(scratch, f"trace{len(words)}")], check=True, capture_output=True)
    with open(log) as file:
        lines = file.read().splitlines()
    begin = next(number for number, line in enumerate(lines) if "PTRACE_INTERRUPT" in line)
    end = next(number for number, line in enumerate(lines) if "PTRACE_DETACH" in line)
    return lines[begin:end]


@pytest.mark.parametrize("words", [[], ["-e"]], ids=["entry", "exit"])
def test_one_thread_makes_all_calls_in_a_few_goes(build, program, scratch, words):
    """Two calls by themselves, which stop it twice each, two lists of calls, and the way back."""
    spin = program("spin", "--threads", 1, "--calls", 1, "--rounds", 1).wait_ready()
    calls = first_stop(build, scratch, spin.pid, words)
    assert len([line for line in calls if RESUMES.match(line)]) == 7
    assert not [line for line in calls if f'"/proc/{spin.pid}/maps"' in line]


def test_threads_are_listed_before(build, program, scratch):
    """When they stand still they are as many as the kernel counts, so nobody looks for more."""
    sleep = program("spin", "--threads", 5, "--calls", 1, "--rounds", 1).wait_ready()
    assert not [line for line in first_stop(build, scratch, sleep.pid, []) if line.startswith("getdents64")]
