"""Strings of Go programs: literals and Go's heap stay mapped (X13, X15), so that trampolines read them on any goroutine's stack. And
backtraces, by the table from which Go's runtime knows frames."""
import os
import re
import subprocess

import pytest

from fixtures import ROOT
from harness import Trace, status, until

HITS = 2000
LITERAL, HEAP, LONG = "twenty bytes of text", "in the heap", "many " + 49 * "words"
PROTECT = """
func init() {
	protect = func(page []byte, on bool) {
		if on {
			CLOSE
		} else {
			OPEN
		}
	}
}
"""
PROTECTS = {"protects": ("syscall.Mprotect(page, syscall.PROT_NONE)", "syscall.Mprotect(page, syscall.PROT_READ|syscall.PROT_WRITE)"),
            "numbered": ("syscall.Syscall(syscall.SYS_MPROTECT, addressOf(page), 4096, 0)",
                         "syscall.Syscall(syscall.SYS_MPROTECT, addressOf(page), 4096, 3)"),
            "by-c": ("C.protect(unsafe.Pointer(&page[0]), 0)", "C.protect(unsafe.Pointer(&page[0]), 3)")}
C = """// #include <sys/mman.h>
// static void protect(void *page, int how) { mprotect(page, 4096, how); }
import "C"

import ("""
BUILDS = {"plain": ({"CGO_ENABLED": "0"}, []), "pie": ({"CGO_ENABLED": "0"}, ["-buildmode=pie"]), "cgo": ({"CGO_ENABLED": "1"}, [])}


@pytest.fixture(name="built", scope="module")
def built_fixture(tmp_path_factory):
    """Builds the program in one of these ways."""
    folder = tmp_path_factory.mktemp("go")
    with open(os.path.join(ROOT, "tests", "programs", "go_values.go")) as file:
        source = file.read()
    paths = {}

    def build(kind):
        if kind not in paths:
            path = folder / f"{kind}.go"
            text = source.replace("import (", C, 1) if kind in ("cgo", "by-c") else source
            close, reopen = PROTECTS.get(kind, (None, None))
            path.write_text(text + PROTECT.replace("CLOSE", close).replace("OPEN", reopen) if close else text)
            more, options = BUILDS.get(kind, BUILDS["cgo" if kind == "by-c" else "plain"])
            env = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "GO111MODULE": "off", **more}
            subprocess.run(["go", "build", *options, "-o", folder / kind, path], check=True, env=env)
            paths[kind] = str(folder / kind)
        return paths[kind]

    return build


def read(target, word):
    assert target.stderr.readline() == word + "\n"


def go(target):
    target.stdin.write("\n")
    target.stdin.flush()


class Watched:
    """The program, traced, and what strace has seen of its calls for signals and to read."""

    def __init__(self, dyntrace, processes, program, scratch, mode, *options):
        self.output = os.path.join(scratch, "calls")
        # no signals: their frames, left behind in the heap, look like threads inside a probe
        env = {**os.environ, "GODEBUG": "asyncpreemptoff=1"}
        self.target = processes.start([program, mode], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        read(self.target, "ready")
        self.tracing = dyntrace.start_trace(self.target.pid, *options).wait_told()
        until(lambda: status(self.target.pid, "TracerPid") == "0", "dyntrace has let go")
        self.strace = processes.start(["strace", "-f", "-qq", "-o", self.output, "-e", "trace=rt_sigprocmask,process_vm_readv", "-p",
                                       str(self.target.pid)], stderr=subprocess.DEVNULL)
        until(lambda: status(self.target.pid, "TracerPid") == str(self.strace.pid), "strace is attached")

    def go(self):
        go(self.target)
        read(self.target, "done")

    def end(self):
        """The trace, and the number of calls."""
        self.strace.terminate()
        self.strace.wait()
        trace = self.tracing.stop()
        self.target.stdin.close()
        assert self.target.wait(60) == 0
        return trace, self.calls()

    def calls(self):
        with open(self.output) as file:
            return len(re.findall(r"^\d+\s+(\w+)\(", file.read(), re.MULTILINE))


@pytest.mark.parametrize("kind", BUILDS)
def test_makes_no_call(dyntrace, processes, built, scratch, kind):
    """A hit with a string, a literal or in the heap, makes no system call: neither for signals nor to read."""
    watched = Watched(dyntrace, processes, built(kind), scratch, "watched", "--function", "main.text", "--function", "main.word",
                      "--function", "main.line")
    watched.go()
    trace, calls = watched.end()
    assert [event.fields["s"] for event in trace.named("main.text_entry")] == [LITERAL] * HITS
    assert [event.fields["s"] for event in trace.named("main.word_entry")] == [HEAP] * HITS
    assert [event.fields["s"] for event in trace.named("main.line_entry")] == [LONG] * HITS
    assert trace.lost == 0
    assert calls < HITS / 10  # a few for the first hits, and for each chunk


@pytest.mark.parametrize("kind", ["plain", "cgo"])
def test_heap_grown_later(dyntrace, processes, built, scratch, kind):
    """X15: the agent asks whether the heap has grown, and makes no call any more once it is told. The strings, which a condition reads, too,
    are in pages for which the tables of pages have one place."""
    watched = Watched(dyntrace, processes, built(kind), scratch, "grown-later", "--function", "main.word", "--filter", "s.str[1] == 'a'")
    watched.go()
    rounds = []

    def is_quiet():
        before = watched.calls()
        watched.go()
        rounds.append(watched.calls() - before)
        return rounds[-1] < HITS / 10

    until(is_quiet, "hits without calls")
    trace, _ = watched.end()
    assert [event.fields["s"] for event in trace.named("main.word_entry")] == ["far away"] * HITS * len(rounds)
    assert trace.lost == 0


def texts(dyntrace, *words, **more):
    _, trace = dyntrace.trace("--function", "main.text", "--", *words, **more)
    assert trace.lost == 0
    return [re.sub("0x[0-9a-f]+", "0x", event.fields["s"]) for event in trace.named("main.text_entry")]


@pytest.mark.parametrize("kind", BUILDS)
@pytest.mark.parametrize("where", ["mapped", "above"])
def test_memory_that_goes_away(dyntrace, built, kind, where):
    """A page that the program has mapped itself isn't believed to stay, though it could be read."""
    assert texts(dyntrace, built(kind), where) == ["in a page"] * 2 + ["(unreadable 0x)"] * 2


@pytest.mark.parametrize("kind", BUILDS)
def test_growing_heap(dyntrace, built, kind):
    """X15: pages of arenas that come later, in front of which others are closed yet."""
    assert texts(dyntrace, built(kind), "grown") == ["far away"] * 10


@pytest.mark.parametrize("setting", ["harddecommit=1", "gctrace=0,harddecommit=1", "efence=1"])
def test_closed_heap(dyntrace, built, setting):
    """X15: a program whose runtime closes freed memory has no heap that stays."""
    env = {**os.environ, "GODEBUG": setting}
    assert texts(dyntrace, built("plain"), "freed", env=env) == [HEAP] * 2 + ["(unreadable 0x)"]


@pytest.mark.parametrize("kind, then", [("plain", HEAP), *[(kind, "(unreadable 0x)") for kind in PROTECTS]])
def test_protected_heap(dyntrace, processes, built, kind, then):
    """X15: a program that has a way to protect pages may do so in the heap."""
    target = processes.start([built(kind), "protected-later"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    read(target, "ready")
    tracing = dyntrace.start_trace(target.pid, "--function", "main.text").wait_told()
    go(target)
    target.stdin.close()
    assert target.wait(60) == 0
    tracing.process.communicate(timeout=30)
    found = [re.sub("0x[0-9a-f]+", "0x", event.fields["s"]) for event in Trace(tracing.output).named("main.text_entry")]
    assert found == [HEAP] * 2 + [then, HEAP]


def test_freed_heap(dyntrace, built):
    """X15: memory that the runtime has given back is zeros, and may be read."""
    assert texts(dyntrace, built("plain"), "freed") == [HEAP] * 2 + [r"\x00" * len(HEAP)]


@pytest.mark.parametrize("kind", BUILDS)
def test_backtraces(dyntrace, built, kind):
    """The same callers as Go's runtime finds, the direct one among them, up to the goroutine's start."""
    result, trace = dyntrace.trace("--function", "main.leaf", "-t", "backtrace:60", "--", built(kind), "frames")
    expected = [list(map(int, line.split()[1:])) for line in result.stderr.splitlines() if line.startswith("callers ")]
    found = [event.fields["backtrace"][1:] for event in trace.named("main.leaf_entry")]
    # Go's list leaves out frames of its runtime that lead to a deferred call, and says where the faulting instruction would return to
    after_fault, list_after_fault = found.pop(3), expected.pop(3)
    assert after_fault[-5:] == [list_after_fault[-5] - 1, *list_after_fault[-4:]]
    assert found == expected
    assert [len(frames) for frames in found] == [4, 8, 9, 43]


SLICES = """package main

import "fmt"

type point struct {
	X, Y int32
	Name string
}

//go:noinline
func take(n int, words []string, points []point) int { return n + len(words) + len(points) }

//go:noinline
func nest(rows [][]int16, owner *holder) int { return len(rows) + len(owner.Rows) }

type holder struct {
	Rows []int64
	Last *point
}

func main() {
	sum := 0
	for n := 0; n < 300; n++ {
		var words []string
		points := []point{}
		for i := 0; i < n%20; i++ {
			words = append(words, fmt.Sprint("w", n, "-", i))
			points = append(points, point{int32(i), int32(-n), "p"})
		}
		sum += take(n, words, points)
		sum += nest([][]int16{{1, 2, 3}, nil, {int16(n)}}, &holder{[]int64{int64(n), -1}[:n%3], &point{}})
	}
	if sum == 0 {
		panic(sum)
	}
}
"""


def test_slices(dyntrace, tmp_path):
    """With --deref a slice has its size and first elements; a filter sees them without it; behind the last one nothing can be read."""
    (tmp_path / "slices.go").write_text(SLICES)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off", "CGO_ENABLED": "0"}
    subprocess.run(["go", "build", "-o", "slices", "slices.go"], check=True, env=env, cwd=tmp_path)

    def bare(value):
        if isinstance(value, dict):
            return {key: bare(member) for key, member in value.items() if not key.endswith("__length")}
        return [bare(element) for element in value] if isinstance(value, list) else value
    takes, nests = [[bare(event.fields) for event in dyntrace.trace("--deref", 1, "--function", *words, "--", tmp_path / "slices")[1].events]
                    for words in (["main.take"], ["main.nest", "-t", "var:owner.Rows[1]"])]
    assert len(takes) == len(nests) == 300
    for n, (take, nest) in enumerate(zip(takes, nests)):
        shown = min(n % 20, 16)
        assert take["words"] == {"size": n % 20, "elements": [f"w{n}-{i}" for i in range(shown)]}
        assert take["points"] == {"size": n % 20, "elements": [{"X": i, "Y": -n, "Name": "p"} for i in range(shown)]}
        assert [row["elements"] for row in nest["rows"]["elements"]] == [[1, 2, 3], [], [n]]
        assert (nest["owner_Rows_1_"], "owner.Rows[1]" in nest["unreadable"]) == ((-1, False) if n % 3 == 2 else (0, True))
    plain = bare(dyntrace.trace("--function", "main.take", "--", tmp_path / "slices")[1].events[3].fields)
    assert plain["words"].keys() == {"array", "len", "cap"} and plain["words"]["len"] == 3 and "unreadable" not in plain
    for condition, hits in (("words.size == 7", 15), ('words[2] == "w3?-2"', 10), ("points[18].X == 18", 15)):
        assert len(dyntrace.trace("--function", "main.take", "--filter", condition, "--", tmp_path / "slices")[1].events) == hits, condition
