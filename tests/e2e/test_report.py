"""dyntrace report: each number against Python over babeltrace2's module (calls_oracle.py), of all kinds of traces."""
import csv
import io
import json
import os
import re
import struct
import subprocess

import pytest

import own_reader
from harness import summary_rows
from calls_oracle import Calls
from test_own_reader import CALLS, record
from test_values import compile_program

# A trace of some chunks has several packets: of a small buffer, none shares a packet with many others.
SHORT_PACKETS = ["--mode", "block", "--buffer-size", "1M"]

NESTED = r"""
#include <time.h>
int never(void) { return 1; }
__attribute__((noinline)) int rec(int n)
{
	struct timespec nap = { 0, 20000000 };
	return n ? rec(n - 1) + 1 : nanosleep(&nap, 0);
}
int main(int argc, char **argv) { return argc > 1 ? never() : rec(argc + 8) - 9; }
"""
EXITS = r"""
#include <stdlib.h>
#include <time.h>
__attribute__((noipa)) void part(void) { struct timespec nap = { 0, 100000 }; nanosleep(&nap, 0); }
__attribute__((noipa)) void work(void) { part(); part(); }
int main(void) { work(); work(); work(); exit(0); }
"""
TIME = r"(\d+(?:\.\d+)?) (ns|us|ms|s)"
UNITS = {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}


def functions(dyntrace, trace, *words):
    result = json.loads(dyntrace("report", "--json", trace, *words).stdout)
    return {row["name"]: row for row in result["functions"]}, result


def check(dyntrace, trace):
    """Every number of every function."""
    rows, result = functions(dyntrace, trace)
    oracle = Calls(trace)
    assert (result["events"], result["lost"], result["lost_packets"]) == (oracle.events, oracle.lost, oracle.lost_packets)
    assert set(rows) == {name for name, numbers in oracle.numbers.items() if numbers["hits"] or numbers["calls"]}
    for name, row in rows.items():
        numbers, durations = oracle.numbers[name], oracle.durations[name]
        for key in ("hits", "calls", "unwound", "inside", "missed", "cut", "partial"):
            assert row[key] == numbers[key], (name, key)
        for key in ("total", "self", "max"):
            assert row[f"{key}_ns"] == numbers[key], (name, key)
        assert row["mean_ns"] == (sum(durations) // len(durations) if durations else 0)
        for share in (50, 90, 99):
            if durations:
                exact = durations[min(int(len(durations) * share / 100), len(durations) - 1)]
                assert abs(row[f"p{share}_ns"] - exact) <= exact * 0.016 + 1, (name, share)
    return rows, oracle


def test_recursion(dyntrace, program_path):
    """(O1) A recursive function's total is the time with at least one call of it on the stack; O3: self is without callees."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 200, 3)
    rows, _ = check(dyntrace, trace)
    assert rows["rec"]["calls"] == 3 * 50 * (1 + 2 + 3 + 4) and rows["top_"]["calls"] == 600
    assert rows["rec"]["total_ns"] < rows["top_"]["total_ns"]
    assert rows["rec"]["mean_ns"] * rows["rec"]["calls"] > rows["rec"]["total_ns"]
    assert sum(row["self_ns"] for row in rows.values()) == rows["top_"]["total_ns"]


def summary(dyntrace, *words):
    """Records; gives the trace, and its summary for people and programs."""
    output = dyntrace.new_output()
    result = json.loads(dyntrace("trace", "--json", "-o", output, *words).stderr)
    assert result["trace"] == output
    return output, result


@pytest.mark.parametrize("words", [
    ["-e", *CALLS, "--mode", "block", "--", "calls", 300, 3], ["-e", "--function", "foo", "--", "forker", "--children", 5, "--calls", 50],
    ["-e", *CALLS, "--buffer-size", "1M", "--", "calls", 20000, 2], [*CALLS, "--", "calls", 5, 1]],
    ids=["recursion", "forks", "losses", "entries"])
def test_the_same_as_the_summary(dyntrace, program_path, words):
    """(O1, O2, O3) The summary of trace and the report of its trace: the same rows and numbers, with recursion and losses."""
    at = words.index("--") + 1
    output, result = summary(dyntrace, *words[:at], program_path(words[at]), *words[at + 1:])
    rows, whole = functions(dyntrace, output)
    assert [row["name"] for row in result["functions"]] == [*rows] and result["lost"] == whole["lost"]
    for row in result["functions"]:
        report = rows[row["name"]]
        for key in ("hits", "calls", "total_ns", "self_ns", "mean_ns", "p50_ns", "p90_ns", "p99_ns", "max_ns"):
            assert row[key] == report[key], (row["name"], key, row, report)


def test_one_table(dyntrace, scratch):
    """trace's summary and report print the same lines, in 80 columns; a recursive function's total is the time on its stack."""
    path = os.path.join(scratch, "nested")
    with open(path + ".c", "w") as file:
        file.write(NESTED)
    subprocess.run(["gcc", "-O1", "-fno-optimize-sibling-calls", "-o", path, path + ".c"], check=True)
    output = dyntrace.new_output()
    errors = subprocess.run([dyntrace.path, "trace", "-o", output, "-e", "--function", "rec", "--function", "main", "--function", "never",
                             "--", path], capture_output=True, text=True, check=True).stderr
    table = dyntrace("report", output).stdout
    assert errors.startswith(table) and max(map(len, errors.splitlines()[:3])) < 80
    assert table.splitlines()[0].split() == ["calls", "total", "self", "mean", "p99", "max", "function"]
    rows = summary_rows(table)
    assert set(rows) == {"main", "rec"} and rows["rec"]["calls"] == "10"  # a row without hits is left out
    assert 20e6 <= nanoseconds(rows["rec"]["total"]) <= nanoseconds(rows["main"]["total"])  # not ten times the nap
    assert "never" in summary_rows(dyntrace("trace", "-o", output, "-e", "--all-rows", "--function", "rec", "--function", "never", "--", path).stderr)


def lose(path, number, count):
    """Counts events as lost before that packet of a file, as writer.c does."""
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        at = index = 0
        while at < len(data):
            size, discarded = struct.unpack_from("<QQ", data, at + 48)
            struct.pack_into("<Q", data, at + 56, discarded + (count if index >= number else 0))
            at, index = at + size // 8, index + 1
        assert index > number
        file.seek(0)
        file.write(data)


def test_losses(dyntrace, program_path):
    """(O2) Calls cut by a loss have no duration in any number."""
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 1500, 2)
    whole = functions(dyntrace, trace)[0]
    files = sorted(os.path.join(trace, name) for name in os.listdir(trace)
                   if name != "metadata" and os.path.getsize(os.path.join(trace, name)) > 200_000)
    for file in files:
        lose(file, 1, 123)
        lose(file, 3, 1000)
    rows, oracle = check(dyntrace, trace)
    assert oracle.lost == 1123 * len(files) > 0
    text = dyntrace("report", trace).stdout
    assert f"{oracle.lost} events were lost\n" in text
    cut = sum(row["cut"] for row in rows.values())
    assert f"{cut} calls were cut by the loss: they are in no number above\n" in text
    assert cut > 0 and sum(row["calls"] for row in rows.values()) + cut == sum(row["calls"] for row in whole.values())


def take_out(path, numbers):
    """Takes packets out of a file: nothing but their numbers tells. Gives how many packets the file had."""
    with open(path, "r+b") as file:
        data, kept = file.read(), bytearray()
        at = index = 0
        while at < len(data):
            size = struct.unpack_from("<Q", data, at + 48)[0] // 8
            kept += b"" if index in numbers else data[at:at + size]
            at, index = at + size, index + 1
        file.seek(0)
        file.write(kept)
        file.truncate()
    return index


def test_one_missing_packet(dyntrace, program_path):
    """The notes below the table count in words that suit one."""
    trace = record(dyntrace, "-e", *CALLS, "--function", "run", *SHORT_PACKETS, "--", program_path("calls"), 400, 2)
    files = sorted((os.path.join(trace, name) for name in os.listdir(trace) if name != "metadata"), key=os.path.getsize)
    assert take_out(files[-1], {1}) > 2
    assert "\n1 packet of events is missing in the trace\n" in dyntrace("report", trace).stdout


def test_missing_packets(dyntrace, program_path):
    """(O2) A thread may have lost the packets that no file has: its open calls are cut, calls behind have no wrong parent."""
    trace = record(dyntrace, "-e", *CALLS, "--function", "run", *SHORT_PACKETS, "--", program_path("calls"), 400, 2)
    whole = functions(dyntrace, trace)[0]
    files = sorted((os.path.join(trace, name) for name in os.listdir(trace) if name != "metadata"), key=os.path.getsize)
    assert take_out(files[-1], {1, 2}) > 3
    rows, oracle = check(dyntrace, trace)
    assert oracle.lost_packets == 2 and oracle.lost == 0
    cut = sum(row["cut"] for row in rows.values())
    text = dyntrace("report", trace).stdout
    assert "2 packets of events are missing in the trace\n" in text
    assert 0 < cut < 30 and f"{cut} calls were cut by the loss: they are in no number above\n" in text
    assert rows["run"]["cut"] > 0 and all(0 < rows[name]["calls"] < whole[name]["calls"] for name in rows if name != "run")
    # the same of the other ways to see calls
    assert {path[:-1] for path in oracle.paths if path[-1] == "top_"} == {("run",), ()}
    tree = dyntrace("view", "--tree", trace).stdout
    assert "[lost 2 packets of this thread or others: open calls are cut here]\n" in tree
    assert set(re.findall(r"\| ( *)top_\(", tree)) == {"", "  "}  # behind the gap, nothing is around it
    assert sorted(dyntrace("export", trace, "--folded", "-").stdout.splitlines()) == sorted(
        f"{';'.join(path)} {numbers['self']}" for path, numbers in oracle.paths.items() if numbers["self"])


def repeat(path, number, times):
    """Writes a packet of a file, the last one then, so many times: each 2^40 cycles later, so its events have the times that they say."""
    with open(path, "r+b") as file:
        data, at = file.read(), 0
        for _ in range(number):
            at += struct.unpack_from("<Q", data, at + 48)[0] // 8
        packet = bytearray(data[at:at + struct.unpack_from("<Q", data, at + 48)[0] // 8])
        begin, end = struct.unpack_from("<QQ", packet, 24)
        sequence, = struct.unpack_from("<Q", packet, 64)
        file.seek(at)
        file.truncate()
        for i in range(times):
            struct.pack_into("<QQ", packet, 24, begin + (i << 40), end + (i << 40))
            struct.pack_into("<Q", packet, 64, sequence + i)
            file.write(packet)


def memory_of(dyntrace, words):
    """The peak of the command and its reader, in KiB."""
    process = subprocess.Popen([dyntrace.path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               env={**os.environ, "DYNTRACE_PAGE_CALLS": "1000"})
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return usage.ru_maxrss


def test_memory(dyntrace, scratch, program_path):
    """Readers need memory for functions, paths and keys, not for events: sixty times as many take as much."""
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 400, 1)
    stream = max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize)
    number = take_out(stream, set()) - 2
    commands = [["report", trace], ["report", trace, "--tree"], ["report", trace, "rec"], ["report", trace, "--by", "function,n"],
                ["report", trace, "--html", "-"], ["view", trace], ["view", "--tree", trace],
                *(["export", trace, f"--{name}", "-"] for name in ("folded", "flamegraph", "perfetto", "csv"))]
    memory = []
    for times in (2, 120):
        repeat(stream, number, times)
        memory.append([memory_of(dyntrace, words) for words in commands])
        size = os.path.getsize(stream)
    assert size > 3 << 20
    for words, few, many in zip(commands, *memory):
        assert many < few + 1024, (words, few, many)


def test_unwound(dyntrace, scratch):
    path = compile_program(scratch, "throws.cpp", "-O1", compiler="g++", name="throws")
    check(dyntrace, record(dyntrace, "-e", "--function", "*@throws", "--", path, status=None))


def test_forks(dyntrace, program_path):
    check(dyntrace, record(dyntrace, "-e", "--function", "foo", "--", program_path("forker"), "--children", 10, "--calls", 50))


def test_programs(dyntrace, program_path):
    spin = program_path("spin")
    check(dyntrace, record(dyntrace, "-e", "--follow-exec", "--function", "foo", "--", "sh", "-c",
                           f"{spin} --threads 2 --calls 30; exec {spin} --calls 40"))


def test_rotated(dyntrace, program_path):
    """The oldest files are gone: calls that began in them have no entry."""
    result, _ = dyntrace.trace("-e", "--max-size", "1M", "--mode", "block", *CALLS, "--", program_path("calls"), 8000, 2, output=(output := dyntrace.new_output()))
    rows, oracle = check(dyntrace, output)
    removed = int(re.search(r"(\d+) removed, the oldest first", result.stderr)[1])
    assert removed > 10000 and oracle.events > 10000 and oracle.lost == 0
    assert 0 < rows["leaf"]["calls"] < 24000


def test_overwritten(dyntrace, program_path):
    check(dyntrace, record(dyntrace, "-e", *CALLS, "--mode", "overwrite", "--buffer-size", "1M", "--", program_path("calls"), 1000, 3))


def test_values_in_exits(dyntrace, scratch):
    """Exits of any layout: the duration is found among structures and strings."""
    path = compile_program(scratch, "results.c", "-O1", name="results")
    check(dyntrace, record(dyntrace, "-e", "--function", "*@results", "--", path))


def test_without_exits(dyntrace, program_path):
    trace = record(dyntrace, *CALLS, "--probe", "main", "--", program_path("calls"), 3, 1)
    check(dyntrace, trace)
    lines = dyntrace("report", trace).stdout.splitlines()
    assert lines[0].split() == ["hits", "function"]
    assert [line.split() for line in lines[1:]] == [["12", "leaf"], ["6", "rec"], ["3", "mid"], ["3", "top_"], ["1", "main"]]


@pytest.fixture(name="trace")
def one_trace(dyntrace, program_path):
    return record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 100, 1)


def test_csv(dyntrace, trace):
    rows, _ = functions(dyntrace, trace)
    table = [*csv.DictReader(io.StringIO(dyntrace("report", trace, "--csv").stdout))]
    assert [{**row, **{key: int(value) for key, value in row.items() if key != "function"}} for row in table] == \
        [{"function": row["name"], **{key: value for key, value in row.items() if key != "name"}} for row in rows.values()]


@pytest.mark.parametrize("column, key", [("calls", "calls"), ("total", "total_ns"), ("self", "self_ns"), ("mean", "mean_ns"), ("max", "max_ns")])
def test_sort(dyntrace, trace, column, key):
    rows, _ = functions(dyntrace, trace, "--sort", column)
    values = [row[key] for row in rows.values()]
    assert values == sorted(values, reverse=True)
    assert [*functions(dyntrace, trace, "--sort", "name")[0]] == ["leaf", "mid", "rec", "top_"]
    assert len(dyntrace("report", trace, "--top", 2).stdout.splitlines()) == 4  # head, two rows, how many are left out


def nanoseconds(text):
    number, unit = re.fullmatch(TIME, text.strip()).groups()
    return float(number) * UNITS[unit]


def test_tree(dyntrace, trace):
    """Every path with its calls; times as far as they are shown."""
    lines = dyntrace("report", trace, "--tree", "--all-rows").stdout.splitlines()[1:]
    paths, at = {}, []
    for line in lines:
        found = re.fullmatch(rf"\s*({TIME})\s+([\d.]+)%\s+({TIME})\s+(\d+)  ( *)(\w+)", line)
        depth = len(found[9]) // 2
        at[depth:] = [found[10]]
        paths[tuple(at)] = (int(found[8]), nanoseconds(found[1]), nanoseconds(found[5]))
    expected = Calls(trace).paths
    assert {path: numbers[0] for path, numbers in paths.items()} == {path: numbers["calls"] for path, numbers in expected.items()}
    for path, (_, total, own) in paths.items():
        assert total == pytest.approx(expected[path]["total"], rel=0.006, abs=0.5), path
        assert own == pytest.approx(expected[path]["self"], rel=0.006, abs=0.5), path


def test_tree_of_a_program_that_exits(dyntrace, scratch):
    """main never returns: it is the path of all that was called inside it, and shares are of the whole."""
    path = os.path.join(scratch, "exits")
    with open(path + ".c", "w") as file:
        file.write(EXITS)
    subprocess.run(["gcc", "-O1", "-fno-inline", "-o", path, path + ".c"], check=True)
    trace = record(dyntrace, "-e", *(word for name in ("main", "work", "part") for word in ("--function", name)), "--", path)
    work = Calls(trace).paths["main", "work"]["total"]
    lines = dyntrace("report", trace, "--tree").stdout.splitlines()
    rows = [line.split() for line in lines[1:4]]
    assert [(row[2], row[-2], row[-1]) for row in rows] == [("100.0%", "0", "main"), ("100.0%", "3", "work"), (rows[2][2], "6", "part")]
    assert nanoseconds(" ".join(rows[0][:2])) == nanoseconds(" ".join(rows[1][:2])) == pytest.approx(work, rel=0.006)
    assert lines[4].startswith("(calls without a duration: ") and lines[5] == "calls without an exit: 1 inside (hadn't returned when recording ended)"


def test_callers(dyntrace, trace):
    lines = dyntrace("report", trace, "--callers", "--all-rows").stdout.splitlines()[1:]
    top = {line.split()[-1]: int(line.split()[3]) for line in lines if "<" not in line}
    assert top == {name: numbers["calls"] for name, numbers in Calls(trace).numbers.items()}
    at = next(i for i, line in enumerate(lines) if re.search(r"\d  mid$", line))
    assert lines[at + 1].split()[3:] == ["100", "<", "top_"]


def test_function(dyntrace, trace):
    """Histogram, callers, callees and the ten slowest calls with their arguments."""
    oracle = Calls(trace)
    text = dyntrace("report", trace, "rec").stdout
    rows = re.findall(rf"^ +{TIME} \.\. +{TIME} +(\d+) \|#* *\|((?: p\d\d)*)$", text, re.M)
    assert sum(int(row[4]) for row in rows) == oracle.numbers["rec"]["calls"] == 250
    for low, unit, high, next_unit, _, marks in rows:
        for mark in marks.split():
            exact = oracle.durations["rec"][min(250 * int(mark[1:]) // 100, 249)]
            assert float(low) * UNITS[unit] * 0.98 <= exact <= float(high) * UNITS[next_unit] * 1.02, mark
    assert "".join(row[5] for row in rows).split() == ["p50", "p90", "p99"]
    callers = dict(re.findall(rf"^ +(\d+) +{TIME} +[\d.]+%  (\w+)$".replace("(ns|us|ms|s)", "(?:ns|us|ms|s)").replace(r"(\d+(?:\.\d+)?)", r"\d+(?:\.\d+)?"),
                              text[text.index("callers"):text.index("callees")], re.M))
    assert {int(number): name for number, name in callers.items()} == {oracle.edges["rec", "rec"]["calls"]: "rec", 100: "top_"}
    shares = re.findall(r"([\d.]+)%  \w+$", text[text.index("callers"):text.index("callees")], re.M)
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.2)  # of all calls, the recursive ones included
    slowest = re.findall(rf"^ +({TIME})  [\d:.]+  tid \d+  n = (\d) -> \d+$", text[text.index("slowest"):], re.M)
    assert len(slowest) == 10
    assert [nanoseconds(row[0]) for row in slowest] == \
        pytest.approx(sorted(oracle.durations["rec"], reverse=True)[:10], rel=0.006, abs=0.5)
    assert f"(dyntrace view --around " in text and trace in text
    assert dyntrace.fails("report", trace, "nosuch").startswith("the trace has no function 'nosuch'")


def test_slowest_without_debug_information(dyntrace, program_path, scratch):
    """Registers are no arguments; what was asked for is shown."""
    path = os.path.join(scratch, "bare")
    subprocess.run(["strip", "--strip-debug", "-o", path, program_path("calls")], check=True)
    trace = record(dyntrace, "-e", "--function", "leaf", "-t", "string:said:(char *)$rsi", "--", path, 20, 1)
    assert "arg0 = " in dyntrace("view", trace).stdout
    text = dyntrace("report", trace, "leaf").stdout
    slowest = re.findall(rf'^ +{TIME}  [\d:.]+  tid \d+  said = "(?:hello|in rec)" -> \d+$', text[text.index("slowest"):], re.M)
    assert len(slowest) == 10 and "arg" not in text


def test_diff(dyntrace, program_path, trace):
    other = record(dyntrace, "-e", *CALLS[:6], "--mode", "block", "--", program_path("calls"), 50, 1)
    old, new = functions(dyntrace, trace)[0], functions(dyntrace, other)[0]
    rows = {row["name"]: row for row in json.loads(dyntrace("report", trace, "--diff", other, "--json").stdout)}
    for name in old:
        for key in ("calls", "total_ns", "mean_ns"):
            assert rows[name][key] == [old[name][key], new[name][key] if name in new else 0]
    lines = dyntrace("report", trace, "--diff", other).stdout.splitlines()
    assert [line.split()[-1] for line in lines[1:]] == [*rows]


def test_newest(dyntrace, scratch, program_path):
    folder = os.path.join(scratch, "folder")
    os.makedirs(folder)
    assert dyntrace.fails("report", cwd=folder, status=2).startswith("report: give a TRACE")
    for name, loops in (("old", 1), ("new", 2)):
        dyntrace("trace", "-o", os.path.join(folder, name), "-e", *CALLS, "--", program_path("calls"), loops, 1)
    os.utime(os.path.join(folder, "old", "metadata"), (1, 1))
    result = dyntrace("report", "--csv", cwd=folder)
    assert result.stderr == "dyntrace: reading new, the newest trace here\n"
    assert "\"top_\",2,2," in result.stdout
    assert len(dyntrace("view", cwd=folder).stdout.splitlines()) == 2 * (2 * 5 + 3 + 1)


def test_others(dyntrace, scratch, trace):
    """A trace of someone else's, no trace, a damaged trace."""
    copy = own_reader.foreign_copy(trace, os.path.join(scratch, "copy"))
    assert "this is not a whole trace of dyntrace's ('dyntrace view' reads more kinds of traces)" in dyntrace.fails("report", copy)
    assert dyntrace.fails("report", "/no/such/trace") == "cannot open the trace '/no/such/trace': No such file or directory"
    for words in (["--tree", "--callers"], ["--tree", "--json"], ["--sort", "nothing"], ["--top", "0"]):
        assert dyntrace("report", trace, *words, status=2).stderr.startswith("dyntrace: report: ")
    stream = max((os.path.join(trace, name) for name in os.listdir(trace) if name != "metadata"), key=os.path.getsize)
    with open(stream, "r+b") as file:
        file.seek(104)  # behind the head of the first packet
        file.write(b"\xff" * 3)
    result = dyntrace("report", trace, status=1)
    assert "is damaged: its reader stumbled after" in result.stderr and result.stdout.startswith(("calls ", "(no calls)"))
