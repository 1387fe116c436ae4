"""Two `dyntrace trace -p` of one process, without a daemon: each has its own tracepoints, trace, losses and end."""
import glob
import os
import signal
import socket
import subprocess
import threading

import pytest

from daemon_harness import CALLS, message
from harness import Snapshot, Trace, await_sleeps, hits, until


class Second:
    """A `trace -p` of a process that another one traces."""

    def __init__(self, dyntrace, pid, *words, trace=True):
        self.output = dyntrace.new_output() if trace else None
        self.process = dyntrace.processes.start(
            [dyntrace.path, "trace", "-p", str(pid), *(["-o", self.output] if trace else []), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=dyntrace.scratch)
        self.said = self.process.stderr.readline()
        assert "by the other dyntrace that has it" in self.said, self.said + self.process.stderr.read()

    def stop(self, number=signal.SIGINT, status=0):
        if number:
            self.process.send_signal(number)
        self.said += self.process.communicate(timeout=60)[1]
        assert self.process.returncode == status, self.said
        return Trace(self.output) if self.output else None


def event_types(output):
    with open(os.path.join(output, "metadata")) as file:
        return file.read().count("event {")


def leftovers(dyntrace):
    return glob.glob(os.path.join(dyntrace.scratch, "*.shared-*")) + glob.glob(os.path.join(dyntrace.scratch, "*.part-*"))


def test_the_second_ends_first(dyntrace, spin):
    one = spin(threads=2)
    first = dyntrace.start_trace(one.pid, "--function", "foo", "-e")
    one.round()
    second = Second(dyntrace, one.pid, "--function", "foo", "-t", "tid", "--probe", "foo_many")
    one.round()
    second_trace = second.stop()
    one.round()
    first_trace = first.stop()
    assert first_trace.names() == {"foo_entry": 6 * CALLS, "foo_exit": 6 * CALLS} and first_trace.lost == 0
    assert second_trace.names() == {"foo_entry": 2 * CALLS, "foo_many": 2} and second_trace.lost == 0
    assert all(event.fields["tid"] == event.tid for event in second_trace.named("foo_entry"))
    assert hits(first.stderr) == {"foo": 6 * CALLS} and hits(second.said) == {"foo": 2 * CALLS, "foo_many": 2}
    assert event_types(first.output) == 2 and event_types(second.output) == 2  # none of the other's
    assert f"{12 * CALLS} events" in first.stderr.replace(",", "")
    first.before.assert_unchanged()
    assert not leftovers(dyntrace)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_first_ends_first(dyntrace, spin, number):
    """Rounds go on meanwhile: no call is missing, and none is there twice."""
    one = spin(rounds=1000)
    first = dyntrace.start_trace(one.pid, "--function", "foo", "-e")
    one.round()
    second = Second(dyntrace, one.pid, "--function", "foo", "-e", "--probe", "foo_many")
    ended, rounds = threading.Event(), []

    def go_on():
        while not ended.wait(0.1):
            one.round()
            rounds.append(1)

    running = threading.Thread(target=go_on)
    running.start()
    until(lambda: len(rounds) >= 3, "some rounds")
    first.process.send_signal(number)
    first_said = first.process.communicate(timeout=60)[1]
    before = len(rounds)
    until(lambda: len(rounds) >= before + 3, "some rounds without the first")
    if number == signal.SIGKILL:
        assert "goes on alone" in second.process.stderr.readline()
    until(lambda: first.process.returncode is not None, "the end of the first")
    ended.set()
    running.join()
    second_trace = second.stop()
    assert second_trace.names() == {"foo_entry": CALLS * len(rounds), "foo_exit": CALLS * len(rounds), "foo_many": len(rounds)}
    assert second_trace.lost == 0 and hits(second.said) == {"foo": CALLS * len(rounds), "foo_many": len(rounds)}
    first_trace = Trace(first.output)
    assert set(first_trace.names()) == {"foo_entry", "foo_exit"} and first_trace.lost == 0
    assert CALLS * 4 <= first_trace.names()["foo_entry"] <= CALLS * (len(rounds) + 1)
    assert event_types(first.output) == 2
    if number == signal.SIGINT:
        assert first.process.returncode == 0 and hits(first_said) == {"foo": first_trace.names()["foo_entry"]}
        assert f"the other dyntrace of process {one.pid} goes on" in first_said
    first.before.assert_unchanged()
    assert not leftovers(dyntrace)


def test_the_second_is_killed(dyntrace, spin):
    one = spin()
    first = dyntrace.start_trace(one.pid, "--probe", "foo")
    placed = Snapshot(one.pid)
    second = Second(dyntrace, one.pid, "--probe", "foo_many")
    one.round()
    second.process.kill()
    second.process.wait()
    until(lambda: Snapshot(one.pid).text == placed.text, "the second's probe to be out")
    one.round()
    third = Second(dyntrace, one.pid, "--probe", "foo_many")  # there is room for another one
    one.round()
    assert third.stop().names() == {"foo_many": 1}
    assert first.stop().names() == {"foo": 3 * CALLS} and event_types(first.output) == 1
    first.before.assert_unchanged()


def test_the_process_ends(dyntrace, spin):
    one = spin(rounds=3)
    first = dyntrace.start_trace(one.pid, "--probe", "foo")
    second = Second(dyntrace, one.pid, "--function", "foo", "-e")
    one.round()
    one.finish()
    assert second.stop(number=0).names() == {"foo_entry": 3 * CALLS, "foo_exit": 3 * CALLS}
    first.process.communicate(timeout=60)
    assert Trace(first.output).names() == {"foo": 3 * CALLS} and not leftovers(dyntrace)


@pytest.mark.parametrize("ends", ["first", "second"])
def test_counts_and_events(dyntrace, spin, ends):
    """One counts, and makes no trace; the other one records."""
    one = spin()
    before = Snapshot(one.pid)
    first = dyntrace.processes.start([dyntrace.path, "trace", "-p", str(one.pid), "--function", "foo", "--tracer", "count"],
                                     stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=dyntrace.scratch)
    assert "Ctrl-C ends it" in first.stderr.readline()
    second = Second(dyntrace, one.pid, "--function", "foo")
    one.round()

    def stop_first():
        first.send_signal(signal.SIGINT)
        said = first.communicate(timeout=60)[1]
        assert first.returncode == 0, said
        return hits(said)

    if ends == "first":
        assert stop_first() == {"foo": CALLS}
        one.round()
        assert second.stop().names() == {"foo_entry": 2 * CALLS}
    else:
        assert second.stop().names() == {"foo_entry": CALLS}
        one.round()
        assert stop_first() == {"foo": 2 * CALLS}
    before.assert_unchanged()
    assert not leftovers(dyntrace)


def test_the_second_counts(dyntrace, spin):
    """Counts outlive the first one, too."""
    one = spin()
    first = dyntrace.start_trace(one.pid, "--function", "foo")
    second = Second(dyntrace, one.pid, "--function", "foo", "--tracer", "count", trace=False)
    one.round()
    assert first.stop().names() == {"foo_entry": CALLS}
    one.round()
    second.stop()
    assert hits(second.said) == {"foo": 2 * CALLS}
    first.before.assert_unchanged()
    assert not leftovers(dyntrace)


def test_lines_are_the_firsts_own(dyntrace, spin):
    one = spin()
    first = dyntrace.start_trace(one.pid, "--probe", "foo_many", "--print")
    second = Second(dyntrace, one.pid, "--probe", "foo")
    one.round()
    assert second.stop().names() == {"foo": CALLS}
    assert first.stop().names() == {"foo_many": 1} and first.stdout.count("\n") == 1


def test_refusals(dyntrace, spin):
    """A third one; options that are the session's; a first one whose events come at its end; tracers that call foreign code."""
    one = spin()
    first = dyntrace.start_trace(one.pid, "--probe", "foo")
    for words, said in ((["--print"], "--print: not beside the other dyntrace that traces process"),
                        (["--tracer", "log"], "tracer 'log' doesn't work beside another dyntrace"),
                        (["--function", "nosuch"], "no function 'nosuch'")):
        assert said in dyntrace.fails("trace", "-p", one.pid, "--probe", "foo", *words, status=125)
    second = Second(dyntrace, one.pid, "--probe", "foo")
    assert "being traced by two dyntrace already" in dyntrace.fails("trace", "-p", one.pid, "--probe", "foo", status=125)
    one.round()
    assert second.stop().names() == {"foo": CALLS} and first.stop().names() == {"foo": CALLS}
    first = dyntrace.start_trace(one.pid, "--probe", "foo", "--mode", "overwrite")
    assert "is being traced already" in dyntrace.fails("trace", "-p", one.pid, "--probe", "foo", status=125)
    first.stop()


def connections(name):
    with open("/proc/net/unix") as file:
        return [line.split()[-1] for line in file].count(f"@{name}")


def test_one_comes_as_the_other_has_gone(dyntrace, spin):
    """The first sees both at once: the one that was killed doesn't keep the next one out."""
    one = spin()
    first = dyntrace.start_trace(one.pid, "--probe", "foo_many")
    killed = Second(dyntrace, one.pid, "--probe", "foo")

    def go_on():
        """Once there are the socket that listens, the connection of the one that was killed, and the next one's."""
        try:
            until(lambda: connections(f"dyntrace-trace-{first.process.pid}") == 3, "the next one's connection")
        finally:
            first.process.send_signal(signal.SIGCONT)

    await_sleeps(first.process, 2)  # it reads its own events again
    first.process.send_signal(signal.SIGSTOP)
    killed.process.kill()
    killed.process.wait()
    threading.Thread(target=go_on).start()
    second = Second(dyntrace, one.pid, "--probe", "foo")
    one.round()
    assert second.stop().names() == {"foo": CALLS}
    assert first.stop().names() == {"foo_many": 1}


def test_nobody_else_is_served(dyntrace, spin):
    """The socket is for a dyntrace with the same rights: another program of the same user gets no answer."""
    one = spin()
    first = dyntrace.start_trace(one.pid, "--probe", "foo")
    for request in (message("WIRE_PROCESSES"), message("WIRE_TRACEPOINTS"), b"dYyt" * 100):
        with socket.socket(socket.AF_UNIX) as other:
            other.connect(f"\0dyntrace-trace-{first.process.pid}")
            other.settimeout(60)
            other.sendall(request)
            try:
                assert other.recv(100) == b""
            except ConnectionResetError:
                pass
    one.round()
    assert first.stop().names() == {"foo": CALLS}


def test_redis(dyntrace, redis):
    """Two commands on one server, as people use them; the server answers throughout."""
    first = dyntrace.start_trace(redis.pid, "--function", "setCommand", "-e")
    second = Second(dyntrace, redis.pid, "--function", "getCommand", "--function", "setCommand")
    for i in range(20):
        redis.cli("set", f"key{i}", i)
    first_trace = first.stop()
    for i in range(20):
        assert redis.cli("get", f"key{i}") == str(i)
        redis.cli("set", f"key{i}", i)
    assert second.stop().names() == {"setCommand_entry": 40, "getCommand_entry": 20}
    assert first_trace.names() == {"setCommand_entry": 20, "setCommand_exit": 20}
    first.before.assert_unchanged()
