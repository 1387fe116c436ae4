"""kill -9 of dyntrace at a chosen step: strace delivers it at its nth ptrace call."""
import os
import subprocess

from harness import Snapshot


def kill_at(dyntrace, program, call, words):
    """kill -9 of the controller at its nth ptrace call; the target goes on, and the next controller leaves it as it was."""
    target = program("spin", "--threads", 3, "--calls", 10, "--rounds", 3).wait_ready()
    before = Snapshot(target.pid)
    output = dyntrace.new_output()
    inject = f"inject=ptrace:signal=SIGKILL:when={call}"
    subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=ptrace", "-e", inject, dyntrace.path, "trace", "-p",
                    str(target.pid), "--for", "0.05", "-q", "-o", output, *words], stderr=subprocess.DEVNULL)
    target.go().wait_ready()
    result = dyntrace("detach", target.pid, status=None)
    assert result.returncode == 0 or "has nothing of dyntrace's" in result.stderr, result.stderr
    before.assert_unchanged()
    target.go().wait_ready()
    target.finish()


def ptrace_calls(dyntrace, program, words):
    """How many ptrace calls a run makes, from beginning to end."""
    target = program("spin", "--threads", 3, "--calls", 10, "--rounds", 1).wait_ready()
    log = os.path.join(dyntrace.scratch, "ptrace")
    subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=ptrace", dyntrace.path, "trace", "-p", str(target.pid),
                    "--for", "0.05", "-q", "-o", dyntrace.new_output(), *words], check=True)
    target.finish()
    with open(log) as file:
        return sum("ptrace(" in line for line in file)
