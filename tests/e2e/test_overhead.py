"""--overhead: what costs most and tells least is counted instead of recorded, or off, and comes back when the load falls.
Nothing is lost without a word: hits are events, or counted, or the time without a count is known (U11 to U13)."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness import Trace, await_sleeps, until

# Readings of the clock per call: a call that is recorded with a backtrace costs about 20% of that, as dyntrace estimates it, a counted
# one 0.3 to 0.4%. The budget lies far from both, since estimates follow what else the machine does: what is counted is lowered to 0.65
# of the budget. So no noise leads to `off`, where hits aren't known by number.
READINGS = ["--readings", 140]
BUDGET = ["--overhead", "3%"]
COSTLY = ["-t", "backtrace"]
# Calls that the tracer count times: 1.2% of that, and 2.8% if a filter is asked.
TIMED_BUDGET = ["--overhead", "0.8%"]
STEP = "dyntrace:overhead"
LEVELS = ["recorded", "counted", "off"]
LOOKS = 10
WHAT = ["--function", "often", "--function", "seldom"]


def labels(directory):
    """The names of an enumeration's values, which babeltrace2 gives as numbers: {id: name}."""
    with open(os.path.join(directory, "metadata")) as file:
        return {int(value): name for name, value in re.findall(r'"([^"]+)" = (\d+), ', file.read().partition(STEP)[2])
                if name not in LEVELS}


def steps(trace, directory):
    """The levels of each tracepoint, in order: {name: [level]}."""
    found, names = {}, labels(directory)
    for event in trace.events:
        if event.name == STEP:
            found.setdefault(names[event.fields["tracepoint"]], []).append(LEVELS[event.fields["level"]])
    return found


def is_demoted(directory):
    """Does the trace tell of a step of `often` by now? The metadata has the names, before the first of these events."""
    with open(os.path.join(directory, "metadata")) as file:
        return '"often" = ' in file.read()


def is_stepping(directory):
    """Does the trace tell of any step by now?"""
    with open(os.path.join(directory, "metadata")) as file:
        return STEP in file.read()


def last_write(directory):
    return max((os.stat(os.path.join(directory, name)).st_mtime_ns for name in os.listdir(directory) if name.startswith("stream")),
               default=0)


def often_is(directory, level):
    """A condition to wait for: the trace tells that `often` is at this level now. It is readable at every moment."""
    seen = [0]

    def is_so():
        before, seen[0] = seen[0], last_write(directory)
        return seen[0] != before and is_demoted(directory) and \
            steps(Trace(directory), directory).get("often", [])[-1:] == [level]
    return is_so


def row(text, name):
    """A function of the summary, or of the report, as JSON."""
    return next(one for one in json.loads(text[text.index("{"):])["functions"] if one["name"] == name)


def end(tracing):
    """Waits until dyntrace has ended after its target; gives the summary."""
    summary = tracing.process.communicate(timeout=30)[1]
    assert tracing.process.returncode == 0, summary
    return summary


def names(trace, name):
    return sum(event.name == name for event in trace.events)


def test_counted_and_back(dyntrace, program, scratch):
    """A function that costs too much is counted, exactly, and recorded again in an idle program; a rare one always is."""
    burst = program("burst", *READINGS).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, *BUDGET, "-e", "--json", *WHAT, *COSTLY)
    burst.go()
    until(lambda: is_demoted(tracing.output), "often to be counted")
    burst.go().wait_ready()
    until(often_is(tracing.output, "recorded"), "often to be recorded again")
    often, seldom = map(int, burst.finish().split())
    summary = end(tracing)
    trace = Trace(tracing.output)
    assert trace.lost == 0 and "seldom" not in steps(trace, tracing.output)
    assert names(trace, "seldom_entry") == names(trace, "seldom_exit") == seldom
    one = row(summary, "often")
    recorded = names(trace, "often_entry")
    assert recorded == names(trace, "often_exit") == one["calls"]  # U13
    assert one["off_ns"] == 0 and recorded + one["counted"] == one["hits"] == often  # U12
    assert 0 < recorded < often
    levels = steps(trace, tracing.output)["often"]
    assert levels[:1] == ["counted"] and levels[-1] == "recorded"
    table = dyntrace("report", tracing.output).stdout
    assert f"(+ {one['counted']} calls counted, not recorded, of often)" in table
    assert row(dyntrace("report", "--json", tracing.output).stdout, "often")["hits"] == often
    tree = dyntrace("view", "--tree", tracing.output).stdout
    assert "calls counted)" in tree
    assert len(re.findall(r"often\(.*\) = ", tree)) > 10 * len(re.findall(r"often\(.*\) {", tree))  # those at the ends of packets
    assert {event.tid for event in trace.named("dyntrace:overhead")} == {0}


def test_durations_go_before_counts(dyntrace, program):
    """The tracer count has durations, until they cost too much; hits stay exact, as long as they are counted."""
    burst = program("burst", *READINGS).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, *TIMED_BUDGET, "-e", "--json", *WHAT, "--tracer", "count")
    burst.go()
    # there is no trace that tells: this CPU time has several looks, if dyntrace has a processor, too
    until(lambda: cpu_seconds(burst.pid) > 0.4, "some work")
    await_looks(tracing.process)
    burst.go().wait_ready()
    often, seldom = map(int, burst.finish().split())
    summary = end(tracing)
    one = row(summary, "often")
    # to count takes a third of what the times take: where others have the processors, an estimate may be as far off
    assert one["hits"] < often if one["off_ns"] else one["hits"] == often
    assert (one["counted"] or one["off_ns"]) and one["calls"] == one["hits"] - one["counted"] < often
    assert row(summary, "seldom")["calls"] == seldom


def await_looks(controller):
    """Waits until the controller has looked at the costs some times: it sleeps for 50 ms at most, and looks as often."""
    await_sleeps(controller, LOOKS)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        words = file.read().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def test_off(dyntrace, program):
    """Where even counting costs too much, the function is off, and out of the code; that is said everywhere."""
    burst = program("burst", *READINGS).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, "--overhead", "0.03%", "-e", "--json", *WHAT)
    burst.go()
    until(often_is(tracing.output, "off"), "often to be off")
    burst.go().wait_ready()
    often, seldom = map(int, burst.finish().split())
    summary = end(tracing)
    one = row(summary, "often")
    told = row(dyntrace("report", "--json", tracing.output).stdout, "often")
    assert one["off_ns"] > 0 and one["hits"] == told["calls"] + one["counted"] == told["hits"] < often
    assert told["off_ns"] == one["off_ns"] and told["counted"] == one["counted"]
    assert "aren't known" in dyntrace("report", tracing.output).stdout


def test_filter(dyntrace, program):
    """What a filter leaves out is counted before it is asked. A filter that is too expensive is not asked any more."""
    burst = program("burst", *READINGS).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, *BUDGET, "-e", "--json", *WHAT, *COSTLY, "--filter", "arg0 != 1")
    burst.go()
    until(lambda: is_demoted(tracing.output), "often to be counted")
    burst.go().wait_ready()
    often, seldom = map(int, burst.finish().split())
    summary = end(tracing)
    one, trace = row(summary, "often"), Trace(tracing.output)
    assert one["judged"] + one["counted"] == often and 0 < one["counted"] < often and one["off_ns"] == 0  # U12
    assert names(trace, "often_entry") == names(trace, "often_exit") == one["hits"] == one["calls"] == one["judged"]
    assert names(trace, "seldom_entry") == 0 and '"seldom"' not in summary


def test_limit(dyntrace, program):
    """Where few hits are recorded, all fit into the budget, and are known by number."""
    burst = program("burst", *READINGS).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, *BUDGET, "-e", "--json", *WHAT, "--every", "100")
    burst.go()
    until(lambda: cpu_seconds(burst.pid) > 0.2, "some work")
    burst.go().wait_ready()
    often, seldom = map(int, burst.finish().split())
    summary = end(tracing)
    one, trace = row(summary, "often"), Trace(tracing.output)
    assert one["judged"] == often and one["counted"] == one["off_ns"] == 0 and not steps(trace, tracing.output)
    assert names(trace, "often_entry") == one["hits"] == -(-often // 100)


def test_a_large_budget_changes_nothing(dyntrace, program):
    """What fits is recorded whole."""
    burst = program("burst", "--readings", 400).wait_ready()
    tracing = dyntrace.start_trace(burst.pid, "--overhead", "50%", "-e", *WHAT)
    burst.go()
    until(lambda: cpu_seconds(burst.pid) > 0.1, "some work")
    burst.go().wait_ready()
    often, _ = map(int, burst.finish().split())
    summary = end(tracing)
    trace = Trace(tracing.output)
    assert not steps(trace, tracing.output) and names(trace, "often_entry") == names(trace, "often_exit") == often
    assert "overhead: at least" in summary and "counted" not in summary  # no level has changed


def test_top(dyntrace, program):
    """The screen says what is left of the budget, and what has no durations any more."""
    burst = program("burst", *READINGS).wait_ready()
    watching = dyntrace.processes.start([dyntrace.path, "top", burst.pid, *TIMED_BUDGET, "--each", "100ms", *WHAT],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    burst.go()
    lines = iter(watching.stdout.readline, "")
    assert any(re.search(r" often \(counted\)$", line) for line in lines)
    assert any(re.search(r"/s, overhead \d+\.\d%$", line) for line in lines)
    watching.send_signal(signal.SIGINT)
    watching.communicate(timeout=30)
    burst.go().wait_ready().finish()


def test_redis(dyntrace, redis):
    """Many functions of a real server under load: the trace is right, and nothing is missing without a word."""
    before = redis.commands_processed()
    tracing = dyntrace.start_trace(redis.pid, "--overhead", "1%", "-e", "--json", "--all-rows",
                                   *(word for glob in ("dict*", "sds*", "*Command*") for word in ("--function", f"{glob}@redis-check-rdb")))
    until(lambda: redis.benchmark(1000) or is_stepping(tracing.output), "a step")
    after = redis.commands_processed()
    trace = tracing.stop()
    summary = json.loads(tracing.stderr[tracing.stderr.index("{"):])
    tracing.before.assert_unchanged(busy=True)
    assert trace.lost == summary["lost"] == 0
    told = steps(trace, tracing.output)
    events = {}
    for event in trace.events:
        events[event.name] = events.get(event.name, 0) + 1
    rows = {one["name"]: one for one in summary["functions"]}
    assert all(one["hits"] == events.get(name + "_entry", 0) + one["counted"] for name, one in rows.items())
    demoted = {name for name, one in rows.items() if one["counted"] or one["off_ns"]}
    assert demoted and demoted <= set(told)
    commands = rows["processCommand"]
    if not commands["off_ns"]:
        assert commands["hits"] == after - before  # the last question is one of them, the first is not


def test_daemon(new_daemon, program):
    """dyntraced --overhead is a budget for each process."""
    daemon = new_daemon(*BUDGET).start()
    burst = program("burst", *READINGS).wait_ready()
    daemon.add(f"{burst.pid}:often", "-e", *COSTLY, "ctf")
    burst.go()

    def often():
        return daemon.json("list-tracepoints", burst.pid)[0]
    until(lambda: often().get("level") == "counted", "often to be counted")
    assert "counted now (--overhead)" in daemon("list-tracepoints", burst.pid, "-a").stdout
    burst.go().wait_ready()
    until(lambda: often()["level"] == "recorded", "often to be recorded again")
    assert often()["counted"] > 0 and often()["cost_ns"] > 0 and often()["off_ns"] == 0
    daemon("detach", burst.pid)
    burst.finish()


def test_attach(new_daemon, program):
    """A process of the daemon has a budget of its own; status tells what it takes, and its reader."""
    daemon = new_daemon().start()
    burst, other = program("burst", *READINGS).wait_ready(), program("burst", *READINGS).wait_ready()
    daemon("attach", *BUDGET, burst.pid)
    daemon.add(f"{burst.pid}:often", "-e", *COSTLY, "ctf")
    daemon.add(f"{other.pid}:often", "count")
    burst.go()
    other.go()

    def level(target):
        return daemon.json("list-tracepoints", target.pid)[0].get("level")
    until(lambda: level(burst) == "counted", "often to be counted")
    assert level(other) is None
    costs = {one["pid"]: one for one in daemon.json("status")["overhead"]}
    assert set(costs) == {burst.pid, other.pid} and all(one["program"] == "burst" for one in costs.values())
    assert all(one["cost_ns"] > 0 and one["reader_ns"] > 0 for one in costs.values())
    assert costs[other.pid]["cost_measured"] is False
    text = daemon("status").stdout
    assert re.search(rf"^(overhead:)? +(about|at least) .* of the CPU time of {burst.pid} \(burst\); its reader: ", text, re.M)
    assert re.search(rf"^(overhead:)? +at least .* of the CPU time of {other.pid} \(burst\); its reader: ", text, re.M)
    assert daemon.fails("attach", "--overhead", "7%", burst.pid, status=1) == (
        f"process {burst.pid} (burst) is attached already, with another --overhead ('dyntrace detach {burst.pid}' ends its trace)")
    assert daemon.fails("add", f"{other.pid}:seldom", "--overhead", "0%", status=2).startswith("add: --overhead: from 0.01% to 100%")
    for target in (burst, other):
        daemon("detach", target.pid)
        target.go().wait_ready().finish()
    assert daemon.fails("attach", "--overhead", "1%", "--mode", "overwrite", os.getpid(), status=2).startswith("attach: --overhead: not with --mode")


@pytest.mark.parametrize("words, why", [
    (["--overhead", "much"], "--overhead: 'much' is not a share (as in 5% or 0.5%)"),
    (["--overhead", "0%"], "--overhead: from 0.01% to 100%"),
    (["--overhead", "101"], "--overhead: from 0.01% to 100%"),
    (["--overhead", "5%", "--tracer", "log"], "--overhead: not with tracer 'log' (only with ctf and count)"),
    (["--overhead", "5%", "--mode", "overwrite"],
     "--overhead: not with --mode overwrite and --snapshot-when (hits are known at the end only)"),
    (["--overhead", "5%", "--tracer", "count", "--by", "ret"],
     "--overhead: not with --by and --of (a hit that is only counted has no key)"),
])
def test_refusals(dyntrace, program_path, words, why):
    assert dyntrace.fails("trace", *words, "-e", "--function", "foo", "--", program_path("hello"), status=2).startswith(
        f"trace: {why}")
