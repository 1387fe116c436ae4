"""Arguments and results of functions without debug information: by the shipped prototypes, by --prototypes FILE, by --floats."""
import os
import subprocess

import pytest

from daemon_harness import Daemon

SOURCE = r"""
#include <stdio.h>
#include <string.h>
__attribute__((noinline)) double mix(int a, double d, const char *text, float f, unsigned char c, long e, short s, long l7, void *p8, double d9)
{ __asm__ volatile("" ::: "memory"); return d + f + a; }
__attribute__((noinline)) long double wide(long double x, int n) { __asm__ volatile("" ::: "memory"); return x * n; }
__attribute__((noinline)) const char *name_of(int n) { __asm__ volatile("" ::: "memory"); return n ? "one" : "zero"; }
__attribute__((noinline)) float scale(float f, double d) { __asm__ volatile("" ::: "memory"); return f * 2; }
int main(void)
{
	double sum = 0;
	for (int i = 0; i < 3; i++) {
		sum += mix(-i, i + 0.25, i ? "text" : "none", 1.5f, 200, 1L << 40, -3, 77, (void *)8, 9.75);
		sum += (double)wide(1.5L, i) + scale(0.5f, 2.5) + (double)strlen(name_of(i));
	}
	return sum < 0;
}
"""
DECLARATIONS = """
/* as in a header */
typedef unsigned char byte;
double mix(int a, double d, const char *text, float f, byte c, long e, short s, long l7, struct thing *p8, double d9);
long double wide(long double x, int n);
extern const char *name_of(int n);
float scale(float f, double d);
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Built without debug information; main is gone, too."""
    folder = tmp_path_factory.mktemp("prototypes")
    (folder / "plain.c").write_text(SOURCE)
    (folder / "plain.h").write_text(DECLARATIONS)
    subprocess.run(["gcc", "-O1", "-fno-ipa-ra", "-fno-ipa-cp", "-fno-ipa-sra", "-o", folder / "plain", folder / "plain.c"], check=True)
    return folder / "plain"


FUNCTIONS = [word for name in ("mix", "wide", "name_of", "scale") for word in ("--function", name)]


def trace(dyntrace, *words, command):
    return dyntrace.trace("-q", "-e", *words, "--", *command)[1]


def test_declarations_of_ones_own(dyntrace, program):
    """Numbers, text and floats in registers and on the stack; results, too; a filter by the names."""
    events = trace(dyntrace, *FUNCTIONS, "--prototypes", f"{program}.h", command=[program]).events
    mixed = [event.fields for event in events if event.name == "mix_entry"]
    assert [(f["a"], f["d"], f["text"], f["f"], f["c"], f["e"], f["s"], f["l7"], f["p8"], f["d9"]) for f in mixed] == \
        [(-i, i + 0.25, "text" if i else "none", 1.5, 200, 1 << 40, -3, 77, 8, 9.75) for i in range(3)]
    assert [event.fields["ret"] for event in events if event.name == "mix_exit"] == [1.75 + 0 * i for i in range(3)]
    assert [event.fields["ret"] for event in events if event.name == "name_of_exit"] == ["zero", "one", "one"]
    assert [(event.fields["f"], event.fields["d"]) for event in events if event.name == "scale_entry"] == [(0.5, 2.5)] * 3
    assert [event.fields["ret"] for event in events if event.name == "scale_exit"] == [1.0] * 3
    assert [event.fields["x"] for event in events if event.name == "wide_entry"] == [1.5] * 3
    assert [event.fields["ret"] for event in events if event.name == "wide_exit"] == [0, 1.5, 3]
    some = trace(dyntrace, "--function", "mix", "--prototypes", f"{program}.h", "--filter", 'text == "text" && d > 2', command=[program])
    assert [event.fields["a"] for event in some.events if event.name == "mix_entry"] == [-2]


def test_floats(dyntrace, program):
    """Without types, xmm0 to xmm7 as double or float, and xmm0 at the exit."""
    doubles = trace(dyntrace, "--function", "mix", "--floats", "double", command=[program]).events
    assert [event.fields["xmm0"] for event in doubles if event.name == "mix_entry"] == [0.25, 1.25, 2.25]
    assert [event.fields["xmm2"] for event in doubles if event.name == "mix_entry"] == [9.75] * 3
    assert {f"xmm{i}" for i in range(8)} | {"arg0"} == set(doubles[0].fields)
    assert [event.fields["xmm0"] for event in doubles if event.name == "mix_exit"] == [1.75] * 3
    floats = trace(dyntrace, "--function", "scale", "--function", "mix", "--floats", "float", command=[program]).events
    assert [event.fields["xmm0"] for event in floats if event.name == "scale_entry"] == [0.5] * 3
    assert [event.fields["xmm1"] for event in floats if event.name == "mix_entry"] == [1.5] * 3
    assert [event.fields["xmm0"] for event in floats if event.name == "scale_exit"] == [1.0] * 3


def test_common_libraries(dyntrace):
    """sqlite3 and zlib, as Debian builds them, by names and types of their headers."""
    script = "import sqlite3, zlib; sqlite3.connect(':memory:').execute('select 40 + 2'); zlib.crc32(b'hello')"
    events = trace(dyntrace, "--wait", "--function", "sqlite3_prepare_v2", "--function", "crc32@libz.so.1",
                   command=["/usr/bin/python3", "-c", script]).events
    asked = next(event.fields for event in events if event.name == "sqlite3_prepare_v2_entry")
    assert (asked["zSql"], asked["nByte"]) == ("select 40 + 2", 14)
    summed = next(event.fields for event in events if event.name == "crc32_entry")
    assert (summed["crc"], summed["len"]) == (0, 5)
    assert next(event.fields["ret"] for event in events if event.name == "crc32_exit") == 0x3610a686


def test_in_a_daemon(build, processes, scratch, program):
    """The declarations go with the request, and into the journal: a daemon that comes back has them."""
    daemon = Daemon(build, processes, scratch).start()
    library = os.path.join(scratch, "libplain.so")
    subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-o", library, f"{program}.c"], check=True)
    target = processes.start(["/usr/bin/python3", "-uc", f"import ctypes, zlib, sys\none = ctypes.CDLL('{library}')\nprint('ready')\n"
                              "for line in sys.stdin: print(zlib.crc32(b'hello'))"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    header = os.path.join(scratch, "own.h")
    with open(header, "w") as file:
        file.write("unsigned long crc32(unsigned long start,\n\tconst unsigned char *bytes, unsigned count);\n")
    daemon.add(f"{target.pid}:crc32@libz.so.1", "-e", "-n", "own", "--prototypes", header)
    daemon.add(f"{target.pid}:crc32@libz.so.1", "-f", "-n", "shipped")
    daemon.add(f"{target.pid}:scale@libplain.so", "-f", "--floats", "float")
    listed = {one["name"]: one["fields"] for one in daemon.json("list-tracepoints", target.pid)}
    assert listed["own"] == ["uint64_t start", "uint64_t bytes", "uint32_t count"]
    assert listed["shipped"] == ["uint64_t crc", "uint64_t buf", "uint32_t len"]
    assert listed["scale"] == [f"float xmm{i}" for i in range(8)]
    target.stdin.write("go\n")
    target.stdin.flush()
    assert target.stdout.readline() == "907060870\n"
    trace = daemon.finish(target.pid)
    assert [event.fields["count"] for event in trace.events if event.name == "own_entry"] == [5]
    daemon.close()


@pytest.mark.parametrize("text, said", [
    ("int f(int", "line 1: not a C declaration"),
    ("int g(int);\n\nthing_t f(void);", "line 3: f: thing_t can't be an argument or a result itself"),
    ("int g(int);\nint f(int,\n      struct s s);", "line 2: f: struct s can't be an argument or a result itself"),
    (f"int f({', '.join(['int'] * 33)});", "line 1: f: more than 32 parameters"),
    ("int x;", "no function is declared"),
])
def test_refusals(dyntrace, program, tmp_path, text, said):
    (tmp_path / "wrong.h").write_text(text)
    result = dyntrace("trace", "--function", "mix", "--prototypes", tmp_path / "wrong.h", "--", program, status=2)
    assert f"--prototypes: {tmp_path}/wrong.h: {said}" in result.stderr
