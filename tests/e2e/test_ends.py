"""Exits at the ends of functions (R9): calls from code that finds its frames by return address keep their own return address,
and still have true exits, exactly counted."""
import glob
import os
import re
import shutil
import subprocess

import pytest

from fixtures import ROOT
from harness import Trace, until
from test_return_addresses import table

PROGRAMS = os.path.join(ROOT, "tests", "programs")
ROUNDS = 2
NUMBERS = range(1, 701)  # of one round
RETURNED = [n for n in NUMBERS if n % 7 and n % 5]
RAISED = [n for n in NUMBERS if n % 7 == 0]
JUMPED = [n for n in NUMBERS if n % 7 and n % 5 == 0]
THREADS = 3


@pytest.fixture(scope="module")
def ends(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ends")
    shutil.copy(os.path.join(PROGRAMS, "ends.ml"), folder)
    subprocess.run(["ocamlopt", "-I", "+threads", "unix.cmxa", "threads.cmxa", "ends.ml", "-o", "ends"], cwd=folder, check=True,
                   capture_output=True)
    return str(folder / "ends")


def expected(rounds):
    each = rounds * THREADS
    return f"returned {len(RETURNED) * each} raised {len(RAISED) * each} jumped {len(JUMPED) * each}\n"


def row(found, name):
    return next(row for key, row in found.items() if key.startswith(f"camlEnds__{name}_"))


def test_fates(dyntrace, ends):
    """Each call is counted by its end: returned, unwound by an exception, or given up at a tail call. Frames that an exception
    has left when the program ends may be counted as inside."""
    result = dyntrace("trace", "--tracer", "count", "-e", "--function", "camlEnds__*", "--all-rows", "--", ends, str(ROUNDS))
    assert result.stdout == expected(ROUNDS)
    found = table(result.stderr)
    each = ROUNDS * THREADS
    fate, last, nest = row(found, "fate"), row(found, "last"), row(found, "nest")
    assert fate["hits"] == len(NUMBERS) * each
    assert fate["missed"] == len(JUMPED) * each
    assert fate["unwound"] + fate["inside"] == len(RAISED) * each
    assert fate["timed"]
    assert last["hits"] == len(JUMPED) * each and last["missed"] == last["unwound"] == last["inside"] == 0
    assert nest["hits"] == sum(n % 40 + 1 for n in NUMBERS) * each
    assert nest["missed"] == len(NUMBERS) * each  # its last call is `fate`, in its place
    assert nest["unwound"] + nest["inside"] == sum(n % 40 for n in RAISED) * each
    assert re.search(r"^missed: \d+ calls that ended in a jump to another function$", result.stderr, re.M)


def test_one_call(dyntrace, scratch):
    """A single missed call is told in the singular."""
    with open(os.path.join(scratch, "one.ml"), "w") as file:
        file.write("let[@inline never] f x = print_int x\nlet () = f 3; print_newline ()\n")
    subprocess.run(["ocamlopt", "one.ml", "-o", "one"], cwd=scratch, check=True, capture_output=True)
    result = dyntrace("trace", "--tracer", "count", "-e", "--function", "camlOne__f_*", "--", os.path.join(scratch, "one"))
    assert result.stdout == "3\n"
    assert re.search(r"^missed: 1 call that ended in a jump to another function$", result.stderr, re.M), result.stderr


def test_values(dyntrace, ends):
    """Every exit has the result of its own call, in its own thread, after its entry."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--buffer-size", "64M", "-e", "--function", "camlEnds__fate_*", "--", ends,
                      str(ROUNDS))
    assert result.stdout == expected(ROUNDS)
    trace = Trace(output)
    name = next(name for name in trace.names() if name.endswith("_exit"))
    results = sorted(event.fields["ret"] for event in trace.named(name))
    assert results == sorted(2 * 3 * n + 1 for n in RETURNED for _ in range(ROUNDS * THREADS))
    took = sorted(event.fields["duration"] for event in trace.named(name))
    assert took[len(took) // 2] > 0 and took[-1] < 60 * 10 ** 9, took  # (one step of the clock may be longer than a short call)


def test_filter(dyntrace, ends):
    """A call that isn't recorded doesn't end a call that an exception left at the same place of the stack."""
    wanted = " || ".join(f"$rax == {2 * n + 1}" for n in RAISED[:8])
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--buffer-size", "64M", "-e", "--function", "camlEnds__fate_*",
                      "--filter", wanted, "--", ends, str(ROUNDS))
    fate = row(table(result.stderr), "fate")
    assert fate["hits"] == 8 * ROUNDS * THREADS == fate["unwound"] + fate["inside"]
    assert not fate["timed"] and fate["missed"] == 0


def recorded(output):
    """The bytes of events that have been written to the trace."""
    return sum(os.path.getsize(path) for path in glob.glob(os.path.join(output, "stream*")))


def test_attached_again(dyntrace, processes, ends):
    """Tracing begins and ends while threads are inside, again and again: the program goes on, its code and mappings are its own
    afterwards, and every entry has its exit or a reason why not."""
    target = processes.start([ends, "1000000", "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    target.stdin.write("\n")
    target.stdin.flush()
    for _ in range(4):
        tracing = dyntrace.start_trace(target.pid, "--buffer-size", "128M", "-e", "--function", "camlEnds__fate_*", "--function",
                                       "camlEnds__last_*")
        until(lambda: recorded(tracing.output), "the first calls")
        trace = tracing.stop()
        tracing.before.assert_unchanged(busy=True)
        assert target.poll() is None and trace.lost == 0
        events, found = trace.names(), table(tracing.stderr)
        for name in ("fate", "last"):
            entry = next((key for key in events if re.fullmatch(rf"camlEnds__{name}_\d+_entry", key)), None)
            if not entry:
                continue
            counted = row(found, name)
            ended = events.get(entry.replace("_entry", "_exit"), 0) + counted["unwound"] + counted["missed"] + counted["inside"]
            assert events[entry] == counted["hits"] == ended


def test_compiled_callers(dyntrace, scratch):
    """Code that LuaJIT makes at run time has no unwind tables: what it calls keeps its return address, and has exits."""
    path = os.path.join(scratch, "calls.lua")
    with open(path, "w") as file:
        file.write('local t = {} for i = 1, 20000 do t[i % 100 + 1] = "k" .. i end print(#t, t[1])\n')
    command = ["luajit", path]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    result = dyntrace("trace", "--tracer", "count", "-e", "--function", "*@luajit", "--all-rows", "--", *command)
    assert result.stdout == output
    busy = [row for row in table(result.stderr).values() if row["hits"] > 15000]
    assert any(row["missed"] == 0 and row["timed"] for row in busy)
    assert all(row["missed"] in (0, row["hits"]) for row in busy)  # all calls of a function end alike here
    assert "made at run time" not in result.stderr
