"""Workers, keepers and targets that hang: others go on, the client gets an error, and all is well when they resume (D1, D3)."""
import contextlib
import os
import signal
import subprocess
import threading

import pytest
from daemon_harness import CALLS, helpers
from harness import Cgroup, Snapshot, Trace, state, until


DAEMONS = 8


class Stopped:
    """Stops a process for the length of a block."""

    def __init__(self, pid):
        self.pid = pid

    def __enter__(self):
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: state(self.pid) == "T", "the process to be stopped")
        return self

    def __exit__(self, *_):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


def still_stopped(pid):
    """A process that goes back to its stop counts as running on the way."""
    until(lambda: state(pid) == "T", "the process to be stopped as before")


def test_a_stopped_worker_holds_up_nobody_else(daemon, spin):
    """(D3) The client is answered once; the request is done when the worker goes on."""
    one, other = spin(), spin()
    for each in (one, other):
        daemon.add(f"{each.pid}:foo")
    worker = daemon.workers(one.pid)[0]
    with Stopped(worker):
        expected = f"process {one.pid} (spin): its worker is stopped: the request is done when it goes on ('kill -CONT {worker}')"
        threads = [threading.Thread(target=lambda: results.append(daemon.fails("list-tracepoints", one.pid))) for _ in range(3)]
        results = []
        for thread in threads:
            thread.start()
        assert daemon.fails("add", f"{one.pid}:foo_many", "-n", "later") == expected
        for thread in threads:
            thread.join()
        assert results == [expected] * 3
        listed = {each["pid"]: each.get("state") for each in daemon.json("list-processes")}
        assert listed == {one.pid: "its worker is stopped", other.pid: None}
        assert f"{one.pid}" in daemon("list-processes").stdout
        assert f"unknown of {one.pid} (spin): its worker doesn't answer" in daemon("status").stdout
        costs = {each["pid"]: each.get("cost_ns") for each in daemon.json("status")["overhead"]}
        assert costs[one.pid] is None and costs[other.pid] is not None
        one.round()
        other.round()
        assert daemon.hits(other.pid) == {"foo": CALLS}
        daemon.add(f"{other.pid}:foo_many")
        daemon("detach", other.pid)
    until(lambda: daemon.hits(one.pid) == {"foo": CALLS, "later": 0}, "what was asked while it was stopped")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": 2 * CALLS, "later": 1}
    until(lambda: not daemon.workers(one.pid), "the worker's end")
    assert "killed" not in daemon.log_text()
    one.finish()
    other.finish()


def test_a_stopped_worker_is_found_again_by_each_daemon(daemon, spin):
    """However many daemons have died meanwhile: their connections wait for the worker, and the last one is served."""
    one = spin()
    daemon.add(f"{one.pid}:foo")
    worker = daemon.workers(one.pid)[0]
    with Stopped(worker):
        for _ in range(DAEMONS):
            daemon.kill()
            daemon.start()
        one.round()
    until(lambda: [each for each in daemon.json("list-processes") if each["pid"] == one.pid and not each.get("state")], "the worker to go on")
    assert daemon.hits(one.pid) == {"foo": CALLS}
    assert daemon.workers(one.pid) == [worker] and "starting another" not in daemon.log_text()
    daemon("detach", one.pid)
    one.finish()


def test_a_request_that_no_worker_saw_waits_for_the_next(daemon, spin):
    """(D15) The one before it was sent to the worker that died, and isn't done again."""
    one = spin()
    daemon.add(f"{one.pid}:foo")
    worker = daemon.workers(one.pid)[0]
    with Stopped(worker):
        for name in ("sent", "waiting"):
            assert "its worker is stopped" in daemon.fails("add", f"{one.pid}:foo_many", "-n", name)
        os.kill(worker, signal.SIGKILL)
        until(lambda: "its worker died: starting another" in daemon.log_text(), "the next worker")
        until(lambda: "name='waiting': ok" in daemon.log_text(), "the request that waited")  # asking would wait behind it
        assert daemon.hits(one.pid) == {"foo": 0, "waiting": 0}
    daemon("detach", one.pid)
    one.finish()


def test_a_stopped_keeper_holds_up_its_own_trace_only(daemon, spin, scratch):
    one, other = spin(), spin()
    daemon.add(f"{one.pid}:foo", "ctf", scratch + "/one")
    daemon.add(f"{other.pid}:foo", "ctf", scratch + "/other")
    one.round()
    daemon("flush", one.pid)
    keeper = next(pid for pid in helpers("keeper-exact", scratch) if "/one" in open(f"/proc/{pid}/cmdline").read().replace("\0", "/"))
    with Stopped(keeper):
        one.round()
        other.round()
        assert daemon.hits(other.pid) == {"foo": CALLS}
    assert daemon.hits(one.pid) == {"foo": 2 * CALLS}  # before, its worker may wait: a better clock is for the keeper to write (H20)
    daemon.add(f"{one.pid}:foo_many")
    one.round()
    daemon("detach", one.pid)
    assert Trace(scratch + "/one").names() == {"foo": 3 * CALLS, "foo_many": 1}
    daemon("detach", other.pid)
    one.finish()
    other.finish()


@pytest.mark.limit(90)
def test_a_keeper_that_hangs_for_long_ends_its_recording_and_the_next_begins_anew(daemon, spin, scratch):
    one, other = spin(), spin()
    before = Snapshot(one.pid)
    watch = daemon.watch()
    daemon.add(f"{one.pid}:foo", "ctf", scratch + "/one")
    daemon.add(f"{other.pid}:foo")
    one.round()
    daemon("flush", one.pid)
    with Stopped(helpers("keeper-exact", scratch)[0]):
        daemon.add(f"{one.pid}:foo_many")  # the metadata has to be written anew
        one.round()
        assert "Connection timed out" in watch.until("failed")[-1]["detail"]
        other.round()
        assert daemon.hits(other.pid) == {"foo": CALLS}
        until(lambda: [each["pid"] for each in daemon.json("list-processes")] == [other.pid], "the process to be let go")
    before.assert_unchanged()
    assert Trace(scratch + "/one").names()["foo"] >= CALLS
    daemon.add(f"{one.pid}:foo", "ctf", scratch + "/two")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    daemon("detach", other.pid)
    one.finish()
    other.finish()


def test_a_target_that_is_stopped_is_traced_and_stays_so(daemon, spin):
    one = spin()
    with Stopped(one.pid):
        daemon.add(f"{one.pid}:foo")
        still_stopped(one.pid)
        daemon("disable", f"{one.pid}:foo")
        daemon("enable", f"{one.pid}:foo")
        daemon.add(f"{one.pid}:foo_many")
        still_stopped(one.pid)
    one.round()
    assert daemon.hits(one.pid) == {"foo": CALLS, "foo_many": 1}
    with Stopped(one.pid):
        daemon("detach", one.pid)
        still_stopped(one.pid)
    one.round()
    one.finish()


def test_a_target_under_a_debugger_is_refused_and_taken_later(daemon, spin, processes):
    one, other = spin(), spin()
    daemon.attach(other.pid)
    gdb = processes.start(["gdb", "-q", "-nx", "-p", str(one.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL)
    until(lambda: state(one.pid) == "t", "gdb to have it")
    assert f"is already traced by pid {gdb.pid} (gdb): end that one first" in daemon.fails("add", f"{one.pid}:foo", status=None)
    daemon.add(f"{other.pid}:foo")
    gdb.communicate(b"detach\nquit\n")
    until(lambda: state(one.pid) == "S", "gdb to let go")
    daemon.add(f"{one.pid}:foo")
    one.round()
    assert daemon.hits(one.pid) == {"foo": CALLS}
    for each in (one, other):
        daemon("detach", each.pid)
        each.finish()


@pytest.fixture
def freezer():
    """A cgroup whose processes can be frozen, of version 1 or 2: (freeze, thaw, add). What is frozen is so when freeze() returns."""
    cgroup, choice = Cgroup.find([("/sys/fs/cgroup/freezer", ["freezer.state"], ("FROZEN", "THAWED"), ("freezer.state", "FROZEN")),
                                  ("/sys/fs/cgroup", ["cgroup.freeze"], ("1", "0"), ("cgroup.events", "frozen 1")),
                                  ("/sys/fs/cgroup/unified", ["cgroup.freeze"], ("1", "0"), ("cgroup.events", "frozen 1"))])
    if not cgroup:
        pytest.fail("there is no cgroup here whose processes can be frozen")
    _, [file], words, told = choice

    def freeze():
        cgroup.write(file, words[0])
        until(lambda: told[1] in cgroup.read(told[0]).splitlines(), "the cgroup to be frozen")

    def thaw():
        cgroup.write(file, words[1])
    yield freeze, thaw, lambda pid: cgroup.write("cgroup.procs", pid)
    thaw()
    cgroup.end()


def test_a_frozen_target_is_refused_and_taken_later(daemon, spin, freezer):
    freeze, thaw, enter = freezer
    one, other = spin(), spin()
    daemon.add(f"{one.pid}:foo")
    enter(one.pid)
    freeze()
    try:
        why = daemon.fails("add", f"{one.pid}:foo_many")
        assert why.startswith(f"process {one.pid} can't be stopped: its thread {one.pid} (spin)") and "try again later" in why
        daemon.add(f"{other.pid}:foo")
        other.round()
        assert daemon.hits(other.pid) == {"foo": CALLS}
        assert [each["name"] for each in daemon.json("list-tracepoints", one.pid)] == ["foo"]
    finally:
        thaw()
    daemon.add(f"{one.pid}:foo_many")
    one.round()
    assert daemon.hits(one.pid) == {"foo": CALLS, "foo_many": 1}
    for each in (one, other):
        daemon("detach", each.pid)
        each.finish()
