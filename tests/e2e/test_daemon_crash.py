"""kill -9 of the daemon, a worker, both, or a client in the middle of a command."""
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
from daemon_harness import CALLS, connect, helpers, message
from harness import Snapshot, Trace, until


def worker_of(daemon, pid):
    """The pid of a worker that has reported that all is in place."""
    until(lambda: f"process {pid} (spin): settled" in daemon.log_text() or "(spin)" not in daemon.log_text(), "it to be settled")
    return until(lambda: daemon.workers(pid), "a worker")[0]


def test_a_killed_daemon_is_replaced_and_nothing_is_lost_meanwhile(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    one.round()
    daemon.kill()
    one.round()
    daemon.start()
    assert [process["pid"] for process in daemon.json("list-processes")] == [one.pid]
    assert daemon.hits(one.pid) == {"foo": 2 * CALLS}
    daemon.add(f"{one.pid}:foo_many", "-n", "many")
    one.round()
    assert daemon.hits(one.pid) == {"foo": 3 * CALLS, "many": 1}
    daemon.kill()
    daemon.start()
    daemon("rm", f"{one.pid}:foo")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": 3 * CALLS, "many": 2}
    one.finish()


def test_events_for_watchers_wait_for_the_next_daemon(daemon, spin):
    one, two = spin(), spin()
    for each in (one, two):
        daemon.attach(each.pid)
    daemon.kill()
    one.finish()
    until(lambda: not daemon.workers(one.pid), "the worker's end")
    daemon.start()
    assert [process["pid"] for process in daemon.json("list-processes")] == [two.pid]


def test_a_killed_worker_is_replaced_and_tracepoints_go_on(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "mine")
    daemon.add(f"{one.pid}:foo_many")
    daemon("disable", f"{one.pid}:foo_many")
    daemon.add(f"{one.pid}:foo", "-n", "gone")
    daemon("rm", f"{one.pid}:gone")
    one.round()
    daemon("flush")
    trace = daemon.trace_of(one.pid)
    old = worker_of(daemon, one.pid)
    os.kill(old, signal.SIGKILL)
    until(lambda: [pid for pid in daemon.workers(one.pid) if pid != old], "another worker")
    until(lambda: [one["state"] for one in daemon.json("list-tracepoints", one.pid)] == ["enabled", "disabled"],
          "the tracepoints to be placed again")
    one.round()
    assert daemon.hits(one.pid) == {"mine": CALLS, "foo_many": 0}
    assert daemon.trace_of(one.pid) == trace
    daemon("detach", one.pid)
    assert Trace(trace).names() == {"mine": 2 * CALLS}
    one.finish()


class Load:
    """Keeps a program busy until stop(), and counts its rounds."""

    def __init__(self, one):
        self.one, self.rounds, self.over = one, 0, False
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over:
            self.one.go().wait_ready()
            self.rounds += 1
            time.sleep(0.0005)  # the trace is read by Python: not too much of it

    def stop(self):
        self.over = True
        self.thread.join()
        return self.rounds


def kill_workers_under_load(daemon, one):
    """Kills three workers, each when it has settled; gives the number of rounds meanwhile."""
    load = Load(one)
    try:
        for number in range(3):
            os.kill(worker_of(daemon, one.pid), signal.SIGKILL)
            until(lambda: daemon.log_text().count(f"process {one.pid} (spin): settled") > number + 1, "it to go on")
    finally:
        rounds = load.stop()
    return rounds


@pytest.mark.parametrize("words", [[], ["-e"], ["-t", "backtrace"]], ids=["bare", "exits", "backtrace"])
def test_no_hit_is_missed_when_workers_are_killed_under_load(daemon, program, words):
    """(J1, J2) Each call is in the trace, once: old probes go in the stop in which new ones take their place."""
    calls = 5
    one = program("spin", "--calls", calls, "--threads", 2, "--rounds", 1000000).wait_ready()
    before = Snapshot(one.pid)
    daemon.add(f"{one.pid}:foo", *words)
    daemon.add(f"{one.pid}:foo_many")
    trace = daemon.trace_of(one.pid)
    rounds = kill_workers_under_load(daemon, one)
    assert daemon.trace_of(one.pid) == trace
    daemon("detach", one.pid)
    before.assert_unchanged()
    found = Trace(trace)
    suffixes = ["_entry", "_exit"] if words == ["-e"] else [""]
    assert (found.lost, found.names()) == (0, {"foo_many": 2 * rounds, **{"foo" + suffix: 2 * rounds * calls for suffix in suffixes}})


def settled(daemon, one, times):
    until(lambda: daemon.log_text().count(f"process {one.pid} (spin): settled") >= times, "it to go on")


def test_a_named_trace_is_gone_on_with_and_the_next_worker_records_nothing_while_it_is_stopped(daemon, spin, scratch):
    one = spin()
    path = os.path.join(scratch, "mine")
    daemon.add(f"{one.pid}:foo", "ctf", path)
    one.round()
    daemon("stop", one.pid)
    one.round()
    os.kill(worker_of(daemon, one.pid), signal.SIGKILL)
    one.round()
    settled(daemon, one, 2)
    one.round()
    daemon("start", one.pid)
    one.round()
    assert daemon.trace_of(one.pid) == path
    daemon("detach", one.pid)
    assert Trace(path).names() == {"foo": 2 * CALLS}
    assert not [name for name in os.listdir(path) if name.startswith(".")]
    one.finish()


def test_a_trace_that_is_gone_is_begun_anew_and_that_is_said(daemon, spin):
    one = spin()
    watch = daemon.watch()
    daemon.add(f"{one.pid}:foo")
    one.round()
    daemon("flush")  # its files are open: nothing but the worker's death ends the recording
    shutil.rmtree(daemon.trace_of(one.pid))
    os.kill(worker_of(daemon, one.pid), signal.SIGKILL)
    assert "No such file or directory" in watch.until("lost")[-1]["detail"]
    settled(daemon, one, 2)
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    one.finish()


def test_counts_go_on_when_a_worker_is_killed(daemon, spin):
    """Counts and durations from before the kill, from the time without a worker, and from after it. A tracepoint added
    later under the name of a removed one counts from 0."""
    one = spin()
    before = Snapshot(one.pid)
    watch = daemon.watch()
    daemon.add(f"{one.pid}:foo", "count")
    daemon.add(f"{one.pid}:foo_many", "-e", "-n", "timed", "count")
    daemon.add(f"{one.pid}:foo", "-n", "other", "count")
    one.round()
    daemon("rm", f"{one.pid}:other")
    daemon.add(f"{one.pid}:foo", "-n", "other", "count")
    os.kill(worker_of(daemon, one.pid), signal.SIGKILL)
    one.round()
    assert watch.until("cleaned")[-1]["detail"] == \
        f"process {one.pid} (spin): removed 2 probes of a dyntrace that was killed"
    settled(daemon, one, 2)
    one.round()
    assert daemon.hits(one.pid) == {"foo": 3 * CALLS, "timed": 3, "other": 2 * CALLS}
    timed = daemon.json("list-tracepoints", one.pid)[1]
    assert timed["calls"] == 3 and 0 < timed["p50_ns"] <= timed["max_ns"] <= timed["total_ns"], timed
    daemon("detach", one.pid)
    before.assert_unchanged()
    one.finish()


def test_no_hit_is_left_out_of_counts_when_workers_are_killed_under_load(daemon, program):
    calls = 50
    one = program("spin", "--calls", calls, "--threads", 2, "--rounds", 1000000).wait_ready()
    daemon.add(f"{one.pid}:foo", "-e", "count")
    daemon.add(f"{one.pid}:foo_many", "count")
    rounds = kill_workers_under_load(daemon, one)
    assert daemon.hits(one.pid) == {"foo": 2 * rounds * calls, "foo_many": 2 * rounds}
    assert daemon.json("list-tracepoints", one.pid)[0]["calls"] == 2 * rounds * calls
    daemon("detach", one.pid)


def test_removed_matches_of_a_glob_stay_removed_for_the_next_daemon_and_worker(daemon, spin):
    """The second daemon doesn't know which names a glob has made."""
    one = spin()
    daemon.targets.add(str(one.pid))
    assert len(daemon("add", f"{one.pid}:foo*", "count").stdout.split()) > 1
    worker_of(daemon, one.pid)
    daemon.kill()
    daemon.start()
    daemon("rm", f"{one.pid}:foo_many")
    left = list(daemon.hits(one.pid))
    os.kill(worker_of(daemon, one.pid), signal.SIGKILL)
    until(lambda: f"process {one.pid} (spin): settled" in daemon.log_text().partition("its worker died")[2], "it to go on")
    assert list(daemon.hits(one.pid)) == left and "foo_many" not in left and "foo" in left
    daemon("detach", one.pid)
    one.finish()


def test_killed_together_they_are_replaced_by_the_next_daemon(daemon, spin):
    one = spin()
    before = Snapshot(one.pid)
    daemon.add(f"{one.pid}:foo", "-e", "-n", "call", "--filter", "1 == 1")
    one.round()
    worker_of(daemon, one.pid)
    daemon.kill_with_workers(one.pid)
    one.round()
    daemon.start()
    assert list(daemon.hits(one.pid)) == ["call"]
    assert [each["pid"] for each in daemon.json("list-processes")] == [one.pid]
    assert daemon.json("list-tracepoints", one.pid)[0]["filter"] == "1 == 1"
    one.round()
    trace = daemon.finish(one.pid)
    assert trace.names() == {"call_entry": 3 * CALLS, "call_exit": 3 * CALLS}
    before.assert_unchanged()
    one.finish()


@pytest.mark.parametrize("words", [["rm", ":*"], ["disable", ":call"], ["detach", ""]], ids=["rm", "disable", "detach"])
def test_the_first_request_finds_what_is_done_again(daemon, spin, words):
    """(D13) However early it comes to the next daemon."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "call")
    daemon.kill_with_workers(one.pid)
    daemon.start()
    daemon(words[0], f"{one.pid}{words[1]}")
    one.round()
    if words[0] != "detach":
        assert [(each["state"], each["hits"]) for each in daemon.json("list-tracepoints", one.pid)] == \
            ([("disabled", 0)] if words[0] == "disable" else [])
        daemon("detach", one.pid)
    assert daemon.json("list-processes") == []
    one.finish()


def test_a_process_that_ended_meanwhile_is_forgotten(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    worker_of(daemon, one.pid)
    daemon.kill_with_workers(one.pid)
    one.finish()
    daemon.start()
    assert daemon.json("list-processes") == []
    assert os.listdir(os.path.join(daemon.socket + ".d", "targets")) == []


def test_a_worker_that_dies_again_and_again_is_given_up(daemon, spin):
    one = spin()
    daemon.attach(one.pid)
    killed = set()
    for _ in range(4):
        worker = until(lambda: [pid for pid in daemon.workers(one.pid) if pid not in killed], "a worker")[0]
        until(lambda: daemon.log_text().count(f"process {one.pid} (spin): attached") > len(killed), "to be attached")
        os.kill(worker, signal.SIGKILL)
        killed.add(worker)
    until(lambda: daemon.json("list-processes") == [], "the process to be given up")
    assert f"given up ('dyntrace detach {one.pid}' cleans up)" in daemon.log_text()
    until(lambda: not daemon.workers(one.pid), "no worker")
    subprocess.run([os.path.join(daemon.build, "dyntrace"), "detach", str(one.pid), "--socket", daemon.socket], check=True,
                   capture_output=True)
    one.finish()


def test_told_to_end_it_lets_all_go_and_traces_are_complete(daemon, spin):
    several = [spin() for _ in range(3)]
    before = [Snapshot(one.pid) for one in several]
    for one in several:
        daemon.add(f"{one.pid}:foo")
        one.round()
    traces = [daemon.trace_of(one.pid) for one in several]
    assert daemon.stop() == 0
    for one, snapshot, trace in zip(several, before, traces):
        snapshot.assert_unchanged()
        assert Trace(trace).names() == {"foo": CALLS}
        until(lambda: not helpers("worker", one.pid), "the worker's end")
        one.finish()
    assert not os.path.exists(daemon.socket)


@pytest.mark.limit(120)
def test_killed_again_and_again_under_load(daemon, redis):
    load = redis.load()
    daemon.add(f"{redis.pid}:processCommand", "-e")
    for number in range(5):
        daemon.kill()
        daemon.start()
        daemon.add(f"{redis.pid}:call", "-n", f"call{number}")
        assert len(daemon.hits(redis.pid)) == 2
        daemon("rm", f"{redis.pid}:call{number}")
    load.kill()
    load.wait()
    assert redis.cli("ping") == "PONG"
    hits = daemon.hits(redis.pid)["processCommand"]
    path = daemon.trace_of(redis.pid)
    daemon("detach", redis.pid)
    names = Trace(path).names()
    assert names["processCommand_entry"] >= hits and names["processCommand_exit"] == names["processCommand_entry"]


def test_a_client_that_dies_in_the_middle_leaves_nothing_half_done(daemon, spin):
    one = spin()
    daemon.targets.add(str(one.pid))
    for _ in range(5):
        client = connect(daemon.socket)
        client.sendall(message("WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo"))
        client.close()
    half = message("WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_NAME="half")
    client = connect(daemon.socket)
    client.sendall(half[:-3])
    client.close()
    names = until(lambda: len(daemon.hits(one.pid)) == 5 and daemon.hits(one.pid), "what was asked")
    assert list(names) == ["foo", "foo-2", "foo-3", "foo-4", "foo-5"]
    one.round()
    assert set(daemon.hits(one.pid).values()) == {CALLS}
    assert daemon.json("status")["clients"] == 1
    daemon("detach", one.pid)
    one.finish()


def test_a_full_disk_ends_the_recording_and_nothing_else(daemon, program, scratch):
    small = os.path.join(scratch, "small")
    os.mkdir(small)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", small], check=True)
    try:
        one = program("spin", "--calls", 300000, "--rounds", 3).wait_ready()
        before = Snapshot(one.pid)
        watch = daemon.watch()
        daemon.add(f"{one.pid}:foo", "ctf", os.path.join(small, "trace"))
        one.go().wait_ready()
        failed = watch.until("failed")[-1]
        assert "KiB are left on the file system" in failed["detail"]
        until(lambda: daemon.json("list-processes") == [], "the process to be let go")
        before.assert_unchanged()
        why = daemon.fails("list-tracepoints", one.pid)
        assert "doesn't have the agent any more: its recording ended: " in why and "KiB are left on the file system" in why
        assert "recording ended: " in daemon.log_text() and "starting another" not in daemon.log_text()
        names = Trace(os.path.join(small, "trace")).names()
        assert 0 < names["foo"] < 300000
        one.finish()
    finally:
        subprocess.run(["umount", "-l", small], check=True)


def test_attach_cleans_up_after_a_dyntrace_that_was_killed(daemon, spin, dyntrace):
    """The killed dyntrace ran without a daemon: its events are saved, and attach says so."""
    one = spin()
    tracing = dyntrace.start_trace(one.pid, "--probe", "foo")
    one.round()
    tracing.process.kill()
    tracing.process.communicate()
    result = daemon("attach", one.pid, status=None)
    assert result.returncode == 0
    assert "removed 1 probe of a dyntrace that was killed" in result.stderr
    assert f"saved in {tracing.output}" in result.stderr
    assert Trace(tracing.output).names() == {"foo": CALLS}
    daemon("detach", one.pid)
    tracing.before.assert_unchanged()
    one.finish()
