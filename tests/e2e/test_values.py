"""Values: parameters by name and type, as the program itself has them."""
import os
import re
import struct
import subprocess

import pytest

from harness import compile_once

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "tests", "programs")


def compile_program(scratch, source, *flags, compiler="gcc", name="program"):
    return compile_once([compiler, "-g", *flags, os.path.join(PROGRAMS, source)], os.path.join(scratch, name))


def single(value):
    """The number rounded to a float."""
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
    "wide_entry": [{"w": str((1 << 100) + 5), "after": 6}],
    "many_entry": [
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": 5, "f": 6, "g": 7, "h": 8, "i": 9, "x1": .1, "x2": .2, "x3": .3,
         "x4": .4, "x5": .5, "x6": .6, "x7": .7, "x8": .8, "x9": .9, "x10": 1.0}],
}


@pytest.mark.parametrize("compiler, version, flags", [
    ("gcc", 4, "-O0"), ("gcc", 5, "-O1"), ("gcc", 4, "-O2"), ("gcc", 5, "-O3"),
    ("clang", 5, "-O0"), ("clang", 4, "-O1"), ("clang", 5, "-O2"), ("clang", 4, "-O3")])
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
    """Debian's libc6-dbg: malloc and fopen of a foreign program."""
    _, trace = dyntrace.trace("--function", "fopen", "--function", "qsort", "--", "sort", "/etc/passwd")
    names = {event.fields["filename"] for event in trace.named("fopen_entry")}
    assert names == {"/usr/share/locale/locale.alias"} or not names
    assert all(set(event.fields) == {"b", "n", "s", "cmp"} for event in trace.named("qsort_entry"))


def test_debug_link(dyntrace, scratch):
    """A stripped program with its debug information in a file beside it; a file of another program is ignored."""
    path = compile_program(scratch, "types.c", "-O2", "-Wl,--build-id=none")
    subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
    subprocess.run(["strip", "-g", path], check=True, cwd=scratch)
    subprocess.run(["objcopy", "--add-gnu-debuglink=program.debug", path], check=True, cwd=scratch)
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    assert trace.events[0].fields == {"w": str((1 << 100) + 5), "after": 6}
    with open(path + ".debug", "ab") as file:
        file.write(b"x")
    _, trace = dyntrace.trace("--function", "wide", "--", path)
    assert list(trace.events[0].fields) == ["arg2"]  # the function ignores the first one


def test_no_debug_information(dyntrace, scratch):
    path = compile_program(scratch, "types.c", "-O2", "-g0")
    _, trace = dyntrace.trace("--function", "wide", "-t", "arg0", "-t", "arg1", "--", path)
    fields = trace.events[0].fields
    assert list(fields) == ["arg2", "arg0", "arg1"]  # the function ignores the two that were asked for
    assert (fields["arg0"], fields["arg1"], fields["arg2"] & 0xffffffff) == (5, 1 << 36, 6)


# ---- contexts ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O2", "-O3"])
def test_backtrace(dyntrace, scratch, compiler, flags):
    """The same callers as backtrace() finds: without frame pointers, through a signal frame, through libc, through a
    frame that is aligned anew."""
    path = compile_program(scratch, "callers.c", flags, "-fomit-frame-pointer", compiler=compiler)
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:60", "--", path)
    expected = [[int(word, 16) for word in line.split()] for line in result.stdout.splitlines()]
    assert len(expected) == 4
    assert [event.fields["backtrace"][2:] for event in trace.events] == expected


def test_backtrace_through_return_stubs(dyntrace, scratch):
    """Callers whose exits are recorded return through stubs: the backtrace shows the real return addresses."""
    path = compile_program(scratch, "callers.c", "-O1", "-no-pie", "-fno-pie")
    plain = dyntrace.trace("--function", "leaf", "-t", "backtrace", "--", path)[1]
    both = dyntrace.trace("-e", "--function", "recurse", "--function", "leaf", "--function", "show", "-t", "backtrace", "--",
                          path)[1]

    def own(trace):
        return [[frame for frame in event.fields["backtrace"] if frame < 0x1000000] for event in trace.named("leaf_entry")]

    assert own(both) == own(plain) and len(own(plain)[0]) > 8
    assert len(both.named("recurse_exit")) == 6


LATER = {
    "program": "#include <dlfcn.h>\n#include <execinfo.h>\n#include <stdio.h>\n"
               "volatile int sink;\n"
               "__attribute__((noinline)) void leaf(int n) { sink += n; sink += 2; }\n"
               "__attribute__((noinline)) void show(int n) { void *a[60]; int c = backtrace(a, 60); leaf(n);\n"
               "for (int i = 1; i < c; i++) printf(\"%lx \", (long)a[i]); printf(\"\\n\"); }\n"
               "int main(int n, char **v) { void *a[2]; backtrace(a, 2); for (int i = 1; i < n; i++) {\n"
               "void *l = dlopen(v[i], RTLD_NOW); void (*f)(void (*)(int), int) = (void (*)(void (*)(int), int))dlsym(l, \"deep\");\n"
               "f(show, 5); dlclose(l); } return 0; }\n",
    "library": "volatile int FILL;\n__attribute__((noinline)) static void inner(void (*f)(int), int n)\n"
               "{ volatile char room[SIZE]; room[n] = 1; f(n); FILL += room[n]; }\n"
               "void deep(void (*f)(int), int n) { if (n) deep(f, n - 1); else inner(f, n); FILL++; }\n",
}


def test_backtrace_through_libraries_loaded_later(dyntrace, scratch):
    """Code that dlopen brings, without frame pointers: one library after the other, each gone before the next comes."""
    libraries = []
    for i, size in enumerate((100, 3000, 50)):
        libraries.append(os.path.join(scratch, f"lib{i}.so"))
        subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-shared", "-fPIC", f"-DSIZE={size}", f"-DFILL=fill{i}", "-x", "c",
                        "-", "-o", libraries[-1]], check=True, input=LATER["library"], text=True)
    path = os.path.join(scratch, "later")
    subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-x", "c", "-", "-o", path], check=True, input=LATER["program"], text=True)
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:60", "--", path, *libraries)
    expected = [[int(word, 16) for word in line.split()] for line in result.stdout.splitlines()]
    assert len(expected) == 3 and all(len(frames) >= 9 for frames in expected)
    assert [event.fields["backtrace"][2:] for event in trace.named("leaf_entry")] == expected
    output = dyntrace.new_output()
    dyntrace.trace("--function", "leaf", "-t", "backtrace:60", "--", path, libraries[1], libraries[1], output=output)
    lines = dyntrace("view", output).stdout.splitlines()
    assert [(line.count("deep+0x"), line.count("inner+0x")) for line in lines] == [(6, 1), (6, 1)]


def test_libraries_at_one_address_one_after_the_other(dyntrace, scratch):
    """view names the functions of the library that was loaded when the event was recorded."""
    names, libraries = ["first", "second", "third"], []
    for i, name in enumerate(names):
        libraries.append(os.path.join(scratch, f"lib{i}.so"))
        subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-shared", "-fPIC", "-DSIZE=100", f"-Dinner={name}", "-DFILL=fill", "-x", "c",
                        "-", "-o", libraries[-1]], check=True, input=LATER["library"], text=True)
    path = os.path.join(scratch, "later")
    subprocess.run(["gcc", "-O1", "-g", "-fomit-frame-pointer", "-x", "c", "-", "-o", path], check=True, input=LATER["program"], text=True)
    output = dyntrace.new_output()
    order = [0, 1, 2, 1, 0]
    result, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:60", "--", path, *[libraries[i] for i in order], output=output)
    assert len({event.fields["backtrace"][3] for event in trace.events}) == 1, "they were to be at one address"
    lines = dyntrace("view", output).stdout.splitlines()
    assert [[name for name in names if f"{name}+0x" in line] for line in lines] == [[names[i]] for i in order]


def test_backtrace_depth(dyntrace, scratch):
    path = compile_program(scratch, "callers.c", "-O2")
    _, trace = dyntrace.trace("--function", "leaf", "-t", "backtrace:3", "--", path)
    assert [len(event.fields["backtrace"]) for event in trace.events] == [3] * 4
    assert "128" in dyntrace.fails("trace", "--function", "leaf", "-t", "backtrace:1000", "--", path, status=2)


def test_contexts(dyntrace, program_path):
    words = ["tid", "pid", "cpu", "comm", "reg:rdi", "reg:rsi", "reg:rip", "reg:xmm0", "reg:fs_base", "var:number",
             "var:text[2]", "string:s:0x10", "int:n:0x10"]
    result, trace = dyntrace.trace("--probe", "foo", *[w for word in words for w in ("-t", word)], "--",
                                   program_path("hello"), "--calls", "3")
    assert len(trace.events) == 3
    for i, event in enumerate(trace.events):
        fields = event.fields
        assert (fields["tid"], fields["pid"], fields["comm"]) == (event.tid, event.pid, "hello")
        assert (fields["rdi"] & 0xffffffff, fields["rsi"], fields["number"]) == (i, 1000 * i, i)
        assert fields["text_2_"] == ord("n") and len(fields["xmm0"]) == 2 and fields["cpu"] < os.cpu_count()
        assert fields["s"] == "(unreadable 0x10)" and fields["n"] == 0 and fields["unreadable"] == "n"
        assert fields["fs_base"] and fields["rip"]


def test_all_registers(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "foo", "-t", "regs", "--", program_path("hello"), "--calls", "1")
    fields = trace.events[0].fields
    assert {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
            "r15", "rip", "rflags"} <= set(fields)
    assert fields["rflags"] & 2 and fields["rsp"] % 16 == 8


GENERAL = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"]


@pytest.mark.parametrize("words", [["-t", "regs"], [word for name in GENERAL + ["rip", "rflags"] for word in ("-t", "reg:" + name)],
                                   [word for name in GENERAL for word in ("-t", "reg:" + name)]])
def test_each_register(dyntrace, scratch, words):
    """General ones, by the agent and by the trampoline; segment bases, vectors, the flags."""
    path = compile_program(scratch, "registers.c", "-O1", "-no-pie", "-fno-pie")
    vectors = [word for i in range(16) for word in ("-t", f"reg:xmm{i}")]
    result, trace = dyntrace.trace("--probe", "spot", *words, *vectors, "-t", "reg:fs_base", "-t", "reg:gs_base", "--", path)
    rsp, fs, gs = (int(word, 16) for word in result.stdout.split())
    fields, = [event.fields for event in trace.events]
    for i, name in enumerate(GENERAL):
        assert fields[name] == (rsp if name == "rsp" else 0x100 + i), name
    assert [fields[f"xmm{i}"] for i in range(16)] == [[0x200 + i, 0x300 + i] for i in range(16)]
    assert (fields["fs_base"], fields["gs_base"]) == (fs, gs)
    if "rip" in fields:
        symbols = dyntrace("list-symbols", path, "spot").stdout.splitlines()[1].split()
        assert fields["rip"] == int(symbols[0], 16)
        assert fields["rflags"] & 0x8d5 == 0x845  # carry, parity, zero, overflow; neither adjust nor sign


def test_each_register_by_the_trampoline(dyntrace, scratch):
    path = compile_program(scratch, "registers.c", "-O1")
    words = [word for name in GENERAL + [f"xmm{i}" for i in range(16)] for word in ("-t", "reg:" + name)]
    _, trace = dyntrace.trace("--probe", "spot", *words, "--", path)
    assert [trace.events[0].fields[name] for name in GENERAL if name != "rsp"] == [0x100 + i for i in range(16) if i != 4]
    assert [trace.events[0].fields[f"xmm{i}"][1] for i in range(16)] == [0x300 + i for i in range(16)]


@pytest.mark.parametrize("context, part", [
    ("reg:eax", "no such register"), ("nonsense", "no such context"), ("int:x", "VARTYPE:NAME:ADDR"),
    ("int:x:nowhere", "no symbol 'nowhere'"), ("var:nothing", "unknown variable 'nothing'"), ("var:text->x", "has no member"),
    ("var:number.x", "has no member"), ("var:x@nowhere", "no module 'nowhere'")])
def test_wrong_contexts(dyntrace, program_path, context, part):
    result = dyntrace("trace", "--function", "foo", "-t", context, "--", program_path("hello"), status=2)
    assert part in result.stderr and "hello" not in result.stdout


def test_globals_of_a_module(dyntrace, scratch):
    """By its file's name, the name the program was started by, a library's name and its start."""
    path = compile_program(scratch, "variables.c", "-O1")
    link = os.path.join(scratch, "started-as")
    os.symlink(path, link)
    words = ["var:visible@started-as", f"var:table[1]@{os.path.basename(path)}", "var:hidden@started-as", "var:__progname@libc.so.6"]
    _, trace = dyntrace.trace("--function", "serve", *[w for word in words for w in ("-t", word)], "--", link)
    values = [[value for name, value in event.fields.items() if name not in ("req", "number", "unreadable")] for event in trace.events]
    assert values == [[-5, 20, 7, "started-as"], [-5, 20, 8, "started-as"]]


def test_thread_local_variables(dyntrace, scratch):
    """Each thread's own: of the program, of libc, of a library loaded later, where a thread has none before its first use."""
    path = compile_program(scratch, "locals.c", "-O1")
    library = compile_program(scratch, "locals_library.c", "-O1", "-fPIC", "-shared", name="liblocals.so")
    name = os.path.basename(library)
    words = [w for word in (f"var:number@{os.path.basename(path)}", "var:errno@libc.so.6") for w in ("-t", word)]
    _, trace = dyntrace.trace("--function", "work", "-t", "var:text", *words, "--", path, library)
    values = [(event.fields["n"], event.fields["number"], event.fields["text"], event.fields["errno"]) for event in trace.events]
    assert values == [(n, 10 + i * n, chr(ord("a") + i) + "b", 20 + i) for n in (1, 100) for i in range(3)]
    words = [w for word in ("var:own", "var:exported", "var:many[3]") for w in ("-t", word)]
    _, trace = dyntrace.trace("--function", f"library@{name}", "--wait", *words, "--", path, library)
    values = [(event.fields["x"], event.fields["own"], event.fields["exported"], event.fields["many_3_"],
               event.fields["unreadable"]) for event in trace.events]
    assert values == [(x, 77 + i, 5 + i * x, x, "") if i else (x, 0, 0, 0, "own, exported, many[3]")
                      for x in (1, 100) for i in range(3)]


def test_why_it_waited(dyntrace, scratch):
    """Said when the library is loaded, with -q too; the status is 125 if nothing could be placed."""
    path = compile_program(scratch, "locals.c", "-O1")
    library = compile_program(scratch, "locals_library.c", "-O1", "-fPIC", "-shared", name="liblocals.so")
    name = os.path.basename(library)
    for words, why in ((["-t", "var:nothing"], "unknown variable 'nothing' (available: "),
                       (["--filter", "nothing > 3"], "unknown variable 'nothing' (available: ")):
        result = dyntrace("trace", "-q", "--function", f"library@{name}", *words, "--wait", "--", path, library, status=125)
        assert result.stderr.count("not placed: library: ") == 1 and why in result.stderr
        assert result.stderr.endswith("no tracepoint could be placed: nothing was traced\n")
    result = dyntrace("trace", "--function", f"librarx@{name}", "--wait", "--", path, library, status=125)
    assert f"no function 'librarx' in {name}; did you mean library?" in result.stderr
    # one of two: the command's own status
    result = dyntrace("trace", "-q", "--function", "main", "--function", f"librarx@{name}", "--wait", "--", path, library)
    assert "not placed: librarx" in result.stderr
    result = dyntrace("trace", "--function", "library@other.so", "--wait", "--", path, library)
    assert "not placed: library: no library with this function was loaded" in result.stderr


@pytest.mark.parametrize("function, expression, hits", [
    ("ns::strings", 's == "short"', 1), ("ns::strings", 's == "shor"', 0), ("ns::strings", 's == "sh*t"', 1),
    ("ns::strings", 's != "short"', 0), ("ns::strings", 'r == "yyyy*" && v == "view" && m == "mov[e]d"', 1),
    ("ns::strings", 's == ""', 0), ("ns::en", "c == Green", 1), ("ns::en", "c == Color::Green", 1),
    ("ns::en", "c == ns::Color::Green && b", 1), ("ns::en", "c == Color::Red", 0)])
def test_filters_on_classes(dyntrace, scratch, function, expression, hits):
    """std::string and std::string_view by their text, also by reference; enumerators with their scopes."""
    path = compile_program(scratch, "classes.cc", "-O1", "-std=c++17", compiler="g++")
    _, trace = dyntrace.trace("--function", function, "--filter", expression, "--", path)
    assert len(trace.events) == hits


def test_variables_with_their_scopes(dyntrace, scratch):
    path = compile_program(scratch, "classes.cc", "-O1", "-std=c++17", compiler="g++")
    words = [w for word in ("var:counter", "var:ns::counter", "var:ns::holder::total", "var:holder::total") for w in ("-t", word)]
    _, trace = dyntrace.trace("--function", "ns::f(int)", *words, "--", path)
    assert list(trace.events[0].fields.values()) == [3, 41, 41, 7, 7, ""]
    wrong = dyntrace("trace", "--function", "ns::f(int)", "-t", "var:other::counter", "--", path, status=2)
    assert "unknown variable 'other::counter'" in wrong.stderr
    for name in ("boxed", "ns::box<int>::boxed", "box::boxed"):
        assert dyntrace.trace("--function", name, "--", path)[1].names() == {name + "_entry": 1}
    assert "no function 'box<long>::boxed'" in dyntrace.fails("trace", "--function", "box<long>::boxed", "--", path, status=125)


# ---- filters ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("expression, expected", [
    ("number > 5", range(6, 10)), ("number >= 5 && factor < 8000", range(5, 8)), ("number == 2 || number == 7", [2, 7]),
    ("number % 3 == 1", [1, 4, 7]), ("number & 1", [1, 3, 5, 7, 9]), ("!(number & 1)", [0, 2, 4, 6, 8]),
    ("number - 5 < 0", range(5)), ("-number < -7", [8, 9]), ("(number << 2) + 1 == 13", [3]),
    ("factor / 1000 == number", range(10)), ("10 / number == 5", [2]), ("$rdi == 4", [4]),
    ("text == \"dyntrace\" && number < 2", [0, 1]), ("text == \"dyn*\" && number == 0", [0]),
    ("text != \"dyn?race\"", []), ("text[0] == 'd' && *text == 100 && number == 9", [9]),
    ("text == NULL || number == 1", [1]), ("text != 0 && text[3] == 't' && number > 8", [9]),
    ("number == 0x3 || number == 011", [3, 9]), ("$tid == $pid && number == 6", [6])])
def test_filter(dyntrace, program_path, expression, expected):
    _, trace = dyntrace.trace("--function", "foo", "--filter", expression, "--", program_path("hello"), "--calls", "10")
    assert [event.fields["number"] for event in trace.events] == list(expected)
    assert trace.lost == 0


@pytest.mark.parametrize("expression, hits", [
    ("d > 2", [0, 1]), ("d > 2.25", [1]), ("d >= 2.25 && f > 0", [0]), ("f < 0", [1]), ("f == 1.5", [0]), ("-0.1 == f", [1]),
    ("f != 1.5", [1]), ("2.5 > d", [0]), ("d < -1e10", []), ("d == 1e300", [1])])
def test_filter_on_floats(dyntrace, scratch, expression, hits):
    path = compile_program(scratch, "types.c", "-O1")
    _, trace = dyntrace.trace("--function", "floats", "--filter", expression, "--", path)
    assert [event.fields["d"] for event in trace.events] == [[2.25, 1e300][i] for i in hits]


@pytest.mark.parametrize("words, expected", [
    (["--every", "3"], [0, 3, 6, 9]), (["--first", "4"], [0, 1, 2, 3]), (["--rate", "5/s"], [0, 1, 2, 3, 4]),
    (["--every", "2", "--first", "2"], [0, 2]), (["--filter", "number > 3", "--every", "2"], [4, 6, 8]),
    (["--filter", "$hits >= 3 && $hits < 6"], [2, 3, 4]), (["--filter", "text == \"d*\" && number > 4", "--first", "2"], [5, 6]),
    (["--filter", "*text == 'd' && number > 4", "--every", "2"], [5, 7, 9]),
    (["--filter", "*text == 'd' && number > 4", "--rate", "3"], [5, 6, 7])])
def test_limits(dyntrace, program_path, words, expected):
    _, trace = dyntrace.trace("--function", "foo", *words, "--", program_path("hello"), "--calls", "10")
    assert [event.fields["number"] for event in trace.events] == expected and trace.lost == 0


def test_limits_count_threads_together(dyntrace, program_path):
    """Exactly the limit in total: four threads that call 5000 times each."""
    for words, expected in ((["--first", "777"], 777), (["--every", "100"], 200)):
        _, trace = dyntrace.trace("--function", "foo", *words, "--", program_path("spin"), "--threads", "4",
                                  "--calls", "5000", "--rounds", "1")
        assert len(trace.events) == expected


@pytest.mark.parametrize("expression, part, column", [
    ("nubmer > 1", "unknown variable 'nubmer'", 0), ("number >", "incomplete", 8), ("number == 'x", "character", 10),
    ("text > \"a\"", "== and !=", 5), ("(number", "missing ')'", 7), ("number ? 1", "unexpected text", 7),
    ("number.x == 1", "no member 'x'", 7), ("text == \"abc", "unterminated", 8), ("$eax", "unknown '$eax'", 0),
    ("number % 1.5", "only integers", 7), ("*number", "not a pointer", 0)])
def test_wrong_filter(dyntrace, program_path, expression, part, column):
    """The error, the expression, and a caret under the place; nothing was started."""
    result = dyntrace("trace", "--function", "foo", "--filter", expression, "--", program_path("hello"), status=2)
    lines = result.stderr.splitlines()
    assert part in lines[0] and lines[1] == "  " + expression and lines[2] == "  " + " " * column + "^"
    assert result.stdout == ""


def test_globs_leave_out_functions_without_the_filters_argument(dyntrace, scratch):
    """Functions without the argument are left out, with one message; it is an error only if no function is left."""
    path = compile_program(scratch, "results.c", "-O1")
    result, trace = dyntrace.trace("--function", "[clp]*@program", "--filter", "n == 1 || n == 0", "--", path)
    assert set(trace.names()) == {"large_entry", "colour_entry", "pointer_entry", "pair_entry", "point_entry",
                                  "large_struct_entry", "complex_result_entry"}
    assert result.stderr.splitlines()[0] == "dyntrace: left out 1 function: chosen: --filter: unknown variable 'n' " \
        "(available: size, name, factor, a, b, c, d, on_stack)"
    result, trace = dyntrace.trace("--function", "[clp]*@program", "-t", "var:factor", "--", path)
    assert set(trace.names()) == {"chosen_entry"} and "left out 7 functions" in result.stderr
    result = dyntrace("trace", "--function", "[lp]*@program", "--filter", "nubmer > 1", "--", path, status=2)
    assert result.stderr.splitlines()[1:] == ["  nubmer > 1", "  ^"] and "unknown variable 'nubmer'" in result.stderr


# ---- variables --------------------------------------------------------------------------------------

def test_variables(dyntrace, scratch):
    path = compile_program(scratch, "variables.c", "-O1")
    names = ["req->path", "req->headers[1].name", "req->headers[1].value", "req->next->id", "hidden", "visible",
             "table[2]", "req->flags", "req->colour"]
    _, trace = dyntrace.trace("--function", "serve", *[w for name in names for w in ("-t", "var:" + name)], "--", path)
    assert [list(event.fields.values())[2:] for event in trace.events] == [
        ["/index.html", "Host", "example.org", 0, 7, -5, 30, 5, 2, "req->next->id"],
        ["/two", "Accept", "*/*", 1, 8, -5, 30, 2, 0, ""]]


# ---- view -------------------------------------------------------------------------------------------

def test_view_names_callers(dyntrace, scratch):
    """Addresses become function+offset (file:line), unless the file has changed since."""
    path = compile_program(scratch, "callers.c", "-O1")
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "leaf", "-t", "backtrace", "--", path)
    lines = dyntrace("view", output).stdout.splitlines()
    assert "backtrace = [ leaf+0x0 (callers.c:" in lines[0] and ", recurse+0x" in lines[0]
    assert lines[0].count("recurse+0x") == 6 and ", main+0x" in lines[0] and "unreadable" not in lines[0]
    assert ", qsort" in lines[2] and ", on_signal+0x" in lines[1]
    compile_program(scratch, "callers.c", "-O2")
    assert "recurse" not in dyntrace("view", output).stdout


def test_prototypes(dyntrace, program_path):
    text = dyntrace("list-symbols", "-a", program_path("hello"), "foo").stdout
    assert text.rstrip().endswith("foo  long int foo(int number, long int factor, const char *text)")


RESULTS = {
    "small": [-2], "large": [-3000000000], "truth": [1], "colour": [2], "pointer": [16], "real": [0.5], "single": [0.25],
    "extended": [0.125], "in_struct": [{"x": 1.5}], "pair": [{"a": 1, "b": -1}], "point": [{"x": 0.5, "y": -1.5}],
    "mixed": [{"d": 0.25, "i": 7}], "both": [{"l": 101, "d": 2.5}],
    "large_struct": [{"numbers": [1, 2, 3, 4], "name": "a large one"}], "flags": [{"low": 5, "high": -2, "c": 120}],
    "complex_result": [{"real": 1.0, "imag": 2.0}], "wide": [str((1 << 64) + 5)], "text": ["a result", "(null)"],
    "chosen": [-1, 15, 30, -1, 60, 75],
}


@pytest.mark.parametrize("compiler, flags", [("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O3")])
def test_every_class_of_result(dyntrace, scratch, compiler, flags):
    """rax, xmm0, rax:rdx, xmm0:xmm1, rax:xmm0, xmm0:rax, st0, memory; and the program's own registers are left alone,
    or it would print something else."""
    path = compile_program(scratch, "results.c", flags, compiler=compiler)
    words = [word for name in [*RESULTS, "nothing"] for word in ("--function", name)]
    result, trace = dyntrace.trace("-e", *words, "--", path)
    assert result.stdout == subprocess.run([path], check=True, capture_output=True, text=True).stdout
    for name, expected in RESULTS.items():
        events = trace.named(name + "_exit")
        assert [event.fields["ret"] for event in events] == expected and all("duration" in event.fields for event in events)
    assert ["ret" in event.fields for event in trace.named("nothing_exit")] == [False]
    assert trace.lost == 0


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_results_of_changed_functions(dyntrace, scratch, compiler):
    """Compilers drop a result that no caller uses: shown as optimised out, not as what its register holds."""
    path = compile_program(scratch, "clones.c", "-O2", compiler=compiler)
    names = ("ignored", "dropped", "used", "passed", "real")
    result = dyntrace("trace", "--print", "-e", "-o", dyntrace.new_output(),
                      *[word for name in names for word in ("--function", name + "*")], "--", path)
    shown = {name: re.findall(rf" {name}[.a-z0-9]*_exit {{ ret = ([^,]*),", result.stdout) for name in names}
    printed = {name: re.findall(rf"^{name} (.*)", result.stdout, re.M) for name in names}
    assert shown["ignored"] == shown["dropped"] == ["<optimised out>"] * 3
    assert shown["used"] == printed["used"] and shown["passed"] == printed["passed"] and len(printed["used"]) == 3
    assert [int(float(value) * 2) for value in shown["real"]] == [int(value) for value in printed["real"]]


def test_structs_as_lines(dyntrace, scratch):
    path = compile_program(scratch, "results.c", "-O1")
    result = dyntrace("trace", "-e", "--print", "-q", "-o", dyntrace.new_output(), "--function", "both", "--function", "large_struct",
                      "--", path)
    assert "both_exit { ret = { l = 101, d = 2.5 }, duration = " in result.stdout
    assert 'ret = { numbers = [ 1, 2, 3, 4 ], name = "a large one" }' in result.stdout


def test_results_are_typed(dyntrace, scratch):
    path = compile_program(scratch, "results.c", "-O1")
    output = dyntrace.new_output()
    dyntrace("trace", "-e", "-o", output, *[word for name in ("truth", "colour", "pointer") for word in ("--function", name)],
             "--", path)
    text = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    for part in ('ret = ( "true" : container = 1 )', 'ret = ( "BLUE" : container = 2 )', "ret = 0x10"):
        assert part in text


@pytest.mark.parametrize("expression, sizes", [
    ("$ret < 0", [0, 30]), ("$ret > 0 && size > 20", [40, 50]), ("entry:name == \"t*\"", [20, 30]),
    ("factor > 1.0 && on_stack > 1003 && $ret > 0", [40, 50]), ("$duration >= 0 && entry:size == 10", [10]),
    ("name[0] == 'f' && $ret == 60", [40]), ("$ret * 2 == entry:size * 3", [10, 20, 40, 50]),
    ("$duration < 0", []), ("*entry:name == '\"' || $ret == 15", [10])])
def test_filter_at_exit(dyntrace, scratch, expression, sizes):
    """A filter on the result decides about entry and exit; arguments are those of the entry."""
    path = compile_program(scratch, "results.c", "-O2")
    result, trace = dyntrace.trace("-e", "--function", "chosen", "--filter", expression, "-t", "entry:size", "--", path)
    for name in ("chosen_entry", "chosen_exit"):
        assert [event.fields["size"] for event in trace.named(name)] == list(sizes)
    assert "calls without an exit" not in result.stderr and trace.lost == 0


def test_arguments_and_contexts_at_exit(dyntrace, scratch):
    path = compile_program(scratch, "results.c", "-O1", "-no-pie", "-fno-pie")
    words = ["entry:name", "entry:factor", "entry:on_stack", "var:$ret", "backtrace", "tid", "reg:rax", "reg:rsi", "reg:rip"]
    _, trace = dyntrace.trace("-e", "--function", "chosen", *[w for word in words for w in ("-t", word)], "--", path)
    entries, exits = trace.named("chosen_entry"), trace.named("chosen_exit")
    assert len(entries) == len(exits) == 6 and all("factor" in event.fields for event in entries)
    for entry, event in zip(entries, exits):
        for name in ("name", "factor", "on_stack"):
            assert event.fields[name] == entry.fields[name]
        assert event.fields["rax"] & 0xffffffff == event.fields["ret"] & 0xffffffff
        assert event.fields["rip"] == event.fields["backtrace"][0] == entry.fields["backtrace"][1]
        assert event.fields["backtrace"] == entry.fields["backtrace"][1:] and event.fields["tid"] == event.tid


@pytest.mark.parametrize("words, part", [
    (["--filter", "$ret < 0"], "add -e"), (["-t", "entry:size"], "add -e"), (["-e", "--filter", "$ret.x"], "no member 'x'"),
    (["-e", "--filter", "entry:nosuch < 0"], "unknown argument"), (["-e", "-t", "entry:nosuch"], "unknown variable 'nosuch'")])
def test_wrong_questions_to_an_exit(dyntrace, scratch, words, part):
    path = compile_program(scratch, "results.c", "-O1")
    assert part in dyntrace("trace", "--function", "chosen", *words, "--", path, status=2).stderr


def test_busy_server_is_left_as_it_was(dyntrace, redis):
    """Backtraces, memory, strings and filters in a redis-server under load: it answers all the while, and is then as it
    was found."""
    load = redis.load()
    tracing = dyntrace.start_trace(redis.pid, "--function", "processCommand", "--function", "lookupKey", "-t", "backtrace",
                                   "-t", "comm", "-t", "string:bad:0x10", "-t", "ulong:gone:0x7ffffffff000", "--filter",
                                   "$rdi != 0", "--mode", "overwrite")
    redis.benchmark(requests=2000, clients=3)
    assert redis.cli("ping") == "PONG"
    trace = tracing.stop()
    tracing.before.assert_unchanged(busy=True)
    load.terminate()
    load.wait()
    assert len(trace.events) > 100
    for event in trace.events[:200]:
        assert event.fields["comm"] == "redis-server" and event.fields["bad"] == "(unreadable 0x10)"
        assert event.fields["unreadable"] == "gone" and event.fields["backtrace"][0] and len(event.fields["backtrace"]) > 3
        assert event.fields["backtrace"][-1] != 2**64 - 1
