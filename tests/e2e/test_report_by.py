"""dyntrace report --by and --of: each row against Python over babeltrace2's module (calls_oracle.py), of all kinds of traces.

(O4) keys are those of the call's entry, (O5) a row's total is the time with one of its calls on the stack, (O6) all calls are in a row."""
import collections
import csv
import io
import json
import os
import re
import signal
import subprocess

import pytest

from calls_oracle import Calls
from harness import until
from test_own_reader import CALLS, record
from test_report import SHORT_PACKETS, lose
from test_values import compile_program

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum kind { SMALL, LARGE };
struct request { const char *path; long size; };
__attribute__((noinline)) long get(const char *path, int size, enum kind kind, double share)
{
	__asm__ volatile("" ::: "memory");
	return size % 7 - 3 + (share > 1e9) + (kind > LARGE) + (path[0] == 0);
}
__attribute__((noinline)) long serve(struct request *request)
{
	return get(request->path, (int)request->size, request->size > 50 ? LARGE : SMALL, (double)request->size / 2);
}
__attribute__((noinline)) long climb(int n, int step) { long r = n ? climb(n - step, step) : 1; __asm__ volatile("" ::: "memory"); return r + 1; }
int main(int argc, char **argv)
{
	static const char *const paths[] = { "/etc/app.conf", "/var/lib/app/db", "", "a,b\"c\n", "/etc/app.conf" };
	long sum = 0, count = argc > 1 ? atol(argv[1]) : 100;
	for (long i = 0; i < count; i++) {
		struct request request = { paths[i % 5], i };
		sum += serve(&request) + climb((int)(i % 4) * 2, 2);
	}
	printf("%ld\n", sum);
	return 0;
}
"""


@pytest.fixture(name="keyed", scope="module")
def build_keyed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keyed")
    (folder / "keyed.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-fno-optimize-sibling-calls", "-o", folder / "keyed", folder / "keyed.c"], check=True)
    return folder / "keyed"


FUNCTIONS = ["--function", "get", "--function", "serve", "--function", "climb"]


def rows_of(dyntrace, trace, *words):
    result = json.loads(dyntrace("report", trace, "--json", *words).stdout)
    return {tuple(row["key"].values()): row for row in result["rows"]}, result


def expected_rows(calls, key, value):
    """{key: (count, total, sorted values)}; calls of one row inside each other share their time."""
    groups = collections.defaultdict(list)
    for call in calls:
        groups[key(call)].append(call)
    rows = {}
    for name, group in groups.items():
        values = sorted(value(call) for call in group)
        total, open_until = 0, {}
        for call in sorted(group, key=lambda call: (call["entry"] or call["exit"])["at"]):
            who, end = call["exit"]["who"] if call["exit"] else None, (call["exit"] or call["entry"])["at"]
            if end > open_until.get(who, -1) and call["exit"]:
                total += call["duration"]
                open_until[who] = end
        rows[name] = (len(group), total, values)
    return rows


def check(dyntrace, trace, words, key, value=None, calls=None, oracle=None):
    """Every number of every row."""
    oracle = oracle or Calls(trace)
    rows, result = rows_of(dyntrace, trace, *words)
    rows = {name: row for name, row in rows.items() if row["calls"]}  # the others' exits aren't recorded
    is_duration = value is None
    expected = expected_rows(oracle.calls if calls is None else calls, key, value or (lambda call: call["duration"]))
    assert set(rows) == set(expected)
    unit = "_ns" if is_duration or "self" in words else ""
    for name, row in rows.items():
        count, total, values = expected[name]
        assert row["calls"] == row["hits"] == count, name
        assert row[f"total{unit}"] == (total if is_duration else sum(values)), name
        assert row[f"max{unit}"] == values[-1]
        assert row[f"mean{unit}"] == int(sum(values) / count)
        for share in (50, 90, 99):
            exact = values[min(int(count * share / 100), count - 1)]
            assert abs(row[f"p{share}{unit}"] - exact) <= abs(exact) * 0.016 + 1, (name, share)
    return rows, result


def field(name):
    """The field at entry; an unknown one if the entry isn't in the trace."""
    return lambda call: (call["entry"]["fields"][name] if call["entry"] else "(unknown)",)


def of(calls, *functions):
    return [call for call in calls if call["function"] in functions]


@pytest.fixture(name="trace", scope="module")
def one_trace(keyed, tmp_path_factory, build):
    output = str(tmp_path_factory.mktemp("by") / "trace")
    subprocess.run([os.path.join(build, "dyntrace"), "trace", "-q", "-e", *FUNCTIONS, "-t", "cpu", "-t", "backtrace", "-o", output, "--mode", "block",
                    "--", keyed, "200"], check=True, stdout=subprocess.DEVNULL)
    return output


@pytest.fixture(name="oracle", scope="module")
def oracle_of(trace):
    return Calls(trace)


def test_fields(dyntrace, trace, oracle):
    """Numbers, text, enumerations; expressions over fields; several keys."""
    get = of(oracle.calls, "get")
    check(dyntrace, trace, ["get", "--by", "path"], field("path"), calls=get)
    check(dyntrace, trace, ["get", "--by", "size"], field("size"), calls=get)
    check(dyntrace, trace, ["get", "--by", "kind"], lambda call: (("SMALL", "LARGE")[call["entry"]["fields"]["kind"]],), calls=get)
    check(dyntrace, trace, ["get", "--by", "size / 10 * 10, path"],
          lambda call: (call["entry"]["fields"]["size"] // 10 * 10, call["entry"]["fields"]["path"]), calls=get)
    shares = rows_of(dyntrace, trace, "get", "--by", "share", "--keys", 1000)[0]
    assert {float(name[0]): row["calls"] for name, row in shares.items()} == {i / 2: 1 for i in range(200)}


def test_ret(dyntrace, trace, oracle):
    get = of(oracle.calls, "get")
    check(dyntrace, trace, ["get", "--by", "ret"], lambda call: (call["exit"]["fields"]["ret"],), calls=get)
    check(dyntrace, trace, ["get", "--by", "path,$ret"], lambda call: (call["entry"]["fields"]["path"], call["exit"]["fields"]["ret"]), calls=get)
    # (O4) The value is known at the entry, the key isn't.
    check(dyntrace, trace, ["get", "--by", "ret", "--of", "size"], lambda call: (call["exit"]["fields"]["ret"],),
          value=lambda call: call["entry"]["fields"]["size"], calls=get)


def test_contexts(dyntrace, trace, oracle):
    check(dyntrace, trace, ["--by", "$tid"], lambda call: (call["exit"]["who"][1],))
    check(dyntrace, trace, ["--by", "$pid,$comm"], lambda call: (call["exit"]["who"][0], "keyed"))
    check(dyntrace, trace, ["--by", "$cpu"], field("cpu"))
    check(dyntrace, trace, ["--by", "function"], lambda call: (call["function"],))


def test_recursion(dyntrace, trace, oracle):
    """(O5) Rows of a recursive function: by what every call has, by what each has alone, by its result."""
    climb = of(oracle.calls, "climb")
    rows, _ = check(dyntrace, trace, ["climb", "--by", "step"], field("step"), calls=climb)
    assert sum(row["total_ns"] for row in rows.values()) == oracle.numbers["climb"]["total"]
    check(dyntrace, trace, ["climb", "--by", "n"], field("n"), calls=climb)
    check(dyntrace, trace, ["climb", "--by", "ret"], lambda call: (call["exit"]["fields"]["ret"],), calls=climb)
    check(dyntrace, trace, ["climb", "--by", "n / 4"], lambda call: (call["entry"]["fields"]["n"] // 4,), calls=climb)


def test_values(dyntrace, trace, oracle):
    """--of: self, ret with its sign, a field, an expression. Fields are counted at entry."""
    check(dyntrace, trace, ["--by", "function", "--of", "self"], lambda call: (call["function"],), value=lambda call: call["self"])
    get = of(oracle.calls, "get")
    check(dyntrace, trace, ["get", "--by", "path", "--of", "ret"], field("path"), value=lambda call: call["exit"]["fields"]["ret"], calls=get)
    rows, _ = rows_of(dyntrace, trace, "get", "--by", "ret", "--of", "ret")
    assert rows[-3,]["mean"] == rows[-3,]["p99"] == rows[-3,]["max"] == -3 and rows[-3,]["total"] == -3 * rows[-3,]["calls"]
    entries = of(oracle.hits, "get")
    check(dyntrace, trace, ["get", "--by", "path", "--of", "size"], field("path"), value=lambda call: call["entry"]["fields"]["size"], calls=entries)
    check(dyntrace, trace, ["get", "--by", "$tid", "--of", "size * 8 - 100"], lambda call: (call["entry"]["who"][1],),
          value=lambda call: call["entry"]["fields"]["size"] * 8 - 100, calls=entries)


def test_callers(dyntrace, trace, oracle):
    """By the recorded backtrace; without one, by the traced function around the call."""
    rows, _ = rows_of(dyntrace, trace, "get", "--by", "caller")
    assert {name: row["calls"] for name, row in rows.items()} == {("serve",): 200}
    rows, _ = rows_of(dyntrace, trace, "climb", "--by", "caller")
    assert {name: row["calls"] for name, row in rows.items()} == {("main",): 200, ("climb",): 300}
    rows, _ = rows_of(dyntrace, trace, "get", "--by", "backtrace:2")
    assert [row["calls"] for row in rows.values()] == [200]
    assert re.fullmatch(r"get\+0x0 \(keyed\.c:\d+\) < serve\+0x\w+ \(keyed\.c:\d+\)", [*rows][0][0])
    stacks, _ = rows_of(dyntrace, trace, "climb", "--by", "backtrace")
    assert sorted(row["calls"] for row in stacks.values()) == [50, 100, 150, 200]


def test_traced_callers(dyntrace, keyed):
    trace = record(dyntrace, "-e", *FUNCTIONS, "--", keyed, 50)
    rows, _ = check(dyntrace, trace, ["--by", "caller"], lambda call: (call["caller"] or "(a function that isn't traced)",))
    assert ("climb",) in rows and ("serve",) in rows
    assert "no call has '$cpu' in this trace" in dyntrace.fails("report", trace, "--by", "$cpu")
    assert "no call has 'backtrace' in this trace" in dyntrace.fails("report", trace, "--by", "backtrace")


def test_without_exits(dyntrace, keyed):
    trace = record(dyntrace, *FUNCTIONS, "--", keyed, 60)
    hits = collections.Counter(hit["entry"]["fields"]["path"] for hit in of(Calls(trace).hits, "get"))
    rows, _ = rows_of(dyntrace, trace, "get", "--by", "path")
    assert {name[0]: row["hits"] for name, row in rows.items()} == hits
    assert dyntrace("report", trace, "get", "--by", "path").stdout.splitlines()[0].split() == ["path", "hits"]
    assert "no call has 'ret' in this trace" in dyntrace.fails("report", trace, "--by", "ret")
    assert "no call has 'duration' in this trace" in dyntrace.fails("report", trace, "--by", "$tid", "--of", "duration")


def test_limits(dyntrace, trace, oracle):
    """(O6) Keys beyond the limit, and rows beyond --top, share a row, and sums are exact."""
    get = of(oracle.calls, "get")
    for words, own, others in ((["--keys", 30], 30, 170), (["--top", 5], 5, 195), (["--keys", 30, "--top", 3], 3, 197)):
        rows, _ = rows_of(dyntrace, trace, "get", "--by", "size", *words)
        assert len(rows) == own + 1 and (f"(other keys: {others})",) in rows
        assert sum(row["calls"] for row in rows.values()) == 200
        assert sum(row["total_ns"] for row in rows.values()) == sum(call["duration"] for call in get)
        assert max(row["max_ns"] for row in rows.values()) == max(call["duration"] for call in get)
    lines = dyntrace("report", trace, "get", "--by", "size").stdout.splitlines()
    assert len(lines) == 1 + 40 + 1 and lines[-1].startswith("(other keys: 160)")
    assert len(dyntrace("report", trace, "get", "--by", "size", "--all-rows").stdout.splitlines()) == 201


def test_forms(dyntrace, trace):
    """Text in 80 columns, CSV as in JSON, the order of --sort, histograms with percentiles."""
    rows, _ = rows_of(dyntrace, trace, "get", "--by", "path,kind", "--sort", "max")
    table = [*csv.DictReader(io.StringIO(dyntrace("report", trace, "get", "--by", "path,kind", "--sort", "max", "--csv").stdout))]
    assert [(row["path"].replace("\\n", "\n"), row["kind"]) for row in table] == [*rows]
    assert [int(row["total_ns"]) for row in table] == [row["total_ns"] for row in rows.values()]
    values = [row["max_ns"] for row in rows.values()]
    assert values == sorted(values, reverse=True)
    text = dyntrace("report", trace, "get", "--by", "path").stdout
    assert text.splitlines()[0].split() == ["path", "calls", "total", "self", "mean", "p99", "max"]
    assert max(map(len, text.splitlines())) <= 80 and 'a,b"c\\n ' in text
    for words in (["--hist"], ["--linear"]):
        text = dyntrace("report", trace, "get", "--by", "$tid", "--of", "size", *words).stdout
        bars = re.findall(r"^ +(\d+) \.\. +(\d+) +(\d+) \|#* *\|((?: p\d\d)*)$", text, re.M)
        assert sum(int(bar[2]) for bar in bars) == 200
        for low, high, count, _ in bars:
            assert int(count) == sum(int(low) <= i < int(high) for i in range(200))
        assert " ".join(bar[3] for bar in bars).split() == ["p50", "p90", "p99"]


def test_losses(dyntrace, keyed):
    """(O6) Calls whose entries are missing have a row of their own; cut ones are in none."""
    trace = record(dyntrace, "-e", *FUNCTIONS, *SHORT_PACKETS, "--", keyed, 4000)
    file = max((os.path.join(trace, name) for name in os.listdir(trace) if name != "metadata"), key=os.path.getsize)
    lose(file, 1, 100)
    oracle = Calls(trace)
    assert oracle.lost == 100
    check(dyntrace, trace, ["--by", "function"], lambda call: (call["function"],), oracle=oracle)
    check(dyntrace, trace, ["climb", "--by", "n"], field("n"), calls=of(oracle.calls, "climb"), oracle=oracle)


def test_unwound(dyntrace, scratch):
    path = compile_program(scratch, "throws.cpp", "-O1", compiler="g++", name="throws")
    trace = record(dyntrace, "-e", "--function", "*@throws", "--", path, status=None)
    check(dyntrace, trace, ["--by", "function", "--keys", 10000], lambda call: (call["function"],))


def test_forks_threads_and_programs(dyntrace, program_path):
    trace = record(dyntrace, "-e", "--function", "foo", "--", program_path("forker"), "--children", 5, "--calls", 20)
    check(dyntrace, trace, ["--by", "$pid"], lambda call: (call["exit"]["who"][0],))
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 50, 3)
    check(dyntrace, trace, ["--by", "$tid,function"], lambda call: (call["exit"]["who"][1], call["function"]))
    check(dyntrace, trace, ["rec", "--by", "n"], field("n"), calls=of(Calls(trace).calls, "rec"))
    spin = program_path("spin")
    trace = record(dyntrace, "-e", "--follow-exec", "--function", "foo", "--", "sh", "-c", f"{spin} --threads 2 --calls 30; exec {spin} --calls 40")
    check(dyntrace, trace, ["--by", "$tid"], lambda call: (call["exit"]["who"][1],))


def test_snapshot(dyntrace, program):
    """A snapshot of the overwrite mode begins in the middle of calls."""
    target = program("spin", "--threads", 2, "--calls", 30000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "foo", "--mode", "overwrite", "--buffer-size", "1M")
    target.go().wait_ready()
    os.kill(tracing.process.pid, signal.SIGUSR1)
    snapshot = tracing.output + ".snapshot-1"
    until(lambda: os.path.exists(os.path.join(snapshot, "metadata")) and "snapshot:" in tracing.process.stderr.readline(), "the snapshot")
    tracing.stop()
    target.finish()
    check(dyntrace, snapshot, ["--by", "$tid"], lambda call: (call["exit"]["who"][1],))


def test_left_out(dyntrace, trace):
    """Functions without the field aren't in a row, and are counted; a key that no function has is an error."""
    result = rows_of(dyntrace, trace, "--by", "path")[1]
    assert result["left_out"] == 200 + 500  # serve, climb
    assert "700 calls are left out: they have no 'path', or not as one value\n" in dyntrace("report", trace, "--by", "path").stdout
    error = dyntrace("report", trace, "get", "--by", "nosuch", status=2).stderr
    assert error.startswith("dyntrace: report: --by: unknown field 'nosuch' (available: path, size, kind, share, cpu,"), error
    assert "no call has 'path' in this trace, or not as one value" in dyntrace.fails("report", trace, "--by", "$tid", "--of", "path")
    for words in (["--of", "size"], ["--by", "a", "--tree"], ["--by", ""], ["--by", "a", "--keys", "0"], ["--by", "a", "--top", "x"], ["--by", "a,"]):
        assert dyntrace("report", trace, *words, status=2).stderr.startswith("dyntrace: report: ")


STRUCT = r"""
struct point { long x, y, z; };
__attribute__((noinline)) long reach(struct point point) { __asm__ volatile("" ::: "memory"); return point.x + point.y; }
int main(void)
{
	long sum = 0;
	for (int i = 0; i < 10; i++)
		sum += reach((struct point){ i % 3, i, 0 });
	return sum != 54;
}
"""


def test_several_values(dyntrace, tmp_path):
    """A struct is no key: the message says that it is one, and doesn't offer it. A member of it is."""
    (tmp_path / "point.c").write_text(STRUCT)
    subprocess.run(["gcc", "-g", "-O1", "-o", tmp_path / "point", tmp_path / "point.c"], check=True)
    dyntrace("trace", "-e", "--function", "reach", "-o", tmp_path / "trace", "--", tmp_path / "point")
    for words in (["report", tmp_path / "trace", "--by", "point"], ["view", tmp_path / "trace", "--filter", "point == 3"]):
        error = dyntrace(*words, status=2).stderr
        assert f": {words[2]}: 'point' has several values (name one: point.MEMBER or point[0])\n" in error, error
        assert "available" not in error
    assert {key: row["calls"] for key, row in rows_of(dyntrace, tmp_path / "trace", "--by", "point.x")[0].items()} == {(0,): 4, (1,): 3, (2,): 3}
