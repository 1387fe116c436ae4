"""The daemon's flight recorders: overwrite mode per process, snapshots that hits ask for (--snapshot-when), the last moments,
what `watch` says and runs."""
import os
import re
import signal
import time

import pytest
from daemon_harness import CALLS
from harness import Trace, until
from test_daemon_bounds import GROUP, MEMBER, shared  # noqa: F401


def counts(trace):
    """Events per name."""
    return Trace(trace).names()


def test_one_process_is_a_flight_recorder_the_other_is_written_as_it_runs(daemon, spin):
    """Overwrite mode and its buffer are a process's own; `snapshot` without a target means the flight recorders."""
    one, two = spin(), spin()
    daemon.targets |= {str(one.pid), str(two.pid)}
    daemon.attach(two.pid)
    assert daemon.fails("snapshot") == \
        "no process is recorded in overwrite mode ('dyntrace attach --mode overwrite TARGET' begins one)"
    daemon("attach", one.pid, "--mode", "overwrite", "--buffer-size", "1M")
    for each in (one, two):
        daemon.add(f"{each.pid}:foo")
        each.round()
    path = daemon.trace_of(one.pid)
    assert daemon("snapshot").stdout == f"{path}.snapshot-1\n"
    assert counts(f"{path}.snapshot-1") == {"foo": CALLS}
    with open("/proc/sys/kernel/random/boot_id") as file:
        assert Trace(f"{path}.snapshot-1").env["boot_id"] == file.read().rstrip("\n")
    assert daemon.fails("attach", one.pid, "--mode", "discard") == \
        f"process {one.pid} (spin) is recorded in mode overwrite already, not discard ('dyntrace detach {one.pid}' ends its trace)"
    assert daemon.fails("add", f"{two.pid}:foo", "--snapshot-when", "1").startswith(
        f"process {two.pid} (spin) is recorded in mode discard already, not overwrite")
    assert daemon.finish(two.pid).names() == {"foo": CALLS}
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    for each in (one, two):
        each.finish()


def test_a_slow_command_of_redis_asks_for_the_snapshot_that_has_it(daemon, redis, scratch):
    """add attaches in overwrite mode by itself; a watcher hears of the snapshot, and its user's command gets it."""
    log = os.path.join(scratch, "log")
    watch = daemon.watch(str(redis.pid), "--on-snapshot", f'echo "$DYNTRACE_SNAPSHOT,$DYNTRACE_SNAPSHOT_WHY,$DYNTRACE_PID" > {log}.new && mv {log}.new {log}')
    daemon.add(f"{redis.pid}:evalCommand", "-e", "--snapshot-when", "duration > 700ms", "--snapshot-every", "1000s")
    for number in range(10):  # (a busy machine may take a processor from redis in one of these, for a while)
        redis.cli("eval", "return 1", 0)
    started = time.time_ns()
    redis.cli("eval", "local t = redis.call('time'); local s = t[1] * 1000000 + t[2]; while true do t = redis.call('time'); "
              "if t[1] * 1000000 + t[2] - s > 800000 then return 1 end end", 0)
    notice = watch.until("snapshot")[-1]
    path = daemon.trace_of(redis.pid)
    assert (notice["detail"], notice["trace"], notice["pid"]) == ("1 trigger", f"{path}.snapshot-1", redis.pid)
    until(lambda: os.path.exists(log), "the command")
    assert open(log).read() == f"{path}.snapshot-1,1 trigger,{redis.pid}\n"
    slow = [one for one in Trace(f"{path}.snapshot-1").named("evalCommand_exit") if one.fields["duration"] > 700e6]
    assert len(slow) == 1 and slow[0].ns > started
    assert counts(f"{path}.snapshot-1") == {"evalCommand_entry": 11, "evalCommand_exit": 11}
    assert [one["name"] for one in daemon.json("list-tracepoints", redis.pid)] == ["evalCommand", "evalCommand-2"]
    daemon("rm", f"{redis.pid}:evalCommand")  # and its trigger
    assert daemon.json("list-tracepoints", redis.pid) == []
    daemon("detach", redis.pid)


def test_many_triggers_make_one_snapshot_and_old_ones_give_way(daemon, spin):
    """(O11) At most one in --snapshot-every, each tells the hits since the one before; --max-files keeps the last."""
    one = spin()
    watch = daemon.watch(str(one.pid))
    daemon("attach", one.pid, "--mode", "overwrite", "--max-files", 2)
    daemon.add(f"{one.pid}:foo", "-f", "--snapshot-when", "number == 1 || number == 2", "--snapshot-every", "1ms")
    asked, told, paths = daemon("snapshot", one.pid).stdout.rstrip("\n"), 0, []
    assert watch.until("snapshot")[-1]["trace"] == asked
    for number in range(4):
        one.round()
        while told < 2 * (number + 1):
            notice = watch.until("snapshot")[-1]
            told += int(re.fullmatch(r"(\d+) triggers?", notice["detail"])[1])
            paths.append(notice["trace"])
    assert told == 8
    until(lambda: not os.path.exists(paths[-3]), "the oldest to go")
    assert [os.path.exists(path) for path in paths] == [False] * (len(paths) - 2) + [True, True]
    assert os.path.exists(asked)  # it is the user's
    for path in paths[-2:]:
        assert Trace(path).lost == 0
    # (the last one may have been taken before its round was over)
    assert 3 * CALLS + 2 <= counts(paths[-1])["foo_entry"] <= 4 * CALLS
    daemon("disable", f"{one.pid}:foo")
    assert [each["state"] for each in daemon.json("list-tracepoints", one.pid)] == ["disabled", "disabled"]
    daemon("detach", one.pid)
    one.finish()


def test_the_moments_before_a_crash_are_kept_and_told(daemon, spin):
    number, name = signal.SIGSEGV, "SEGV"
    one = spin()
    watch = daemon.watch(str(one.pid))
    daemon("attach", one.pid, "--mode", "overwrite")
    daemon.add(f"{one.pid}:foo")
    one.round()
    path = daemon.trace_of(one.pid)
    os.kill(one.pid, number)
    seen = watch.until("exited")
    snapshot, = [each for each in seen if each["event"] == "snapshot"]
    assert (snapshot["detail"], snapshot["trace"]) == (f"killed by SIG{name}", path)
    assert seen[-1]["detail"].startswith(f"killed by SIG{name}")
    assert counts(path) == {"foo": CALLS}


def test_snapshot_last(daemon, spin):
    """Only the events of the time before the command; which ones, the whole trace's times say (the clock's estimate changes
    by nanoseconds)."""
    one = spin()
    daemon("attach", one.pid, "--mode", "overwrite")
    daemon.add(f"{one.pid}:foo", "-f")
    one.round()
    middle = time.time()
    until(lambda: time.time() > middle + 0.5, "half a second")
    one.round()
    before = time.time()
    last = before - middle
    path = daemon("snapshot", "--last", f"{last:.6f}", one.pid).stdout.rstrip("\n")
    after = time.time()
    some, whole = Trace(path).events, daemon.finish(one.pid).events
    assert [event.fields["number"] for event in whole] == 2 * list(range(CALLS))
    slack = 0.05
    assert [event.fields["number"] for event in some] == list(range(CALLS))[CALLS - len(some):]  # none of the first round
    assert not some or some[0].ns >= (before - last - slack) * 1e9
    assert len(some) >= sum(1 for event in whole if event.ns >= (after - last + slack) * 1e9)
    one.finish()


def test_mode_and_triggers_survive_the_daemon_and_the_worker(daemon, spin):
    one = spin()
    daemon("attach", one.pid, "--mode", "overwrite", "--buffer-size", "2M")
    daemon.add(f"{one.pid}:foo", "-f", "--snapshot-when", "number == 7", "--snapshot-every", "1ms")
    path = daemon.trace_of(one.pid)
    one.round()
    until(lambda: os.path.exists(f"{path}.snapshot-1/metadata"), "the first snapshot")
    daemon.kill()
    daemon.start()
    one.round()
    until(lambda: os.path.exists(f"{path}.snapshot-2/metadata"), "the second snapshot")
    worker, = daemon.workers(one.pid)
    os.kill(worker, signal.SIGKILL)
    until(lambda: daemon.log_text().count("(spin): settled") == 2, "another worker")
    watch = daemon.watch(str(one.pid))
    one.round()
    notice = watch.until("snapshot")[-1]
    assert notice["detail"] == "1 trigger"
    assert notice["trace"].startswith(f"{path}.snapshot-") and notice["trace"] not in (f"{path}.snapshot-1", f"{path}.snapshot-2")
    assert counts(notice["trace"])["foo_entry"] >= 8
    assert counts(f"{path}.snapshot-1")["foo_entry"] >= 8
    daemon("detach", one.pid)
    one.finish()


def test_a_member_gets_no_larger_buffer_and_blocks_no_other_users_threads(shared, spin):  # noqa: F811
    """(D14)"""
    one = spin()
    assert shared.fails("attach", one.pid, "--buffer-size", "65M", user=MEMBER) == \
        "--buffer-size: at most the daemon's 64 M (only root has more)"
    assert shared.fails("attach", one.pid, "--mode", "block", user=MEMBER) == \
        f"process {one.pid} (spin) isn't yours: only root makes other users' threads wait (--mode block)"
    shared.targets.add(str(one.pid))
    shared("attach", one.pid, "--mode", "overwrite", "--buffer-size", "1M", user=MEMBER)
    shared("detach", one.pid)


def test_a_member_gets_no_larger_budget(new_daemon, place, spin):
    """(D14) The daemon's is the default; a smaller one may be chosen."""
    daemon, one = new_daemon("--group", GROUP, "--overhead", "2%"), spin()
    daemon.build = place
    daemon.start()
    assert daemon.fails("attach", one.pid, "--overhead", "3%", user=MEMBER) == \
        "--overhead: at most the daemon's 2% (only root has more)"
    daemon.targets.add(str(one.pid))
    daemon("attach", one.pid, "--overhead", "1%", user=MEMBER)
    daemon("detach", one.pid)
    daemon("attach", one.pid, "--overhead", "3%")
    daemon("detach", one.pid)


@pytest.mark.parametrize("words, why", [
    (["--snapshot-every", "1s"], "--snapshot-every: needs --snapshot-when EXPR"),
    (["--snapshot-when", "1", "--mode", "block"], "--snapshot-when: not with --mode block"),
    (["--snapshot-when", "1", "count"], "--snapshot-when: not with tracer 'count' (only with ctf)"),
])
def test_what_makes_no_sense_is_refused(dyntrace, words, why):
    assert dyntrace.fails("add", "spin:foo", *words, status=2) == f"add: {why}"


def test_a_bad_expression_leaves_nothing(daemon, spin):
    one = spin()
    daemon("attach", one.pid, "--mode", "overwrite")
    said = daemon("add", f"{one.pid}:foo", "-f", "--snapshot-when", "nowhere > 1", status=2).stderr
    assert "foo: --snapshot-when: unknown variable 'nowhere'" in said
    assert daemon.json("list-tracepoints", one.pid) == []
    daemon("detach", one.pid)
    one.finish()
