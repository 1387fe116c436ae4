"""A few hundred random functions; thousands of them are in the torture tests."""
import os
import subprocess

import pytest

import signatures


def check(dyntrace, scratch, compiler, flags, version, seed, count):
    source, made = signatures.make(seed, count)
    path = os.path.join(scratch, "signatures")
    with open(path + ".c", "w") as file:
        file.write(source)
    language = "c++" if compiler.endswith("++") else "c"
    subprocess.run([compiler, "-g", f"-gdwarf-{version}", flags, "-w", "-x", language, "-o", path, path + ".c"], check=True)
    _, trace = dyntrace.trace("-e", "--function", "f[0-9]*", "--", path)
    assert signatures.differences(trace, made) == []
    assert trace.lost == 0


@pytest.mark.parametrize("seed, compiler, flags, version", [
    (1, "gcc", "-O0", 5), (2, "gcc", "-O2", 5), (3, "gcc", "-O3", 4), (4, "gcc", "-O1", 4),
    (5, "clang", "-O0", 4), (6, "clang", "-O2", 5), (7, "clang", "-O3", 5), (8, "clang", "-O1", 4),
    (9, "g++", "-O0", 5), (10, "g++", "-O2", 4), (11, "clang++", "-O0", 5), (12, "clang++", "-O2", 4)])
def test_random_signatures(dyntrace, scratch, seed, compiler, flags, version):
    check(dyntrace, scratch, compiler, flags, version, seed, 40)


ALIGNED = """
typedef double wide __attribute__((vector_size(32)));
struct vectors { wide a, b; };
struct inner { int n; struct { wide a; int x; } m; };
struct member { int x; long y __attribute__((aligned(32))); };
struct whole { int x; } __attribute__((aligned(64)));
struct packed { char c; long double l; } __attribute__((packed));
struct holes { long a; long : 64; long : 64; long d; };
#define TAKE(n, type) __attribute__((noinline, target("avx"))) \\
	void f##n(long double before, struct type v, long double behind) { __asm__ volatile("" : : "r"(&v), "r"(&before), "r"(&behind) : "memory"); }
TAKE(0, vectors) TAKE(1, inner) TAKE(2, member) TAKE(3, whole) TAKE(4, packed) TAKE(5, holes)
__attribute__((target("avx"))) int main(void)
{
	wide w = { 1, 2, 3, 4 };
	f0(7, (struct vectors){ w, w }, 8);
	f1(7, (struct inner){ 5, { w, 6 } }, 8);
	f2(7, (struct member){ 1, 2 }, 8);
	f3(7, (struct whole){ 3 }, 8);
	f4(7, (struct packed){ 'c', 2.5 }, 8);
	f5(7, (struct holes){ 4, 5 }, 8);
}
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O1"])
def test_structs_with_an_alignment(dyntrace, scratch, compiler, flags):
    """A struct on the stack is where its alignment says, which LLVM doesn't tell: members and gaps between them do."""
    path = os.path.join(scratch, "aligned")
    subprocess.run([compiler, "-g", flags, "-w", "-x", "c", "-o", path, "-"], input=ALIGNED, text=True, check=True)
    _, trace = dyntrace.trace("--function", "f[0-9]", "--", path)
    wide = [1, 2, 3, 4]
    assert [event.fields["v"] for event in trace.events] == [
        {"a": wide, "b": wide}, {"n": 5, "m": {"a": wide, "x": 6}}, {"x": 1, "y": 2}, {"x": 3}, {"c": ord("c"), "l": 2.5}, {"a": 4, "d": 5}]
    assert all((event.fields["before"], event.fields["behind"]) == (7, 8) for event in trace.events)


UNIONS = """
union a { long double l; int i; };
union b { long double l; int i[4]; };
union c { unsigned x; union { const char *s; long double l; }; int e[2][2]; };
struct d { union { long double l; long i; } u; };
union e { long double l; double d; };
#define TAKE(n, type) type value##n = { .l = n }; \\
	__attribute__((noinline)) type f##n(int p) { __asm__ volatile("" : : "r"(&p) : "memory"); return value##n; } \\
	__attribute__((noinline)) void g##n(int p, type v, int q) { __asm__ volatile("" : : "r"(&p), "r"(&v), "r"(&q) : "memory"); }
TAKE(1, union a) TAKE(2, union b) TAKE(3, union c) TAKE(5, union e)
#undef TAKE
struct d value4 = { { 4 } };
__attribute__((noinline)) struct d f4(int p) { __asm__ volatile("" : : "r"(&p) : "memory"); return value4; }
__attribute__((noinline)) void g4(int p, struct d v, int q) { __asm__ volatile("" : : "r"(&p), "r"(&v), "r"(&q) : "memory"); }
#define CALL(n) { __auto_type r = f##n(n); __asm__ volatile("" : : "r"(&r) : "memory"); g##n(n, value##n, -n); }
int main(void) { CALL(1) CALL(2) CALL(3) CALL(4) CALL(5) }
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("flags", ["-O0", "-O1"])
def test_unions_with_a_long_double(dyntrace, scratch, compiler, flags):
    """Beside an integer half a long double is passed, and returned, in memory: the hidden pointer to the result is no argument."""
    path = os.path.join(scratch, "unions")
    subprocess.run([compiler, "-g", flags, "-w", "-x", "c", "-o", path, "-"], input=UNIONS, text=True, check=True)
    _, trace = dyntrace.trace("-e", "--function", "[fg][1-5]", "--", path)

    def told(value):
        value = value.get("u", value)
        return n if isinstance(value.get("i"), list) and value["i"][2] == 0x4000 else value["l"]  # two integer registers
    for n in range(1, 6):
        assert [event.fields["p"] for event in trace.named(f"f{n}_entry")] == [n]
        assert [told(event.fields["ret"]) for event in trace.named(f"f{n}_exit")] == [n]
        assert [(event.fields["p"], told(event.fields["v"]), event.fields["q"]) for event in trace.named(f"g{n}_entry")] == [(n, n, -n)]
