"""The flight recorder of `trace`: snapshots that a hit asks for (--snapshot-when), the last events of a target that was
killed, and the user's command for them (--on-snapshot)."""
import os
import re
import signal

import pytest
from daemon_harness import alive
from harness import Trace, await_sleeps, until

CALLS = 1000
LOOKS = 10  # how often the controller sleeps and wakes


def commands_of(pid):
    """The children that a process has, and that haven't ended."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [child for child in file.read().split() if alive(child)]


def stop(running):
    running.process.send_signal(signal.SIGINT)
    _, errors = running.process.communicate(timeout=60)
    assert running.process.returncode == 0, errors
    return errors


@pytest.mark.parametrize("words, when, event", [
    ([], "number == 700", "foo_entry"),
    (["-e"], "ret == 700 + 700000 + 8", "foo_exit"),
    (["-e", "--filter", "number % 2 == 0"], "factor == 700000", "foo_exit"),
])
def test_a_hit_asks_for_the_snapshot_that_has_it_and_all_before(dyntrace, spin, words, when, event):
    one = spin()
    running = dyntrace.start_trace(one.pid, "--function", "foo", *words, "--snapshot-when", when)
    one.round()
    snapshot = f"{running.output}.snapshot-1"
    line = [running.process.stderr.readline() for _ in range(2)][1]
    assert re.fullmatch(rf"dyntrace: snapshot: \d+ events? in {snapshot}: 1 trigger\n", line), line
    trace = Trace(snapshot)
    assert [one.fields["ret"] for one in trace.named("foo_exit")].count(700708) == (event == "foo_exit")
    step = 2 if "--filter" in words else 1
    assert [one.fields["number"] for one in trace.named("foo_entry")][:700 // step + 1] == list(range(0, 701, step))
    errors = stop(running)
    assert "without a snapshot" not in errors and "foo-2" not in errors
    one.finish()


def test_thousands_of_triggers_make_one_snapshot_and_a_count(dyntrace, spin):
    """(O11) Each hit asks: the first few are in the snapshot's line, the rest in the last one."""
    one = spin()
    running = dyntrace.start_trace(one.pid, "--function", "foo", "--snapshot-when", "number >= 0", "--snapshot-every", "1000s")
    for _ in range(5):
        one.round()
    until(lambda: os.path.exists(f"{running.output}.snapshot-1/metadata"), "the snapshot")
    for _ in range(5):
        one.round()
    await_sleeps(running.process, LOOKS)  # it has looked at the triggers
    errors = stop(running)
    first = re.search(r"^dyntrace: snapshot: \d+ events? in \S+: (\d+) triggers?$", errors, re.M)
    last = re.search(r"^dyntrace: (\d+) triggers? without a snapshot \(at most one per 1000 s: --snapshot-every\)$", errors, re.M)
    assert int(first[1]) + (int(last[1]) if last else 0) == 10 * CALLS
    assert errors.count("snapshot:") == 1 and not os.path.exists(f"{running.output}.snapshot-2")
    assert Trace(running.output).names() == {"foo_entry": 10 * CALLS}
    one.finish()


def test_a_trigger_just_before_the_end_has_the_trace_as_its_snapshot(dyntrace, program_path, scratch):
    log, output = os.path.join(scratch, "log"), dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "foo", "--snapshot-when", "number == 5",
                      "--on-snapshot", f'echo "$DYNTRACE_SNAPSHOT_WHY" > {log}.new && mv {log}.new {log}', "--",
                      program_path("spin"), "--calls", 10)
    until(lambda: os.path.exists(log), "the command")
    assert open(log).read() == "1 trigger\n"
    assert f"dyntrace: 1 trigger at the end: the last events are in {output}\n" in result.stderr \
        or f" events in {output}.snapshot-1: 1 trigger\n" in result.stderr
    assert Trace(output).names() == {"foo_entry": 10}


def test_the_last_snapshots_are_kept_and_each_runs_the_command(dyntrace, spin, scratch):
    log = os.path.join(scratch, "log")
    one = spin()
    running = dyntrace.start_trace(one.pid, "--function", "foo", "--snapshot-when", "number == 1", "--snapshot-every", "1ms", "--max-files", 2,
                                   "--on-snapshot", f'echo "$DYNTRACE_SNAPSHOT $DYNTRACE_SNAPSHOT_WHY $DYNTRACE_PID" >> {log}')
    names = [f"{running.output}.snapshot-{number}" for number in range(1, 5)]
    for number in range(4):
        one.round()
        expected = "".join(f"{name} 1 trigger {one.pid}\n" for name in names[:number + 1])
        until(lambda: os.path.exists(log) and open(log).read() == expected, "the command")
        until(lambda: not commands_of(running.process.pid), "the command's end")  # while it runs it isn't started again
    assert [os.path.exists(name) for name in names] == [False, False, True, True]
    for name in names[2:]:
        assert Trace(name).lost == 0
    stop(running)
    one.finish()


@pytest.mark.parametrize("name, number", [("ABRT", 6), ("SEGV", 11)])
def test_a_killed_target_leaves_its_last_events_and_runs_the_command(dyntrace, scratch, name, number):
    """A launched command that a signal ends: the trace has all up to the last call."""
    log, output = os.path.join(scratch, "log"), dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "kill@libc.so.6", "--mode", "overwrite",
                      "--on-snapshot", f'echo "$DYNTRACE_SNAPSHOT $DYNTRACE_SNAPSHOT_WHY" > {log}.new && mv {log}.new {log}',
                      "--", "sh", "-c", f"kill -0 $$; kill -{name} $$", status=128 + number)
    assert f"dyntrace: sh was killed by SIG{name}: its last events are in {output}\n" in result.stderr
    until(lambda: os.path.exists(log), "the command")
    assert open(log).read() == f"{output} killed by SIG{name}\n"
    assert [event.fields["sig"] if "sig" in event.fields else event.fields["arg1"] for event in Trace(output).events] == [0, number]


@pytest.mark.parametrize("name", ["ABRT", "SEGV"])
def test_the_moments_before_a_crash_of_a_process_that_ran_already(dyntrace, spin, scratch, name):
    """With -p nobody waits for the process but its parent, which hasn't yet."""
    log = os.path.join(scratch, "log")
    one = spin()
    running = dyntrace.start_trace(one.pid, "--function", "foo", "--mode", "overwrite", "--on-snapshot",
                                   f'echo "$DYNTRACE_SNAPSHOT,$DYNTRACE_SNAPSHOT_WHY" > {log}.new && mv {log}.new {log}')
    one.round()
    os.kill(one.pid, getattr(signal, f"SIG{name}"))
    _, errors = running.process.communicate(timeout=60)
    assert f"dyntrace: spin was killed by SIG{name}: its last events are in {running.output}\n" in errors
    until(lambda: os.path.exists(log), "the command")
    assert open(log).read() == f"{running.output},killed by SIG{name}\n"
    assert [event.fields["number"] for event in Trace(running.output).events] == list(range(CALLS))


@pytest.mark.parametrize("words, why", [
    (["--snapshot-every", "1s"], "--snapshot-every: needs --snapshot-when EXPR"),
    (["--on-snapshot", "true"], "--on-snapshot: needs --snapshot-when EXPR or --mode overwrite"),
    (["--snapshot-when", "1", "--tracer", "count"], "--snapshot-when: not with tracer 'count' (only with ctf)"),
    (["--snapshot-when", "1", "--mode", "block"], "--snapshot-when: not with --mode block"),
    (["--snapshot-when", "1", "--follow-exec"], "--snapshot-when: not with --follow-exec"),
    (["--snapshot-when", "1", "--max-size", "1M"], "--max-size: not with --mode overwrite, whose trace --buffer-size bounds"),
])
def test_what_makes_no_sense_is_refused(dyntrace, words, why):
    assert dyntrace.fails("trace", *words, "--function", "main", "--", "true", status=2) == f"trace: {why}"
