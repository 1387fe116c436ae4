"""--tracer lttng while LTTng's own daemons come, go and die: the target goes on, and its events are there again."""
import os
import signal
import subprocess

import pytest

from harness import until
from lttng import build_small, listens
from test_lttng import Target, Tracer, lttng, names, needs_lttng, program, target  # noqa: F401 (fixtures)

pytestmark = needs_lttng


def children(pid):
    """The child processes of all threads of a process."""
    found = []
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/children") as file:
            found += [int(word) for word in file.read().split()]
    return found


def named(pids, comm):
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/comm") as file:
                found += [pid] * (file.read().strip() == comm)
        except FileNotFoundError:
            pass
    return found


def consumers(lttng):
    """Consumer daemons, by the daemon's descendants."""
    pids = [lttng.daemon.pid]
    for pid in pids:
        pids += children(pid)
    return named(pids, "lttng-consumerd")


def is_listed(lttng):
    return "dyntrace:call_entry" in lttng("list", "--userspace", check=False)


@pytest.fixture
def traced(lttng, processes, build, scratch, target):
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    until(lambda: is_listed(lttng), "the event to be listed")
    yield tracer
    if tracer.process.poll() is None:
        assert "stays" not in tracer.end()
    target.do(3)  # unharmed, also without us


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_session_daemon_ends_and_comes_back(lttng, target, traced, number):
    """Events are registered again with the next session daemon, without dyntrace's help."""
    lttng.create("dyntrace:*")
    target.do(5)
    lttng.end_daemon(number)
    target.do(20)  # nobody records it
    lttng.start_daemon()
    until(lambda: is_listed(lttng), "the event to be listed again")
    lttng.create("dyntrace:*", session="again")
    target.do(7)
    events = lttng.stop("again")
    assert names(events) == {"dyntrace:call_entry": 15}
    assert [f["s"] for _, f in events].count('"text 6"') == 2


def test_events_that_are_added_while_there_is_no_session_daemon(lttng, processes, build, scratch, target):
    """G1: the library's thread answers each request, whoever else is there."""
    lttng.end_daemon(signal.SIGKILL)
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    target.do(5)
    lttng.start_daemon()
    until(lambda: is_listed(lttng), "the event to be listed")
    lttng.create("dyntrace:*")
    target.do(7)
    assert names(lttng.stop()) == {"dyntrace:call_entry": 15}
    tracer.end()


def test_consumer_daemon_is_killed(lttng, target, traced):
    """Unwritten events are lost; the target isn't delayed, and dyntrace detaches as usual."""
    lttng.create("dyntrace:*")
    target.do(5)
    victim, = consumers(lttng)
    os.kill(victim, signal.SIGKILL)
    target.do(20000)


def test_session_is_destroyed_while_it_is_hot(lttng, target, traced):
    for turn in range(3):
        lttng.create("dyntrace:*", session=f"hot{turn}")
        target.process.stdin.write("30000\n")
        target.process.stdin.flush()
        lttng("destroy", f"hot{turn}")
        assert target.process.stdout.readline() == "done\n"
    lttng.create("dyntrace:*")
    target.do(7)
    assert names(lttng.stop()) == {"dyntrace:call_entry": 15}


def test_relay_daemon_is_killed(lttng, processes, target, traced):
    ports = [5542, 5543, 5544]
    relay = processes.start(lttng.inside("lttng-relayd", "-C", f"tcp://127.0.0.1:{ports[0]}", "-D", f"tcp://127.0.0.1:{ports[1]}", "-L",
                                         f"tcp://127.0.0.1:{ports[2]}", "-o", "/dev/shm/relay"), env=lttng.env,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: listens(relay, ports), "relayd")
    lttng.create("dyntrace:*", more=[f"--set-url=net://127.0.0.1:{ports[0]}:{ports[1]}"])
    target.do(5)
    os.kill(relay.pid, signal.SIGKILL)
    relay.wait()
    target.do(20000)
    lttng("destroy", "test", check=False)
    lttng.create("dyntrace:*", session="here")
    target.do(7)
    assert names(lttng.stop("here")) == {"dyntrace:call_entry": 15}


def test_many_sessions_at_once(lttng, target, traced):
    """Each session has every event."""
    for number in range(20):
        lttng("create", f"s{number}", f"--output=/dev/shm/s{number}")
        lttng("enable-channel", "--userspace", "-s", f"s{number}", "--buffers-pid", "--subbuf-size=64k", "c")
        lttng("enable-event", "--userspace", "-s", f"s{number}", "-c", "c", "dyntrace:call*")
        lttng("start", f"s{number}")
    target.do(30)
    for number in range(20):
        assert names(lttng.stop(f"s{number}")) == {"dyntrace:call_entry": 61}, number


def test_buffers_of_a_user_and_blocking_channels(lttng, processes, build, scratch, tmp_path):
    """Nothing is lost where the channel makes the target wait: small buffers, and many events of one thread. (Of two, LTTng 2.13 loses
    events of its static tracepoints, too.)"""
    path = build_small(tmp_path / "alone", "for (int i = 0; i < 10001; i++) foo(i);")
    target = Target(lttng, processes, path, env={"LTTNG_UST_ALLOW_BLOCKING": "1"})
    tracer = Tracer(processes, build, scratch, target.pid, "-n", "call", "--function", "foo")
    lttng("create", "test", "--output=/dev/shm/test")
    lttng("enable-channel", "--userspace", "-s", "test", "--buffers-uid", "--subbuf-size=4k", "--num-subbuf=2",
          "--blocking-timeout=inf", "c")
    lttng("enable-event", "--userspace", "-s", "test", "-c", "c", "dyntrace:call*")
    lttng("start", "test")
    target.do(1)
    assert [int(f["a"]) for _, f in lttng.stop()] == list(range(10001))
    tracer.end()
