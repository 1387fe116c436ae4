"""The questions of docs/recipes.md ("The same words as bcc's tools"), asked bpftrace and dyntrace of the same program: the same answers."""
import collections
import json
import os
import shlex
import subprocess

import pytest

SOURCE = r"""
#include <unistd.h>
volatile long sink;
__attribute__((noinline)) int work(int size, const char *path) { sink += size; return size % 5 - 2; }
__attribute__((noinline)) void left(int n) { for (int i = 0; i < n; i++) work(i % 7, "/etc/left"); sink++; }
__attribute__((noinline)) void right(int n) { for (int i = 0; i < n; i++) work(i % 11, i % 2 ? "/etc/odd" : "/etc/even"); sink++; }
int main(void) { sink += *(volatile const char *)"/etc/left"; left(3000); right(5000); return 0; }
"""
# bpftrace reads no string from a page that the program hasn't touched: main touches it.
PROGRAM = """
uprobe:%s:left { @called["left"] = count(); }
uprobe:%s:right { @called["right"] = count(); }
uprobe:%s:work { @size[arg0] = count(); @path[str(arg1)] = count(); @who[comm] = count(); @caller[*(uint64 *)reg("sp")] = count();
	@sizes = hist(arg0); @sum = sum(arg0); @begun = nsecs; }
uretprobe:%s:work { @ret[(int32)retval] = count(); @took = hist(nsecs - @begun); }
"""
# bpftrace 0.17 looks for tracefs in one place only.
ENTER = 'mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -f json -c "$0" -e "$1"'


@pytest.fixture(name="program", scope="module")
def compiled(tmp_path_factory):
    path = tmp_path_factory.mktemp("beside") / "app"
    subprocess.run(["gcc", "-O1", "-g", "-no-pie", "-fno-optimize-sibling-calls", "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    return str(path)


@pytest.fixture(name="theirs", scope="module")
def answers(program):
    """{map: {key: count} or the number}"""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", ENTER, program, PROGRAM % ((program,) * 4)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith('{"type": "map"') or line.startswith('{"type": "hist"'):
            found.update(json.loads(line)["data"])
    return found


def ours(dyntrace, program, words, column="hits"):
    done = dyntrace("trace", "--tracer", "count", "--json", *shlex.split(words), "--", program)
    return collections.Counter({str(*row["key"].values()): row[column] for row in json.loads(done.stdout)})


@pytest.mark.parametrize("question, words, column", [
    ("@size", "--function work --by size", "hits"), ("@path", "--function work --by path", "hits"),
    ("@path", "--function work --by 'str(arg1)'", "hits"), ("@who", "--function work --by $comm", "hits"),
    ("@ret", "-e --function work --by ret", "calls"), ("@called", "--function left --function right --by function", "hits")])
def test_counts_by_key(dyntrace, program, theirs, question, words, column):
    assert ours(dyntrace, program, words, column) == theirs[question]


def test_callers(dyntrace, program, theirs):
    """bpftrace has addresses, dyntrace names."""
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout.split("\n")
    starts = sorted((int(line.split()[0], 16), line.split()[2]) for line in symbols if " T " in line)
    named = {[name for start, name in starts if start <= int(at)][-1]: n for at, n in theirs["@caller"].items()}
    assert ours(dyntrace, program, "--function work --by caller") == named == {"left": 3000, "right": 5000}


def test_distribution(dyntrace, program, theirs):
    """As many values in each power of two; the same sum."""
    found = collections.Counter()
    for size, n in ours(dyntrace, program, "--function work --by size").items():
        found[int(size).bit_length()] += n
    assert {bucket["max"].bit_length(): bucket["count"] for bucket in theirs["@sizes"]} == found
    row, = json.loads(dyntrace("trace", "--tracer", "count", "--json", "--function", "work", "--of", "size", "--", program).stdout)
    assert row["total"] == theirs["@sum"]


def test_durations(dyntrace, program, theirs):
    """Both timed each call. (A uprobe and a uretprobe take more time than the function.)"""
    row, = json.loads(dyntrace("trace", "--tracer", "count", "--json", "-e", "--function", "work", "--of", "duration", "--", program).stdout)
    assert row["calls"] == sum(bucket["count"] for bucket in theirs["@took"]) == 8000
    slowest_half = sorted(n for bucket in theirs["@took"] for n in [bucket["min"]] * bucket["count"])[4000]
    assert row["p50_ns"] < slowest_half
