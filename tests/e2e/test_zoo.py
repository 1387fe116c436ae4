"""Rare types, and constants that only the compiler knows: fields equal the program's values."""
import os
import struct
import subprocess

import pytest

from test_values import compile_program


def bits_of(*numbers, code):
    raw = struct.pack(f"<{len(numbers)}{code}", *numbers)
    return list(struct.unpack(f"<{len(raw) // 8}Q", raw))


CORNERS = {"p": {"0": {"x": 1, "y": 2}, "1": {"x": 3, "y": 4}, "2": {"x": 5, "y": 6}}, "n": 7}
EXPECTED = {
    "enums": [{"a": 0x123456789abcdef, "b": 128, "c": 5, "d": -200, "e": 255},
              {"a": 200, "b": 255, "c": 2, "d": -2**31, "e": 128}, {"a": 3000000000, "b": 3, "c": 0, "d": 0, "e": 3}],
    "packed": [{"p": {"a": 97, "b": -5, "c": 300, "d": 1 << 40, "e": 122}}],
    "bits": [{"b": {"a": 5, "b": -1000, "c": 0xabcdef0123, "d": 1, "e": 99, "f": -3}}],
    "packed_bits": [{"b": {"a": 5, "b": 0x2bcdef01, "c": 0x2abcdef012345}}],
    "empty": [{"e": 0, "after": 42}],
    "unnamed": [{"a": {"k": 1, "i": 0x3fc00000, "f": 1.5, "s1": -2, "s2": 3}}],
    "wide": [{"a": "-2", "b": str(7 << 64 | 9), "c": 11}],
    "vectors": [{"a": [1, 2, 3, 4], "b": bits_of(1, 2, 3, 4, code="i"), "c": [1, 2]}],  # __m128i has elements of 64 bits
    "pointers": [{"h": 0x1234, "pp": 0x5678, "p": 0x9abc, "argv": 0xdef0}],
    "variable_length": [{"n": 2, "m": 3, "a": 0x1234}],
    "old_style": [{"a": 120, "b": -3, "c": 1.5, "d": "old"}],
    "variadic": [{"format": "%d %s"}],
    "polygons": [{"p": CORNERS}],
    "texts": [{"w": "wide \u00e4\U0001f600", "c16": "sixteen \u00e4\U0001f600", "c32": "thirty-two \u00e4", "none": "(null)",
               "bad": "(unreadable 0x10)", "odd": "a\\xd83db\\xde00"}],
    "complexes": [{"z": {"real": 1.5, "imag": 2.5}, "l": 3.25, "f": {"real": 1.5, "imag": 2.5}, "d": {"real": 3.5, "imag": 4.5}}],
}
RESULTS = {"wide_result": str(1 << 64 | 5), "complex_result": {"real": 1.5, "imag": 2.5}, "long_result": 3.25, "old_style": 120,
           "polygon_result": CORNERS | {"p": CORNERS["p"] | {"2": {"x": 5, "y": 9}}}}


@pytest.mark.parametrize("compiler, version, flags", [
    ("gcc", 5, "-O0"), ("gcc", 4, "-O2"), ("gcc", 5, "-O3"), ("clang", 4, "-O0"), ("clang", 5, "-O2")])
def test_rare_types(dyntrace, scratch, compiler, version, flags):
    path = compile_program(scratch, "zoo.c", flags, "-w", f"-gdwarf-{version}", compiler=compiler)
    words = [word for name in EXPECTED | RESULTS | {"classes": 0} for word in ("--function", name)]
    _, trace = dyntrace.trace("-e", *words, "--", path)
    assert {name: [event.fields for event in trace.named(name + "_entry")] for name in EXPECTED} == EXPECTED
    assert {name: [event.fields["ret"] for event in trace.named(name + "_exit")] for name in RESULTS} == \
        {name: [value] for name, value in RESULTS.items()}
    fields = trace.named("classes_entry")[0].fields
    assert (fields["m"], fields["n"], fields["l"]) == ({"f": 1.5, "d": 2.5}, {"f": 3.5, "i": 7}, {"l": 4.5})
    assert fields["u"] == {"l": 4617878467915022336, "d": 5.5} and fields["t"] == {"c": [97, 98, 0]}
    assert trace.lost == 0


def test_enumerators_above_127_have_names(dyntrace, scratch):
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "enums", "--", compile_program(scratch, "zoo.c", "-O1", "-w"))
    text = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    for name, value in (("B_HUGE", 81985529216486895), ("D_C", 128), ("N_M200", -200), ("U_255", 255), ("B_200", 200), ("D_D", 255),
                        ("N_MIN", -2**31), ("U_128", 128), ("B_3G", 3000000000)):
        assert f'( "{name}" : container = {value} )' in text


CONSTANTS = """
volatile int sink;
volatile long total;
static int never_changed = 200;
__attribute__((noinline)) void leaf(void) { sink++; }
__attribute__((noinline)) int work(int a)
{
	int n = 200, m = -200; unsigned char c = 200; signed char sc = -3; long l = 3000000000; unsigned u = 4000000000u;
	short s = 30000; double d = 2.5; float f = 1.5f; struct { int x, y; } p = { 6, 7 };
	leaf();
	total += n + m + c + sc + l + u + s + d + f + p.x + p.y + never_changed;
	return n;
}
int main(void) { return work(1) == 3; }
"""
VALUES = {"n": 200, "m": -200, "c": 200, "sc": -3, "l": 3000000000, "u": 4000000000, "s": 30000, "d": 2.5, "f": 1.5,
          "p": {"x": 6, "y": 7}}


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2"])
def test_variables_that_are_constants(dyntrace, scratch, compiler, flags):
    path = os.path.join(scratch, "constants")
    with open(path + ".c", "w") as file:
        file.write(CONSTANTS)
    subprocess.run([compiler, "-g", flags, "-o", path, path + ".c"], check=True)
    contexts = [word for name in [*VALUES, "never_changed"] for word in ("-t", f"var:{name}")]
    _, trace = dyntrace.trace("--probe", "constants.c:11", *contexts, "--", path)
    assert len(trace.events) == 1
    assert {name: trace.events[0].fields[name] for name in VALUES} == VALUES
    assert trace.events[0].fields["never_changed"] == (200 if flags == "-O0" else 0)  # else: <optimised out>
