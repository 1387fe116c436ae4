"""dyntrace trace -e: function exits. Whatever a program does with its stack, it behaves as untraced, and every
call has one fate: an exit, unwound, inside when recording ended, or missed."""
import collections
import os
import re
import subprocess

import pytest

from harness import Trace, summary_rows

CASES = ["values", "calls", "jumps", "contexts", "coroutine", "threads", "unmapped", "processes"]

Fate = collections.namedtuple("Fate", "hits lost unwound inside missed")


def fates(stderr):
    """The summary's rows, by function."""
    return {name: Fate(*(int(row[field]) for field in Fate._fields)) for name, row in summary_rows(stderr).items()
            if row.get("missed", "-") != "-"}


def check_fates(result, trace):
    """Entries = exits + unwound + inside + missed, for each function whose exit is recorded."""
    names = trace.names()
    rows = fates(result.stderr)
    assert rows, result.stderr
    for name, fate in rows.items():
        entries, exits = names.get(name + "_entry", 0), names.get(name + "_exit", 0)
        assert entries == fate.hits, name
        assert entries == exits + fate.unwound + fate.inside + fate.missed, (name, fate, exits)
    return rows


def run_case(dyntrace, program, case, *words, **options):
    command = [program, "--case", CASES.index(case)]
    expected = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True).stdout
    result, trace = dyntrace.trace("-e", "--function", "*", *words, "--", *command, **options)
    assert result.stdout == expected
    assert trace.lost == 0
    return trace.names(), check_fates(result, trace), trace


def pairs(names, *functions):
    return [(names.get(f + "_entry", 0), names.get(f + "_exit", 0)) for f in functions]


@pytest.fixture
def returns(program_path):
    return program_path("returns")


def test_values(dyntrace, returns):
    """Structs in memory and in two registers, xmm0 and xmm1, st(0), variadic functions, 20 arguments."""
    names, _, trace = run_case(dyntrace, returns, "values")
    functions = ["give_big", "give_two", "give_pair", "give_x87", "add_variadic", "add_twenty"]
    assert pairs(names, *functions) == [(1, 1)] * 6
    exits = {event.name: event.fields for event in trace.events}
    assert exits["add_twenty_exit"]["ret"] == 2870
    assert exits["main_entry"]


def test_durations(dyntrace, returns):
    """duration is the time between the two events; a caller's is not shorter than its callees'."""
    _, _, trace = run_case(dyntrace, returns, "calls")
    stack = []
    for event in (event for event in trace.events if event.name.startswith("recurse_")):
        if event.name == "recurse_entry":
            stack.append(event)
        else:
            entry = stack.pop()
            assert abs(event.ns - entry.ns - event.fields["duration"]) <= 2 + event.fields["duration"] // 1000
    assert not stack


def test_calls(dyntrace, returns):
    """Recursion, thousands deep; tail calls into each other."""
    names, rows, trace = run_case(dyntrace, returns, "calls")
    assert pairs(names, "recurse", "is_even", "is_odd") == [(5001, 5001), (118, 118), (117, 117)]
    assert trace.named("recurse_exit")[-1].fields["ret"] == 12502500
    assert [event.fields["ret"] for event in trace.named("is_even_exit")][-1] == 0


def test_longjmp(dyntrace, returns):
    names, rows, _ = run_case(dyntrace, returns, "jumps")
    assert pairs(names, "leap", "fault", "handler") == [(900, 0), (50, 0), (50, 0)]
    assert rows["leap"].missed == 0
    assert rows["leap"].unwound >= 850  # all but the last calls are noticed at run time


def test_contexts(dyntrace, returns):
    names, _, _ = run_case(dyntrace, returns, "contexts")
    assert pairs(names, "fiber_step", "fiber_main") == [(80, 80), (4, 4)]


def test_coroutine_on_another_thread(dyntrace, returns):
    names, _, trace = run_case(dyntrace, returns, "coroutine")
    assert pairs(names, "coroutine_inner", "coroutine_outer", "resume") == [(60, 59), (60, 59), (60, 60)]
    assert [event.fields["ret"] for event in trace.named("coroutine_inner_exit")] == [2 * n for n in range(1, 60)]
    assert len({event.tid for event in trace.named("coroutine_inner_exit")}) > 2


def test_threads_that_leave(dyntrace, returns):
    """pthread_exit and pthread_cancel through traced frames: clean-up handlers run."""
    names, _, _ = run_case(dyntrace, returns, "threads")
    assert pairs(names, "leave", "wait_forever", "clean") == [(100, 0), (20, 0), (40, 40)]


def test_stacks_that_vanish(dyntrace, returns):
    names, rows, _ = run_case(dyntrace, returns, "unmapped")
    assert pairs(names, "abandon", "recurse") == [(200, 0), (550, 550)]
    assert rows["abandon"].missed == 0


def test_processes(dyntrace, returns):
    """vfork and exec inside a call; fork inside four calls, which both processes return from."""
    names, _, trace = run_case(dyntrace, returns, "processes")
    assert pairs(names, "spawn", "fork_inside") == [(10, 10), (4, 4)]
    assert len({event.pid for event in trace.named("fork_inside_exit")}) == 1


def test_ends_inside(dyntrace, returns):
    result, trace = dyntrace.trace("-e", "--function", "*", "--", returns, "--case", 0, "--exec", 1)
    assert result.stdout.endswith("replaced\n")
    assert pairs(trace.names(), "replace", "main") == [(1, 0), (1, 0)]
    result, trace = dyntrace.trace("-e", "--function", "finish", "--", returns, "--case", 0, "--status", 7, status=7)
    assert trace.names() == {"finish_entry": 1}
    assert check_fates(result, trace)["finish"].inside == 1


def test_all_at_once_and_filters_of_pool(dyntrace, returns):
    """A pool that is too small: losses are counted, and the fates add up."""
    result, trace = dyntrace.trace("-e", "--function", "*", "--buffer-size", "1M", "--", returns, "--rounds", 3)
    assert result.stdout.count("threads") == 3
    for name, fate in fates(result.stderr).items():
        # jumped to on a new stack: their return address is no code
        assert fate.missed == (fate.hits if name in ("abandoned_main", "coroutine_main") else 0), name


def test_no_thread_block(dyntrace, program_path):
    """A program with no thread block, and functions that change FS: calls return, also in a forked child."""
    result, trace = dyntrace.trace("-e", "--function", "*", "--", program_path("bare"))
    names = trace.names()
    assert pairs(names, "recurse", "fork_inside", "wait_for") == [(75, 75), (1, 1), (1, 1)]
    assert pairs(names, "run", "set_fs") == [(1, 1), (2, 2)]
    check_fates(result, trace)


# ---- attached to a process ---------------------------------------------------------------------------

def test_calls_that_began_before(dyntrace, program):
    """main is running already: its exit is not invented."""
    target = program("returns", "--case", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "main", "--function", "recurse")
    target.go()
    assert "deep 12502500" in target.finish()
    tracing.stderr = tracing.process.communicate(timeout=30)[1]
    names = Trace(tracing.output).names()
    assert names == {"recurse_entry": 5001, "recurse_exit": 5001}


def test_detach_with_calls_inside(dyntrace, program):
    """Return addresses go back to the stacks; nothing of dyntrace is left; the program returns correctly."""
    target = program("returns", "--case", "1", "--hold", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "hold*", "--function", "recurse")
    target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert trace.names() == {"hold_entry": 4, "hold_by_jump_entry": 1}
    assert fates(tracing.stderr)["hold"] == Fate(4, 0, 0, 4, 0)
    assert fates(tracing.stderr)["hold_by_jump"] == Fate(1, 0, 0, 1, 0)
    target.go()
    assert target.finish().splitlines()[:2] == ["held 106", "deep 12502500"]


# ---- refusals ------------------------------------------------------------------------------------------

def test_refused_functions(dyntrace, returns):
    for function, why in [("_setjmp@libc.so.6", "return address"), ("vfork@libc.so.6", "returns twice"),
                          ("dlsym@libc.so.6", "address of its caller"),
                          ("dl_iterate_phdr@libc.so.6", "own return address"), ("_start", "not a regular function")]:
        error = dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", function, "--", returns,
                               status=125)
        assert why in error and "leave out -e" in error


def test_refused_by_glob_is_entered(dyntrace, returns):
    """The other functions of a glob have exits, and the message gives the reason."""
    result, trace = dyntrace.trace("-e", "--function", "*", "--", returns, "--case", 0)
    assert "exit not traced: " in result.stderr
    assert trace.names()["_start_entry"] == 1 and "_start_exit" not in trace.names()


def test_exit_needs_a_function(dyntrace):
    assert "--function" in dyntrace.fails("trace", "-e", "--probe", "main", "--", "true", status=2)


def test_c_functions_of_a_go_program(dyntrace, returns, scratch):
    """Code that isn't Go's has exits as anywhere: its stacks don't move, and Go doesn't walk them (test_go_functions has Go's own)."""
    fake = os.path.join(scratch, "gopher")
    subprocess.run(["objcopy", "--add-section", f".note.go.buildid={__file__}", returns, fake], check=True)
    _, trace = dyntrace.trace("-e", "--function", "give_two", "--", fake)
    names = trace.names()
    assert names["give_two_entry"] == names["give_two_exit"] > 0


# ---- debuggers -----------------------------------------------------------------------------------------

def test_gdb_sees_the_frames(dyntrace, program, build):
    """With the installed script, bt shows each call once, and main below them."""
    target = program("returns", "--case", "0", "--hold", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "hold*")
    target.go().wait_ready()
    script = os.path.join(build, "share", "dyntrace-gdb.py")
    result = subprocess.run(["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"source {script}", "-ex", "bt"],
                            capture_output=True, text=True)
    functions = re.findall(r"^#\d+ .*?(\w+) \(", result.stdout, re.M)
    assert functions.count("hold") == 4 and functions[-1] == "main", result.stdout
    tracing.stop()
    target.go()
    assert target.finish().startswith("held 106\n")


@pytest.mark.parametrize("tracer", ["ctf", "count"])
def test_core_dumps(dyntrace, program, build, scratch, tracer):
    """(H41) Memory that only the tracer uses isn't in them; the script finds the frames there too."""
    target = program("returns", "--case", "0", "--hold", "1").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--tracer", tracer, "--function", "hold*", "--function", "*@libc.so.6")
    target.go().wait_ready()
    core, script = os.path.join(scratch, "core"), os.path.join(build, "share", "dyntrace-gdb.py")
    subprocess.run(["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"gcore {core}"], capture_output=True, check=True)
    assert os.path.getsize(core) < 128 << 20
    mappings = re.findall(r"/memfd:dyntrace-(\w+).*?VmFlags:([^\n]*)", open(f"/proc/{target.pid}/smaps").read(), re.S)
    assert {name for name, _ in mappings} == {"code", "pool", *(["counts"] if tracer == "count" else [])}
    assert all("dd" in flags.split() for name, flags in mappings if name != "code"), mappings
    result = subprocess.run(["gdb", "-nx", "-batch", f"/proc/{target.pid}/exe", core, "-ex", f"source {script}", "-ex", "bt"], capture_output=True, text=True)
    functions = re.findall(r"^#\d+ .*?(\w+) \(", result.stdout, re.M)
    assert functions.count("hold") == 4 and functions[-1] == "main", result.stdout
    tracing.stop()
    target.go()
    assert target.finish().startswith("held 106\n")


def test_callers_made_at_run_time(dyntrace, program_path):
    """(R6) A return address in run-time compiled code stays: a garbage collector finds frames by it."""
    runtime = program_path("runtime")
    expected = subprocess.run([runtime], capture_output=True, text=True, check=True).stdout
    result, trace = dyntrace.trace("-e", "--function", "callee", "--function", "call_plainly", "--", runtime)
    assert result.stdout == expected == "15150 100 0\n"
    assert trace.names() == {"callee_entry": 200, "callee_exit": 100, "call_plainly_entry": 100,
                             "call_plainly_exit": 100}
    assert fates(result.stderr)["callee"].missed == 100


def test_instructions_that_are_data(dyntrace, program_path):
    """An instruction that another one reads as data isn't changed, neither for its own probe nor for neighbours."""
    runtime = program_path("runtime")
    error = dyntrace.fails("trace", "-o", dyntrace.new_output(), "--function", "constant_first", "--", runtime, status=125)
    assert "other code reads it as data" in error
    result, trace = dyntrace.trace("--function", "constant_again", "--function", "constant_firs[t]", "--", runtime)
    assert result.stdout == "15150 100 0\n"
    assert trace.names() == {"constant_again_entry": 1}
