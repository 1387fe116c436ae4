"""Functions of Go programs: entries by jumps, each call counted once however often its stack grows, arguments by Go's ABI."""
import os
import re
import subprocess

import pytest

from fixtures import ROOT
from harness import Trace
from test_return_addresses import FEW

CALLS = {"count": 8 * 300 * 2, "deep": 8 * sum(i % 100 + 1 for i in range(300)), "fail": 8 * 300}
OUTPUT = f"count {CALLS['count']} deep {CALLS['deep']} fail {CALLS['fail']} -2400\n"
FUNCTIONS = [word for name in CALLS for word in ("--function", f"main.{name}")]


@pytest.fixture(scope="module")
def goroutines(tmp_path_factory):
    """Paths of the program with and without debug information."""
    folder = tmp_path_factory.mktemp("go")
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"}
    source = os.path.join(ROOT, "tests", "programs", "goroutines.go")
    for name, options in (("full", []), ("bare", ["-ldflags=-w"])):
        subprocess.run(["go", "build", *options, "-o", folder / name, source], check=True, env=env)
    return {name: str(folder / name) for name in ("full", "bare")}


def said(result):
    """The program's own line, among those of dyntrace."""
    return next(line for line in result.stderr.splitlines(keepends=True) if line.startswith("count "))


@pytest.mark.parametrize("more", [[], ["--function", "*"]], ids=["few", "all"])
def test_counts(dyntrace, goroutines, more):
    """Each call is counted once: a function whose stack has no room, or whose goroutine is to yield, begins anew. With all
    functions that can be probed, the collector and the scheduler among them, the program does the same."""
    result = dyntrace("trace", "--tracer", "count", *(more or FUNCTIONS), "--all-rows", "--", goroutines["full"], seconds=120)
    assert said(result) == OUTPUT
    for name, calls in CALLS.items():
        assert re.search(rf"^ *{calls} .* main\.{name}$", result.stderr, re.M), (name, calls)


@pytest.mark.parametrize("words", [["runtime.morestack.abi0"], ["runtime.throw", "-t", "backtrace"]], ids=["morestack", "gathered"])
def test_room(dyntrace, goroutines, words):
    """Functions of the runtime without a check of their stack are left alone where a hit takes more than there may be."""
    error = dyntrace.fails("trace", "--function", *words, "--", goroutines["full"], status=125)
    assert f"{words[0]}': Go's runtime calls it where a stack may have no room left" in error


@pytest.mark.parametrize("other", ["--function", "--probe"])
def test_several_tracepoints(dyntrace, goroutines, other):
    """All tracepoints of a function share one check. One on the instruction counts each time that it runs."""
    result = dyntrace("trace", "--tracer", "count", "--function", "main.deep", other, "main.deep", "--", goroutines["full"])
    assert said(result) == OUTPUT
    once = [int(row[1]) == CALLS["deep"] for row in re.finditer(r"^ *(\d+) .* main\.deep(-2)?$", result.stderr, re.M)]
    assert once == [other == "--function"] * 2, result.stderr


def test_places(dyntrace, goroutines):
    """The check of the stack is the start of most functions: one jump takes its place."""
    result = dyntrace("coverage", goroutines["full"])
    words = next(line for line in result.stdout.splitlines() if "function entries" in line).split("|")
    total, jumps = int(words[3]), int(words[4])
    assert jumps > 0.6 * total


def test_arguments(dyntrace, goroutines):
    """By the debug information, and by the registers of Go's ABI without it."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "main.count", "--", goroutines["full"])
    assert said(result) == OUTPUT
    events = Trace(output).named("main.count_entry")
    assert sorted((event.fields["n"], event.fields["s"]) for event in events) == sorted(
        [(1, "x")] * 2400 + [(i, "text") for i in range(300)] * 8)
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "main.count", "--", goroutines["bare"])
    assert said(result) == OUTPUT
    events = Trace(output).named("main.count_entry")
    assert sorted((event.fields["arg0"], event.fields["arg2"]) for event in events) == sorted(
        [(1, 1)] * 2400 + [(i, 4) for i in range(300)] * 8)
    assert "arg8" in events[0].fields


def test_exits_are_refused(dyntrace, goroutines):
    error = dyntrace.fails("trace", "-e", "--function", "main.count", "--", goroutines["full"], status=125)
    assert "main.count: exit not traced: it is a Go function, whose stack moves" in error
    result = dyntrace("trace", "-o", dyntrace.new_output(), *FEW, "-e", "--function", "main.*", "--", goroutines["full"])
    assert said(result) == OUTPUT
