"""A Go program: goroutines that grow their stacks, allocate and are preempted at any instruction, while its functions are
traced, with exits at each `ret`."""
import os
import random
import re
import shutil
import signal
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("go"), reason="no go")

GOROUTINES, ROUNDS, DEPTH = 100, 20, 100

SOURCE = """package main

import (
	"bufio"
	"fmt"
	"os"
	"sync"
)

//go:noinline
func Work(n int) int {
	sum := 0
	for i := 0; i < 50; i++ {
		sum += n ^ i
	}
	return sum
}

//go:noinline
func Deep(n int) int {
	if n == 0 {
		return 0
	}
	var keep [32]int
	keep[n%32] = Work(n)
	return keep[n%32]%7 + Deep(n-1)
}

//go:nosplit
//go:noinline
func Leaf(n int) int {
	return n ^ 0x12345678 // an instruction with room for a jump
}

func run() int {
	var all sync.WaitGroup
	sums := make(chan int, GOROUTINES)
	for g := 0; g < GOROUTINES; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			total := 0
			for i := 0; i < ROUNDS; i++ {
				total += Deep(DEPTH) + len(make([]byte, 4096)) + Leaf(i)
			}
			sums <- total
		}()
	}
	all.Wait()
	close(sums)
	total := 0
	for s := range sums {
		total += s
	}
	return total
}

func main() {
	fmt.Println(run())
	if len(os.Args) == 1 {
		return
	}
	done := make(chan bool)
	go func() { // "busy": until a line comes
		bufio.NewReader(os.Stdin).ReadString('\\n')
		close(done)
	}()
	want := run()
	for {
		if got := run(); got != want {
			fmt.Println("wrong", got, want)
			os.Exit(1)
		}
		select {
		case <-done:
			fmt.Println("right")
			return
		default:
		}
	}
}
"""


@pytest.fixture
def busy(scratch):
    source, path = os.path.join(scratch, "busy.go"), os.path.join(scratch, "busy")
    with open(source, "w") as file:
        file.write(SOURCE.replace("GOROUTINES", str(GOROUTINES)).replace("ROUNDS", str(ROUNDS)).replace("DEPTH", str(DEPTH)))
    subprocess.run(["go", "build", "-o", path, source], check=True,
                   env={**os.environ, "GOCACHE": os.path.join(scratch, "cache"), "GO111MODULE": "off"})
    return path


@pytest.mark.limit(120)
def test_entries(dyntrace, busy):
    """A function without a stack check: one with begins anew, and counts again, each time that its stack had to grow."""
    plain = subprocess.run([busy], capture_output=True, text=True, check=True).stdout
    result, trace = dyntrace.trace("--probe", "main.Leaf", "--", busy)
    assert result.stdout == plain
    assert (trace.names(), trace.lost) == ({"main.Leaf": GOROUTINES * ROUNDS}, 0)


@pytest.mark.limit(120)
def test_exits(dyntrace, busy):
    plain = subprocess.run([busy], capture_output=True, text=True, check=True).stdout
    result = dyntrace("trace", "--tracer", "count", "-e", "--function", "main.Deep", "--", busy)
    assert result.stdout == plain and "without an exit" not in result.stderr
    assert re.search(rf"^ *{GOROUTINES * ROUNDS * (DEPTH + 1)} .* main\.Deep$", result.stderr, re.M), result.stderr


@pytest.mark.limit(300)
@pytest.mark.parametrize("exits", [False, True], ids=["entries", "exits"])
def test_everything_under_load(dyntrace, processes, busy, exits):
    """All functions that can be, the runtime's too, on and off while goroutines run on all processors."""
    target = processes.start([busy, "busy"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    first = target.stdout.readline()
    for _ in range(5):
        for what in ("main.*", "*"):
            where = ["-e", "--function"] if exits else ["--probe"]
            tracing = dyntrace.start_trace(target.pid, *where, what, "--mode", "overwrite", "--buffer-size", "16M").wait_told()
            tracing.process.send_signal(signal.SIGINT)
            told = tracing.process.communicate(timeout=60)[1]
            assert tracing.process.returncode == 0, told
            assert target.poll() is None
    assert target.communicate("\n", timeout=60)[0] == "right\n" and int(first) > 0
    assert target.returncode == 0


@pytest.fixture(params=["pure", "cgo"])
def storm(request, scratch):
    """go_storm.go without and with C code."""
    folder, path = os.path.dirname(__file__), os.path.join(scratch, "storm")
    files = [os.path.join(folder, name) for name in ("go_storm.go", f"go_storm_{'native' if request.param == 'cgo' else 'pure'}.go")]
    subprocess.run(["go", "build", "-o", path, *files], check=True,
                   env={**os.environ, "GOCACHE": os.path.join(scratch, "cache"), "GO111MODULE": "off",
                        "CC": "gcc",  # go takes two words for a linker that can make only programs at any address
                        "CGO_ENABLED": str(int(request.param == "cgo"))})
    return path


@pytest.mark.limit(600)
@pytest.mark.parametrize("more", [[], ["--function", "*"], ["-e"], ["-e", "--function", "*"]], ids=["few", "all", "exits", "all-exits"])
def test_storm_counts(dyntrace, storm, more):
    """Each call counts once beside a collector that never rests, the profiler's signals, panics and tracebacks of all
    goroutines. The program checks its own results: the frames of a traceback among them."""
    result = dyntrace("trace", "--tracer", "count", "--all-rows", "--function", "main.*", *more, "--", storm, "100", seconds=500)
    words = result.stdout.split()
    assert words[::2] == ["deep", "wide", "walk", "fail", "leaf", "(*point).Sum"], result.stdout
    for name, calls in zip(words[::2], words[1::2]):
        assert re.search(rf"^ *{calls} .* main\.{re.escape(name)}$", result.stderr, re.M), (name, calls)


@pytest.mark.limit(600)
def test_storm_visits(dyntrace, processes, storm):
    """Tracers that come, go and are killed at any moment."""
    target = processes.start([storm], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    chance = random.Random(1)
    for _ in range(30):
        what = chance.choice(["main.*", "*", "runtime.*"])
        kind = chance.choice([["--function", what], ["--probe", what], ["--function", what, "-t", "comm"], ["-e", "--function", what],
                              ["-e", "--function", what, "-t", "comm"]])
        tracing = dyntrace.start_trace(target.pid, *kind, "--mode", "overwrite", "--buffer-size", "16M")
        if chance.random() < 0.2:
            tracing.process.kill()
        else:
            tracing.process.send_signal(signal.SIGINT)
        tracing.process.communicate(timeout=120)
        assert target.poll() is None
    out = target.communicate("\n", timeout=120)[0]
    assert target.returncode == 0 and out.startswith("deep "), out
