"""Libraries that are loaded and unloaded while they are traced: every call in them is recorded, also of their
constructors, at whatever address."""
import os
import re
import shutil
import signal
import subprocess
import sysconfig
import time

import pytest

from harness import Snapshot, Trace, hits, summary_rows, until

OWN = [100, 101, 102]  # the arguments of the calls that the plugin's constructor makes; its destructor's is 900


SLOW_STEPS = 8


@pytest.fixture
def plugin(program_path):
    return program_path("plugin.so")


def arguments(calls):
    """Of all calls of one round."""
    return OWN + list(range(calls)) + [900]


def expect(trace, output, rounds, calls, name="plugin_step_entry"):
    assert trace.lost == 0
    assert len(output.splitlines()) == rounds
    assert [event.fields["n"] for event in trace.named(name)] == arguments(calls) * rounds
    return {line.split()[0] for line in output.splitlines()}


@pytest.mark.parametrize("move", [0, 1])
def test_a_library_that_comes_and_goes(dyntrace, program_path, plugin, move):
    """A hundred times, at the same place and at another each time."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_step@plugin.so", "--wait", "--",
                      program_path("plugins"), "--rounds", 100, "--calls", 20, "--move", move, plugin)
    places = expect(Trace(output), result.stdout, 100, 20)
    assert len(places) > 50 if move else len(places) < 10
    assert summary_rows(result.stderr) == {"plugin_step": {"hits": "2400", "lost": "0"}}


def test_counts_go_on(dyntrace, program_path, plugin):
    """Counts and durations of a library that is loaded again continue."""
    result = dyntrace("trace", "--tracer", "count", "--function", "plugin_step@plugin.so", "-e", "--wait", "--",
                      program_path("plugins"), "--rounds", 10, "--calls", 20, "--move", 1, plugin)
    assert hits(result.stderr) == {"plugin_step": 240}, result.stderr


def test_exits_too(dyntrace, program_path, plugin):
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_step@plugin.so", "-e", "--wait", "--",
                      program_path("plugins"), "--rounds", 50, "--calls", 5, "--move", 1, plugin)
    trace = Trace(output)
    expect(trace, result.stdout, 50, 5)
    assert [event.fields["ret"] for event in trace.named("plugin_step_exit")] == \
        [n + 1 for n in arguments(5)] * 50


@pytest.mark.parametrize("where", ["plugin_step@plugin.so", "plugin_step"])
def test_attached_before_it_is_loaded(dyntrace, program, plugin, where):
    """With its module named, and without. The target is as it was afterwards."""
    target = program("plugins", "--rounds", 20, "--calls", 3, "--move", 1, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", where, "--wait")
    target.go().wait_ready()
    trace = tracing.stop()
    assert "memfd:dyntrace" not in open(f"/proc/{target.pid}/maps").read()
    expect(trace, target.finish(), 20, 3)


def test_glob_of_a_library_that_is_loaded_later(dyntrace, program_path, plugin):
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_*@plugin.so", "--wait", "--",
                      program_path("plugins"), "--rounds", 10, "--calls", 4, "--move", 1, plugin)
    trace = Trace(output)
    expect(trace, result.stdout, 10, 4)
    # once by the constructor, once by the program
    assert [(event.fields["n"], event.fields["count"]) for event in trace.named("plugin_steps_entry")] == \
        [(100, 3), (0, 4)] * 10


def test_without_wait_it_is_an_error(dyntrace, program_path, plugin):
    message = dyntrace.fails("trace", "--function", "plugin_step@plugin.so", "--", program_path("plugins"), plugin, status=125)
    assert "no module 'plugin.so' in plugins" in message and "--wait waits until it is loaded" in message


def test_never_loaded(dyntrace, program_path):
    """The tracepoint waits to the end; nothing is recorded, and the program runs normally."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_step@plugin.so", "--wait", "--", program_path("hello"))
    assert result.stdout == "hello\n"
    lines = [re.sub(r" in [\d.]+ s", "", line) for line in result.stderr.splitlines()]
    assert lines[1:] == ["not placed: plugin_step: no library with this function was loaded", "0 events, 0 lost, 0 bytes; no trace"]
    assert not os.path.exists(output)


def test_unloaded_at_the_end(dyntrace, program_path, plugin):
    """A tracepoint without hits was placed, although its library is gone when the summary is made."""
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--function", "plugin_step@plugin.so", "--filter", "n == 12345", "--wait", "--",
                      program_path("plugins"), "--rounds", 2, "--calls", 4, "--move", 1, plugin)
    assert len(result.stdout.splitlines()) == 2
    assert "not placed" not in result.stderr


def test_several_threads_and_libraries(dyntrace, program_path, plugin, scratch):
    """Threads load their libraries at the same time; each library has a tracepoint."""
    copies = [os.path.join(scratch, f"plugin-{letter}.so") for letter in "abcd"]
    for copy in copies:
        shutil.copy(plugin, copy)
    output = dyntrace.new_output()
    wanted = [word for copy in copies for word in ("--function", f"plugin_step@{os.path.basename(copy)}")]
    result = dyntrace("trace", "-o", output, *wanted, "--wait", "--", program_path("plugins"), "--rounds", 25, "--calls", 10,
                      "--threads", 4, "--move", 1, *copies)
    trace = Trace(output)
    assert len(result.stdout.splitlines()) == 100
    assert trace.names() == {f"plugin_step{suffix}_entry": 25 * 14 for suffix in ("", "-2", "-3", "-4")}
    for suffix in ("", "-2", "-3", "-4"):
        events = trace.named(f"plugin_step{suffix}_entry")
        assert [event.fields["n"] for event in events] == arguments(10) * 25
        assert len({event.tid for event in events}) == 1


def test_namespaces(dyntrace, program_path, plugin):
    """dlmopen: another copy of libc each time, and another list of the loader's."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_step@plugin.so", "--wait", "--",
                      program_path("plugins"), "--rounds", 10, "--calls", 5, "--namespace", 1, plugin)
    expect(Trace(output), result.stdout, 10, 5)


def test_musl(dyntrace, program_path):
    """Its dlclose unloads nothing: the constructor runs once, and the destructor at the end."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "plugin_step@plugin_musl.so", "--wait", "--",
                      program_path("plugins_musl"), "--rounds", 5, "--calls", 7, program_path("plugin_musl.so"))
    assert len(result.stdout.splitlines()) == 5
    assert [event.fields["n"] for event in Trace(output).named("plugin_step_entry")] == OWN + list(range(7)) * 5 + [900]


PYTHON = """
import ctypes, _ctypes, sys
library = None
for line in sys.stdin:
    word = line.strip()
    if word == "load":
        library = ctypes.CDLL(sys.argv[1])
    elif word == "unload":
        _ctypes.dlclose(library._handle)
    else:
        library.plugin_steps(0, int(word))
    print(word, flush=True)
"""


def test_loaded_when_tracing_began_and_back_again(dyntrace, processes, plugin):
    """Without --wait: a traced library that is unloaded and loaded again is traced again."""
    python = processes.start(["/usr/bin/python3", "-c", PYTHON, plugin], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             text=True, bufsize=1)

    def do(*words):
        for word in words:
            python.stdin.write(f"{word}\n")
            assert python.stdout.readline() == f"{word}\n"
    do("load")
    tracing = dyntrace.start_trace(python.pid, "--function", "plugin_step@plugin.so")
    do("3", "unload", "load", "2", "unload", "load", "unload", "load", "4")
    trace = tracing.stop()
    assert [event.fields["n"] for event in trace.events] == \
        [0, 1, 2, 900, *OWN, 0, 1, 900, *OWN, 900, *OWN, 0, 1, 2, 3]
    do("1", "unload", "load", "unload")
    python.stdin.close()
    assert python.wait(20) == 0


def test_python_extension(dyntrace):
    """A real one: its initialisation is seen when python loads it."""
    module = f"_sqlite3{sysconfig.get_config_var('EXT_SUFFIX')}"
    script = "import sqlite3; print(sqlite3.connect(':memory:').execute('select 6 * 7').fetchone()[0])"
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", f"PyInit__sqlite3@{module}", "--function",
                      "sqlite3_initialize@libsqlite3.so.0", "--wait", "--", "/usr/bin/python3", "-c", script)
    assert result.stdout == "42\n"
    names = Trace(output).names()
    assert names["PyInit__sqlite3_entry"] == 1 and names["sqlite3_initialize_entry"] >= 1


MARKED = r"""
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>
unsigned short plug_step_semaphore __attribute__((section(".probes")));
#define ENABLED __builtin_expect(*(volatile unsigned short *)&plug_step_semaphore, 0)
int passed;
int plugin_steps(int n, int count) { for (int i = 0; i < count; i++) if (ENABLED) { DTRACE_PROBE1(plug, step, n + i); passed++; } return passed; }
__attribute__((constructor)) static void begin(void) { plugin_steps(100, 3); }
"""


def test_markers_of_a_library_that_is_loaded_later(dyntrace, program_path, scratch):
    """Their semaphores are raised before its constructor runs."""
    path = os.path.join(scratch, "marked.so")
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", path, "-x", "c", "-"], input=MARKED, text=True, check=True)
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--marker", "plug:step", "--wait", "--", program_path("plugins"), "--rounds", 20,
             "--calls", 6, "--move", 1, path)
    assert [event.fields["arg0"] for event in Trace(output).named("plug:step")] == (OWN + list(range(6))) * 20


# ---- no delays ---------------------------------------------------------------------------------------------

def end(tracing):
    """Ends dyntrace as Ctrl-C does; there may be no trace, if nothing was placed."""
    tracing.process.send_signal(signal.SIGINT)
    errors = tracing.process.communicate(timeout=30)[1]
    assert tracing.process.returncode == 0, errors
    return errors


def test_killed_dyntrace_holds_nobody_up(dyntrace, program, plugin):
    target = program("plugins", "--rounds", 300, "--calls", 3, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--wait")
    tracing.process.kill()
    tracing.process.wait()
    target.go().wait_ready()
    dyntrace("detach", target.pid)
    assert "memfd:dyntrace" not in open(f"/proc/{target.pid}/maps").read()
    assert len(target.finish().splitlines()) == 300


def test_stopped_dyntrace_costs_one_wait(dyntrace, program, plugin):
    """N1: (N1) 300 rounds have 600 changes: with a wait of two seconds for each the test would run out of time."""
    target = program("plugins", "--rounds", 300, "--calls", 3, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--wait").wait_told()
    tracing.process.send_signal(signal.SIGSTOP)
    target.go().wait_ready()
    tracing.process.send_signal(signal.SIGCONT)
    assert "took more than 2 s" in end(tracing)
    assert len(target.finish().splitlines()) == 300


def processor_time(pid):
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[0])


def test_slow_dyntrace_is_waited_for(dyntrace, program, scratch):
    """A dyntrace that hardly gets a processor, as on a busy machine, takes longer than two seconds to place many tracepoints."""
    plugin = os.path.join(scratch, "plugin.so")
    subprocess.run(["gcc", "-O1", "-g", "-shared", "-fPIC", "-o", plugin, os.path.join(os.path.dirname(__file__), "../programs/plugin.c"),
                    "-Wl,--no-as-needed", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"], check=True)
    target = program("plugins", "--rounds", 1, "--calls", 3, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--probe", "*@libcrypto.so.3", "--wait").wait_told()
    tracing.process.send_signal(signal.SIGSTOP)
    target.go()
    for _ in range(SLOW_STEPS):
        before = processor_time(tracing.process.pid)
        tracing.process.send_signal(signal.SIGCONT)
        while processor_time(tracing.process.pid) == before and tracing.process.poll() is None:
            pass
        tracing.process.send_signal(signal.SIGSTOP)
        time.sleep(0.4)
    tracing.process.send_signal(signal.SIGCONT)
    target.wait_ready()
    trace = tracing.stop()
    assert [event.fields["n"] for event in trace.named("plugin_step_entry")] == arguments(3)
    assert len(target.finish().splitlines()) == 1


def test_filtered_target_makes_no_system_call(dyntrace, program, plugin):
    """The kernel would kill the target for its first system call: so it doesn't wait for the controller."""
    target = program("plugins", "--rounds", 5, "--filter", 1, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--wait")
    target.go().wait_ready()
    end(tracing)
    assert len(target.finish().splitlines()) == 5


def test_forked_child_goes_on(dyntrace, program, plugin):
    """Libraries that the child loads aren't traced, and it doesn't wait."""
    target = program("plugins", "--rounds", 5, "--fork", 1, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--function", "getpid@libc.so.6", "--wait")
    target.go().wait_ready()
    end(tracing)
    assert len(target.finish().splitlines()) == 5


def test_detach_while_a_thread_waits(dyntrace, program, plugin):
    """Ctrl-C in the middle of a flood of libraries."""
    target = program("plugins", "--rounds", 2000, "--calls", 1, "--move", 0, plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--wait")
    target.go()
    until(lambda: os.path.exists(os.path.join(tracing.output, "metadata")), "the first library")
    end(tracing)  # nothing may have been recorded yet
    until(lambda: "memfd:dyntrace" not in open(f"/proc/{target.pid}/maps").read(), "nothing of ours in the target")
    target.wait_ready()
    assert len(target.finish().splitlines()) == 2000


MANY = 5000


def functions(prefix):
    """Assembly of many functions, each called once by PREFIX_all."""
    lines = [f".globl {prefix}{n}\n.type {prefix}{n}, @function\n{prefix}{n}: lea {n}(%rdi), %rax\nret\n.size {prefix}{n}, .-{prefix}{n}"
             for n in range(MANY)]
    lines += [f".globl {prefix}_all\n.type {prefix}_all, @function\n{prefix}_all: push %rbx", *(f"call {prefix}{n}" for n in range(MANY)),
              f"pop %rbx\nret\n.size {prefix}_all, .-{prefix}_all", '.section .note.GNU-stack, "", @progbits\n']
    return "\n".join(lines)


def first_byte(pid, library, symbol):
    """Of a function of a library, in memory."""
    lines = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout.splitlines()
    address = next(int(line.split()[0], 16) for line in lines if line.split()[-1] == symbol)
    with open(f"/proc/{pid}/maps") as file:
        base = next(int(line.split("-")[0], 16) for line in file if line.rstrip().endswith(os.path.basename(library)))
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        mem.seek(base + address)
        return mem.read(1)


def test_many_tracepoints_that_wait_beside_many_placed_ones(dyntrace, processes, scratch):
    """Each place of a new library is looked up, not compared with all tracepoints (H38): that took minutes."""
    def write(name, text):
        with open(os.path.join(scratch, name), "w") as file:
            file.write(text)
    write("own.s", functions("own"))
    write("lib.s", functions("lib"))
    write("main.c", """#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
void own_all(void);
int main(void)
{
	void *all = dlsym(dlopen("./many.so", RTLD_NOW), "lib_all");
	printf("%d\\n", getpid()); fflush(stdout); getchar();
	own_all(); ((void (*)(void))all)();
	return 0;
}""")
    library = os.path.join(scratch, "many.so")
    subprocess.run(["gcc", "-shared", "-Wl,-Bsymbolic", "-o", library, "lib.s"], cwd=scratch, check=True)
    subprocess.run(["gcc", "-o", "main", "main.c", "own.s"], cwd=scratch, check=True)
    tracing = processes.start([dyntrace.path, "trace", "--tracer", "count", "--all-rows", "--function", "own*", "--function",
                               "lib*@many.so", "--wait", "--", "./main"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, cwd=scratch)
    pid = int(tracing.stdout.readline())
    until(lambda: first_byte(pid, library, f"lib{MANY - 1}") != b"\x48", "tracepoints in the library", seconds=50)
    with open(f"/proc/{tracing.pid}/stat") as file:
        ticks = int(file.read().rsplit(")", 1)[1].split()[11])
    _, summary = tracing.communicate("\n")
    assert tracing.returncode == 0, summary
    assert hits(summary) == {f"{prefix}{name}": 1 for prefix in ("own", "lib") for name in ["_all", *range(MANY)]}
    assert ticks / os.sysconf("SC_CLK_TCK") < 10


COPIED = """#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
extern char __executable_start, etext;
__attribute__((noinline)) int leaf(int n) { volatile int s = n; return s + 1; }
int main(void)
{
	unsigned long from = (unsigned long)&__executable_start, to = ((unsigned long)&etext + 4095) & ~4095ul;
	unsigned long first = from + (HEADERS ? 4096 : 0), sum = 0;
	char *copy = mmap(0, to - first, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memcpy(copy, (void *)first, to - first);
	mprotect(copy, to - first, PROT_READ | PROT_EXEC);
	if (mremap(copy, to - first, to - first, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)first) == MAP_FAILED)
		return 1;
	for (int round = 0; round < 4; round++) {
		puts("ready");
		fflush(stdout);
		if (getchar() != '\\n')
			return 1;
		for (int i = 0; i < 100; i++)
			sum += leaf(i);
	}
	printf("%lu\\n", sum);
	return 0;
}
"""


@pytest.mark.parametrize("headers", [True, False])
def test_all_text_was_copied_to_other_memory(dyntrace, processes, scratch, headers):
    """As programs do that want huge pages: the program is still the program, and globs don't mean the libc."""
    path = os.path.join(scratch, "copied")
    with open(path + ".c", "w") as file:
        file.write(COPIED)
    layout = "separate-code" if headers else "noseparate-code"
    subprocess.run(["gcc", "-O1", f"-DHEADERS={int(headers)}", f"-Wl,-z,{layout}", "-o", path, path + ".c"], check=True)
    target = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    with open(f"/proc/{target.pid}/maps") as file:
        assert not [line for line in file if path in line and "x" in line.split()[1]]
    for words in (["--function", "leaf"], ["--function", "lea*"], ["--function", "leaf@copied"]):
        tracing = dyntrace.start_trace(target.pid, "-e", *words)
        target.stdin.write("\n")
        target.stdin.flush()
        assert target.stdout.readline() == "ready\n"
        trace = tracing.stop()
        assert trace.names() == {"leaf_entry": 100, "leaf_exit": 100} and trace.lost == 0
        assert [event.fields["ret"] for event in trace.named("leaf_exit")] == list(range(1, 101))
    assert dyntrace.fails("trace", "-p", target.pid, "--function", "nosuch*", status=125) == "no function of copied matches 'nosuch*'"
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "*")
    tracing.process.kill()
    tracing.process.communicate()
    dyntrace("detach", target.pid)
    before.assert_unchanged()
    target.stdin.write("\n")
    target.stdin.close()
    assert target.stdout.read() == f"{4 * 5050}\n" and target.wait() == 0
