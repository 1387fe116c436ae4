"""kill -9 of a worker between two packets of one reading: what a call's exit decides is written first, the thread's other
events behind it. The next worker writes what is missing, and nothing twice."""
import os
import signal
import subprocess

from daemon_harness import CALLS
from harness import Trace, until


def kill_at_write(processes, worker, number, scratch):
    """strace kills the worker at its nth write to a file from now on, before the write is done."""
    log = os.path.join(scratch, "strace")
    with open(log, "w") as errors:
        tracer = processes.start(["strace", "-f", "-p", worker, "-o", "/dev/null", "-e", "trace=pwritev", "-e",
                                  f"inject=pwritev:signal=SIGKILL:when={number}"], stdin=subprocess.DEVNULL, stderr=errors)
    until(lambda: "attached" in open(log).read(), "strace to attach")
    return tracer


def test_every_event_once(daemon, spin, processes, scratch):
    """A packet is two writes, its events and then its header: the third write is the first of the second packet."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "plain")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "judged", "--filter", "ret != -1")
    one.round()
    daemon("flush", one.pid)
    path = daemon.trace_of(one.pid)
    worker, = daemon.workers(one.pid)
    tracer = kill_at_write(processes, worker, 3, scratch)
    one.round()
    until(lambda: daemon.log_text().count("(spin): settled") == 2, "another worker")
    if tracer.poll() is None:
        tracer.send_signal(signal.SIGTERM)
    tracer.wait()
    one.round()
    daemon("detach", one.pid)
    trace = Trace(path)
    assert trace.names() == {"plain": 3 * CALLS, "judged_entry": 3 * CALLS, "judged_exit": 3 * CALLS} and trace.lost == 0
    assert len({event.ns for event in trace.named("plain")}) == 3 * CALLS
    one.finish()
