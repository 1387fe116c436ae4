"""Unwinding out of code of ours: whatever instruction a signal finds a thread at, a handler that throws, backtrace(),
asynchronous cancellation and gdb see the frames that they would see untraced."""
import os
import re
import struct
import subprocess

import pytest

from fixtures import ROOT
from harness import Trace, compile_once, maps, until

SOURCE = os.path.join(ROOT, "tests", "programs", "faults.cpp")
BUILDS = {
    "gcc-O2": ["g++", "-O2"],
    "gcc-O0": ["g++", "-O0"],
    "clang-O2": ["clang++", "-O2"],
    "gcc-O3-frame-pointers-static": ["g++", "-O3", "-fno-omit-frame-pointer", "-static"],
    "gcc-static-libgcc": ["g++", "-O2", "-static-libgcc", "-static-libstdc++"],
}
DT_WAIT_MODULES = 16  # shared/layout.h
FAULTY = ["load_first", "load_middle", "load_caught", "divide", "call_through", "attempt"]
BUSY = ["work", "branch", "leaf", "compute"]
STEPPED = ["work", "branch", "leaf", "sibling", "last"]
FEW = ["--mode", "overwrite", "--buffer-size", "1M"]  # of events on disk


@pytest.fixture
def compiled(scratch):
    def build(kind):
        return compile_once([*BUILDS[kind], "-fnon-call-exceptions", "-g", SOURCE, "-lpthread"], os.path.join(scratch, "faults-" + kind))
    return build


def instructions(path, functions):
    """SYMBOL+OFFSET of each instruction of theirs."""
    found, name = [], None
    for line in subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True,
                               check=True).stdout.splitlines():
        if match := re.match(r"([0-9a-f]+) <([^>]+)>:", line):
            start, name = int(match[1], 16), match[2]
        elif (match := re.match(r"\s+([0-9a-f]+):\t(?!nop|xchg +%ax,%ax|data16|cs nop)", line)) and name in functions:
            found.append(f"{name}+{int(match[1], 16) - start}")
    return found


def what(how, path, functions):
    """Options for dyntrace: entries, entries and exits, or a bare probe on every instruction."""
    if how == "every-instruction":
        return [word for place in instructions(path, functions) for word in ("--probe", place)]
    return [*(["-e"] if how == "exits" else []), *(word for name in functions for word in ("--function", name))]


def run_both(dyntrace, path, words, *arguments):
    """Runs the program traced and untraced: output and exit status must be equal."""
    expected = subprocess.run([path, *arguments], capture_output=True, text=True)
    where = [] if "count" in words else ["-o", dyntrace.new_output()]
    result = dyntrace("trace", *where, *words, "--", path, *arguments, status=expected.returncode)
    assert result.stdout == expected.stdout != ""
    return result


@pytest.mark.parametrize("how", ["entries", "exits", "every-instruction"])
@pytest.mark.parametrize("kind", BUILDS)
def test_handler_throws(dyntrace, compiled, kind, how):
    """A fault in a moved instruction, at a function's start and in its middle, becomes an exception: caught there or in a caller,
    with each destructor run once."""
    path = compiled(kind)
    result = run_both(dyntrace, path, what(how, path, FAULTY), "throw", "60")
    if "gcc" in kind:  # clang has no -fnon-call-exceptions of its own
        assert "alive 0 destroyed 720" in result.stdout


@pytest.mark.parametrize("how", ["entries", "exits", "every-instruction"])
@pytest.mark.parametrize("kind", ["gcc-O2", "gcc-static-libgcc"])
def test_samples(dyntrace, compiled, kind, how):
    """A profiler's handler calls backtrace() at any instruction: every backtrace ends in main."""
    path = compiled(kind)
    result = run_both(dyntrace, path, [*what(how, path, BUSY), *FEW], "sample", "120")
    assert result.stdout == "broken 0\n"


@pytest.mark.parametrize("how", ["entries", "exits", "every-instruction", "count"])
@pytest.mark.parametrize("kind", ["gcc-O2", "gcc-O0", "clang-O2"])
def test_every_step(dyntrace, compiled, kind, how):
    """backtrace() at each instruction that the processor executes, in trampolines and return stubs too: it ends in main."""
    path = compiled(kind)
    tracer = ["--tracer", "count"] if how in ("count", "every-instruction") else FEW
    words = [*tracer, *what("exits" if how == "count" else how, path, STEPPED)]
    assert run_both(dyntrace, path, words, "step", "3").stdout == "broken 0 of many\n"


@pytest.mark.parametrize("words", [["--tracer", "count", "-e"], ["-e", "-t", "regs"], ["--filter", "n > 3"]])
def test_samples_of_other_code(dyntrace, compiled, words):
    """The same for counted hits, values gathered by the agent, and filters."""
    path = compiled("gcc-O2")
    few = [] if "count" in words else FEW
    assert run_both(dyntrace, path, [*words, *few, "--function", "leaf"], "sample", "80").stdout == "broken 0\n"


@pytest.mark.parametrize("how", ["entries", "exits", "every-instruction"])
def test_cancelled_anywhere(dyntrace, compiled, how):
    """Threads that are cancelled asynchronously while they compute: their objects are destroyed."""
    path = compiled("gcc-O2")
    result = run_both(dyntrace, path, [*what(how, path, BUSY), *FEW], "cancel", "40")
    assert result.stdout == "cancelled 40 alive 0\n"


def start_sampling(processes, path):
    """For ever; its unwinder is loaded."""
    target = processes.start([path, "sample", "1000000000"], stderr=subprocess.PIPE, text=True)
    assert target.stderr.readline() == "ready\n"
    return target


def agent_code(pid):
    """Where the agent's own functions are: a backtrace from a handler that interrupted one of them ends there (limits.md)."""
    with open(f"/proc/{pid}/maps") as file:
        words = next(line.split() for line in file if "memfd:dyntrace-code" in line and line.split()[2] == "01001000")
    return range(*(int(word, 16) for word in words[0].split("-")))


def outside(traces, code):
    """Those that didn't interrupt the agent. The interrupted place follows the signal's return."""
    kept = [frames for frames in traces if not any(frame in code for frame in frames)]
    assert len(kept) > len(traces) * 0.5
    return kept


def test_own_backtraces(daemon, processes, compiled):
    """A probe in the handler: the backtrace that the agent takes goes through the interrupted trampoline to main."""
    target = start_sampling(processes, compiled("gcc-O2"))
    for function in BUSY:
        daemon.add(f"{target.pid}:{function}", "-e", "count")
    handler = daemon.add(f"{target.pid}:_ZL9on_samplei", "-n", "handler")
    daemon("add-context", "-u", "-e", handler, "--pid", target.pid, "-t", "backtrace:40")
    until(lambda: daemon.hits(target.pid)[handler] >= 100, "samples")
    code = agent_code(target.pid)
    samples = daemon.finish(target.pid).named("handler")
    traces = outside([event.fields["backtrace"] for event in samples if "backtrace" in event.fields], code)
    assert len(traces) >= 50
    tails = {tuple(frames[-3:]) for frames in traces}
    assert len(tails) == 1, tails


def test_own_backtraces_at_every_step(daemon, processes, compiled):
    """The agent's backtrace at each instruction that the processor executes, in return stubs and tail calls too."""
    target = processes.start([compiled("gcc-O2"), "step", "2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    assert target.stderr.readline() == "ready\n"
    for function in STEPPED:
        daemon.add(f"{target.pid}:{function}", "-e", "count")
    handler = daemon.add(f"{target.pid}:_ZL9on_samplei", "-n", "handler")
    daemon("add-context", "-u", "-e", handler, "--pid", target.pid, "-t", "backtrace:40")
    target.stdin.write("\n")
    target.stdin.flush()
    assert target.stdout.readline() == "broken 0 of many\n"
    code = agent_code(target.pid)
    traces = outside([event.fields["backtrace"] for event in daemon.finish(target.pid).named("handler")], code)
    assert len(traces) > 5000
    tail = tuple(traces[0][-3:])
    bad = {tuple(map(hex, frames)) for frames in traces if tuple(frames[-3:]) != tail}
    assert not bad, (len(bad), len(traces), sorted(bad)[:20])


def test_own_backtraces_of_tail_calls(dyntrace, compiled):
    """A function that ends in a jump to another one: both exits have the frames of the caller, and no stub's."""
    trace = dyntrace.new_output()
    dyntrace("trace", "-o", trace, "-e", "--function", "sibling", "--function", "last", "-t", "backtrace:40", "--",
             compiled("gcc-O2"), "step", "0")
    events = [event for event in Trace(trace).events if "backtrace" in event.fields]
    assert len(events) == 800
    assert len({tuple(event.fields["backtrace"][-3:]) for event in events}) == 1
    exits = [event.fields["backtrace"] for event in events if event.name.endswith("_exit")]
    assert len(exits) == 400 and len({frames[0] for frames in exits}) == 1


def test_unwinders_that_come_late_are_waited_for(dyntrace, program):
    """(N1) A thread that loads a library waits until its unwinder knows our code, whatever is traced: entries of the program
    alone, too. The test reads dt_control.flags: how long a thread waits depends on the machine."""
    target = program("spin", "--calls", 10, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    assert "Ctrl-C ends it" in tracing.process.stderr.readline()
    control = next(int(line.split("-")[0], 16) for line in maps(target.pid) if "/memfd:dyntrace-code" in line and "r--s" in line)
    with open(f"/proc/{target.pid}/mem", "rb", buffering=0) as memory:
        memory.seek(control)
        magic, _, flags = struct.unpack("=8sII", memory.read(16))
    assert magic == b"yntrace1" and flags & DT_WAIT_MODULES
    tracing.stop()
    target.finish()


def test_gdb_in_a_trampoline(dyntrace, processes, build, compiled):
    """bt at each instruction of a trampoline: the function first, main last."""
    target = start_sampling(processes, compiled("gcc-O2"))
    tracing = dyntrace.start_trace(target.pid, "--function", "branch", "--every", "1000000").wait_told()
    script = os.path.join(build, "share", "dyntrace-gdb.py")
    steps = [word for _ in range(30) for word in ("-ex", "stepi", "-ex", "bt")]
    result = subprocess.run(["gdb", "-nx", "-batch", "-p", str(target.pid), "-ex", f"source {script}", "-ex",
                             "handle SIGPROF nostop noprint nopass", "-ex", "tbreak *branch", "-ex", "continue", *steps],
                            capture_output=True, text=True)
    bts = re.split(r"^0x.*\n|^\d+\t.*\n", result.stdout, flags=re.M)
    seen = [re.findall(r"^#\d+ .*?(\w+) \(", bt, re.M) for bt in bts if bt.startswith("#0")]
    assert len(seen) >= 30, result.stdout
    assert all(functions[-1] == "main" and "work" in functions for functions in seen), result.stdout
    tracing.stop()
    target.kill()
