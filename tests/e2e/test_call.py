"""--tracer call, load, unload: user functions in the traced program (include/dyntrace/probe.h)."""
import os
import re
import signal
import struct
import subprocess

import pytest

from kills import kill_at, steps_that_map, trace_words
import harness
from harness import Snapshot, Trace, until

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.path.join(ROOT, "tests", "programs")
INCLUDE = "-I" + os.path.join(ROOT, "include")
WARNINGS = ["-Wall", "-Wextra", "-Werror", "-Wno-array-bounds"]  # the tests need bad pointers


def compile_library(path, source, *words, compiler="gcc"):
    subprocess.run([compiler, "-O2", "-g", *WARNINGS, "-shared", "-fPIC", INCLUDE, "-o", path, source, *words], check=True)
    return str(path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The program and its libraries of probe functions."""
    folder = tmp_path_factory.mktemp("call")
    subprocess.run(["gcc", "-O2", "-g", *WARNINGS, "-D_GNU_SOURCE", "-march=native", "-pthread", "-rdynamic", "-o", folder / "called",
                    os.path.join(PROGRAMS, "called.c")], check=True)
    subprocess.run(["gcc", "-O2", "-g", *WARNINGS, "-D_GNU_SOURCE", "-pthread", "-rdynamic", "-o", folder / "plain", os.path.join(PROGRAMS, "called.c")],
                   check=True)
    compile_library(folder / "libprobes.so", os.path.join(PROGRAMS, "call_probes.c"), "-march=native")
    compile_library(folder / "libcpp.so", os.path.join(PROGRAMS, "call_probes_cpp.cpp"), "-Wno-terminate", compiler="g++")
    return folder


class Called:
    def __init__(self, processes, path):
        self.process = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def tell(self, word, number):
        self.process.stdin.write(f"{word} {number}\n")
        self.process.stdin.flush()

    def do(self, word, number):
        self.tell(word, number)
        return self.process.stdout.readline().rstrip("\n")

    def end(self):
        self.process.stdin.close()
        return self.process.wait(20)


@pytest.fixture
def called(processes, built):
    return Called(processes, built / "called")


def trace_program(dyntrace, built, function, words, *options, library="libprobes.so", what=("--probe", "work"), output=None,
                  status=3, program="called", stack=8 << 20):
    """`dyntrace trace -- called` with the words on its standard input; gives (result, its lines, Trace)."""
    output = output or dyntrace.new_output()
    result = subprocess.run(["prlimit", f"--stack={stack}", dyntrace.path, "trace", "-o", output, *what, "--tracer", f"call:{built / library}:{function}",
                             *options, "--", str(built / program)], input="".join(f"{word}\n" for word in words),
                            capture_output=True, text=True, timeout=50)
    assert result.returncode == status, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "ready"
    return result, lines[1:], Trace(output)


def total(count):
    """The sum that the program prints after that many calls of work."""
    return f"{122 * count + count * (count - 1) / 4:.1f}"


def hits(result, name="work"):
    return harness.hits(result.stderr, name)


# ---- the function's arguments ----------------------------------------------------------------------------------

def test_arguments_by_number(dyntrace, built):
    result, lines, trace = trace_program(dyntrace, built, "on_work", ["work 5"])
    assert lines == [total(5)] and hits(result) == 5
    seen = trace.named("seen")
    assert [(e.fields["name"], e.fields["number"], e.fields["real"], e.fields["text"], e.fields["is_exit"], e.fields["small"],
             e.fields["single"]) for e in seen] == [("work", i, i / 2, "text", 0, -i, 0.25) for i in range(5)]
    assert all(e.fields["tid"] == e.tid for e in seen) and len({e.fields["address"] for e in seen}) == 1


def test_arguments_and_results_by_name(dyntrace, built):
    result, _, trace = trace_program(dyntrace, built, "on_names", ["work 4"], "-e", what=("--function", "work"))
    assert hits(result) == 4
    assert [(e.fields["number"], e.fields["real"], e.fields["text"], e.fields["is_exit"]) for e in trace.named("seen")] == \
        [(i, i / 2, "text", 1) for i in range(4)]
    assert [e.fields for e in trace.named("point")] == [{"x": i, "y": 2 * i, "colour": 6, "nothing": 0} for i in range(4)]
    results = trace.named("result")
    assert [(e.fields["ret"], e.fields["xmm"]) for e in results] == [(i / 2 + 122,) * 2 for i in range(4)]
    took = [e.fields["took"] for e in results]  # a short call may begin and end in one step of the clock (26 cycles on some processors)
    assert took[0] > 0 and max(took) < 60 * 10 ** 9, took
    assert [e.name for e in trace.events] == ["seen", "point", "result"] * 4


def test_arguments_on_the_stack(dyntrace, built):
    _, lines, trace = trace_program(dyntrace, built, "on_many", ["many 3"], what=("--probe", "many"))
    assert lines == ["87"]
    assert [e.fields["value"] for e in trace.named("sum")] == [i * 10 ** 7 + 1234567 for i in range(3)]


def test_registers(dyntrace, built, scratch):
    path = os.path.join(scratch, "registers")
    subprocess.run(["gcc", "-O1", "-no-pie", "-fno-pie", "-o", path, os.path.join(PROGRAMS, "registers.c")], check=True)
    result, trace = dyntrace.trace("--probe", "spot", "--tracer", f"call:{built / 'libprobes.so'}:on_registers", "--", path)
    fields = trace.named("registers")[0].fields
    rsp = int(result.stdout.split()[0], 16)
    names = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8"]
    assert [fields[name] for name in names] == [rsp if i == 4 else 0x100 + i for i in range(9)]
    assert (fields["r10"], fields["r15"]) == (0x10a, 0x10f)
    assert fields["rflags"] & 0x8d5 == 0x841 | fields["rflags"] & 0x14  # carry, zero, overflow; no sign
    assert int(subprocess.run(["nm", path], capture_output=True, text=True).stdout.split(" T spot\n")[0].split("\n")[-1], 16) == fields["rip"]
    assert [struct.unpack("<Q", struct.pack("<d", fields[f"xmm{n}"]))[0] for n in (7, 15)] == [0x207, 0x20f]


def test_texts_and_memory_that_is_not_there(dyntrace, built):
    _, _, trace = trace_program(dyntrace, built, "on_texts", ["work 1"])
    (event,) = trace.events  # nothing is written of values that don't fit the event
    assert event.fields["cut"] == "abc" and event.fields["missing"] == "(null)" and event.fields["bad"] == "(unreadable 0x18)"
    assert event.fields["lengthy"].startswith("x" * 200) and event.fields["lengthy"].endswith("...")
    assert (event.fields["read"], event.fields["unread"]) == (7, 0)


def test_a_word_for_each_tracepoint(dyntrace, built):
    """Each tracepoint of one function has a word of its own, which threads share."""
    _, _, trace = trace_program(dyntrace, built, "on_user", ["threads 50", "many 3"], what=("--probe", "work", "--probe", "many"))
    values = sorted(e.fields["value"] for e in trace.named("sum"))
    assert values == sorted([*range(1, 401), 1, 2, 3])


def test_cpp(dyntrace, built):
    _, _, trace = trace_program(dyntrace, built, "on_cpp", ["work 3"], library="libcpp.so")
    events = trace.named("cpp_seen")
    assert [(e.fields["text"], e.fields["number"], e.fields["real"]) for e in events] == \
        [(f"number {i}", 2 + i, i / 2) for i in range(3)]
    assert len({e.fields["pointer"] for e in events}) == 1


def test_filter_and_contexts(dyntrace, built):
    _, _, trace = trace_program(dyntrace, built, "on_names", ["work 20"], "--filter", "number > 16", what=("--function", "work"))
    assert [e.fields["number"] for e in trace.named("seen")] == [17, 18, 19]


def test_filter_at_the_exit(dyntrace, built):
    _, _, trace = trace_program(dyntrace, built, "on_names", ["work 8"], "-e", "--filter", "entry:number >= 6",
                                what=("--function", "work"))
    assert [e.fields["number"] for e in trace.named("seen")] == list(range(8))
    assert [e.fields["ret"] for e in trace.named("result")] == [125.0, 125.5]


# ---- the program is left alone ---------------------------------------------------------------------------------

@pytest.mark.parametrize("program", ["called", "plain"])
@pytest.mark.parametrize("function", ["on_mess", "on_libc_segv", "on_nothing"])
def test_registers_are_as_before(dyntrace, built, function, program):
    """Vector registers, errno, rounding mode, r10 and r11 survive, with the direction flag set, also when the function is
    ended by a fault. For a program built for all x86-64 processors the lower halves of vectors are saved: it uses no more."""
    result, lines, _ = trace_program(dyntrace, built, function, ["registers 50"], what=("--probe", "inner"), program=program)
    assert lines == ["0"]
    assert hits(result, "inner") == (1 if function == "on_libc_segv" else 50)


def test_signal_handlers_on_small_stacks_and_threads(dyntrace, built):
    result, lines, trace = trace_program(dyntrace, built, "on_work", ["signals 30", "threads 200"])
    assert lines == ["30", "1600"] and hits(result) == 1630
    assert len(trace.named("seen")) == 1630
    assert sum(e.fields["text"] == "signal" for e in trace.events) == 30


def test_forked_children(dyntrace, built):
    result, lines, trace = trace_program(dyntrace, built, "on_work", ["work 1", "fork 5"])
    assert lines == [total(1), "7"] and hits(result) == 6
    assert len({e.pid for e in trace.events}) == 2
    result, lines, trace = trace_program(dyntrace, built, "on_work", ["work 1", "fork 5"], "--no-follow-fork")
    assert lines == [total(1), "7"] and hits(result) == 1 and len(trace.events) == 1


@pytest.mark.parametrize("word", ["coroutine", "thread", "stack"])
@pytest.mark.parametrize("function", ["on_deep", "on_deep_leaf"])
def test_a_stack_that_is_nearly_full(dyntrace, built, word, function):
    """C4: calls at every KiB of the stack, down to where the function would run into what is behind it; the stacks have 64 and 256 KiB."""
    result, lines, trace = trace_program(dyntrace, built, function, [f"{word} 2500"], stack=256 << 10)
    made, = map(int, lines)
    left = int(re.search(r"^not called: (\d+) hits with less than 8 KiB of stack left$", result.stderr, re.M)[1])
    assert 4 <= left <= 7 and hits(result) == made - left, result.stderr
    assert len(trace.events) == (hits(result) if function == "on_deep" else 0)


@pytest.mark.parametrize("word", ["thread", "stack"])
def test_deep_stacks_that_have_room(dyntrace, built, word):
    """(C4) Also below the used part of the first thread's stack."""
    result, lines, trace = trace_program(dyntrace, built, "on_deep", [f"{word} 20000", f"{word} 20000"])
    made = sum(map(int, lines))
    assert made > 800 and hits(result) == len(trace.events) == made and "not called" not in result.stderr


# ---- inside of each other ----------------------------------------------------------------------------------------

def test_a_hit_inside_of_a_function_is_counted_not_called(dyntrace, built):
    """C1: the function calls what is traced, with the same function: 3 hits inside of each."""
    result, lines, _ = trace_program(dyntrace, built, "on_outer", ["work 10"], what=("--probe", "work", "--probe", "inner"))
    assert lines == [total(10)]
    assert hits(result) == 10 and hits(result, "inner") == 0
    assert "not called: 30 hits inside probe functions of the tracer call" in result.stderr


def test_a_signal_handler_inside_of_a_function(dyntrace, built):
    """(C2) The handler runs on an alternate stack, which doesn't mean that the function was left."""
    result, lines, _ = trace_program(dyntrace, built, "on_interrupted", ["signals 0", "work 3"])
    assert lines == ["0", total(3)] and hits(result) == 3
    assert "not called: 1 hit inside" in result.stderr


def test_a_jump_out_of_a_function(dyntrace, built):
    """C2: each second call jumps away: the next hit is called again, and nothing counts as inside."""
    result, lines, _ = trace_program(dyntrace, built, "on_jump", ["jump 10"])
    assert lines == ["5"]
    assert hits(result) == 5 and "not called" not in result.stderr  # a call that jumped away isn't counted


GO = """package main

import "C"

//go:noinline
func work(n int) int {
	if n > 0 {
		return work(n-1) + 1
	}
	return 0
}

func main() { println(work(4)) }
"""


@pytest.mark.parametrize("tracer", ["call", "lttng"])
def test_not_on_the_stack_of_a_goroutine(dyntrace, built, tmp_path, tracer):
    """H4: memory below it is readable, and somebody else's."""
    (tmp_path / "go.go").write_text(GO)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "GO111MODULE": "off", "CGO_ENABLED": "1"}
    subprocess.run(["go", "build", "-o", tmp_path / "go", tmp_path / "go.go"], check=True, env=env)
    word = f"call:{built / 'libprobes.so'}:on_work" if tracer == "call" else tracer
    error = dyntrace.fails("trace", "--function", "main.work", "--tracer", word, "--", str(tmp_path / "go"), status=125)
    assert f"tracer '{tracer}' can't be used in Go code: stacks of goroutines have no room for the called functions" in error


# ---- functions that fail -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("function, library, name", [
    ("on_segv", "libprobes.so", "SIGSEGV"), ("on_jump_to_nowhere", "libprobes.so", "SIGSEGV"), ("on_fpe", "libprobes.so", "SIGFPE"),
    ("on_ill", "libprobes.so", "SIGILL"), ("on_abort", "libprobes.so", "SIGABRT"), ("on_libc_segv", "libprobes.so", "SIGSEGV"),
    ("on_throw", "libcpp.so", "SIGABRT"),
])
def test_a_function_that_gets_a_signal(dyntrace, built, function, library, name):
    """C3: the program goes on as if the function had returned."""
    result, lines, trace = trace_program(dyntrace, built, function, ["work 3", "handle 0", "fault 2", "threads 3"], library=library)
    assert lines == [total(3), "1", "22", "24"]  # its own handler is its own, and gets its own faults
    assert hits(result) == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("dyntrace: ") and "terminate called" not in line]
    assert line.startswith(f"dyntrace: tracepoint 'work': its function {built / library}:{function} got {name} at 0x")
    assert line.endswith("it isn't called any more")


def test_at_the_exit(dyntrace, built):
    result, lines, _ = trace_program(dyntrace, built, "on_segv", ["work 3"], "-e", what=("--function", "work"))
    assert lines == [total(3)] and hits(result) == 1 and "got SIGSEGV" in result.stderr


def test_faults_of_the_program_are_its_own(dyntrace, built):
    """With a handler (on an alternate stack) and without one: the same as untraced."""
    result, lines, _ = trace_program(dyntrace, built, "on_work", ["handle 0", "fault 3", "signals 1", "handle 134217728", "fault 1",
                                                                   "work 1", "default 5"], status=128 + signal.SIGSEGV)
    assert lines == ["1", "33", "1", "1", "44", total(1), "5"]
    assert hits(result) == 2


@pytest.fixture
def narrow():
    """A cgroup whose processes get 2 ms of CPU time per 100 ms."""
    cgroup, choice = harness.Cgroup.find([("/sys/fs/cgroup/cpu", ["cpu.cfs_quota_us"], [("cpu.cfs_period_us", 100_000), ("cpu.cfs_quota_us", 2000)]),
                                          ("/sys/fs/cgroup", ["cpu.max"], [("cpu.max", "2000 100000")]),
                                          ("/sys/fs/cgroup/unified", ["cpu.max"], [("cpu.max", "2000 100000")])])
    if not cgroup:
        pytest.skip("no cgroup with a quota of CPU time can be made here")
    for name, value in choice[2]:
        cgroup.write(name, value)
    yield cgroup
    cgroup.end()


def test_a_thread_without_a_processor_is_waited_for(dyntrace, built, called, narrow):
    """(S18) The thread has 120 ms to compute in the probe, and gets 2 ms per 100 ms: nothing stays in the program all the same."""
    tracing = dyntrace.start_trace(called.pid, "--probe", "work", "--tracer", f"call:{built / 'libprobes.so'}:on_computing").wait_told()
    narrow.write("cgroup.procs", called.pid)
    called.tell("work", 1)
    assert called.process.stdout.readline() == "inside\n"
    tracing.process.send_signal(signal.SIGINT)
    told = tracing.process.communicate(timeout=60)[1]
    assert tracing.process.returncode == 0, told
    assert called.process.stdout.readline() == f"{total(1)}\n"
    assert not [line for line in harness.maps(called.pid) if "memfd:dyntrace" in line]
    assert called.end() == 3


def test_actions_come_back(dyntrace, built, called):
    """Signal actions that the program set meanwhile are the kernel's after the detach."""
    tracing = dyntrace.start_trace(called.pid, "--probe", "work", "--tracer", f"call:{built / 'libprobes.so'}:on_work")
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    assert int(status_of(called.pid, "SigCgt"), 16) & 1 << signal.SIGSEGV - 1
    assert called.do("handle", 0) == "1" and called.do("work", 2) == total(2)
    tracing.stop()
    assert int(status_of(called.pid, "SigCgt"), 16) == 1 << signal.SIGSEGV - 1
    assert called.do("fault", 2) == "22" and called.end() == 3


def test_killed_around_the_mapping(dyntrace, program, built):
    """No page stays behind when dyntrace is killed before anything leads to the memory of called functions."""
    def make(pid):
        return trace_words(dyntrace, pid, ["--probe", "foo", "--tracer", f"call:{built / 'libprobes.so'}:on_nothing"])

    *_, last = steps_that_map(dyntrace, program, make).values()
    assert all([kill_at(dyntrace, program, number, make) for number in last])


def status_of(pid, key):
    with open(f"/proc/{pid}/status") as file:
        return next(line.split()[1] for line in file if line.startswith(key + ":"))


@pytest.mark.parametrize("compiler, words", [("gcc", ["-std=c99"]), ("gcc", ["-std=gnu11", "-pedantic"]), ("clang", []),
                                             ("g++", ["-std=c++11"]), ("clang++", ["-std=c++17"])])
def test_the_header_is_for_all(scratch, compiler, words):
    """The header compiles beside the other public header, with both compilers, in the oldest languages."""
    is_cpp = "++" in compiler
    path = os.path.join(scratch, "both." + ("cpp" if is_cpp else "c"))
    with open(path, "w") as file:
        file.write("#include <dyntrace/dyntrace.h>\n#include <dyntrace/probe.h>\n"
                   "DYNTRACE_EVENT(one, DYNTRACE_INT(a));\nDYNTRACE_PROBE(on_one) { DYNTRACE_EMIT(hit, one, 1); }\n")
    subprocess.run([compiler, *words, "-Wall", "-Wextra", "-Werror", INCLUDE, "-shared", "-fPIC", "-o", path + ".so", path], check=True)
    symbols = subprocess.run(["nm", "-D", path + ".so"], check=True, capture_output=True, text=True).stdout
    assert {"on_one", "dyntrace_event_one", "dyntrace_probe_version"} <= {line.split()[-1] for line in symbols.splitlines()}
    assert not re.search(r" U (?!_|mem)", symbols)  # nothing to link with


# ---- libraries ------------------------------------------------------------------------------------------------------

def test_a_process_is_left_as_it_was(dyntrace, built, called):
    called.do("work", 1)
    before = Snapshot(called.pid)
    tracing = dyntrace.start_trace(called.pid, "--function", "work", "-e", "--tracer", f"call:{built / 'libprobes.so'}:on_work")
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    assert "libprobes.so" in open(f"/proc/{called.pid}/maps").read()
    called.do("loop", 1)
    called.do("work", 50)
    called.do("loop", 0)
    trace = tracing.stop()
    assert len({e.fields["is_exit"] for e in trace.named("seen")}) == 2
    before.assert_unchanged(busy=True)
    assert "libprobes" not in open(f"/proc/{called.pid}/maps").read()
    assert called.end() == 3


@pytest.mark.parametrize("tracer, said", [
    ("call", "tracer 'call' needs LIBRARY:FUNCTION"),
    ("call:libprobes.so", "'libprobes.so' is not LIBRARY:FUNCTION"),
    ("call:{built}/libprobes.so:no_such", "tracer 'call': {built}/libprobes.so has no function 'no_such'"),
    ("call:{built}/libprobes.so:dyntrace_event_seen", "'dyntrace_event_seen' in {built}/libprobes.so is no function"),
    ("call:{built}/libcpp.so:not_by_its_name", "declare it with DYNTRACE_PROBE"),
    ("call:/no/such/lib.so:f", "/no/such/lib.so: process"),
    ("call:{built}:f", "it is no file"),
    ("call:{built}/called:main", "cannot dynamically load position-independent executable"),
    ("call:/etc/passwd:f", "invalid ELF header"),
    ("call:{built}/libneeds.so:on_needs", "libneeded.so: cannot open shared object file"),
    ("call:{built}/libundefined.so:on_undefined", "undefined symbol: no_such_function"),
    ("call:{built}/libnew.so:on_new", "built with version 2 of dyntrace/probe.h, and this is version 1"),
])
def test_refusals(dyntrace, built, tracer, said):
    source = built / "refused.c"
    if "libneeds" in tracer:
        source.write_text('#include <dyntrace/probe.h>\nvoid needed(void);\nDYNTRACE_PROBE(on_needs) { needed(); }\n')
        needed = built / "needed.c"
        needed.write_text("void needed(void); void needed(void) {}\n")
        compile_library(built / "libneeded.so", needed, "-Wl,-soname,libneeded.so")
        compile_library(built / "libneeds.so", source, f"-L{built}", "-lneeded")
    elif "libundefined" in tracer:
        source.write_text('#include <dyntrace/probe.h>\nvoid no_such_function(void);\nDYNTRACE_PROBE(on_undefined) { no_such_function(); }\n')
        compile_library(built / "libundefined.so", source)
    elif "libnew" in tracer:
        source.write_text('#define DYNTRACE_PROBE_NO_VERSION\n#include <dyntrace/probe.h>\n'
                          'const uint32_t dyntrace_probe_version = 2;\nDYNTRACE_PROBE(on_new) {}\n')
        compile_library(built / "libnew.so", source)
    error = dyntrace("trace", "--probe", "work", "--tracer", tracer.format(built=built), "--", built / "called", status=None)
    assert error.returncode in (2, 125) and error.stderr.count("\n") == 1
    assert said.format(built=built) in error.stderr
    assert os.listdir(dyntrace.scratch) == []


@pytest.mark.parametrize("program", ["hello_static", "hello_musl"])
def test_programs_that_load_nothing(dyntrace, built, program_path, program):
    if not os.path.exists(program_path(program)):
        pytest.fail(f"{program} isn't built")
    error = dyntrace.fails("trace", "--probe", "main", "--tracer", f"call:{built / 'libprobes.so'}:on_work", "--",
                           program_path(program), status=125)
    assert "can't load libraries: it has no glibc as a shared library" in error


def test_hundreds_of_places(dyntrace, built):
    """All trampolines fit, although names and arguments make them long."""
    result, _ = dyntrace.trace("--function", "Py*", "--tracer", f"call:{built / 'libprobes.so'}:on_nothing", "--all-rows", "--", "/usr/bin/python3",
                               "-c", "print(len(str(10 ** 1000)))")
    assert result.stdout == "1001\n" and "not placed" not in result.stderr
    assert len(harness.summary_rows(result.stderr)) > 940


def test_after_a_killed_dyntrace(dyntrace, built, called):
    """Functions are called until the next controller cleans up; then signals are the program's own, and all events are saved."""
    tracing = dyntrace.start_trace(called.pid, "--probe", "work", "--tracer", f"call:{built / 'libprobes.so'}:on_work")
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    called.do("work", 3)
    tracing.process.kill()
    tracing.process.wait()
    assert called.do("work", 4) == total(4)
    dyntrace("detach", called.pid)
    assert int(status_of(called.pid, "SigCgt"), 16) == 0 and "memfd" not in open(f"/proc/{called.pid}/maps").read()
    assert [e.fields["number"] for e in Trace(tracing.output).named("seen")] == [0, 1, 2, 0, 1, 2, 3]
    assert called.do("work", 5) == total(5) and called.end() == 3


# ---- with the daemon ----------------------------------------------------------------------------------------------------

def test_load_add_unload(daemon, built, called):
    library = built / "libprobes.so"
    assert called.do("work", 1) == total(1)
    daemon("load", called.pid, library)
    assert "loaded already" in daemon.fails("load", called.pid, library)
    name = daemon.add(f"{called.pid}:work", "call", "libprobes.so:on_work")  # by its name, now that it is there
    assert called.do("work", 4) == total(4)
    (row,) = daemon.json("list-tracepoints", called.pid)
    assert (row["hits"], row["nested"], row.get("fault"), row["tracer"], row["state"]) == (4, 0, None, "call", "enabled")
    assert "is used by tracepoints (remove them first)" in daemon.fails("unload", called.pid, "libprobes.so")
    daemon("rm", f"{called.pid}:{name}")
    assert called.do("work", 4) == total(4)
    daemon("unload", called.pid, "libprobes.so")
    assert "libprobes" not in open(f"/proc/{called.pid}/maps").read()
    assert "isn't loaded by dyntrace" in daemon.fails("unload", called.pid, library)
    assert called.do("work", 4) == total(4)
    trace = daemon.finish(called.pid)
    assert [e.fields["number"] for e in trace.named("seen")] == [0, 1, 2, 3]
    assert called.end() == 3


def test_a_failed_function_is_shown(daemon, built, called):
    watch = daemon.watch()
    daemon.add(f"{called.pid}:work", "-n", "bad", "call", f"{built / 'libprobes.so'}:on_segv")
    daemon.add(f"{called.pid}:work", "-n", "good", "call", f"{built / 'libprobes.so'}:on_work")
    assert called.do("work", 3) == total(3)
    assert watch.until("tracepoint-failed")[-1]["detail"] == "bad"
    rows = {row["name"]: row for row in daemon.json("list-tracepoints", called.pid)}
    assert (rows["bad"]["hits"], rows["bad"]["state"], rows["good"]["hits"], rows["good"]["state"]) == (1, "disabled", 3, "enabled")
    assert re.match(r"its function .*:on_segv got SIGSEGV at 0x[0-9a-f]+ .*\(memory at 0x10\): it isn't called any more",
                    rows["bad"]["fault"])
    assert "    failed    its function" in daemon("list-tracepoints", "-a", called.pid).stdout
    daemon("detach", called.pid)
    assert called.do("work", 3) == total(3)


def test_hits_inside_are_listed(daemon, built, called):
    daemon.add(f"{called.pid}:work", "call", f"{built / 'libprobes.so'}:on_outer")
    daemon.add(f"{called.pid}:inner", "call", "libprobes.so:on_nothing")
    assert called.do("work", 7) == total(7)
    rows = {row["name"]: row for row in daemon.json("list-tracepoints", called.pid)}
    assert (rows["inner"]["hits"], rows["inner"]["nested"]) == (0, 21)
    assert re.search(r"^    nested +21, not called", daemon("list-tracepoints", "-a", called.pid).stdout, re.MULTILINE)
    daemon("detach", called.pid)


def test_removed_while_threads_are_inside(daemon, built, called):
    """The function sleeps; removing and unloading wait for threads in it, or report them."""
    assert called.do("loop", 1) == "1"
    for _ in range(5):
        name = daemon.add(f"{called.pid}:work", "-e", "-f", "call", f"{built / 'libprobes.so'}:on_slow")
        daemon("rm", f"{called.pid}:{name}")
        until(lambda: daemon("unload", called.pid, "libprobes.so", status=None).returncode == 0, "nobody inside")
        assert "libprobes" not in open(f"/proc/{called.pid}/maps").read()
    assert called.do("loop", 0) == "0"
    daemon("detach", called.pid)
    assert called.end() == 3


def test_only_into_ones_own_processes(new_daemon, built, processes, dyntrace):
    """Members of the group may record other users' processes, but load nothing into them."""
    os.chmod(dyntrace.scratch, 0o755)
    group = (65534, 65534, [12345])
    daemon = new_daemon("--group", "12345").start()
    other = Called(processes, built / "called")
    assert daemon.add(f"{other.pid}:work", user=group) == "work"
    for words in (["load", other.pid, "libm.so.6"], ["unload", other.pid, "libm.so.6"],
                  ["add", f"{other.pid}:work", "call", "libm.so.6:cos"]):
        assert "isn't yours: only root loads code into other users' processes" in daemon.fails(*words, user=group)
    daemon("detach", other.pid)


# ---- real programs ------------------------------------------------------------------------------------------------------

def test_the_example_of_the_documentation(daemon, redis, scratch):
    """docs/probes.md: built and used as it says; redis' commands by name."""
    with open(os.path.join(ROOT, "docs", "probes.md")) as page:
        source = re.search(r"```c\n(.*?)```", page.read(), re.DOTALL)[1]
    with open(os.path.join(ROOT, "docs", "examples", "commands.c")) as file:
        assert source == file.read()
    library = compile_library(os.path.join(scratch, "libcommands.so"), os.path.join(ROOT, "docs", "examples", "commands.c"))
    redis.cli("ping")
    daemon.add(f"{redis.pid}:slowlogPushEntryIfNeeded", "call", f"{library}:on_command")
    for i in range(20):
        redis.cli("set", f"key-{i}", i)
    for i in range(7):
        redis.cli("get", "key-1")
    redis.benchmark(requests=2000)
    trace = daemon.finish(redis.pid)
    last = {e.fields["name"]: e.fields["count"] for e in trace.named("command")}
    stats = redis.info("commandstats")
    counted = {key.split("_")[1]: int(re.match(r"calls=(\d+)", value)[1]) for key, value in stats.items()}
    assert last["set"] == counted["set"] == 2020 and last["get"] == counted["get"] == 2007
    assert "libcommands" not in open(f"/proc/{redis.pid}/maps").read()


def test_in_a_root_of_its_own(dyntrace, built, processes, scratch):
    """The target's paths name no files here: its stack is judged by the files that it has mapped."""
    root, wrapper = os.path.join(scratch, "root"), os.path.join(scratch, "wrapper")
    os.mkdir(root)
    with open(wrapper, "w") as file:
        file.write(f"#!/bin/sh\nexec unshare --mount sh -c 'mount --rbind / {root} && exec chroot {root} {built / 'called'}'\n")
    os.chmod(wrapper, 0o755)
    called = Called(processes, wrapper)
    assert any(line.endswith(f"{root}{built / 'called'}") for line in harness.maps(called.pid))
    tracing = dyntrace.start_trace(called.pid, "--probe", "work", "--tracer", f"call:{built / 'libprobes.so'}:on_work")
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    assert called.do("work", 5) == total(5)
    assert len(tracing.stop().named("seen")) == 5
    assert called.end() == 3
