"""Names of values that people type: arg0 to arg5, str(x), vector registers, results, and units of numbers."""
import os
import sqlite3
import subprocess
import sys

import pytest

import random_functions
from fixtures import ROOT


@pytest.fixture
def scale(scratch):
    """scale.c without debug information."""
    path = os.path.join(scratch, "scale")
    subprocess.run(["gcc", "-O1", "-o", path, os.path.join(ROOT, "tests/programs/scale.c")], check=True)
    return path


@pytest.fixture
def scale_debug(scratch):
    path = os.path.join(scratch, "scale-debug")
    subprocess.run(["gcc", "-O1", "-g", "-o", path, os.path.join(ROOT, "tests/programs/scale.c")], check=True)
    return path


@pytest.mark.parametrize("function, expression, numbers", [
    ("twice", "arg0 > 6", [7, 8, 9]), ("twice", "arg0 == 1K - 1020", [4]), ("scale", 'str(arg0) == "odd" && arg1 > 5', [7, 9]),
    ("scale", "$xmm0 > 9 && (float)$xmm1 < 4.5", [7, 8]), ("scale", "(double)$xmm0 == 3", [2]), ("scale", "(long)$xmm0 == 4", [3])])
def test_without_debug_information(dyntrace, scale, function, expression, numbers):
    _, trace = dyntrace.trace("--function", function, "--filter", expression, "--", scale)
    assert [event.fields["arg1" if function == "scale" else "arg0"] for event in trace.events] == numbers and trace.lost == 0


def test_registers_that_the_code_reads(dyntrace, scale):
    """Others are there if somebody asks for them: by name, and in filters."""
    _, trace = dyntrace.trace("--function", "twice", "--function", "named", "-t", "arg3", "--", scale)
    assert {event.name: list(event.fields) for event in trace.events} == {
        "twice_entry": ["arg0", "arg3"], "named_entry": ["arg0", "arg1", "arg3"]}
    told = dyntrace("trace", "--explain", "named", "--", scale).stdout
    assert "its code may read of the argument registers: arg0 arg1\n" in told
    _, trace = dyntrace.trace("--function", "twice", "--filter", "arg5 == arg5 && $r9 == arg5", "--", scale)
    assert [event.fields for event in trace.events] == [{"arg0": i} for i in range(10)]


@pytest.mark.parametrize("compiler, options", [("gcc", ["-O0"]), ("gcc", ["-O2"]), ("gcc", ["-O3", "-fcf-protection", "-fno-plt"]),
                                               ("gcc", ["-Os", "-fno-pie", "-no-pie"]), ("clang", ["-O0"]), ("clang", ["-O2"])])
def test_no_used_argument_is_left_out(dyntrace, scratch, compiler, options):
    """Functions made at random, each with a known set of parameters that it uses or passes on."""
    source, path = os.path.join(scratch, "random.c"), os.path.join(scratch, "random")
    used = random_functions.write(source, seed=len(options) + 7 * len(options[0]) + len(compiler), count=60)
    subprocess.run([compiler, "-w", *options, "-o", path, source], check=True)
    _, trace = dyntrace.trace("--function", "f_*", "--", path)
    found = {}
    for event in trace.events:
        found.setdefault(event.name.removesuffix("_entry"), []).append(event.fields)
    assert set(found) == set(used) and trace.lost == 0
    for name, (numbers, values) in used.items():
        for fields in found[name]:
            missing = {number for number in numbers if f"arg{number}" not in fields}
            assert not missing, f"{name} uses {sorted(numbers)}, and has {sorted(fields)}"
            assert values is None or {n: fields[f"arg{n}"] for n in numbers} == {n: values[n] for n in numbers}, name


@pytest.mark.parametrize("function, expression, numbers", [
    ("twice", "arg0 > 6", [7, 8, 9]), ("scale", 'str(arg2) == "odd" && arg3 > 5', [7, 9]), ("scale", "arg0 > 9 && arg1 < 4.5", [7, 8]),
    ("scale", 'str(name) == "ev*" && n', [2, 4, 6, 8])])
def test_by_number_with_debug_information(dyntrace, scale_debug, function, expression, numbers):
    _, trace = dyntrace.trace("--function", function, "--filter", expression, "--", scale_debug)
    assert [event.fields["n"] for event in trace.events] == numbers and trace.lost == 0


def test_contexts(dyntrace, scale, scale_debug):
    words = ["-t", "$xmm0", "-t", "(float)$xmm1", "-t", "string:label:arg0", "-t", "str(arg0)", "-t", "arg1"]
    _, trace = dyntrace.trace("--function", "scale", *words, "--", scale)
    assert [list(event.fields)[:2] for event in trace.events] == [["arg0", "arg1"]] * 10
    assert [list(event.fields.values())[2:7] for event in trace.events] == [
        [i * 1.5, i / 2, "odd" if i % 2 else "even", "odd" if i % 2 else "even", i] for i in range(10)]
    _, trace = dyntrace.trace("--function", "scale", "-t", "string:label:arg2", "-t", "arg3", "--", scale_debug)
    assert [(event.fields["label"], event.fields["arg3"]) for event in trace.events] == [
        ("odd" if i % 2 else "even", i) for i in range(10)]


def test_results_in_vector_registers(dyntrace, scale):
    """A function without debug information has its floats on request, also at its exit."""
    _, trace = dyntrace.trace("--function", "scale", "-e", "-t", "$xmm0", "-t", "string:label:arg0", "--", scale)
    assert [(event.fields["xmm0"], event.fields["label"]) for event in trace.named("scale_exit")] == [
        (i * 1.5 * i / 2 + i + (3 if i % 2 else 4), "odd" if i % 2 else "even") for i in range(10)]


@pytest.mark.parametrize("expression, results", [
    ("ret > 10", [12, 14, 16, 18]), ("duration > 1000s || ret == 4", [4]), ("duration < 1000s && entry:arg0 == 3", [6]),
    ('"ret" == "x" || $ret == 2', None)])
def test_results_by_the_names_of_their_fields(dyntrace, scale, scale_debug, expression, results):
    for path in (scale, scale_debug):
        if results is None:  # a word in a string is no name
            dyntrace("trace", "--function", "twice", "-e", "--filter", expression, "--", path, status=2)
            continue
        _, trace = dyntrace.trace("--function", "twice", "-e", "--filter", expression, "--", path)
        assert [event.fields["ret"] for event in trace.named("twice_exit")] == results


def test_arguments_go_before_results(dyntrace, scale_debug):
    _, trace = dyntrace.trace("--function", "named", "-e", "--filter", "ret == 7 && duration == 3", "--", scale_debug)
    assert [event.fields["ret"] for event in trace.events] == [7, 4]


@pytest.mark.parametrize("words, part", [
    (["--filter", "nosuch > 1"], "unknown variable 'nosuch' (available: arg0 to arg5)"),
    (["--filter", "duration > 5ms"], "known at a function's exit only (-e)"),
    (["--filter", "arg6 > 5"], "unknown variable 'arg6' (available: arg0 to arg5)"),
    (["--filter", "arg0 > 5m"], "not part of a number (units are K, M, G, ns, us, ms, s)"),
    (["--filter", "arg0 > 9223372036855M"], "number too large"),
    (["--filter", "$xmm16 > 5"], "unknown '$xmm16' (available: registers such as $rax and $xmm0"),
    (["--filter", 'str($xmm0) == "x"'], "a floating-point number is no address of a string"),
    (["-t", "string:s:$xmm0"], "'$xmm0' is a floating-point number, no address"), (["-t", "nosuch"], "no such context")])
def test_refusals(dyntrace, scale, words, part):
    assert part in dyntrace("trace", "--function", "twice", *words, "--", scale, status=2).stderr.splitlines()[0]


@pytest.mark.parametrize("expression, numbers", [
    ("arg0 * 1M >= 7M", [7, 8, 9]), ("arg0 * 1.5K == 4608", [3]), ("arg0 * 1s == 2000ms", [2]), ("arg0 * 1000 == 9us", [9]),
    ("arg0 == 8ns", [8]), ("arg0 == 8ul", [8]), ("arg0 == 8u", [8])])
def test_units(dyntrace, scale, expression, numbers):
    output = dyntrace.new_output()
    _, trace = dyntrace.trace("--function", "twice", "--filter", expression, "--", scale, output=output)
    assert [event.fields["arg0"] for event in trace.events] == numbers
    assert dyntrace("view", output, "--filter", expression).stdout.count("\n") == len(numbers)


def test_unknown_fields_of_a_trace(dyntrace, scale):
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "twice", "--", scale)
    error = dyntrace("view", output, "--filter", "nosuch == 1", status=2).stderr
    assert "unknown field 'nosuch' (available: arg0)" in error


def test_sql_of_a_real_library(dyntrace, scratch):
    """libsqlite3 has no debug information here: SQL is the second argument of its functions."""
    script = "import sqlite3; c = sqlite3.connect(':memory:'); [c.execute('select %d' % i).fetchall() for i in range(3)]"
    assert sqlite3.sqlite_version_info > (3,)
    result = dyntrace("trace", "--wait", "--function", "sqlite3_prepare_v2", "--filter", 'str(arg1) == "select [12]"',
                      "-t", "string:sql:arg1", "-o", dyntrace.new_output(), "--print", "--", sys.executable, "-c", script)
    assert [line.split('sql = "')[1].split('"')[0] for line in result.stdout.splitlines()] == ["select 1", "select 2"]
