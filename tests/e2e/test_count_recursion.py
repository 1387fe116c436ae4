"""Totals are the time with at least one call of a function on the thread's stack; self time in the tracer count."""
import json
import os
import subprocess

import pytest

from harness import summary_rows

SOURCE = r"""
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
static jmp_buf back;
volatile int sink;
__attribute__((noinline)) void nap(long us)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < us * 1000);
}
__attribute__((noinline)) int rec(int n) { if (n) return rec(n - 1) + (sink = 1); nap(20000); return 1; }
__attribute__((noinline)) int odd(int n);
__attribute__((noinline)) int even(int n) { if (n) return odd(n - 1) + (sink = 1); nap(20000); return 1; }
__attribute__((noinline)) int odd(int n) { if (n) return even(n - 1) + (sink = 1); nap(20000); return 0; }
__attribute__((noinline)) int jumps(int n)
{
	if (n) return jumps(n - 1) + (sink = 1);
	longjmp(back, 1);
}
__attribute__((noinline)) int leaf(int n) { if (n == 3) jumps(3); nap(1000); return sink = n; }
static long now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000L + t.tv_nsec; }
int main(int argc, char **argv)
{
	long begin = now();
	if (!strcmp(argv[1], "rec")) { rec(9); rec(9); }
	if (!strcmp(argv[1], "mutual")) even(9);
	if (!strcmp(argv[1], "jumps"))
		for (volatile int i = 0; i < 13; i++)
			if (!setjmp(back)) leaf(i);
	printf("%ld\n", now() - begin); /* ns around all calls */
	return 0;
}
"""

UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recursion")
    (folder / "recursion.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-fno-optimize-sibling-calls", "-g", "-o", folder / "recursion", folder / "recursion.c"], check=True)
    return folder / "recursion"


def times(build, cwd, tracer, program, mode, *functions):
    """By function: the summary's columns, times in ns; under None: the program's own ns around all calls."""
    words = [word for name in functions for word in ("--function", name)]
    done = subprocess.run([os.path.join(build, "dyntrace"), "trace", "--wide", "-e", "--tracer", tracer, *words, "--", str(program), mode],
                          cwd=cwd, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    result = {None: float(done.stdout)}
    for function, row in summary_rows(done.stderr).items():
        result[function] = {name: float(value.split()[0]) * UNITS[value.split()[1]] if " " in value else value
                            for name, value in row.items()}
    return result


@pytest.mark.parametrize("tracer", ["count", "ctf"])
def test_recursion(build, scratch, program, tracer):
    rows = times(build, scratch, tracer, program, "rec", "rec")
    row = rows["rec"]
    assert row["hits"] == "20"
    # two naps of 20 ms, each inside ten calls
    assert 39.9e6 <= row["total"] <= rows[None] * 1.01
    assert row["mean"] * 20 >= 10 * 39.9e6
    assert row["self"] <= row["total"] * 1.01


@pytest.mark.parametrize("tracer", ["count", "ctf"])
def test_mutual_recursion(build, scratch, program, tracer):
    rows = times(build, scratch, tracer, program, "mutual", "even", "odd", "nap")
    for name in ("even", "odd", "nap"):
        assert 19.9e6 <= rows[name]["total"] <= rows[None] * 1.01, name
    assert rows["nap"]["self"] == rows["nap"]["total"]
    # what isn't nap's is theirs; the summary has three digits
    alone = rows["even"]["self"] + rows["odd"]["self"]
    assert abs(rows["even"]["total"] - rows["nap"]["total"] - alone) <= rows["even"]["total"] * 0.02


@pytest.mark.parametrize("tracer", ["count", "ctf"])
def test_calls_that_never_return(build, scratch, program, tracer):
    """Calls that a longjmp leaves have no duration, and hide no later one."""
    rows = times(build, scratch, tracer, program, "jumps", "leaf", "jumps")
    assert rows["leaf"]["hits"] == "13" and rows["jumps"]["hits"] == "4"
    assert 11.9e6 <= rows["leaf"]["total"] <= rows[None] * 1.01
    assert rows["jumps"]["total"] == "-"
