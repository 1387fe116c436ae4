"""A reader that can't keep up lets a second thread write (V8, W6): every event is in the trace once, also if dyntrace is killed."""
import os
import signal
import subprocess

import pytest
from harness import Trace, state, until

CALLS = 25000
NUMBERS = [word for name in ("rdi", "rsi", "rdx", "rcx", "r8", "r9") for word in ("-t", f"reg:{name}")]


def fill(dyntrace, program):
    """Two threads fill more than a quarter of the buffer while nobody reads it."""
    one = program("spin", "--threads", 2, "--calls", CALLS).wait_ready()
    running = dyntrace.start_trace(one.pid, "--probe", "foo", *NUMBERS, "--buffer-size", "8M").wait_told()
    pid = running.process.pid
    os.kill(pid, signal.SIGSTOP)
    until(lambda: state(pid) == "T", "dyntrace to be stopped")
    one.go().wait_ready()
    return one, running


def check(output, one):
    trace = Trace(output)
    assert (trace.names(), trace.lost) == ({"foo": 2 * CALLS}, 0)
    assert sorted(trace.per_tid("foo").values()) == [CALLS, CALLS]
    one.finish()


def test_a_flood_of_two_threads(dyntrace, program):
    one, running = fill(dyntrace, program)
    pid = running.process.pid
    assert len(os.listdir(f"/proc/{pid}/task")) == 1
    os.kill(pid, signal.SIGCONT)
    if len(os.sched_getaffinity(0)) > 1:
        until(lambda: len(os.listdir(f"/proc/{pid}/task")) == 2, "a second thread")
    trace = running.stop()
    assert trace.lost == 0
    check(running.output, one)


@pytest.mark.parametrize("write", [2, 3])
def test_killed_at_a_write(dyntrace, program, processes, scratch, write):
    """strace kills dyntrace when one of its threads begins that write; what was in the buffer then is saved."""
    one, running = fill(dyntrace, program)
    pid, log = running.process.pid, os.path.join(scratch, "strace")
    with open(log, "w") as errors:
        tracer = processes.start(["strace", "-f", "-p", str(pid), "-o", "/dev/null", "-e", "trace=pwritev", "-e",
                                  f"inject=pwritev:signal=SIGKILL:when={write}"], stdin=subprocess.DEVNULL, stderr=errors)
    until(lambda: "attached" in open(log).read(), "strace to attach")
    os.kill(pid, signal.SIGCONT)
    running.process.wait()
    tracer.wait()
    assert running.process.returncode == -signal.SIGKILL
    Trace(running.output)  # readable as it is
    dyntrace("detach", one.pid)
    check(running.output, one)
