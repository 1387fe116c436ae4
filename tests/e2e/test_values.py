"""Values: parameters by name and type, as the program itself has them."""
import os
import struct
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "tests", "programs")
FLAGS = ["-O0", "-O1", "-O2", "-O3"]


def compile_program(scratch, source, *flags, compiler="gcc", name="program"):
    path = os.path.join(scratch, name)
    subprocess.run([compiler, "-g", *flags, "-o", path, os.path.join(PROGRAMS, source)], check=True)
    return path


def single(value):
    """As a float holds it."""
    return struct.unpack("f", struct.pack("f", value))[0]


LONG = "x" * 256 + "..."
EXPECTED = {
    "integers_entry": [
        {"c": 97, "sc": -3, "uc": 200, "s": -4, "us": 5, "i": -6, "u": 7, "l": -8, "ul": 9, "b": 1, "e": 5,
         "p": 0x1234},
        {"c": -1, "sc": 127, "uc": 0, "s": -32768, "us": 65535, "i": -2147483647, "u": 4294967295, "l": -1,
         "ul": 2**64 - 1, "b": 0, "e": -1, "p": 0}],
    "floats_entry": [
        {"f": 1.5, "d": 2.25, "ld": 3.125, "fc": {"real": 1, "imag": 2}, "dc": {"real": 3, "imag": 4}},
        {"f": single(-0.1), "d": 1e300, "ld": float("inf"), "fc": {"real": 0, "imag": 0},
         "dc": {"real": 0, "imag": 0}}],
    "structs_entry": [
        {"p": {"x": 3, "y": -4}, "b": {"numbers": [1, 2, 3, 4], "name": "a name", "d": 2.5},
         "m": {"f": 1.25, "i": 7, "d": 8.5}, "bi": {"a": 5, "b": -3, "c": 123456789},
         "u": {"i": 0x3f800000, "f": 1.0}}],
    "strings_entry": [
        {"s": "hällo", "none": "(null)", "bad": "(unreadable 0x10)", "cut": LONG, "edge": "abc(unreadable)",
         "bytes": "\\xff\x01"}],
    "wide_entry": [{"w": [5, 1 << 36], "after": 6}],
    "many_entry": [
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9, "x1": .1, "x2": .2, "x3": .3,
         "x4": .4, "x5": .5, "x6": .6, "x7": .7, "x8": .8, "x9": .9, "x10": 1.0}],
}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("compiler, version", [("gcc", 4), ("gcc", 5), ("clang", 4), ("clang", 5)])
def test_every_class_of_parameter(dyntrace, scratch, compiler, version, flags):
    path = compile_program(scratch, "types.c", flags, f"-gdwarf-{version}", compiler=compiler)
    words = [word for name in EXPECTED for word in ("--function", name.removesuffix("_entry"))]
    _, trace = dyntrace.trace(*words, "--", path)
    for name, expected in EXPECTED.items():
        assert [event.fields for event in trace.named(name)] == expected
    assert trace.lost == 0


def test_types_of_fields(dyntrace, scratch):
    """In the trace they are typed: enumerations by name, floats as floats, strings as strings."""
    path = compile_program(scratch, "types.c", "-O1")
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "integers", "--function", "floats", "--function", "strings",
             "--", path)
    text = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    assert 'b = ( "true" : container = 1 ), e = ( "GREEN" : container = 5 ), p = 0x1234' in text
    assert "f = 1.5, d = 2.25, ld = 3.125" in text
    assert 's = "hällo"' in text


def test_separate_debug_file(dyntrace):
    """Debian's libc6-dbg: malloc and fopen of a program nobody here made."""
    _, trace = dyntrace.trace("--function", "fopen", "--function", "qsort", "--", "sort", "/etc/passwd")
    names = {event.fields["filename"] for event in trace.named("fopen_entry")}
    assert names == {"/usr/share/locale/locale.alias"} or not names
    assert all(set(event.fields) == {"b", "n", "s", "cmp"} for event in trace.named("qsort_entry"))


def test_debug_link(dyntrace, scratch):
    """A stripped program whose debug information is in a file beside it; one that doesn't belong to it isn't believed."""
    path = compile_program(scratch, "types.c", "-O2", "-Wl,--build-id=none")
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", "-g", path], check=True, cwd=scratch)
    subprocess.run(["objcopy", "--add-gnu-debuglink=program.debug", path], check=True, cwd=scratch)
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    assert trace.events[0].fields == {"w": [5, 1 << 36], "after": 6}
    with open(path + ".debug", "ab") as file:
        file.write(b"x")
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    assert list(trace.events[0].fields) == [f"arg{i}" for i in range(6)]


def test_no_debug_information(dyntrace, scratch):
    path = compile_program(scratch, "types.c", "-O2", "-g0")
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    fields = trace.events[0].fields
    assert list(fields) == [f"arg{i}" for i in range(6)]
    assert (fields["arg0"], fields["arg1"], fields["arg2"] & 0xffffffff) == (5, 1 << 36, 6)
