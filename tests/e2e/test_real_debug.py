"""Foreign debug information: Debian's python3.11-dbg and libc6-dbg, compared with the programs' own output."""
import os
import re
import subprocess

import pytest

PYTHON = "/usr/bin/python3.11"


def program(scratch, source):
    path = os.path.join(scratch, "program.py")
    with open(path, "w") as file:
        file.write(source)
    return [PYTHON, "-S", path]


THING = """
class Thing:
    pass
thing, values = Thing(), [3, "text", {}, 1.5]
for value in values:
    setattr(thing, "name", value)
    print(id(thing), id(value), type(value).__name__)
"""


def test_pointers_and_their_targets(dyntrace, scratch):
    """PyObject_SetAttr(v, name, value): addresses, and names of types two pointers and a cast away."""
    result, trace = dyntrace.trace(
        "--function", "PyObject_SetAttr", "-t", "var:v->ob_type->tp_name", "-t", "var:value->ob_type->tp_name",
        "--filter", 'v->ob_type->tp_name == "Thing"', "--", *program(scratch, THING))
    said = [line.split() for line in result.stdout.splitlines()]
    assert [(str(e.fields["v"]), str(e.fields["value"]), e.fields["value__ob_type__tp_name"]) for e in trace.events] == \
        [tuple(words) for words in said]
    assert {e.fields["v__ob_type__tp_name"] for e in trace.events} == {"Thing"} and len(said) == 4


@pytest.mark.parametrize("pattern, kinds", [("dict", ["dict"]), ("[fi]*", ["int", "float"]), ("none", [])])
def test_filter_by_the_name_of_a_type(dyntrace, scratch, pattern, kinds):
    _, trace = dyntrace.trace(
        "--function", "PyObject_SetAttr", "-t", "var:value->ob_type->tp_name",
        "--filter", f'v->ob_type->tp_name == "Thing" && value->ob_type->tp_name == "{pattern}"', "--", *program(scratch, THING))
    assert [e.fields["value__ob_type__tp_name"] for e in trace.events] == kinds


def test_enumerations_by_name(dyntrace, scratch):
    """PyMem_SetAllocator(domain, allocator): gcc lists a parameter twice, and some calls of it are inlined, in other files."""
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "PyMem_SetAllocator", "--", *program(scratch, "import tracemalloc\ntracemalloc.start()\n"))
    text = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    calls = re.findall(r'PyMem_SetAllocator(?:-\d+)?_entry: .*\{ domain = \( "(\w+)" : container = (\d) \), allocator = (0x[0-9A-F]+) \}', text)
    where = next(i for i, call in enumerate(calls) if call[0] == "PYMEM_DOMAIN_MEM")
    domains = [("PYMEM_DOMAIN_RAW", "0"), ("PYMEM_DOMAIN_MEM", "1"), ("PYMEM_DOMAIN_OBJ", "2")]
    assert calls[where - 1:where + 2] == [(*domain, calls[where][2]) for domain in domains]


ERRORS = """
def inner():
    [].pop()
def outer():
    inner()
try:
    outer()
except IndexError as error:
    print(error)
"""


def test_text_and_backtrace_through_the_interpreter(dyntrace, scratch):
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "PyErr_SetString", "-t", "backtrace:60", "--filter", 'string == "pop*"', "--",
                      *program(scratch, ERRORS))
    shown = dyntrace("view", output).stdout
    assert f'string = "{result.stdout.strip()}"' in shown and shown.count("\n") == 1
    frames = re.findall(r"(\w+)\+0x[0-9a-f]+ ", shown)
    assert frames[0] == "PyErr_SetString" and frames[1] == "list_pop"
    assert "_PyEval_EvalFrameDefault" in frames[2:5]
    assert frames[-5:-3] == ["Py_RunMain", "Py_BytesMain"]
    assert frames[-3:] == ["__libc_start_call_main", "__libc_start_main", "_start"]
    assert re.search(r"PyErr_SetString\+0x0 \(errors\.c:\d+\)", shown) and re.search(r"\(listobject\.c:\d+\)", shown)


def test_results(dyntrace, scratch):
    """PyLong_FromString(str, pend, base): a string and a number in, an object out."""
    result, trace = dyntrace.trace("-e", "--function", "PyLong_FromString", "-t", "var:$ret->ob_type->tp_name", "--filter",
                                   "entry:base == 36", "--", *program(scratch, "n = int('zz', 36)\nprint(id(n), n)\n"))
    where, number = result.stdout.split()
    assert number == str(35 * 36 + 35)
    assert [(e.fields["str"], e.fields["base"]) for e in trace.named("PyLong_FromString_entry") if e.fields["base"] == 36] == [("zz", 36)]
    assert [(str(e.fields["ret"]), e.fields["ret__ob_type__tp_name"]) for e in trace.named("PyLong_FromString_exit")] == [(where, "int")]


def test_lines_of_the_interpreter(dyntrace, scratch):
    """The line where a function begins is the place where it begins."""
    where = subprocess.run(["readelf", "-sW", PYTHON], check=True, capture_output=True, text=True).stdout
    address = int(next(line.split()[1] for line in where.splitlines() if line.endswith(" _PyEval_EvalFrameDefault")), 16)
    output = dyntrace.new_output()
    words = program(scratch, "def f(n):\n    return n and f(n - 1)\nf(50)\n")
    dyntrace("trace", "-o", output, "--function", "_PyEval_EvalFrameDefault", "-t", "backtrace", "--first", "1", "--", *words)
    line = re.search(r"_PyEval_EvalFrameDefault\+0x0 \(ceval\.c:(\d+)\)", dyntrace("view", output).stdout)[1]
    _, trace = dyntrace.trace("--probe", f"ceval.c:{line}", "-t", "reg:rip", "-t", "var:throwflag", "-t", "var:tstate->cframe->use_tracing",
                              "--", *words)
    assert {(e.fields["rip"], e.fields["tstate__cframe__use_tracing"]) for e in trace.events} == {(address, 0)}
    assert {e.fields["throwflag"] for e in trace.events} <= {0, 1} and trace.events[0].fields["throwflag"] == 0
    assert len(trace.events) > 5


def test_libc(dyntrace, scratch):
    source, path = os.path.join(scratch, "program.c"), os.path.join(scratch, "program")
    with open(source, "w") as file:
        file.write("""#include <stdio.h>
#include <stdlib.h>
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
int main(void)
{
	int numbers[5] = { 3, 1, 2, 5, 4 };
	FILE *file = fopen("/etc/hostname", "re");
	void *p = malloc(12345);
	qsort(numbers, 5, sizeof(int), compare);
	printf("%lu %lu %lu %lu\\n", (unsigned long)file, (unsigned long)p, (unsigned long)numbers, (unsigned long)compare);
	free(p);
	return 0;
}
""")
    subprocess.run(["gcc", "-O0", "-o", path, source], check=True)
    result, trace = dyntrace.trace("-e", "--function", "fopen", "--function", "qsort", "--function", "malloc", "--", path)
    file, block, numbers, compare = map(int, result.stdout.split())
    assert [e.fields for e in trace.named("fopen_entry")] == [{"filename": "/etc/hostname", "mode": "re"}]
    assert [e.fields["ret"] for e in trace.named("fopen_exit")] == [file]
    assert [e.fields for e in trace.named("qsort_entry")] == [{"b": numbers, "n": 5, "s": 4, "cmp": compare}]
    assert block in [e.fields["ret"] for e in trace.named("malloc_exit")]
    assert {"bytes": 12345} in [e.fields for e in trace.named("malloc_entry")]
