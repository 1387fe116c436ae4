"""view --tree, and the parts of a trace that view can be asked for. The tree is made once more in Python, over bt2."""
import json
import os
import re
import subprocess

import handmade
import pytest

import own_reader
from handmade import Packet
from harness import Trace, on_a_terminal
from test_own_reader import CALLS, record
from test_report import SHORT_PACKETS, lose
from test_values import compile_program

UTC = {**os.environ, "TZ": "UTC"}


def duration(ns):
    """As people read it: three digits and a unit."""
    value, unit = float(ns), 0
    while value >= 999.5 and unit < 3:
        value, unit = value / 1000, unit + 1
    digits = 0 if unit == 0 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {['ns', 'us', 'ms', 's'][unit]}"


def value(field):
    return f'"{field}"' if isinstance(field, str) else str(field)


def tree_of(trace, process):
    """The tree of one thread whose events are in one packet."""
    events = trace.events
    lines, depth, at = [f"# {process} (pid {events[0].pid})"], 0, 0
    while at < len(events):
        event, after = events[at], events[at + 1] if at + 1 < len(events) else None
        name, kind = event.name.rsplit("_", 1)
        if kind == "entry":
            called = f"{name}({', '.join(f'{key} = {value(one)}' for key, one in event.fields.items())})"
            if after and after.name == f"{name}_exit":
                lines.append(f"{duration(after.fields['duration']):>10} [{event.tid}] | {'  ' * depth}{called} = {after.fields['ret']}")
                at += 2
                continue
            lines.append(f"{'':10} [{event.tid}] | {'  ' * depth}{called} {{")
            depth += 1
        else:
            depth -= 1
            lines.append(f"{duration(event.fields['duration']):>10} [{event.tid}] | {'  ' * depth}}} {name} = {event.fields['ret']}")
        at += 1
    return lines


@pytest.fixture(name="trace")
def one_trace(dyntrace, program_path):
    return record(dyntrace, "-e", *CALLS, "--", program_path("calls"), 5, 1)


def test_tree(dyntrace, trace):
    assert dyntrace("view", "--tree", trace).stdout.splitlines() == tree_of(Trace(trace), "calls")


def thread_lines(text, tid):
    return [line for line in text.splitlines() if f"[{tid}]" in line]


def test_threads(dyntrace, program_path):
    """Each thread's lines are a tree, whatever the others do; --tid gives one thread's, --pid all."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 100, 3)
    text = dyntrace("view", "--tree", trace).stdout
    tids = {event.tid for event in Trace(trace).events}
    pid = Trace(trace).events[0].pid
    assert len(tids) == 3 and text.count("# calls") == 1
    for tid in tids:
        lines = thread_lines(text, tid)
        assert dyntrace("view", "--tree", "--tid", tid, trace).stdout.splitlines() == [f"# calls (pid {pid})", *lines]
        depth = 0
        for line in lines:
            rest = line.split("| ", 1)[1]
            depth -= rest.lstrip().startswith("} ")
            assert len(rest) - len(rest.lstrip()) == depth * 2
            depth += rest.endswith(" {")
        assert depth == 0
    assert dyntrace("view", "--tree", "--pid", pid, trace).stdout == text
    assert dyntrace("view", "--tree", "--pid", pid + 1, trace).stdout == ""


def test_loss_cuts_calls(dyntrace, program_path):
    """Nobody knows which calls went on over a loss: none of them gets a duration by it."""
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 1500, 1)
    path = max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize)
    lose(path, 1, 77)
    lines = dyntrace("view", "--tree", trace).stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "[lost 77 events" in line)
    assert "| [lost 77 events" in lines[at] and "(its entry isn't in the trace)" in "".join(lines[at:at + 8])


def test_unwound(dyntrace, scratch):
    path = compile_program(scratch, "throws.cpp", "-O1", compiler="g++", name="throws")
    text = dyntrace("view", "--tree", record(dyntrace, "-e", "--function", "*@throws", "--", path, status=None)).stdout
    assert "(ended without an exit)" in text


def test_without_exits(dyntrace, program_path):
    """Entries alone aren't a tree: nothing is indented."""
    trace = record(dyntrace, "--function", "mid", "--probe", "leaf", "--", program_path("calls"), 2, 1)
    lines = [line.split("| ", 1)[1] for line in dyntrace("view", "--tree", trace).stdout.splitlines()[1:]]
    assert lines == ["mid(n = 0)", "leaf", "leaf", "leaf", "mid(n = 1)", "leaf", "leaf", "leaf", "leaf"]


def test_structs(dyntrace, scratch):
    """The first one of a trace as the others."""
    program, source = os.path.join(scratch, "points"), """
        struct point { int x, y; };
        __attribute__((noipa)) struct point move(struct point p, int by) { return (struct point){ p.x + by, p.y }; }
        int main(void) { return move(move((struct point){ 1, 2 }, 3), 4).x - 8; }"""
    subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-", "-o", program], input=source, text=True, check=True)
    lines = dyntrace("view", "--tree", record(dyntrace, "-e", "--function", "move", "--", program)).stdout.splitlines()[1:]
    assert [line.split("| ", 1)[1] for line in lines] == ["move(p = { x = 1, y = 2 }, by = 3) = { x = 4, y = 2 }",
                                                          "move(p = { x = 4, y = 2 }, by = 4) = { x = 8, y = 2 }"]


def test_backtraces_and_arguments(dyntrace, scratch, program_path):
    """One frame per line; arguments of programs without debug information only if asked for."""
    trace = record(dyntrace, "-e", "-t", "backtrace", "--function", "mid", "--", program_path("calls"), 1, 1)
    lines = dyntrace("view", "--tree", trace).stdout.splitlines()
    assert re.search(r"\| mid\(n = 0\) = \d+$", lines[1])
    assert re.search(r"\|     at mid\+0x\w+ \(calls.c:\d+\)$", lines[2]) and re.search(r"\|     at top_\+0x", lines[3])
    bare = os.path.join(scratch, "bare")
    subprocess.run(["strip", "-g", "-o", bare, program_path("calls")], check=True)
    trace = record(dyntrace, "-e", "--function", "mid", "--", bare, 1, 1)
    assert "| mid() = " in dyntrace("view", "--tree", trace).stdout
    assert "| mid(arg0 = 0x0) = " in dyntrace("view", "--tree", "--args", trace).stdout


def test_default_on_a_terminal(dyntrace, program_path):
    trace = record(dyntrace, "-e", "--function", "mid", "--", program_path("calls"), 2, 1)
    lines = dyntrace("view", trace).stdout
    assert on_a_terminal(dyntrace, trace, NO_COLOR="1").replace("\r\n", "\n") == dyntrace("view", "--tree", trace).stdout != lines
    assert on_a_terminal(dyntrace, "--lines", trace, NO_COLOR="1").replace("\r\n", "\n") == lines
    plain = record(dyntrace, "--function", "mid", "--", program_path("calls"), 2, 1)
    assert on_a_terminal(dyntrace, plain, NO_COLOR="1").replace("\r\n", "\n") == dyntrace("view", plain).stdout


# ---- parts of a trace --------------------------------------------------------------------------------

@pytest.fixture(name="both", params=["own", "foreign"])
def both_kinds(request, dyntrace, scratch, program_path):
    trace = record(dyntrace, *CALLS, "--mode", "block", "--", program_path("calls"), 40, 2)
    return trace if request.param == "own" else own_reader.foreign_copy(trace, os.path.join(scratch, "copy"))


def test_parts(dyntrace, both):
    """By both readers: threads, times in all forms, a number of lines."""
    events = [json.loads(line) for line in dyntrace("view", "--json", both, env=UTC).stdout.splitlines()]

    def shown(*words):
        return [json.loads(line) for line in dyntrace("view", "--json", both, *words, env=UTC).stdout.splitlines()]
    first, middle, later = events[0], events[len(events) // 3], events[len(events) // 2]
    clock = [one["time"].split("T")[1].rstrip("Z") for one in (middle, later)]
    part = [one for one in events if middle["ns"] <= one["ns"] <= later["ns"]]
    assert shown("--from", clock[0], "--to", clock[1]) == part
    assert shown("--from", middle["ns"], "--to", later["ns"]) == part
    assert shown("--tid", first["tid"]) == [one for one in events if one["tid"] == first["tid"]] != events
    assert shown("--pid", first["pid"]) == events and shown("--pid", 1) == []
    assert shown("-n", 7) == events[:7]
    assert shown("-n", 3, "--from", clock[0]) == [one for one in events if one["ns"] >= middle["ns"]][:3]
    assert shown("--around", clock[0]) == [one for one in events if one["ns"] >= middle["ns"] - 100_000][:50]
    assert shown("--from", "+0") == events and shown("--from", "+1000s") == []
    offsets = [one["ns"] - first["ns"] for one in (middle, later)]
    assert shown("--from", f"+{offsets[0]}ns", "--to", f"+{offsets[1] / 1000:.3f}us") == part
    assert shown("--from", "+0ms") == events and shown("--from", "+5m") == []


@pytest.mark.parametrize("words, why", [
    (["--tid", "x"], "--tid: 'x' is not a number"), (["-n", "-3"], "-n: '-3' is not a number"),
    (["--from", "noon"], "--from: 'noon' is not a time (09:03:30.118, or +1.5 and +200ms after the trace's begin)"),
    (["--to", "25:00:00"], "--to: '25:00:00' is not a time (09:03:30.118, or +1.5 and +200ms after the trace's begin)"),
    (["--around", "+1", "--to", "+2"], "give --around, or --from and --to"),
    (["--tree", "--json"], "give one of --tree, --lines and --json")])
def test_wrong_words(dyntrace, both, words, why):
    assert dyntrace.fails("view", both, *words, status=2) == "view: " + why


def test_tree_of_others(dyntrace, scratch):
    path = handmade.write(os.path.join(scratch, "trace"), [Packet(1, 2).add(0, 1)])
    assert dyntrace.fails("view", "--tree", path).startswith("--tree: this is not a whole trace of dyntrace's: ")
