"""dyntrace trace -e on C++: exceptions, cancellation and backtraces through traced frames, with every compiler."""
import os
import subprocess
import time

import pytest

from fixtures import ROOT
from harness import Trace, compile_once
from test_exits import check_fates, fates

SOURCE = os.path.join(ROOT, "tests", "programs", "throws.cpp")

FAULTS = ["-DFAULTS", "-fnon-call-exceptions"]
BUILDS = {
    "gcc-O2": ["g++", "-O2", *FAULTS],
    "clang-O0": ["clang++", "-O0"],
    "gcc-O3-static-libgcc": ["g++", "-O3", "-fno-omit-frame-pointer", "-static-libgcc", "-static-libstdc++"],
    "gcc-stripped-static-libgcc": ["g++", "-O2", "-static-libgcc", "-static-libstdc++", "-s", "-rdynamic"],
    "gcc-static": ["g++", "-O2", "-static"],
    "gcc-asan": ["g++", "-O1", "-fsanitize=address"],  # its runtime intercepts throws: in a library, in the program
    "clang-asan": ["clang++", "-O1", "-fsanitize=address"],
    "llvm-unwinder": ["clang++", "-O2", "-DNO_CANCEL", "-Wl,--no-as-needed", "-l:libunwind.so.1"],
    "tcmalloc": ["g++", "-O2", *FAULTS, "-Wl,--no-as-needed", "-l:libtcmalloc.so.4"],  # brings libunwind.so.8, unused
    "tcmalloc-now": ["g++", "-O2", "-Wl,-z,now", "-Wl,--no-as-needed", "-l:libtcmalloc.so.4"],
}

TCMALLOC, LIBUNWIND = "libtcmalloc.so.4", "libunwind.so.8"


def compile_throws(arguments, scratch):
    return compile_once([*arguments, "-g", SOURCE, "-lpthread"], os.path.join(scratch, "throws"))


def run(*command, status=0):
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == status
    return result.stdout


def check_exceptions(dyntrace, scratch, arguments):
    """Same output, each destructor once; every call has its fate."""
    throws = compile_throws(arguments, scratch)
    expected = run(throws, "300")
    is_crowded = {"-static", "-s"} & set(arguments) or arguments == BUILDS["clang-asan"]  # with functions of libraries
    functions = "_Z[0-9]*" if is_crowded else "*"
    thrower, catcher = ("_Z7throweri", "_Z7catcheri") if is_crowded else ("thrower", "catcher")
    result, trace = dyntrace.trace("-e", "--function", functions, "--function", "main", "--", throws, "300")
    assert result.stdout == expected
    rows = check_fates(result, trace)
    names = trace.names()
    assert names[thrower + "_entry"] == 300 and names[thrower + "_exit"] == 200
    assert names[catcher + "_entry"] == names[catcher + "_exit"] == 300
    assert rows[thrower].unwound + rows[thrower].inside == 100


@pytest.mark.parametrize("kind", BUILDS)
def test_exceptions(dyntrace, scratch, kind):
    check_exceptions(dyntrace, scratch, BUILDS[kind])


def test_terminate(dyntrace, scratch):
    throws = compile_throws(BUILDS["gcc-O2"], scratch)
    expected = run(throws, "5", "die", status=42)
    result, trace = dyntrace.trace("-e", "--function", "*", "--", throws, "5", "die", status=42)
    assert result.stdout == expected and expected.endswith("terminate\n")
    assert "fatal_entry" in trace.names() and "fatal_exit" not in trace.names()


def test_libraries_too(dyntrace, scratch):
    """Every function of libstdc++ and of the unwinder itself."""
    throws = compile_throws(BUILDS["gcc-O2"], scratch)
    expected = run(throws, "100")
    result, trace = dyntrace.trace("-e", "--function", "*", "--function", "*@libstdc++.so.6", "--function",
                                   "*@libgcc_s.so.1", "--", throws, "100")
    assert result.stdout == expected
    check_fates(result, trace)


def test_stripped_static_is_refused(dyntrace, scratch):
    """The unwinder can't learn of stubs there: a throw through one would end the program."""
    throws = compile_throws([*BUILDS["gcc-static"], "-s"], scratch)
    error = dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", "main", "--", throws, status=125)
    assert "unwinder" in error
    _, trace = dyntrace.trace("--function", "main", "--", throws, "3")
    assert trace.names() == {"main_entry": 1}


HIDDEN = """
#include <stdexcept>
extern "C" int inner(int n) { if (n % 3 == 0) throw std::runtime_error("n"); asm volatile(""); return n; }
extern "C" int outer(int n) { std::string s(40, 'x'); int r = inner(n); asm volatile(""); return r + s.size(); }
extern "C" int attempt(int n) { try { return outer(n); } catch (const std::exception &) { return -1; } }
"""
HOST = r"""
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
	long sum = 0;
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 1; i < argc - 1; i++)
		dlopen(argv[i], RTLD_NOW);
	int (*attempt)(int) = (int (*)(int))dlsym(dlopen(argv[argc - 1], RTLD_NOW), "attempt");
	for (int i = 0; i < 30; i++)
		sum += attempt(i);
	printf("%ld\n", sum);
}
"""


def build_host(scratch):
    """A C program that loads libraries, and calls attempt() of the last one."""
    host = os.path.join(scratch, "host")
    subprocess.run(["gcc", "-O2", "-x", "c", "-", "-o", host], input=HOST, text=True, check=True)
    return host


@pytest.mark.parametrize("others", [[], ["libgcc_s.so.1"]])
def test_unwinder_without_a_name(dyntrace, processes, scratch, others):
    """A library with libgcc's unwinder in it, stripped: alone, and beside an unwinder that has a name. It comes while
    tracing."""
    library, host = os.path.join(scratch, "hidden.so"), build_host(scratch)
    subprocess.run(["g++", "-O2", "-fPIC", "-shared", "-x", "c++", "-", "-o", library, "-static-libgcc",
                    "-static-libstdc++", "-s"], input=HIDDEN, text=True, check=True)
    assert "_Unwind" not in subprocess.run(["nm", "-D", library], check=True, capture_output=True, text=True).stdout
    target = processes.start([host, *others, library], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(target.pid, "-e", "--wait", "--function", "*@hidden.so").wait_told()
    assert target.communicate("\n")[0] == f"{sum(i + 40 if i % 3 else -1 for i in range(30))}\n"
    assert target.returncode == 0
    assert tracing.process.wait() == 0
    names = Trace(tracing.output).names()
    assert (names["attempt_entry"], names["attempt_exit"]) == (30, 30)
    assert (names["inner_entry"], names["inner_exit"]) == (30, 20)


UNKNOWN = """
#define _GNU_SOURCE
#include <link.h>
#define HIDDEN __attribute__((visibility("hidden")))
static int look(struct dl_phdr_info *info, size_t size, void *context) { return 0; }
static void clean(int *x) { dl_iterate_phdr(look, x); }
HIDDEN int __gcc_personality_v0(void) { return 3; }
HIDDEN void _Unwind_Resume(void) { __builtin_trap(); }
void use(void (*call)(void)) { int x __attribute__((cleanup(clean))) = 1; call(); }
"""


def test_unknown_unwinder_is_refused(dyntrace, processes, scratch):
    """An unwinder without a name that isn't libgcc's (it calls no function as libgcc does), beside one that has a name."""
    library, host = os.path.join(scratch, "unknown.so"), build_host(scratch)
    subprocess.run(["gcc", "-O2", "-fPIC", "-shared", "-fexceptions", "-x", "c", "-", "-o", library, "-s", "-nostdlib",
                    "-lc"], input=UNKNOWN, text=True, check=True)
    target = processes.start([host], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "LD_PRELOAD": library + ":libgcc_s.so.1"})
    assert target.stdout.readline() == "ready\n"
    assert "unknown.so has exception tables, but its unwinder has no name and can't learn of return stubs" in \
        dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", "main", "-p", target.pid, "--for", "1",
                       status=125)


def unwinder_of(throws, **environment):
    """The libraries in which the loader finds _Unwind_RaiseException for libstdc++."""
    result = subprocess.run([throws, "1"], env={**os.environ, **environment, "LD_DEBUG": "bindings"}, check=True,
                            capture_output=True, text=True)
    return {os.path.basename(line.split(" to ")[1].split()[0]) for line in result.stderr.splitlines()
            if "libstdc++" in line.split(" to ")[0] and "`_Unwind_RaiseException'" in line}


def test_unwinder_that_cannot_learn(dyntrace, processes, scratch):
    """Exceptions do go through libunwind.so.8: exits are refused, before and after the first exception, and the program
    goes on throwing. Entries are recorded."""
    throws = compile_throws(["g++", "-O2", "-DNO_CANCEL", "-Wl,--no-as-needed", "-l:" + LIBUNWIND], scratch)
    assert unwinder_of(throws) == {LIBUNWIND}
    reason = "exceptions go through the unwinder in libunwind.so.8"
    assert reason in dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", "*", "--", throws, "3",
                                    status=125)
    expected = run(throws, "3")
    result, trace = dyntrace.trace("--function", "*", "--", throws, "3")
    assert result.stdout == expected and trace.names()["thrower_entry"] == 3
    serving = subprocess.run([throws, "serve"], input="\n" * 2, capture_output=True, text=True).stdout.splitlines()
    target = processes.start([throws, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for line in serving[:2]:
        target.stdin.write("\n")
        target.stdin.flush()
        assert target.stdout.readline().rstrip("\n") == line
        assert reason in dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", "*", "-p",
                                        target.pid, "--for", "1", status=125)
    target.stdin.close()
    assert target.wait() == 0


LIBGCC = "libgcc_s.so.1"


@pytest.mark.parametrize("linked, loaded, is_used", [
    ([LIBGCC], [LIBUNWIND], False),  # libgcc is ahead for everybody
    ([LIBGCC, LIBUNWIND], [], False),
    ([LIBUNWIND, LIBGCC], [], True),  # no exception yet, but a library that comes later would throw through libunwind
    ([LIBUNWIND], [LIBGCC], True),
    ([], [LIBGCC, LIBUNWIND], True),  # libgcc is ahead in the list, but not for everybody
    ([LIBGCC], ["deep"], True),  # one library has an order of its own
])
def test_search_order(dyntrace, processes, scratch, linked, loaded, is_used):
    """Exits are recorded if every library finds another unwinder before libunwind.so.8."""
    program, deep = os.path.join(scratch, "loads"), os.path.join(scratch, "deep.so")
    subprocess.run(["gcc", "-O2", "-g", os.path.join(ROOT, "tests", "programs", "loads.c"), "-o", program,
                    "-Wl,--no-as-needed", *("-l:" + name for name in linked)], check=True)
    subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", deep, "-l:" + LIBUNWIND], check=True, text=True,
                   input="extern int _Unwind_ForcedUnwind(void); int (*bound)(void) = _Unwind_ForcedUnwind;")
    target = processes.start([program, *(f"deep:{deep}" if name == "deep" else name for name in loaded)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    if is_used:
        error = dyntrace.fails("trace", "-o", dyntrace.new_output(), "-e", "--function", "work", "-p", target.pid,
                               "--for", "1", status=125)
        assert "exceptions go through the unwinder in libunwind.so.8" in error
    else:
        tracing = dyntrace.start_trace(target.pid, "-e", "--function", "work")
    target.stdin.write("\n")
    target.stdin.flush()
    assert target.stdout.readline() == "2\n"
    if not is_used:
        assert tracing.stop().names() == {"work_entry": 1, "work_exit": 1}
        tracing.before.assert_unchanged()
    target.stdin.close()
    assert target.wait() == 0


@pytest.mark.parametrize("preload", ["", TCMALLOC])
def test_come_and_go(dyntrace, processes, scratch, preload):
    """Attach to a program that throws, and detach, several times: it goes on throwing; nothing stays behind."""
    throws = compile_throws(BUILDS["gcc-O2"], scratch)
    assert unwinder_of(throws, LD_PRELOAD=preload) == {"libgcc_s.so.1"}
    expected = subprocess.run([throws, "serve"], input="\n" * 7, capture_output=True, text=True).stdout.splitlines()
    target = processes.start([throws, "serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                             env={**os.environ, "LD_PRELOAD": preload})

    def serve():
        target.stdin.write("\n")
        target.stdin.flush()
        return target.stdout.readline().rstrip("\n")

    assert serve() == expected[0]
    with open(f"/proc/{target.pid}/maps") as file:
        assert (LIBUNWIND in file.read()) == (preload == TCMALLOC)
    for n in (1, 3, 5):
        tracing = dyntrace.start_trace(target.pid, "-e", "--function", "*")
        assert serve() == expected[n]
        trace = tracing.stop()
        tracing.before.assert_unchanged()
        assert trace.names()["thrower_entry"] == 100
        assert trace.names()["catcher_exit"] == 100
        rows = fates(tracing.stderr)
        assert rows["thrower"].unwound == 100 - trace.names()["thrower_exit"]
        assert serve() == expected[n + 1]
    target.stdin.close()
    assert target.wait() == 0


def let_run(pid, seconds):
    """Waits until the process has used that much CPU time."""
    def used():
        with open(f"/proc/{pid}/stat") as file:
            return sum(map(int, file.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")
    end = used() + seconds
    while used() < end:
        time.sleep(0.01)


def test_threads_that_wait_for_work(dyntrace, processes, scratch):
    """A worker that waits for a condition registers the stubs with the unwinder: the busy thread is never at rest. Later so
    does a worker whose wait was interrupted before."""
    path = os.path.join(scratch, "pool")
    subprocess.run(["g++", "-O2", "-g", os.path.join(ROOT, "tests", "programs", "pool.cpp"), "-o", path, "-lpthread"],
                   check=True)
    target = processes.start([path], stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    for _ in range(3):
        tracing = dyntrace.start_trace(target.pid, "-e", "--function", "compute", "--function", "attempt",
                                       "--first", "1000")
        let_run(target.pid, 0.3)
        trace = tracing.stop()
        tracing.before.assert_unchanged(busy=True)
        assert trace.names()["attempt_entry"] == 1000
    target.terminate()
    assert target.wait() == 0


@pytest.fixture
def late(scratch):
    """A C program and the C++ library that it loads at run time."""
    program, plugin = os.path.join(scratch, "late"), os.path.join(scratch, "plugin.so")
    source = os.path.join(ROOT, "tests", "programs")
    subprocess.run(["gcc", "-O2", "-g", os.path.join(source, "late.c"), "-o", program, "-ldl"], check=True)
    subprocess.run(["g++", "-O2", "-g", "-shared", "-fPIC", os.path.join(source, "late_plugin.cpp"), "-o", plugin],
                   check=True)
    return [program, plugin]


def test_unwinder_that_comes_later(dyntrace, late):
    """The library's first call throws through a traced function: its unwinder knows the stubs already."""
    for _ in range(5):
        result, trace = dyntrace.trace("-e", "--function", "pass_on", "--", *late)
        assert result.stdout == "caught 50\n"
        assert trace.names() == {"pass_on_entry": 1}
        assert fates(result.stderr)["pass_on"].unwound + fates(result.stderr)["pass_on"].inside == 1


def test_no_rest(dyntrace, processes, late):
    """A program that always throws and never rests, so that no function can be called in it: attach and detach twice."""
    target = processes.start([*late, "busy"], stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "caught 50\n"
    for _ in range(2):
        tracing = dyntrace.start_trace(target.pid, "-e", "--function", "pass_on")
        let_run(target.pid, 0.1)
        trace = tracing.stop()
        tracing.before.assert_unchanged(busy=True)
        assert set(trace.names()) == {"pass_on_entry"}
    target.terminate()
    assert target.wait() == 0
