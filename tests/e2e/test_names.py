"""Names: C++ and Rust as they are written, source lines, inlined functions, functions chosen at run time."""
import http.server
import os
import shutil
import subprocess
import threading

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
    message = dyntrace("trace", "--function", "ns::f", "--", path, status=125).stderr
    assert "'ns::f': 2 functions have this name" in message and "'ns::f(int)'" in message and "'ns::f(double)'" in message
    mangled = dyntrace.trace("--function", "_ZN2ns1fEi", "--", path)[1]
    assert [event.fields for event in mangled.events] == [{"x": 3}]
    both = dyntrace.trace("--function", "ns::f(*)", "--", path)[1]
    assert both.names() == {"ns::f(int)_entry": 1, "ns::f(double)_entry": 1}


def test_globs_take_both_forms_of_a_name(dyntrace, scratch):
    """A glob matches names as written, with parameters only where needed. A mangled glob matches mangled names."""
    path = compile_program(scratch, "classes.cc", "-O1", "-std=c++17", compiler="g++")
    names = dyntrace.trace("--function", "*", "--", path)[1].names()
    assert {"ns::f(int)_entry", "ns::f(double)_entry", "ns::strings_entry", "ns::tmpl<int>_entry", "main_entry"} <= set(names)
    assert not [name for name in names if name.startswith("_Z")]
    assert set(dyntrace.trace("--function", "*n[s]*", "--", path)[1].names()) >= {"ns::sret_entry", "ns::strings_entry"}
    assert set(dyntrace.trace("--function", "_ZN2ns1f*", "--", path)[1].names()) == {"_ZN2ns1fEi_entry", "_ZN2ns1fEd_entry"}


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
@pytest.mark.parametrize("flags", [[], ["-Csymbol-mangling-version=v0"], ["-O"], ["-O", "-Csymbol-mangling-version=v0"]])
def test_rust(dyntrace, scratch, flags):
    path = os.path.join(scratch, "rusty")
    subprocess.run(["rustc", "-g", *flags, "-o", path, os.path.join(PROGRAMS, "rusty.rs")], check=True,
                   capture_output=True)
    _, trace = dyntrace.trace("--function", "rusty::inner::greet", "--", path)
    assert len(trace.events) == 2
    if "-O" not in flags:
        assert [event.fields for event in trace.events] == [{"name": "hello rust", "n": 5}, {"name": "lit", "n": 6}]
    else:
        # The optimiser drops the pointer and moves the rest up; no wrong value may be shown.
        assert all(event.fields["name"] in (0, "hello rust", "lit") for event in trace.events)


RUST = {"two": ({"t": {"a": 1, "b": 2}, "z": 3}, {"a": 2, "b": 5}), "mix": ({"t": {"a": 4, "b": 1.5}, "z": 5}, {"a": 5, "b": 6.5}),
        "small": ({"t": {"a": 6, "b": 7}, "m": "bytes\\xff", "z": 8}, 111), "three": ({"t": {"a": 9, "b": 10, "c": 11}, "z": 12}, 30),
        "many": ({"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "t": {"a": 13, "b": 14}, "z": 15}, 29),
        "text": ({"z": 16}, "text 16")}


def right_or_gone(found, value):
    """<optimised out> is the number 0."""
    if isinstance(found, dict):
        return all(right_or_gone(found[key], value[key]) for key in found)
    return found in (0, value)


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_rust_values(dyntrace, scratch, flags):
    """Pairs of numbers by value, bytes, String. Values are not made up where the ABI is unwritten or code was optimised:
    every number shown is right."""
    path = os.path.join(scratch, "rusty")
    subprocess.run(["rustc", "-g", *flags, "-o", path, os.path.join(PROGRAMS, "rusty.rs")], check=True, capture_output=True)
    _, trace = dyntrace.trace("-e", *[word for name in RUST for word in ("--function", "rusty::" + name)], "--", path)
    for name, (arguments, result) in RUST.items():
        entry, = [event.fields for event in trace.named(f"rusty::{name}_entry")]
        leave, = [event.fields for event in trace.named(f"rusty::{name}_exit")]
        if flags:
            assert all(right_or_gone(entry[key], value) for key, value in arguments.items()), (name, entry)
        else:
            assert {key: entry[key] for key in arguments} == arguments and leave["ret"] == result, name


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
    assert "no code at or after" in dyntrace.fails("trace", "--probe", "inlined.c:999", "--", path, status=125)
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
    """strlen of libc is an IFUNC: the implementation that the process uses is probed."""
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
    assert trace.names() == {"wide_entry": 1} and trace.events[0].fields["arg2"] & 0xffffffff == 6
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


# ---- functions without a name -------------------------------------------------------------------------

def test_functions_of_a_stripped_program(dyntrace, scratch):
    """.eh_frame has their places; all are listed, named by address."""
    path = compile_program(scratch, "types.c", "-O1", "-g0")
    named = {line.split()[-1]: int(line.split()[0], 16) for line in dyntrace("list-symbols", path).stdout.splitlines()[1:]}
    subprocess.run(["strip", path], check=True)
    listed = {line.split()[-1]: int(line.split()[0], 16) for line in dyntrace("list-symbols", path).stdout.splitlines()[1:]}
    for name in ("integers", "floats", "structs", "strings", "wide", "many"):
        assert listed[f"fn_{named[name]:x}"] == named[name]
    wide = f"fn_{named['wide']:x}"
    _, trace = dyntrace.trace("--function", wide, "--", path)
    assert trace.names() == {wide + "_entry": 1} and trace.events[0].fields["arg2"] & 0xffffffff == 6
    _, trace = dyntrace.trace("--function", "fn_*", "--", path)
    assert trace.names()[wide + "_entry"] == 1 and len(trace.names()) >= 6
    _, trace = dyntrace.trace("-e", "--function", "fn_*", "--", path)
    assert trace.names()[wide + "_exit"] == 1 and trace.lost == 0


def test_linkage_table(dyntrace, scratch):
    """Calls from the program to its libraries, and none between libraries; a plain glob doesn't match them."""
    for flags in ([], ["-Wl,-z,ibtplt"], ["-Wl,-z,now"], ["-no-pie", "-fno-pie"]):
        with open(os.path.join(scratch, "calls.c"), "w") as file:
            file.write("#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\nint main(int n, char **v)\n"
                       "{\nfor (int i = 0; i < 3; i++) puts(v[i]);\n"
                       "int (*volatile p)(const char *) = puts;\np(\"through a pointer\");\n"
                       "return (int)strlen(getenv(\"HOME\")) < 0;\n}\n")
        path = os.path.join(scratch, "calls")
        subprocess.run(["gcc", "-O1", "-fno-builtin", *flags, "-o", path, os.path.join(scratch, "calls.c")], check=True)
        result, trace = dyntrace.trace("--function", "puts@plt", "--", path, "a", "b")
        # Where addresses are fixed, that of a library's function is its entry here.
        assert trace.names() == {"puts@plt_entry": 4 if "-no-pie" in flags else 3} and result.stdout.endswith("a\nb\nthrough a pointer\n")
        assert "fn_" not in dyntrace("list-symbols", path).stdout.replace("frame_dummy", "")
    _, trace = dyntrace.trace("--function", "*@plt", "--", path, "a", "b")
    assert {"puts@plt_entry": 4, "getenv@plt_entry": 1, "strlen@plt_entry": 1}.items() <= trace.names().items()
    _, trace = dyntrace.trace("--function", "*", "--", path, "a", "b")
    assert not [name for name in trace.names() if "@plt" in name]
    assert "name the function itself" in dyntrace.fails("trace", "-e", "--function", "puts@plt", "--", path, status=125)
    result, trace = dyntrace.trace("-e", "--function", "*@plt", "--", "ls", "/")
    assert result.stdout == subprocess.run(["ls", "/"], capture_output=True, text=True).stdout
    assert not [name for name in trace.names() if name.endswith("_exit")] and trace.names()["malloc@plt_entry"] > 1


def test_hidden_names_in_globs(dyntrace, scratch):
    """Names that only a debug file has, in globs and lists."""
    lines = dyntrace("list-symbols", "/lib/x86_64-linux-gnu/libc.so.6", "_int_*").stdout.splitlines()
    assert {"_int_malloc", "_int_free", "_int_realloc"} <= {line.split()[-1] for line in lines}
    result, trace = dyntrace.trace("--function", "_int_m*@libc.so.6", "--", "sort", "/etc/passwd")
    assert {"_int_malloc_entry"} <= set(trace.names()) and all("bytes" in event.fields for event in
                                                               trace.named("_int_malloc_entry"))


# ---- debug information from elsewhere ------------------------------------------------------------------

class Debuginfod(http.server.BaseHTTPRequestHandler):
    files, asked = {}, []

    def do_GET(self):
        self.asked.append(self.path)
        body = self.files.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, *words):
        pass


def test_debuginfod(dyntrace, scratch):
    """A server has the debug information of a stripped program; a program whose information is missing or damaged is traced without."""
    path = compile_program(scratch, "types.c", "-O2", "-Wl,--build-id=0x0123456789abcdef0123456789abcdef01234567")
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", path], check=True)
    with open(path + ".debug", "rb") as file:
        whole = file.read()
    os.unlink(path + ".debug")
    url = "/buildid/0123456789abcdef0123456789abcdef01234567/debuginfo"
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Debuginfod)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        for number, body in enumerate((whole, None, whole[:len(whole) // 2], b"not a file")):
            Debuginfod.files, Debuginfod.asked = ({url: body} if body else {}), []
            environment = {**os.environ, "DEBUGINFOD_URLS": f"http://127.0.0.1:{server.server_port}",
                           "DEBUGINFOD_CACHE_PATH": os.path.join(scratch, f"cache-{number}"), "HOME": scratch}
            words = ["--function", "wide"] if body is whole else ["--function", "fn_*"]
            _, trace = dyntrace.trace(*words, "--", path, env=environment)
            assert url in Debuginfod.asked
            if body is whole:
                assert trace.events[0].fields == {"w": str((1 << 100) + 5), "after": 6}
            else:
                assert "arg0" in trace.events[0].fields
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_nginx_by_dynamic_symbols(dyntrace):
    """A server that ships without debug information: its exported functions, by name, with registers for arguments."""
    result, trace = dyntrace.trace("--function", "ngx_palloc", "--function", "ngx_conf_parse", "--", "nginx", "-t", "-q",
                                   "-p", dyntrace.scratch, "-c", "/dev/null", "-g", "pid nginx.pid; error_log stderr;",
                                   status=None)
    assert trace.names()["ngx_palloc_entry"] > 10 and trace.names()["ngx_conf_parse_entry"] >= 1
    assert set(trace.named("ngx_palloc_entry")[0].fields) == {"arg0", "arg1"}  # pool and size
