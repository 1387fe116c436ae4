"""Calls that are recorded at their exit: --min-duration, and filters that ask for the duration or the result. Nothing is
written of other calls, not even their entries."""
import os
import re
import signal
import subprocess

import pytest

from harness import Program, Trace, await_sleeps, maps, summary_rows, until

FUNCTIONS = ["work", "scale", "nested", "leaves", "jumps", "around", "rounds"]
WHAT = [word for name in FUNCTIONS for word in ("--function", name)]
WAITS = 8  # of the controller, 50 ms or longer: it looks at calls that are inside every 250 ms
PROCESSES = 5  # the first thread, three others and the child's run the same rounds


@pytest.fixture(scope="module")
def slow(build, tmp_path_factory):
    path = tmp_path_factory.mktemp("slow") / "slow"
    sources = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["g++", "-O1", "-g", "-pthread", "-I", sources, "-o", path, os.path.join(sources, "slow.cpp")], check=True)
    return str(path)


def calls_of(trace):
    """Per thread, in the order of the threads' first events: every event as (name, fields without times)."""
    threads = {}
    for event in trace.events:
        fields = {key: value for key, value in event.fields.items() if key != "duration" and "unused" not in key}
        threads.setdefault((event.pid, event.tid), []).append((event.name, fields))
    return threads


def returned(events):
    """The events without the entries of calls that never returned."""
    kept, stack = [], []
    for event in events:
        name, part = event[0].rsplit("_", 1)
        if part == "entry":
            stack.append(len(kept))
        else:
            while kept[stack[-1]][0] != name + "_entry":
                kept.pop(stack.pop())
            stack.pop()
        kept.append(event)
    for at in reversed(stack):
        kept.pop(at)
    return kept


def pairs_of(trace):
    """(entry, exit) of every call, by thread and nesting."""
    open_calls, pairs = {}, []
    for event in trace.events:
        stack = open_calls.setdefault(event.tid, [])
        if event.name.endswith("_entry"):
            stack.append(event)
        else:
            pairs.append((stack.pop(), event))
            assert pairs[-1][0].name[:-6] == event.name[:-5]
    return pairs


@pytest.mark.parametrize("condition", ["$duration >= 0", "$duration >= 0 && str(text) != \"none\""])
def test_all_calls_by_their_exits(dyntrace, slow, condition):
    """A filter that every exit passes gives the events of a full trace, in the same order: with recursion, exceptions,
    longjmp, threads and a forked child. Judged by the trampoline, and by the agent."""
    what = WHAT if "text" not in condition else ["--function", "work"]
    plain, full = dyntrace.trace("-e", *what, "--", slow)
    result, pairs = dyntrace.trace("-e", *what, "--filter", condition, "--", slow)
    assert result.stdout == plain.stdout and pairs.lost == full.lost == 0
    expected = sorted(map(repr, map(returned, calls_of(full).values())))
    # a look at the moment of a longjmp finds the call inside
    assert sorted(map(repr, map(returned, calls_of(pairs).values()))) == expected
    assert len(expected) == PROCESSES and len(pairs.events) > 1000 / len(FUNCTIONS)
    if what is WHAT:
        rows, before = summary_rows(result.stderr), summary_rows(plain.stderr)
        assert [rows[name]["unwound"] for name in FUNCTIONS] == [before[name]["unwound"] for name in FUNCTIONS]
        assert 0 < int(rows["leaves"]["unwound"]) <= PROCESSES * 14


def test_slow_calls_only(dyntrace, slow):
    """Calls with a nap are there, with their values; others only if they took as long as that, too."""
    _, trace = dyntrace.trace("-e", "--function", "work", "--min-duration", "8ms", "--", slow, "--nap", 16000)
    pairs = pairs_of(trace)
    for entry, leave in pairs:
        n = entry.fields["n"]
        assert leave.fields["duration"] >= 8_000_000
        assert leave.ns - entry.ns >= leave.fields["duration"] * 0.99
        assert entry.fields == {"n": n, "size": 100 * n, "text": f"text {n}"}
        assert leave.fields["ret"] == (-n if n % 7 == 0 else 100 * n + 1)
    napping = [entry.fields["n"] for entry, _ in pairs if entry.fields["n"] % 10 == 0]
    assert sorted(napping) == sorted([0, 10, 20, 30] * PROCESSES)


def test_nested_across_readings(dyntrace, slow):
    """An outer call is written after packets with the calls inside it: every reader shows them inside."""
    output = dyntrace.new_output()
    _, trace = dyntrace.trace("-e", "--function", "nested", "--function", "rounds", "--min-duration", "12ms", "--", slow,
                              "--nap", 25000, "--calls", 0, output=output)
    rounds = trace.named("rounds_entry")
    assert len(rounds) == PROCESSES
    assert len(trace.named("rounds_exit")) == PROCESSES
    pairs_of(trace)  # each exit is that of the innermost call
    depths = [event.fields["depth"] for event in trace.named("nested_entry")]
    assert sorted(depth for depth in depths if depth >= 3) == sorted(([3] * 8 + [4] * 4 + [5] * 2 + [6]) * PROCESSES)
    tree = [re.fullmatch(r".*% +\S+ \S+ +(\d+)  ( *)(\w+)", line).groups()
            for line in dyntrace("report", "--tree", output).stdout.splitlines()[1:]]
    assert tree[0] == (str(PROCESSES), "", "rounds") and tree[1] == (str(PROCESSES), "  ", "nested")
    assert [name for _, indent, name in tree if not indent] == ["rounds"]
    lines = dyntrace("view", "--tree", output).stdout.splitlines()
    opened = [line.split("|", 1)[1] for line in lines if "|" in line]
    assert sum("nested(depth = 6)" in line and line.startswith("   nested") for line in opened) == PROCESSES


@pytest.mark.parametrize("condition, numbers", [
    ("ret < 0", [n for n in range(1, 40) if n % 7 == 0]),
    ("ret < 0 && size > 2K", [21, 28, 35]),
    ("duration >= 0 && n == 12", [12]),
    ("$ret < 0 && str(text) == \"text 2*\"", [21, 28])])
def test_result_and_entry(dyntrace, slow, condition, numbers):
    """The condition mixes the result with the entry's values."""
    _, trace = dyntrace.trace("-e", "--function", "work", "--filter", condition, "--", slow)
    assert sorted(entry.fields["n"] for entry, _ in pairs_of(trace)) == sorted(numbers * PROCESSES)


def test_values_in_registers(dyntrace, slow):
    """Values that the trampoline keeps itself: doubles, and a limit that counts what passes the filter."""
    _, trace = dyntrace.trace("-e", "--function", "scale", "--filter", "ret > 100", "--first", 3, "--", slow)
    assert [(entry.fields, leave.fields["ret"]) for entry, leave in pairs_of(trace)] == [
        ({"x": n / 2, "n": n}, n * n / 2) for n in (15, 16, 17)]


def test_call_that_never_returns(dyntrace, slow, processes):
    """Its entry is written at the end, with its own time."""
    target = Program(processes, slow, ["--stay", 1]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "stays", "--min-duration", "1ms")
    target.go().wait_ready()
    trace = tracing.stop()
    assert [(event.name, event.fields["why"]) for event in trace.events] == [("stays_entry", "wait")]
    assert summary_rows(tracing.stderr)["stays"]["inside"] == "1"
    target.finish()


def await_look(controller):
    """Waits until the controller has looked at the calls that are inside."""
    await_sleeps(controller, WAITS)


LEFT = r"""
#include <setjmp.h>
#include <time.h>
static jmp_buf back;
__attribute__((noinline)) void leaves(int n) { longjmp(back, n); }
__attribute__((noinline)) int idles(void) { struct timespec time = { 0, 20000000 }; return nanosleep(&time, 0); }
int main(void)
{
	if (!setjmp(back))
		leaves(1);
	for (int i = 0; i < 35; i++)
		idles();
	return 0;
}
"""


def test_left_by_longjmp(dyntrace, tmp_path):
    """A call isn't inside any more when another call has its place on the stack."""
    path = str(tmp_path / "left")
    subprocess.run(["gcc", "-O1", "-g", "-x", "c", "-", "-o", path], input=LEFT, text=True, check=True)
    _, trace = dyntrace.trace("-e", "--function", "leaves", "--min-duration", "50ms", "--", path)
    assert trace.events == []


def test_killed_inside(dyntrace, slow, processes):
    """A call that was seen inside, and whose process is killed, is in the trace."""
    target = Program(processes, slow, ["--stay", 1]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "stays", "--min-duration", "1ms")
    target.go().wait_ready()
    await_look(tracing.process)
    os.kill(target.pid, signal.SIGKILL)
    tracing.process.communicate(timeout=30)
    assert [event.name for event in Trace(tracing.output).events] == ["stays_entry"]


OUTLIVED = r"""
#include "handshake.h"
__attribute__((noinline)) int stays(int argc, char **argv) { handshake(argc, argv); return argc; }
int main(int argc, char **argv)
{
	handshake(argc, argv);
	if (fork())
		return stays(argc, argv);
	for (int i = 0; i < 10; i++)
		close(i);
	for (;;)
		pause();
}
"""


def test_killed_inside_and_outlived(dyntrace, tmp_path, processes):
    """The same if a forked child lives on, and is left later: the child's end forgets no calls of its parent's."""
    path = str(tmp_path / "outlived")
    sources = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-I", sources, "-x", "c", "-", "-o", path], input=OUTLIVED, text=True, check=True)
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "stays", "--min-duration", "1ms")
    target.go().wait_ready()
    with open(f"/proc/{target.pid}/task/{target.pid}/children") as file:
        child = int(file.read())
    try:
        await_look(tracing.process)
        os.kill(target.pid, signal.SIGKILL)
        tracing.process.communicate(timeout=30)
        assert not [line for line in maps(child) if "memfd:dyntrace" in line]
    finally:
        os.kill(child, signal.SIGKILL)
    assert [event.name for event in Trace(tracing.output).events] == ["stays_entry"]


def test_returned_since_the_last_look(dyntrace, slow, processes):
    """A call that was seen inside, returns unwanted, and whose process ends at once, isn't said to be inside."""
    target = Program(processes, slow, ["--stay", 1]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "stays", "--min-duration", "1h")
    target.go().wait_ready()
    await_look(tracing.process)
    target.finish()
    _, told = tracing.process.communicate(timeout=30)
    assert "calls without an exit" not in told
    assert Trace(tracing.output).events == []


def test_usage(dyntrace, slow):
    assert "add -e" in dyntrace.fails("trace", "--function", "work", "--min-duration", "1ms", "--", slow, status=2)
    assert "not a time" in dyntrace.fails("trace", "-e", "--function", "work", "--min-duration", "1x", "--", slow, status=2)


def test_without_exits(dyntrace, slow):
    """Nothing tells how long a call took whose exit can't be traced: none is recorded."""
    result, trace = dyntrace.trace("-e", "--function", "*setjmp*@libc.so.6", "--function", "work", "--filter", "$duration >= 0", "--", slow)
    assert {event.name for event in trace.events} == {"work_entry", "work_exit"}
    assert "exit not traced: " in result.stderr


def test_daemon(daemon, processes, slow):
    target = Program(processes, slow, []).wait_ready()
    daemon.attach(target.pid)
    daemon.add(f"{target.pid}:work", "-e", "--min-duration", "1h")
    daemon.add(f"{target.pid}:around", "-e", "--filter", "ret < 0")
    daemon.add(f"{target.pid}:scale", "-e")
    filters = {one["name"]: one.get("filter") for one in daemon.json("list-tracepoints", "-a", target.pid)}
    assert filters["work"] == "$duration >= 3600s"
    path = daemon.trace_of(target.pid)
    target.finish()
    until(lambda: not daemon.json("list-processes"), "the daemon to see the end")
    assert Trace(path).names() == {"around_entry": 14 * PROCESSES, "around_exit": 14 * PROCESSES,
                                   "scale_entry": 40 * PROCESSES, "scale_exit": 40 * PROCESSES}
