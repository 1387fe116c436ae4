"""Casts, C's own arithmetic, and numbers that CTF has no type for."""
import os
import subprocess

import pytest

from test_values import compile_program


@pytest.fixture(params=["gcc", "clang"])
def casts(scratch, request):
    return compile_program(scratch, "casts.c", "-O1", compiler=request.param)


@pytest.mark.parametrize("expression, hits", [
    ("(int)u < 0", [-5, -1]), ('(char *)raw == "raw*"', [-5]), ('"byt?s!" == (char *)bytes', [-5]),
    ("((struct node *)p)->next->id == 2", [7]), ("((struct node *)p)->flags == 17 && ((struct node *)p)->low == -9", [7]),
    ('((box_t *)p)->inner.next->name == "sec*"', [-5]), ("*(int *)p == 77", [-5]), ("((struct node *)p)[0].weight > 2", [-1]),
    ("((union both *)raw)->f == 1", [7]), ("(enum mood)i == SAD", [-1]), ("(unsigned char)i == 251", [-5]),
    ("(uint16_t)raw == 0x1ff", [-1]), ("((struct node *)p + 1)->id == 2 || i == 7", [7]),
    ("(char *)((struct node *)p)->next - (char *)p == sizeof(struct node)", []), ("(bool)f && (long)d == 2", [-5]),
    ("((const struct node *const)p)->id == 2 && (struct node *)p == p", [-1]), ("*(char *)bytes == 'o'", [7]),
    ("*&((struct node *)p)->next->id == 2", [7]), ("!!(void *)bytes && sizeof(box_t) == 48 && sizeof i == 4", [-5, 7])])
def test_casts_in_filters(dyntrace, casts, expression, hits):
    _, trace = dyntrace.trace("--function", "take", "--filter", expression, "--", casts)
    assert [event.fields["i"] for event in trace.events] == hits and trace.lost == 0


@pytest.mark.parametrize("expression, hits", [
    ("u == -1", [-1]), ("u > 2147483647", [-5, -1]), ("i < u", []), ("u - 4 > u", [7]),
    ("u + 1 == 0", [-1]), ("u + 1l == 4294967296", [-1]), ("-u == 1", [-1]), ("i * 500000000 > 0", [-5]),
    ("d > f", [-5]), ("d == i * -0.5", [-5]), ("ld > d", [-5, 7, -1]), ("f / 2 == 1.5", [7]), ("ld == 0x1p-1 || d + f == 2.75", [-5, 7]),
    ("-d > 1e9", [7]), ("!d", [-1]), ("d && f > 1", [7]), ("(float)d == d", [-5, 7, -1])])
def test_arithmetic_as_in_c(dyntrace, scratch, expression, hits):
    path = compile_program(scratch, "casts.c", "-O1")
    _, trace = dyntrace.trace("--function", "take", "--filter", expression, "--", path)
    assert [event.fields["i"] for event in trace.events] == hits


def test_casts_in_variables(dyntrace, casts):
    texts = ["((box_t *)p)->magic", "*(struct node *)p", "(int)u", "(char *)raw", "(unsigned char)i", "(enum mood)i", "(float)d",
             "d * 2 + f", "sizeof(box_t)", "i + 1", "u + 1ul"]
    _, trace = dyntrace.trace("--function", "take", *[w for text in texts for w in ("-t", "var:" + text)], "--", casts)
    assert [list(event.fields.values())[8:] for event in trace.events][1:] == [
        [16428249907201, {"id": 1, "flags": 17, "low": -9, "weight": 1.5, "next": trace.events[2].fields["p"], "name": "first"},
         3, "", 7, 7, -1e10, -2e10 + 3, 48, 8, 4, ""],
        [17055315132418, {"id": 2, "flags": 3, "low": -4, "weight": 2.5, "next": 0, "name": "second"},
         -1, "(unreadable 0x1ff)", 255, -1, 0.0, 0.0, 48, 0, 4294967296, ""]]


@pytest.mark.parametrize("expression, part, column", [
    ("(struct nod *)p", "unknown struct 'nod'", 8), ("(box *)p", "unknown type 'box'", 1), ("(u31)i > 0", "unknown type 'u31'", 1),
    ("((struct node *)p)->nam", "no member 'nam'", 20), ("(struct node)p", "can't become", 0), ("(int", "missing ')'", 4),
    ("(int)", "incomplete", 5), ("f % 2", "only integers", 2), ("i << d", "only integers", 2), ("bytes == \"x\"", "(char *)x", 6),
    ("&u == 0", "no address", 0), ("p + p", "pointers", 2), ("(struct *)p", "name of a type", 8)])
def test_wrong_casts(dyntrace, scratch, expression, part, column):
    path = compile_program(scratch, "casts.c", "-O1")
    lines = dyntrace("trace", "--function", "take", "--filter", expression, "--", path, status=2).stderr.splitlines()
    assert part in lines[0] and lines[1] == "  " + expression and lines[2] == "  " + " " * column + "^"


def test_half_and_long_doubles(dyntrace, scratch):
    """CTF has no type for them: a half is exact as a single; a long double is rounded to a double, also the smallest one."""
    path = compile_program(scratch, "casts.c", "-O1")
    _, trace = dyntrace.trace("-e", "--function", "halves", "-t", "var:array[1]", "--", path)
    entry, leave = trace.events
    assert [entry.fields[name] for name in ("h", "last", "array_1_")] == [-0.0999755859375, 65504.0, 2.0]
    assert leave.fields["ret"] == 65504.0
    _, trace = dyntrace.trace("--function", "take", "--", path)
    assert [event.fields["ld"] for event in trace.events] == [1e30, 0.5, 5e-324]


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("is_absolute", [True, False])
def test_information_that_files_share(dyntrace, scratch, version, is_absolute):
    """dwz moves common debug information of two programs to a third file without program headers, as distributions do."""
    paths = [compile_program(scratch, "casts.c", "-O1", f"-gdwarf-{version}", name=name) for name in ("one", "two")]
    common = os.path.join(scratch, "common.dwz")
    subprocess.run(["dwz", "-m", common, "-M", common if is_absolute else "common.dwz", *paths], check=True)
    _, trace = dyntrace.trace("--function", "take", "-t", "var:((struct node *)p)->name", "--filter", "((struct node *)p)->id == 2", "--",
                              paths[0])
    assert list(trace.events[0].fields.values())[1:] == [0x1ff, 0xffffffff, -1, 0.0, 0.0, 5e-324, 0, "second"]


REGISTERS = """
#include <wchar.h>
struct pair { short kind[2]; float at[3]; };
__attribute__((noipa)) void take(struct pair pair, int n, const wchar_t *wide) { __asm__ volatile("nop; nop; nop; nop; nop" : : : "memory"); }
int main(void) { for (int i = 0; i < 9; i++) take((struct pair){ { i, -i }, { i / 2.f, 1, -1 } }, i % 2, L"wide"); return 0; }
"""


def test_arrays_in_registers(dyntrace, scratch):
    """A written index finds an element of an array that has no address; any other is refused, and so are comparisons of wide texts."""
    path = os.path.join(scratch, "registers")
    subprocess.run(["gcc", "-O2", "-g", "-x", "c", "-", "-o", path], input=REGISTERS, text=True, check=True)
    _, trace = dyntrace.trace("--function", "take", "-t", "var:pair.kind[1]", "-t", "var:pair.at[0]", "-t", "var:pair.at[2]", "--", path)
    assert [list(event.fields.values())[-3:] for event in trace.events] == [[-i, i / 2, -1] for i in range(9)]
    assert len(dyntrace.trace("--function", "take", "--filter", "pair.kind[0] > 3 && pair.at[0] < 4", "--", path)[1].events) == 4
    for condition, message in (("pair.kind[n] == 1", "in registers: an index has to be a number here"), ("pair.kind[9] == 1", "no such element"),
                               ('wide == "wide"', "a text of wide characters cannot be compared")):
        error = dyntrace("trace", "--function", "take", "--filter", condition, "--", path, status=2).stderr
        assert error.startswith(f"dyntrace: trace: take: --filter: {message}\n"), error
