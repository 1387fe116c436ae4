"""Functions of Go programs: each call counted once however often its stack grows, exits at each `ret`, arguments by Go's ABI, names
of stripped programs."""
import os
import re
import shutil
import subprocess

import pytest

from fixtures import ROOT
from harness import Trace, compile_once

CALLS = {"count": 8 * 300 * 2, "deep": 8 * sum(i % 100 + 1 for i in range(300)), "fail": 8 * 300, "pick": 8 * 300}
OUTPUT = f"count {CALLS['count']} deep {CALLS['deep']} fail {CALLS['fail']} pick {CALLS['pick']} -2400\n"
WITH_EXITS = ["-e", "--function", "main.deep", "--function", "main.fail", "--function", "main.pick"]
FUNCTIONS = [word for name in CALLS for word in ("--function", f"main.{name}")]


@pytest.fixture(scope="module")
def goroutines(tmp_path_factory):
    """Paths of the program: with debug information, without, without symbols, and without section headers."""
    folder = tmp_path_factory.mktemp("go")
    env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"}
    source = os.path.join(ROOT, "tests", "programs", "goroutines.go")
    for name, options in (("full", []), ("bare", ["-ldflags=-w"]), ("stripped", ["-ldflags=-s"])):
        subprocess.run(["go", "build", *options, "-o", folder / name, source], check=True, env=env)
    headless = bytearray((folder / "stripped").read_bytes())
    headless[0x28:0x30] = bytes(8)  # e_shoff
    headless[0x3C:0x40] = bytes(4)  # e_shnum, e_shstrndx
    (folder / "headless").write_bytes(headless)
    (folder / "headless").chmod(0o755)
    return {name: str(folder / name) for name in ("full", "bare", "stripped", "headless")}


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
    assert f"{words[0]}': a goroutine's stack may have no room left there" in error


CHAIN = """package main

var sink int

//go:noinline
//go:nosplit
func last(s string) { sink += len(s) }

//go:noinline
//go:nosplit
func next(s string, n int) int {
	var room [SIZE]int
	room[n] = n
	last(s)
	return room[n/2] + checked(s, n)
}

//go:noinline
func checked(s string, n int) int {
	if n > 100 {
		return checked(s, n-1) + 1
	}
	return 0
}

//go:noinline
func first(s string) int { return next(s, 8) + next(s, 4) }

func main() { println(first("text")) }
"""


@pytest.mark.parametrize("size, gathered, counted", [(16, True, True), (32, False, True), (64, False, False)])
def test_room_of_a_chain(dyntrace, tmp_path, size, gathered, counted):
    """H4: functions without a check of their stack that call one another leave less of it to the last one."""
    (tmp_path / "chain.go").write_text(CHAIN.replace("SIZE", str(size)))
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off"}
    subprocess.run(["go", "build", "-o", tmp_path / "chain", tmp_path / "chain.go"], check=True, env=env)
    output = ["-o", dyntrace.new_output()]
    for name, words, fits in (("main.next", output, True), ("main.last", output, gathered),
                              ("main.last", [*output, "--probe", "main.last"], gathered),  # beside one that gathers nothing
                              ("main.last", ["--tracer", "count"], counted),
                              ("main.checked", output, True), ("main.checked", [*output, "--probe", "main.checked+0x4"], False),
                              ("main.first", [*output, "-t", "backtrace", "--probe", "main.checked"], gathered)):
        command = ["trace", *words, "--function", name, "--", str(tmp_path / "chain")]
        shutil.rmtree(output[1], ignore_errors=True)
        if fits:
            assert dyntrace(*command).stderr.startswith("0\n")
        else:
            assert re.match(r"cannot probe 'main\.\w+(-2|\+0x4)?': a goroutine's stack may have no room left there",
                            dyntrace.fails(*command, status=125))


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


def pairs(trace, name):
    """Numbers of the function's entries and exits."""
    return len(trace.named(f"{name}_entry")), len(trace.named(f"{name}_exit"))


def test_exits(dyntrace, goroutines):
    """R11: each call has its exit, although its stack moves, its goroutine changes threads, and a panic ends calls inside it."""
    result = dyntrace("trace", "--tracer", "count", *WITH_EXITS, "--", goroutines["full"])
    assert said(result) == OUTPUT
    rows = {row[2]: int(row[1]) for row in re.finditer(r"^ *(\d+) .* main\.(\w+)$", result.stderr, re.M)}  # calls that returned
    assert rows == {name: CALLS[name] for name in ("deep", "fail", "pick")} and "without an exit" not in result.stderr
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "-e", "--function", "main.fail", "--", goroutines["full"])
    assert said(result) == OUTPUT and " 0 lost" in result.stderr
    trace = Trace(output)
    assert pairs(trace, "main.fail") == (CALLS["fail"], CALLS["fail"])
    assert all(event.fields["duration"] for event in trace.named("main.fail_exit"))


def test_exits_of_all(dyntrace, goroutines):
    """With all functions, those of the collector and the scheduler among them, the program does the same."""
    result = dyntrace("trace", "--tracer", "count", "-e", "--function", "*", "--all-rows", "--", goroutines["full"], seconds=120)
    assert said(result) == OUTPUT
    for name, calls in CALLS.items():
        assert re.search(rf"^ *{calls} .* main\.{name}$", result.stderr, re.M), (name, calls)


CALLBACK = """package main

// void call_from_thread(void);
import "C"

var calls int

//export callback
func callback() { calls++ }

func main() {
	for i := 0; i < 20; i++ {
		C.call_from_thread()
	}
	println("calls", calls)
}
"""
THREAD = """#include <pthread.h>
#include "_cgo_export.h"

static void *run(void *unused)
{
	callback();
	return unused;
}

void call_from_thread(void)
{
	pthread_t thread;

	if (!pthread_create(&thread, 0, run, 0))
		pthread_join(thread, 0);
}
"""


def test_exit_without_a_goroutine(dyntrace, tmp_path):
    """R11: a thread of C's that has called Go gives its goroutine away before the end of the function that does so."""
    (tmp_path / "callback.go").write_text(CALLBACK)
    (tmp_path / "thread.c").write_text(THREAD)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off", "CGO_ENABLED": "1"}
    subprocess.run(["go", "build", "-o", "program", "."], check=True, env=env, cwd=tmp_path)
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "-e", "--function", "runtime.dropm", "--", str(tmp_path / "program"))
    assert "calls 20\n" in result.stderr
    assert pairs(Trace(output), "runtime.dropm") == (20, 0)


@pytest.mark.parametrize("name, why", [
    ("runtime.cputicks.abi0", "it is not by Go's compiler, whose functions know their goroutine (Go 1.17 and later)"),
    ("runtime.badmorestackg0", "a goroutine's stack may have no room left there"),
    ("main.count", "one of its returns can't be probed: the function ends after 2 bytes, a jump needs 5"),
    ("main.main", None)], ids=["assembly", "runtime", "short", "plain"])
def test_named_exits(dyntrace, goroutines, name, why):
    """A named function has exits, or the one line says why not."""
    words = ["trace", "-o", dyntrace.new_output(), "-e", "--function", name, "--", goroutines["full"]]
    if why:
        assert f"{name}: exit not traced: {why}; leave out -e to trace its entry" in dyntrace.fails(*words, status=125)
    else:
        assert "2 events, 0 lost" in dyntrace(*words).stderr


@pytest.mark.parametrize("how", [[], ["-e"]], ids=["entries", "exits"])
def test_large_program(dyntrace, how):
    """Go's own vet has thousands of functions that only a jump over foreign bytes diverts. Their hops lie side by side, and those that
    find no window are left out: the others are traced."""
    vet = subprocess.run(["go", "tool", "-n", "vet"], capture_output=True, text=True, check=True, env={**os.environ, "HOME": "/"}).stdout.strip()
    expected = subprocess.run([vet, "-V"], capture_output=True, text=True, check=True).stdout
    output = dyntrace.new_output()
    result = dyntrace("trace", *how, "-o", output, "--function", "*", "--", vet, "-V", seconds=120)
    assert result.stdout == expected
    assert Trace(output).names()["main.main_entry"] == 1


@pytest.mark.parametrize("linked", ["-pie", "-no-pie"])
def test_moved_stack(dyntrace, tmp_path, linked):
    """R11: code as Go 1.21 and later write it, on a stack that moves at every call. A goroutine may be parked between `add` and `ret`, so these
    bytes stay."""
    source = os.path.join(ROOT, "tests", "programs", "go_forms.c")
    program = compile_once(["gcc", "-O1", linked, source], tmp_path / "go_forms")
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "-e", "--function", "main.down", "--", program, "300")
    assert result.stdout == "601\n"
    assert pairs(Trace(output), "main.down") == (301, 301)


@pytest.mark.parametrize("kind", ["stripped", "headless"])
def test_stripped(dyntrace, goroutines, kind):
    """Names come from the table that Go's runtime walks stacks by, found by its section or by its first bytes."""
    result = dyntrace("trace", "--tracer", "count", *WITH_EXITS, "--", goroutines[kind])
    assert said(result) == OUTPUT
    for name in ("deep", "fail", "pick"):
        assert re.search(rf"^ *{CALLS[name]} .* main\.{name}$", result.stderr, re.M), name
    whole, bare = (dyntrace("list-symbols", goroutines[name], "main.*").stdout for name in ("full", kind))
    assert re.findall(r"main\.\S+", bare) == re.findall(r"main\.\S+", whole)


@pytest.mark.parametrize("version", ["1_16", "1_18", "1_20"])
def test_formats(dyntrace, version):
    """The table of each version of Go since 1.16, made by hand (tests/fuzz/corpus/make_elf)."""
    listed = dyntrace("list-symbols", "-a", os.path.join(ROOT, "tests", "fuzz", "corpus", "elf", f"go_{version}")).stdout
    rows = [line.split() for line in listed.splitlines()[1:]]
    assert [(row[0], row[1], row[4], row[5]) for row in rows] == [
        ("0x000000001040", "16", ".gopclntab", "main.first"), ("0x000000001050", "16", ".gopclntab", "main.second")]
