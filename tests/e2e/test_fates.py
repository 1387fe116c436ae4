"""Calls without an exit, told apart in every view: missed, unwound, inside (O10 of src/cli/report/report.h)."""
import collections
import json
import os
import re

from calls_oracle import fates_of
from test_export import Perfetto
from test_own_reader import CALLS, record
from test_report import check

RUNTIME = ["-e", "--function", "callee", "--function", "call_plainly"]


def endings(dyntrace, trace):
    """How often view --tree says each thing about a call without an exit, and the deepest line."""
    lines = dyntrace("view", "--tree", trace).stdout.splitlines()
    deepest = max(len(line) - len(line.lstrip()) for line in (line.split("| ", 1)[1] for line in lines if "| " in line)) // 2
    return collections.Counter(found[1] for line in lines if (found := re.search(r" \(([a-z' ]+)\)$", line))), deepest


def slices(dyntrace, scratch, trace):
    path = os.path.join(scratch, "trace.pftrace")
    dyntrace("export", trace, "--perfetto", path)
    return [one for thread in Perfetto(path).slices.values() for one in thread]


def test_missed(dyntrace, scratch, program_path):
    """Returns that couldn't be watched aren't calls that are still open, and nothing piles up inside them."""
    trace = record(dyntrace, *RUNTIME, "--", program_path("runtime"))
    rows, _ = check(dyntrace, trace)
    assert {key: rows["callee"][key] for key in ("hits", "calls", "missed", "inside", "unwound")} == \
        {"hits": 200, "calls": 100, "missed": 100, "inside": 0, "unwound": 0}
    assert "calls without an exit: 100 missed (their returns couldn't be watched)\n" in dyntrace("report", trace).stdout
    tree = dyntrace("report", trace, "--tree", "--all-rows").stdout.splitlines()[1:4]
    assert [line.split()[-2:] for line in tree] == [["0", "callee"], ["100", "call_plainly"], ["100", "callee"]]
    said, deepest = endings(dyntrace, trace)
    assert said == {"its return couldn't be watched": 100} and deepest == 2
    found = slices(dyntrace, scratch, trace)
    assert collections.Counter(one[4].get("no exit") for one in found) == {None: 200, "missed": 100} and max(one[3] for one in found) == 2


def test_always_missed(dyntrace, scratch, program_path):
    """Calls of a function without any exit enclose nothing."""
    trace = record(dyntrace, *RUNTIME[:3], "--function", "look", "--", program_path("runtime"))
    path = os.path.join(trace, "metadata")
    with open(path) as file:
        text = file.read()
    with open(path, "w") as file:  # as if each call came from code that was made at run time
        file.write(re.sub(r"exits 100", "exits 0", text))
    lines = dyntrace("view", "--tree", trace).stdout.splitlines()
    assert len([line for line in lines if re.search(r"\| callee\(n = \d+\) \(its return couldn't be watched\)$", line)]) == 200
    assert len([line for line in lines if re.search(r"\| look\(\)", line)]) == 200
    assert max(one[3] for one in slices(dyntrace, scratch, trace)) == 0


def test_filtered(dyntrace, program_path):
    """A filter on the duration leaves no entries without exits: nothing looks as if it were inside."""
    trace = record(dyntrace, "-e", *CALLS, "--filter", "duration > 300", "--mode", "block", "--", program_path("calls"), 200, 2)
    rows = json.loads(dyntrace("report", "--json", trace).stdout)["functions"]
    assert rows and all(row["hits"] == row["calls"] and not row["inside"] + row["unwound"] + row["missed"] for row in rows)
    assert "calls without an exit" not in dyntrace("report", trace).stdout and not endings(dyntrace, trace)[0]


def test_still_open(dyntrace, program):
    """A call that hasn't returned is said to be inside, by report and at the end of the tree."""
    target = program("returns", "--case", "0", "--hold", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "hold*")
    target.go().wait_ready()
    trace = tracing.stop() and tracing.output
    rows = {row["name"]: row for row in json.loads(dyntrace("report", "--json", trace).stdout)["functions"]}
    assert {name: (row["inside"], row["missed"]) for name, row in rows.items()} == {"hold": (4, 0), "hold_by_jump": (1, 0)}
    said, deepest = endings(dyntrace, trace)
    assert said == {"hadn't returned": 5} and deepest == 4 and not fates_of(trace)
    target.go()
    target.finish()
