"""Names: C++ and Rust as they are written, source lines, inlined functions, functions chosen at run time."""
import os
import shutil
import subprocess

import pytest

from test_values import PROGRAMS, compile_program

CXX = [("g++", "-O0", 4), ("g++", "-O2", 5), ("clang++", "-O0", 5), ("clang++", "-O2", 4)]


@pytest.mark.parametrize("compiler, flags, version", CXX)
def test_classes(dyntrace, scratch, compiler, flags, version):
    path = compile_program(scratch, "classes.cc", flags, f"-gdwarf-{version}", "-std=c++17", compiler=compiler)
    names = ["ns::f(int)", "ns::f(double)", "ns::strings", "ns::refs", "ns::tmpl<int>", "ns::tmpl<double>", "ns::sret",
             "ns::en", "ns::sret2"]
    _, trace = dyntrace.trace(*[word for name in names for word in ("--function", name)], "--", path)
    found = {event.name.removesuffix("_entry"): event.fields for event in trace.events}
    assert found["ns::f(int)"] == {"x": 3} and found["ns::f(double)"] == {"d": 2.5}
    assert found["ns::strings"] == {"s": "short", "r": "y" * 40, "v": "view", "m": "moved"}
    refs = found["ns::refs"]
    assert (refs["i"], refs["d"], refs["t"], refs["n"]) == (7, 1.5, {"a": 1, "b": 2.5}, {"a": 9})
    assert found["ns::tmpl<int>"] == {"a": 1, "b": 2} and found["ns::tmpl<double>"] == {"a": 1.5, "b": 2}
    assert found["ns::sret"] == {"x": 11} and found["ns::sret2"] == {"x": 12}
    assert found["ns::en"] == {"c": 200, "b": 1}
    assert len(trace.events) == len(names)


def test_overloads_are_listed(dyntrace, scratch):
    path = compile_program(scratch, "classes.cc", "-O1", "-std=c++17", compiler="g++")
    message = dyntrace.fails("trace", "--function", "ns::f", "--", path, status=125)
    assert "2 functions are called 'ns::f'" in message and "'ns::f(int)'" in message and "'ns::f(double)'" in message
    mangled = dyntrace.trace("--function", "_ZN2ns1fEi", "--", path)[1]
    assert [event.fields for event in mangled.events] == [{"x": 3}]
    both = dyntrace.trace("--function", "ns::f(*)", "--", path)[1]
    assert both.names() == {"ns::f(int)_entry": 1, "ns::f(double)_entry": 1}


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_rust(dyntrace, scratch, flags):
    path = os.path.join(scratch, "rusty")
    subprocess.run(["rustc", "-g", *flags, "-o", path, os.path.join(PROGRAMS, "rusty.rs")], check=True,
                   capture_output=True)
    _, trace = dyntrace.trace("--function", "rusty::inner::greet", "--", path)
    assert len(trace.events) == 2
    if not flags:
        assert [event.fields for event in trace.events] == [{"name": "hello rust", "n": 5}, {"name": "lit", "n": 6}]
    else:
        # The optimiser drops the pointer and moves the rest up; nothing may be shown that isn't so.
        assert all(event.fields["name"] in (0, "hello rust", "lit") for event in trace.events)


@pytest.mark.parametrize("compiler, flags", [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1"), ("clang", "-O2")])
def test_lines(dyntrace, scratch, compiler, flags):
    path = compile_program(scratch, "inlined.c", flags, compiler=compiler)
    with open(os.path.join(PROGRAMS, "inlined.c")) as file:
        line = next(i for i, text in enumerate(file, 1) if text == "\tsink++;\n")
    where = f"inlined.c:{line}"
    _, trace = dyntrace.trace("--probe", where, "-t", "var:n", "-t", "var:a", "--", path)
    assert [(event.name, event.fields["n"], event.fields["a"]) for event in trace.events] == [
        (where, i, 2 * i + ord("o")) for i in range(3)]


def test_wrong_lines(dyntrace, scratch):
    path = compile_program(scratch, "inlined.c", "-O1")
    assert "no source file 'nowhere.c'" in dyntrace.fails("trace", "--probe", "nowhere.c:3", "--", path, status=125)
    assert "no code at or behind" in dyntrace.fails("trace", "--probe", "inlined.c:999", "--", path, status=125)
    plain = compile_program(scratch, "inlined.c", "-O1", "-g0", name="plain")
    assert "no debug information" in dyntrace.fails("trace", "--probe", "inlined.c:3", "--", plain, status=125)


@pytest.mark.parametrize("compiler, flags", [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O1"), ("clang", "-O2")])
def test_inlined_copies(dyntrace, scratch, compiler, flags):
    """A function without code of its own: each copy is a tracepoint, with the arguments that are known there."""
    path = compile_program(scratch, "inlined.c", flags, compiler=compiler)
    _, trace = dyntrace.trace("--function", "twice", "--", path)
    assert [(event.name, event.fields["value"]) for event in trace.events] == [
        pair for i in range(3) for pair in (("twice_entry", i), ("twice-2_entry", i + 1))]
    if flags == "-O0":
        assert [event.fields["why"] for event in trace.events] == ["one", "two"] * 3


def test_chosen_at_run_time(dyntrace):
    """strlen of libc is an IFUNC: what the process uses is probed."""
    _, trace = dyntrace.trace("--function", "strlen", "--", "sort", "/etc/passwd")
    assert set(trace.names()) == {"strlen_entry"} and len(trace.events) > 10


def test_compressed_symbols(dyntrace, scratch):
    """A stripped program with .gnu_debugdata in it, as Fedora ships them."""
    path = compile_program(scratch, "types.c", "-O1", "-g0")
    symbols, packed = path + ".symbols", path + ".symbols.xz"
    subprocess.run(["objcopy", "--only-keep-debug", path, symbols], check=True)
    subprocess.run(["xz", "-k", symbols], check=True)
    subprocess.run(["strip", path], check=True)
    assert "no function 'wide'" in dyntrace.fails("trace", "--function", "wide", "--", path, status=125)
    subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={packed}", path], check=True)
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    assert trace.names() == {"wide_entry": 1} and trace.events[0].fields["arg0"] == 5
    with open(packed, "r+b") as file:
        file.seek(40)
        file.write(b"damage")
    subprocess.run(["objcopy", f"--update-section=.gnu_debugdata={packed}", path], check=True)
    assert "no function 'wide'" in dyntrace.fails("trace", "--function", "wide", "--", path, status=125)


def test_names_in_debug_files(dyntrace):
    """A local function of libc that only libc6-dbg has a name for."""
    _, trace = dyntrace.trace("--function", "_int_malloc", "--", "sort", "/etc/passwd")
    assert len(trace.events) > 10 and all(set(event.fields) == {"av", "bytes"} for event in trace.events)
    assert all(event.fields["bytes"] < 1 << 24 for event in trace.events)
