"""One form of a line: --print, --tracer log and view show the same event with the same words."""
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import Trace, until

C = r"""
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
enum colour { RED, GREEN = 7, ALSO_GREEN = 7, BELOW = -3 };
enum big { LARGE = 0xfffffffffffffff0ull };
union either { int i; float f; };
struct flags { unsigned a : 3, b : 5; int c : 4; };
struct inner { char c; double d; };
struct none { };
struct outer { enum colour colour; struct none nothing; struct inner in[2]; uint8_t bytes[5]; struct { short s; }; };
volatile int sink;
#define NOINLINE __attribute__((noinline))
NOINLINE int numbers(char c, signed char sc, unsigned char uc, short s, unsigned long ul, long l, bool b) { sink = s; return -s; }
NOINLINE double reals(float f, double d, long double ld, double complex z) { sink = (int)f; return d / 3; }
NOINLINE float single(float f) { sink = (int)f; return f * 1.1f; }
NOINLINE enum colour enums(enum colour a, enum big b, enum colour c) { sink = a; return c; }
NOINLINE struct outer structs(struct outer o, struct outer *p, struct flags f, union either u) { sink = f.a; return o; }
NOINLINE const char *texts(const char *a, const char *b, char *null, void *p) { sink = *a; return b; }
NOINLINE struct none *nothing(void) { sink = 1; return NULL; }
NOINLINE void unreadable(struct outer *bad, const char *text) { sink = 2; }
int main(int argc, char **argv)
{
	struct outer o = { GREEN, {}, { { 'x', 0.1 }, { -1, 1e300 } }, { 1, 2, 3, 4, 255 }, { -5 } };
	for (int i = 0; i < 20; i++) {
		numbers('a', -1, 200, (short)(i - 3), ~0ul, -1l, i & 1);
		reals(0.1f + i, 1.0 / 3 * i, 1.5L, 1 + 2 * I); reals(0.0f / sink, -1.0 / 0.0, 0, 0);
		single(i * 0.3f);
		enums(i % 4 - 2, LARGE, BELOW); enums(12345, 3, RED);
		structs(o, &o, (struct flags){ 5, 17, -2 }, (union either){ .f = 1.5f });
		texts("plain", "q\"\\\n\x1b\xff\xc3\xa9", NULL, &o); texts("", "", NULL, NULL);
		nothing();
		unreadable((struct outer *)8, (const char *)16); unreadable(&o, "fine");
	}
	return 0;
}
"""

CPP = r"""
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>
volatile int sink;
#define NOINLINE __attribute__((noinline))
enum class Side : unsigned char { Buy, Sell };
struct Empty { };
struct Leg { Side side; double price; };
struct Order : Empty { Side side; std::vector<Leg> legs; Empty e; int quantity; std::unique_ptr<int> owned; };
struct Base { virtual ~Base() { } int b = 1; };
struct Derived : Base { Empty x; int d = 2; };
namespace shop {
NOINLINE int maps(std::map<int, int> *m, int after) { sink = after; return (int)m->size(); }
NOINLINE int orders(const Order &o, Order *p, Side side, int after) { sink = after; return o.quantity; }
NOINLINE int strings(const std::string &s, std::string t, int after) { sink = after; return (int)s.size(); }
NOINLINE int others(std::optional<int> o, std::tuple<int, Empty, char> t, std::variant<int, double> v, bool b) { sink = b; return *o; }
NOINLINE int classes(Derived &d, Base *b, int Derived::*member, int after) { sink = after; return d.d; }
struct Counter { int n = 0; NOINLINE int add(int by) { n += by; sink = n; return n; } };
}
int main()
{
	std::map<int, int> m{{1, 2}, {3, 4}};
	Order o; o.side = Side::Sell; o.legs = {{Side::Buy, 1.5}}; o.quantity = 9; o.owned = std::make_unique<int>(4);
	Derived d; shop::Counter counter;
	for (int i = 0; i < 20; i++) {
		shop::maps(&m, i); shop::orders(o, &o, Side::Buy, i);
		shop::strings("short", std::string(100, 'x'), i); shop::others(i, {1, {}, 'c'}, 2.5, true);
		shop::classes(d, &d, &Derived::d, i); counter.add(i);
	}
}
"""

RUST = r"""
fn black_box<T>(value: T) -> T { let kept = std::mem::ManuallyDrop::new(value); unsafe { std::ptr::read_volatile(&*kept) } }
#[derive(Clone, Copy, Debug)] pub enum Side { Buy, Sell }
pub enum Shape { Point, Circle(f64), Square { side: u32 } }
pub struct Empty;
pub struct Order { pub side: Side, pub e: Empty, pub legs: Vec<u32>, pub name: String }
#[inline(never)] #[no_mangle] pub fn orders(o: &Order, after: i32) -> i32 { black_box(o.legs.len() as i32 + after) }
#[inline(never)] #[no_mangle] pub fn shapes(s: &Shape, t: Option<u8>, side: Side, text: &str) -> bool { black_box(t).is_some() && text.len() > 1 && matches!(side, Side::Buy) && matches!(s, Shape::Point) }
#[inline(never)] #[no_mangle] pub fn numbers(a: i8, b: u128, c: char, d: f32, e: (u8, Empty, i64)) -> char { black_box((a, b, d, e.2)); c }
fn main() {
    for i in 0..20 {
        let o = Order { side: Side::Sell, e: Empty, legs: vec![1, 2], name: "x".to_string() };
        black_box(&o.name); black_box(&o.side); black_box(&o.e);
        orders(black_box(&o), i);
        shapes(&black_box(Shape::Circle(1.5)), Some(3), Side::Buy, "hello"); shapes(&black_box(Shape::Square { side: 4 }), None, Side::Sell, "");
        shapes(&black_box(Shape::Point), None, Side::Sell, "b");
        numbers(-1, 1 << 100, '\u{e9}', 0.1, (1, Empty, -7));
    }
}
"""

FORTRAN = r"""
subroutine work(n, x, flag, z)
  integer, intent(in) :: n
  real(8), intent(in) :: x
  logical, intent(in) :: flag
  complex, intent(in) :: z
  if (n < 0) print *, x, flag, z
end subroutine
program main
  integer :: i
  do i = 1, 20
    call work(i, i * 0.1d0, mod(i, 2) == 0, (1.0, 2.0))
  end do
end program
"""

GO = r"""
package main
type Side int
type Order struct { Side Side; Name string; Legs []int; Empty struct{}; Price float32 }
//go:noinline
func work(o Order, p *Order, text string, on bool, legs []int, any interface{}) (int, string) { if on { o.Side++ }; return int(o.Side), text }
func main() { for i := 0; i < 20; i++ { o := Order{1, "n", []int{1, 2}, struct{}{}, 0.1}; work(o, &o, "text", i%2 == 0, o.Legs, i) } }
"""

LANGUAGES = {
    "c": ("lines.c", C, ["gcc", "-g", "-O2"], ["--function", "*"], ["reg:rdi", "tid", "comm"]),
    "c-O0": ("lines.c", C, ["gcc", "-g", "-O0"], ["--function", "*"], ["regs", "backtrace"]),
    "clang": ("lines.c", C, ["clang", "-g", "-O1"], ["--function", "*"], ["cpu"]),
    "c-nodebug": ("lines.c", C, ["gcc", "-O2"], ["--function", "*"], ["backtrace"]),
    "c++": ("lines.cc", CPP, ["g++", "-std=c++17", "-g", "-O1"], ["--function", "shop::*"], ["tid", "backtrace"]),
    "c++-maps": ("lines.cc", CPP, ["g++", "-std=c++17", "-g", "-O1"], ["--function", "shop::maps"],
                 ["var:*m", "var:m->_M_t", "var:after", "tid"]),
    "c++-members": ("lines.cc", CPP, ["g++", "-std=c++17", "-g", "-O1"], ["--function", "shop::orders"],
                    ["var:o.legs", "var:o.side", "var:*p", "var:p->side", "tid"]),
    "rust": ("lines.rs", RUST, ["rustc", "-g", "-O"], ["--function", "orders", "--function", "shapes", "--function", "numbers"], ["tid"]),
    "fortran": ("lines.f90", FORTRAN, ["gfortran", "-g", "-O1"], ["--function", "work_"], ["tid"]),
    "go": ("lines.go", GO, ["go", "build"], ["--function", "main.work"], ["tid"]),
}
LINE = re.compile(r"\d\d:\d\d:\d\d\.\d{9} \([+-][\d?]+\.[\d?]{9}\) \S+ tid \d+ \S.*")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Compiles a language's program, once per way."""
    folder, programs = tmp_path_factory.mktemp("lines"), {}

    def build(language):
        name, source, compiler, *_ = LANGUAGES[language]
        if not shutil.which(compiler[0]):
            pytest.skip(f"no {compiler[0]}")
        key = (name, *compiler)
        if key not in programs:
            programs[key] = folder / f"lines{len(programs)}"
            (folder / name).write_text(source)
            env = dict(os.environ, GOCACHE=str(folder / "cache"), GO111MODULE="off")
            subprocess.run([*compiler, "-o", programs[key], folder / name], check=True, cwd=folder, env=env)
        return programs[key]
    return build


@pytest.mark.parametrize("exits", [False, True], ids=["entries", "exits"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_print_is_view(dyntrace, scratch, built, language, exits):
    """Every line of --print, byte for byte and in the same order."""
    program = built(language)
    what, contexts = LANGUAGES[language][3:]
    lines, output = os.path.join(scratch, "lines.txt"), dyntrace.new_output()
    dyntrace("trace", *what, *[word for context in contexts if not (exits and context.startswith("var:"))
                                        for word in ("-t", context)], *(["-e"] if exits else []),
                      "-o", output, "--print-to", lines, "--", program)
    with open(lines) as file:
        printed = file.read().splitlines()
    assert printed == dyntrace("view", output).stdout.splitlines()
    assert len(printed) >= 20 and all(LINE.fullmatch(line) for line in printed)


@pytest.mark.parametrize("language", ["c", "c++", "c++-maps", "c++-members", "rust"])
def test_log_is_print(dyntrace, scratch, built, language):
    """The tracer log: the same words, but for the time and the addresses of another run."""
    program = built(language)
    what, contexts = LANGUAGES[language][3:]
    words = [*what, *[word for context in contexts for word in ("-t", context)]]
    printed, logged = os.path.join(scratch, "printed"), os.path.join(scratch, "logged")
    dyntrace("trace", *words, "-o", dyntrace.new_output(), "--print-to", printed, "--", program)
    dyntrace("trace", *words, "--tracer", f"log:{logged}", "--", program)
    texts = []
    for path in (printed, logged):
        with open(path) as file:
            lines = file.read().splitlines()
        assert all(LINE.fullmatch(line) for line in lines)
        texts.append([re.sub(r"0x[0-9a-f]+|tid( =)? \d+", "N", line.split(" ", 2)[2]) for line in lines])
    assert texts[0] == texts[1] and len(texts[0]) >= 20


def test_the_issue(dyntrace, built):
    """After an empty member come the right values."""
    program, output = built("c++-maps"), dyntrace.new_output()
    printed = dyntrace("trace", "--function", "shop::maps", "-t", "var:m->_M_t", "-t", "tid", "-o", output, "--print", "--",
                       program).stdout.splitlines()
    tids = {line.split(" tid ")[1].split()[0] for line in printed}
    assert len(tids) == 1 and len(printed) == 20
    assert all("_M_node_count = 2 " in line and line.endswith(f"tid = {min(tids)} }}") for line in printed)
    assert not any("unreadable" in line for line in printed)


# ---- whose event it is ---------------------------------------------------------------------------

FORKS = r"""
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) void work(int n) { sink = n; }
int main(void)
{
	char c;
	work(0);
	for (int i = 1; i <= 3; i++) {
		int words[2];
		pipe(words);
		if (!fork()) {
			char name[16];
			snprintf(name, sizeof(name), "worker %d", i);
			if (i > 1)
				prctl(PR_SET_NAME, name);
			work(i);
			/* stays until somebody has looked, as servers do */
			puts("ready"); fflush(stdout);
			read(0, &c, 1);
			_exit(0);
		}
	}
	while (wait(NULL) > 0) ;
	work(4);
	return 0;
}
"""


def test_names_of_forks(dyntrace, scratch, processes):
    """Each event has the name and the pid of its own process: view, JSON and babeltrace2."""
    path, program, output = os.path.join(scratch, "forks.c"), os.path.join(scratch, "forks"), dyntrace.new_output()
    with open(path, "w") as file:
        file.write(FORKS)
    subprocess.run(["gcc", "-g", "-O1", "-o", program, path], check=True)
    lines = os.path.join(scratch, "lines")
    target = processes.start([dyntrace.path, "trace", "--function", "work", "-o", output, "--print-to", lines, "--", program],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert [target.stdout.readline() for _ in range(3)] == ["ready\n"] * 3
    until(lambda: len(open(lines).read().splitlines()) == 4, "the lines of all processes")
    target.communicate("abc", timeout=30)
    expected = {0: "forks", 1: "forks", 2: "worker 2", 3: "worker 3", 4: "forks"}
    printed = open(lines).read().splitlines()
    assert printed == dyntrace("view", output).stdout.splitlines()
    assert {int(re.search(r"n = (\d)", line)[1]): line.split(" ", 2)[2].split(" tid ")[0] for line in printed} == expected
    objects = [json.loads(line) for line in dyntrace("view", "--json", output).stdout.splitlines()]
    assert {o["fields"]["n"]: o["process"] for o in objects} == expected
    assert len({o["pid"] for o in objects}) == 4
    trace = Trace(output)
    assert {event.fields["n"]: event.context["procname"] for event in trace.events} == expected
    assert {event.fields["n"]: event.context["vpid"] for event in trace.events} == {o["fields"]["n"]: o["pid"] for o in objects}
    assert "procname" not in trace.env and "vpid" not in trace.env  # babeltrace2 shows these with every event


def test_names_of_programs(dyntrace, scratch):
    """--follow-exec: each program under its own name, a fork before its exec under that of its parent."""
    output = dyntrace.new_output()
    printed = dyntrace("trace", "--follow-exec", "--function", "main", "--function", "execve@libc.so.6", "-o", output, "--print-to",
                       os.path.join(scratch, "lines"), "--", "sh", "-c", "ls -d /; env /bin/true; exec ls -d /")
    assert printed.stdout == "/\n/\n"
    objects = [json.loads(line) for line in dyntrace("view", "--json", output).stdout.splitlines()]
    seen = [(o["process"], o["name"]) for o in objects]
    assert [who for who, name in seen if name == "main_entry"] == ["sh", "ls", "env", "true", "ls"]
    # the shell's forks, env itself, and the shell's own exec; each tries some folders of PATH
    tries = [who for who, name in seen if name == "execve_entry"]
    assert [who for i, who in enumerate(tries) if i == 0 or tries[i - 1] != who] == ["sh", "env", "sh"]
    with open(os.path.join(scratch, "lines")) as file:
        assert file.read() == dyntrace("view", output).stdout
    trace = Trace(output)
    assert [event.context["procname"] for event in trace.events] == [who for who, _ in seen]
    assert "procname" not in trace.env


def test_name_of_one_process(dyntrace, scratch):
    """A trace of one process keeps its name where other readers look for it."""
    output = dyntrace.new_output()
    dyntrace("trace", "--function", "main", "-o", output, "--", "true")
    assert Trace(output).env["procname"] == "true"
