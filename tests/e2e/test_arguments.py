"""Names of values that people type: arg0 to arg5, str(x), vector registers, results, and units of numbers."""
import os
import sqlite3
import subprocess
import sys

import pytest

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


@pytest.mark.parametrize("function, expression, numbers", [
    ("twice", "arg0 > 6", [7, 8, 9]), ("scale", 'str(arg2) == "odd" && arg3 > 5', [7, 9]), ("scale", "arg0 > 9 && arg1 < 4.5", [7, 8]),
    ("scale", 'str(name) == "ev*" && n', [2, 4, 6, 8])])
def test_by_number_with_debug_information(dyntrace, scale_debug, function, expression, numbers):
    _, trace = dyntrace.trace("--function", function, "--filter", expression, "--", scale_debug)
    assert [event.fields["n"] for event in trace.events] == numbers and trace.lost == 0


def test_contexts(dyntrace, scale, scale_debug):
    words = ["-t", "$xmm0", "-t", "(float)$xmm1", "-t", "string:label:arg0", "-t", "str(arg0)", "-t", "arg1"]
    _, trace = dyntrace.trace("--function", "scale", *words, "--", scale)
    assert [list(event.fields.values())[6:11] for event in trace.events] == [
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
    assert "unknown field 'nosuch' (available: arg0, arg1, arg2, arg3, arg4, arg5)" in error


def test_sql_of_a_real_library(dyntrace, scratch):
    """libsqlite3 has no debug information here: SQL is the second argument of its functions."""
    script = "import sqlite3; c = sqlite3.connect(':memory:'); [c.execute('select %d' % i).fetchall() for i in range(3)]"
    assert sqlite3.sqlite_version_info > (3,)
    result = dyntrace("trace", "--wait", "--function", "sqlite3_prepare_v2", "--filter", 'str(arg1) == "select [12]"',
                      "-t", "string:sql:arg1", "-o", dyntrace.new_output(), "--print", "--", sys.executable, "-c", script)
    assert [line.split('sql = "')[1].split('"')[0] for line in result.stdout.splitlines()] == ["select 1", "select 2"]
