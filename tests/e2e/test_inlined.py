"""Copies of functions in other files than their own, and debug information that is read in parts."""
import os
import subprocess

import pytest


def build(scratch, compiler, flags, **sources):
    """Compiles one object per source, so that each is a unit of its own."""
    suffix = ".cpp" if "++" in compiler else ".c"
    for name, text in sources.items():
        with open(os.path.join(scratch, name + (".h" if name == "header" else suffix)), "w") as file:
            file.write(text)
    names = [name for name in sources if name != "header"]
    for name in names:
        subprocess.run([compiler, "-g", *flags, "-c", name + suffix, "-o", name + ".o"], check=True, cwd=scratch)
    path = os.path.join(scratch, "program")
    subprocess.run([compiler, *flags, "-o", path, *[name + ".o" for name in names]], check=True, cwd=scratch)
    return path


HEADER = """
extern volatile int sink;
static inline int scale(int n) { sink += n; return 2 * n; }
int user(int n);
"""
FIRST = """
#include "header.h"
volatile int sink;
int (*volatile by_pointer)(int) = scale;
static inline int other(int n) { sink += n; return 3 * n; }
int (*volatile other_pointer)(int) = other;
int main(void) { by_pointer(1); scale(sink); other_pointer(5); other(6); return user(3) == 0; }
"""
SECOND = """
#include "header.h"
static inline int other(int n) { sink -= n; return 4 * n; }
__attribute__((noinline)) int user(int n) { return scale(n) + scale(n + 1) + other(n + 2); }
"""
MATRIX = [("gcc", ["-O2"]), ("gcc", ["-O2", "-gdwarf-4"]), ("clang", ["-O2"]), ("clang", ["-O1", "-gdwarf-4"]),
          ("gcc", ["-O2", "-flto"]), ("g++", ["-O2"]), ("clang++", ["-O2"])]


@pytest.mark.parametrize("compiler, flags", MATRIX)
def test_copies_in_other_files(dyntrace, scratch, compiler, flags):
    """scale has code of its own, and copies in both files; each call counts once."""
    path = build(scratch, compiler, flags, header=HEADER, first=FIRST, second=SECOND)
    _, trace = dyntrace.trace("--function", "scale", "--", path)
    assert [event.fields["n"] for event in trace.events] == [1, 1, 3, 4]
    assert trace.lost == 0


CLASSES = """
extern volatile int sink;
namespace one { struct Counter { int base; int get(int n) const { sink += n; return base + n; } }; }
namespace two { struct Counter { int base; int get(int n) const { sink -= n; return base - n; } }; }
template <class T> struct Box { T value; T get(T n) { sink += 1; return value + n; } };
int user(int n);
"""
CLASSES_FIRST = """
#include "header.h"
volatile int sink;
int (one::Counter::*volatile by_pointer)(int) const = &one::Counter::get;
int main() { one::Counter c{5}; (c.*by_pointer)(1); return user(c.get(2)) == 0; }
"""
CLASSES_SECOND = """
#include "header.h"
__attribute__((noinline)) int user(int n)
{
    one::Counter a{n}; two::Counter b{n}; Box<int> box{n};
    return a.get(10) + b.get(20) + box.get(30) + a.get(40);
}
"""


@pytest.mark.parametrize("compiler, flags", [("g++", ["-O2"]), ("clang++", ["-O2"]), ("g++", ["-O1", "-gdwarf-4"])])
def test_methods_of_the_same_name(dyntrace, scratch, compiler, flags):
    path = build(scratch, compiler, flags, header=CLASSES, first=CLASSES_FIRST, second=CLASSES_SECOND)
    _, trace = dyntrace.trace("--function", "one::Counter::get", "--", path)
    known = {"g++": [1, 2, 10, 40], "clang++": [1, 2, 0, 40]}  # 0: <optimised out>
    assert [event.fields["n"] for event in trace.events] == known[compiler]
    _, trace = dyntrace.trace("--function", "two::Counter::get", "--", path)
    assert [event.fields["n"] for event in trace.events] == [20]


# ---- much debug information ---------------------------------------------------------------------------------

def much(number, count):
    lines = ["extern volatile int sink;", f"__attribute__((used)) int shared_{number} = {number + 40};", f"struct only_{number} {{ int first; long second; }};"]
    for i in range(count):
        members = "".join(f" {kind} m{j}_{i};" for j, kind in enumerate(["int", "long", "double", "char *"] * 8))
        lines.append(f"enum e{number}_{i} {{ A{number}_{i}, B{number}_{i} = 200, C{number}_{i} }};\n"
                     f"struct s{number}_{i} {{{members} }};\n"
                     f"__attribute__((noinline, used)) long f{number}_{i}(struct s{number}_{i} *p, enum e{number}_{i} e, const char *text, struct only_{number} o)\n"
                     "{ sink++; return p ? p->m1_%d : e; }" % i)
    lines.append(f"long call_{number}(void) {{ return f{number}_250(0, B{number}_250, \"text {number}\", (struct only_{number}){{ {number}, 7 }}); }}")
    return "\n".join(lines) + "\n"


MAIN = """
volatile int sink;
struct only_1;
struct only_1 *hidden;
extern struct only_2 visible;
long call_1(void), call_2(void);
__attribute__((noinline)) void leave(struct only_1 *p) { sink++; }
int main(void) { static long words[2] = { 11, 12 }; call_1(); call_2(); leave((struct only_1 *)words); return 0; }
"""


@pytest.mark.parametrize("compiler, flags, count, least", [
    ("gcc", [], 1000, 1 << 20), ("clang", [], 1200, 1 << 20), ("gcc", ["-gz=zlib"], 300, 1), ("gcc", ["-O1", "-flto"], 300, 1)])
def test_units_are_read_when_they_are_needed(dyntrace, scratch, compiler, flags, count, least):
    """(Y3, Y4) Types and variables of several units; a struct that only another unit defines."""
    path = build(scratch, compiler, flags, first=MAIN, much_1=much(1, count), much_2=much(2, count))
    size = subprocess.run(["size", "-A", path], check=True, capture_output=True, text=True).stdout
    assert sum(int(line.split()[1]) for line in size.splitlines() if line.startswith(".debug_info")) > least
    _, trace = dyntrace.trace("--function", "f2_250", "--function", "f1_250", "-t", "var:shared_1", "-t", "var:shared_2", "--", path)
    assert [{name: value for name, value in event.fields.items() if name != "unreadable"} for event in trace.events] == [
        {"p": 0, "e": 200, "text": f"text {i}", "o": {"first": i, "second": 7}, "shared_1": 41, "shared_2": 42} for i in (1, 2)]
    _, trace = dyntrace.trace("--function", "leave", "-t", "var:p->second", "-t", "var:*p", "--", path)
    assert [(event.fields["p__second"], event.fields["_p"]) for event in trace.events] == [(12, {"first": 11, "second": 12})]


SPLIT = """
extern volatile int flag;
long step(long n);
long
work(long a, long b)
{
	if (!flag)
		return step(a) < 0 ? -1 : a;
	long old = step(1);
	long t = step(a + b);
	step(old);
	return t < 0 ? -1 : t;
}
extern long work_too(long a, long b) __attribute__((alias("work"), visibility("hidden")));
"""
SPLIT_MAIN = """
volatile int flag;
long work(long a, long b);
__attribute__((noipa)) long step(long n) { return n; }
int main(void) { for (int i = 0; i < 10; i++) { flag = i & 1; work(i, 2); } return 0; }
"""


@pytest.mark.parametrize("flags", [["-O2"], ["-O2", "-gdwarf-4"]])
def test_a_piece_that_was_put_back_is_no_call(dyntrace, scratch, flags):
    """gcc splits work, and then puts the piece back, as in glibc's read and write: it was counted as a second call."""
    path = build(scratch, "gcc", flags, first=SPLIT, second=SPLIT_MAIN)
    info = subprocess.run(["readelf", "--debug-dump=info", path], check=True, capture_output=True, text=True).stdout
    assert info.count("(DW_TAG_inlined_subroutine)") == 1
    _, trace = dyntrace.trace("--function", "work", "--", path)
    assert [event.fields["a"] for event in trace.events] == list(range(10))
