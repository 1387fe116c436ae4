"""A debugger is attached when tracing ends: no thread can be stopped, so the probes stay, off. Status and words are true, the trace is
whole, and a later detach cleans up."""
import os
import resource
import signal
import subprocess

import pytest

from harness import Snapshot, Trace, state, until


class Debugger:
    """gdb, attached to a process."""

    def __init__(self, processes, pid):
        self.process = processes.start(["gdb", "-nx", "-q", "-p", pid], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
        self.do("echo attached\\n", "attached")

    def do(self, command, answer):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        while True:
            line = self.process.stdout.readline()
            assert line, "gdb ended"
            if answer in line:
                return

    def leave(self):
        self.process.stdin.write("detach\nquit\n")
        self.process.stdin.close()
        self.process.stdout.read()
        assert self.process.wait(timeout=30) == 0


@pytest.mark.parametrize("words", [[], ["-e"], ["--mode", "block", "--buffer-size", "1M"]])
def test_trace_ends_under_a_debugger(dyntrace, program, processes, words):
    """Exit status 125, all events in the trace; hits meanwhile cost nothing and are recorded nowhere; then detach."""
    target = program("spin", "--threads", 2, "--calls", 1000, "--rounds", 3).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe" if not words or "-e" not in words else "--function", "foo", *words)
    target.go().wait_ready()
    debugger = Debugger(processes, target.pid)
    trace = tracing.stop(status=125)
    assert f"the agent stays in process {target.pid}: process {target.pid} is already traced by pid {debugger.process.pid} " \
        f"(its probes are off; 'dyntrace detach {target.pid}' removes them later)" in tracing.stderr
    assert sum(trace.names().values()) + trace.lost == 2000 * (2 if "-e" in words else 1)
    assert f"already traced by pid {debugger.process.pid} (gdb)" in dyntrace.fails("detach", target.pid)
    debugger.leave()
    target.go().wait_ready()
    result = dyntrace("detach", target.pid)
    assert f"process {target.pid} (spin): removed 1 probe that a dyntrace had to leave at its end\n" in result.stderr
    before.assert_unchanged()
    assert "is not traced" in dyntrace.fails("detach", target.pid)
    assert Trace(tracing.output).names() == trace.names()
    again = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    assert again.stop().names() == {"foo": 2000}
    target.finish()


@pytest.mark.parametrize("words, limit", [(["-q"], None), (["--json"], None), ([], 200000), (["-q"], 200000), (["--json"], 200000)],
                         ids=["quiet", "json", "unwritten", "quiet-unwritten", "json-unwritten"])
def test_that_the_agent_stays_is_always_said(dyntrace, program, processes, words, limit):
    """With -q and --json, and beside another error, too: here a trace that can't be written to its end."""
    target = program("spin", "--calls", 200000, "--rounds", 2).wait_ready()
    before = Snapshot(target.pid)
    command = [dyntrace.path, "trace", "-p", target.pid, "-o", dyntrace.new_output(), "--probe", "foo", *words]
    tracing = processes.start(command, stderr=subprocess.PIPE, text=True)
    until(lambda: Snapshot(target.pid).text != before.text, "the probe")
    if limit:
        resource.prlimit(tracing.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    os.kill(tracing.pid, signal.SIGSTOP)
    until(lambda: state(tracing.pid) == "T", "dyntrace to be stopped")
    target.go().wait_ready()
    debugger = Debugger(processes, target.pid)
    tracing.send_signal(signal.SIGINT)
    os.kill(tracing.pid, signal.SIGCONT)
    _, errors = tracing.communicate(timeout=60)
    assert tracing.returncode == 125
    assert errors.count(f"dyntrace: the agent stays in process {target.pid}: ") == 1 and "its probes are off" in errors, errors
    assert ("File too large" in errors) == (limit is not None), errors
    debugger.leave()
    dyntrace("detach", target.pid)
    before.assert_unchanged()
    target.go().wait_ready()
    target.finish()


def test_daemon_detaches_under_a_debugger(new_daemon, program, processes):
    """detach fails and says why; when the debugger has gone, detach cleans up."""
    daemon = new_daemon().start()
    target = program("spin", "--calls", 100, "--rounds", 2).wait_ready()
    before = Snapshot(target.pid)
    daemon("attach", target.pid)
    daemon.add(f"{target.pid}:foo", "count")
    debugger = Debugger(processes, target.pid)
    result = daemon("detach", target.pid, status=1)
    assert f"the agent stays in process {target.pid}" in result.stderr and "its probes are off" in result.stderr
    debugger.leave()
    said = daemon("detach", target.pid, status=None)
    assert (said.returncode, "removed 1 probe that a dyntrace had to leave" in said.stderr) == (0, True)
    before.assert_unchanged()
    target.go().wait_ready()
    target.finish()
