"""--tracer count: hits and durations are counted in the target; no event, no trace."""
import os
import re
import subprocess

import pytest

from harness import Snapshot, descriptors, die_with_parent, hits, summary_rows, until

SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) int foo(int a) { sink = a; return a + 1; }
__attribute__((noinline)) void nap(long us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < us * 1000);
}
static void on_signal(int number) { foo(number); }
static void *run(void *n) { for (long i = 0; i < (long)n; i++) foo((int)i); return NULL; }
static void threads(long n)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, run, (void *)n);
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
}
int main(int argc, char **argv)
{
	signal(SIGUSR1, on_signal);
	threads(100000);
	threads(50000); /* others, which may get the places of those that ended */
	for (int i = 0; i < 3; i++)
		if (!fork()) { run((void *)1000L); _exit(0); }
	while (wait(NULL) > 0) ;
	for (int i = 0; i < 500; i++) raise(SIGUSR1);
	for (int i = 0; i < 900; i++) nap(20);
	for (int i = 0; i < 100; i++) nap(2000);
	return argc > 1 ? atoi(argv[1]) : 0;
}
"""
OWN = 4 * 150000 + 500
CHILDREN = 3000


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("count")
    source, program = folder / "counted.c", folder / "counted"
    source.write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", program, source], check=True)
    return program


def run(build, cwd, *words):
    return subprocess.run([os.path.join(build, "dyntrace"), "trace", "--wide", "--tracer", *map(str, words)], cwd=cwd, capture_output=True,
                          text=True, timeout=60)


def times(stderr, name):
    """total, mean, p50, p90, p99, max in ns."""
    units = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}
    cells = (summary_rows(stderr)[name][title].split() for title in ("total", "mean", "p50", "p90", "p99", "max", "self"))
    return [float(value) * units[unit] for value, unit in cells]


def fates(stderr, name):
    return [summary_rows(stderr)[name][title] for title in ("unwound", "inside", "missed")]


def test_exact_with_threads_forks_and_signals(build, scratch, counted):
    result = run(build, scratch, "count", "--function", "foo", "--probe", "nap", "--", counted, 7)
    assert result.returncode == 7
    assert hits(result.stderr) == {"foo": OWN + CHILDREN, "nap": 1000}
    assert os.listdir(scratch) == []  # no trace
    assert "hits/s" in result.stderr and "trace:" not in result.stderr


def test_children_can_be_left_out(build, scratch, counted):
    for extra in ([], ["-e"]):
        result = run(build, scratch, "count", "--no-follow-fork", *extra, "--function", "foo", "--", counted)
        assert hits(result.stderr, "foo") == OWN


def test_durations(build, scratch, counted):
    result = run(build, scratch, "count", "-e", "--function", "foo", "--function", "nap", "--", counted)
    assert hits(result.stderr) == {"foo": OWN + CHILDREN, "nap": 1000}
    assert fates(result.stderr, "foo") == ["0", "0", "0"] == fates(result.stderr, "nap")  # each call returned
    total, mean, p50, p90, p99, longest, alone = times(result.stderr, "nap")
    assert total >= 900 * 20e3 + 100 * 2000e3
    assert mean == pytest.approx(total / 1000, rel=0.01)
    assert 19.8e3 <= p50 <= total / 500 * 1.01  # within 1%; half of the 1,000 calls took as long, however much the machine adds
    assert p50 <= p90 <= p99 <= longest * 1.001
    assert p99 >= 1980e3


@pytest.mark.parametrize("condition", ["a % 2 == 1", "a & 1", "$rdi & 1"])
def test_filter(build, scratch, counted, condition):
    """Both the agent and the trampoline decide."""
    result = run(build, scratch, "count", "--function", "foo", "--filter", condition, "--", counted)
    odd = 4 * 75000 + CHILDREN // 2
    assert hits(result.stderr, "foo") == odd  # SIGUSR1 is 10


@pytest.mark.parametrize("condition, exits", [
    ("$ret & 1", 4 * 75000 + CHILDREN // 2 + 500), ("$ret % 2 == 0", 4 * 75000 + CHILDREN // 2), ("entry:a == 10 && $ret == 11", 11 + 500)])
def test_filter_at_the_exit(build, scratch, counted, condition, exits):
    """By the trampoline and by the agent: all entries are counted, and the exits that pass the filter."""
    result = run(build, scratch, "count", "-e", "--function", "foo", "--filter", condition, "--", counted)
    assert hits(result.stderr, "foo") == OWN + CHILDREN
    total, mean, *_ = times(result.stderr, "foo")
    assert total / mean == pytest.approx(exits, rel=0.25)  # a mean of a few ns is printed without its fraction


def test_filter_by_duration(build, scratch, counted):
    """The limit lies 0.5% below the naps: dyntrace and the program tell time by clocks whose rates aren't quite the same."""
    result = run(build, scratch, "count", "-e", "--function", "nap", "--filter", "$duration >= 1990000", "--", counted)
    assert hits(result.stderr, "nap") == 1000
    total, mean, p50, *_ = times(result.stderr, "nap")
    assert p50 >= 1980e3 and total / mean >= 99


def test_live_and_as_it_was(dyntrace, build, scratch, program):
    """On a running process, which is as it was afterwards."""
    target = program("spin", "--threads", "3", "--calls", "20000", "--rounds", "2").wait_ready()
    before = Snapshot(target.pid)
    tracer = subprocess.Popen([os.path.join(build, "dyntrace"), "trace", "--wide", "-p", str(target.pid), "--tracer", "count",
                               "--function", "foo", "-e"], cwd=scratch, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent)
    try:
        until(lambda: "dyntrace-counts" in open(f"/proc/{target.pid}/maps").read(), "the counts to be mapped")
        assert "Ctrl-C ends it" in tracer.stderr.readline()
        target.go()
        target.wait_ready()
        tracer.send_signal(2)
        stderr = tracer.communicate(timeout=20)[1]
    finally:
        tracer.kill()
    assert hits(stderr, "foo") == 60000
    assert fates(stderr, "foo") == ["0", "0", "0"]
    before.assert_unchanged()


def test_memory(dyntrace, program):
    """Summing up gives no memory to counts of functions that weren't called."""
    target = program("spin", "--threads", "1", "--calls", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--tracer", "count", "-e", "--function", "*@libc.so.6")
    counts, = [os.open(f"/proc/{tracing.process.pid}/fd/{number}", os.O_RDONLY) for number, link in descriptors(tracing.process.pid).items()
               if "dyntrace-counts" in link]
    tracing.stop()
    size, blocks = os.fstat(counts).st_size, os.fstat(counts).st_blocks
    os.close(counts)
    assert size > 64 << 20 and blocks * 512 < 4 << 20
    target.go()


@pytest.mark.parametrize("words, said", [
    (["count:7", "--function", "foo"], "tracer 'count' takes no argument"),
    (["cuont", "--function", "foo"], "unknown tracer 'cuont'"),
    (["count", "-t", "tid", "--function", "foo"], "records no events"),
    (["count", "-o", "x", "--function", "foo"], "writes no trace"),
    (["count", "--filter", "$ret > 1", "--function", "foo"], "is known at a function's exit only: add -e"),
])
def test_refusals(build, scratch, counted, words, said):
    result = run(build, scratch, *words, "--", counted)
    assert said in result.stderr
    assert result.returncode in (2, 125)
    assert os.listdir(scratch) == []
