"""Static markers: list-markers and --marker, compared with the programs' own output and readelf."""
import collections
import json
import os
import re
import signal
import struct
import subprocess

import pytest

from harness import Trace, until

LIBSTDCXX = "/usr/lib/x86_64-linux-gnu/libstdc++.so.6"
PROGRAMS = ["markers", "markers_plain"]  # with and without optimisation


def readelf_markers(path):
    """(provider, name, arguments, address, semaphore) of every note."""
    lines = subprocess.run(["readelf", "-nW", path], capture_output=True, text=True, check=True).stdout
    return sorted(
        (provider, name, arguments.strip(), int(address, 16), int(semaphore, 16) or None)
        for provider, name, address, semaphore, arguments in re.findall(
            r"Provider: (\S+)\n\s+Name: (\S+)\n\s+Location: (\w+), Base: \w+, Semaphore: (\w+)\n\s+Arguments:(.*)", lines))


def listed(result):
    return sorted((one["provider"], one["name"], one["arguments"], one["address"], one["semaphore"])
                  for one in json.loads(result.stdout))


# ---- list-markers -------------------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["markers", "markers_plain", "/usr/bin/python3", LIBSTDCXX])
def test_lists_what_readelf_lists(dyntrace, program_path, path):
    path = os.path.join(os.path.dirname(program_path("markers")), path)
    expected = readelf_markers(os.path.realpath(path))
    assert len(expected) >= 3
    assert listed(dyntrace("list-markers", "--json", path)) == expected
    lines = dyntrace("list-markers", path).stdout.splitlines()
    assert len(lines) == len(expected)
    for line, (provider, name, arguments, address, semaphore) in zip(lines, sorted(expected, key=lambda one: (one[0], one[1], one[3]))):
        words = line.split(maxsplit=4)
        assert (int(words[0], 16), words[1]) == (address, os.path.basename(path))
        assert words[2] == ("semaphore" if semaphore else "-")
        assert words[3] == f"{provider}:{name}" and (words[4] if len(words) > 4 else "") == arguments


def test_lists_a_process_with_its_libraries(dyntrace, program_path, program):
    """Addresses are those in the process's memory; GLOB matches PROVIDER:NAME."""
    target = program("markers").wait_ready()
    with open(f"/proc/{target.pid}/maps") as lines:
        bias = int(next(line for line in lines if line.split()[-1].endswith("/markers")).split("-")[0], 16)
    expected = [(*words[:3], words[3] + bias, words[4] and words[4] + bias)
                for words in readelf_markers(program_path("markers"))]
    found = listed(dyntrace("list-markers", target.pid, "--json"))
    assert [one for one in found if one[0] in ("demo", "forms")] == expected
    assert listed(dyntrace("list-markers", target.pid, "demo:t*", "--json")) == \
        [one for one in expected if one[0] == "demo" and one[1].startswith("t")]
    target.finish()


def test_says_what_there_is_not(dyntrace, program_path):
    path = program_path("markers")
    assert "(it has 15)" in dyntrace.fails("list-markers", path, "demo:nothing")
    result = dyntrace("list-markers", "/usr/bin/true")
    assert (result.stdout, result.stderr) == ("", "dyntrace: '/usr/bin/true' has no static markers\n")
    assert dyntrace("list-markers", "--json", "/usr/bin/true").stdout == "[]\n"
    message = dyntrace.fails("trace", "--marker", "demo:number", "--", path, status=125)
    assert "no marker 'demo:number' in markers or its libraries" in message and "numbers" in message
    message = dyntrace.fails("trace", "--marker", "numbers", "--", path, status=2)
    assert "is not PROVIDER:NAME" in message


# ---- values -------------------------------------------------------------------------------------------

def test_every_form_of_argument(dyntrace, program_path):
    """tests/programs/marker_forms.S has the values."""
    _, trace = dyntrace.trace("--marker", "forms:*", "-t", "reg:rax", "-t", "reg:rbx", "--", program_path("markers"))
    rbx, r12, slot = 0x8122334485667788, 0x8f0e0d0c8b0a8908, 0x1234567890abcdef
    table = [0x1122334455667788, -42, 0xfedcba9876543210 - (1 << 64)]

    def signed(value, size):
        return int.from_bytes((value & ((1 << 8 * size) - 1)).to_bytes(size, "little"), "little", signed=True)
    found = {}
    for event in trace.events:
        assert event.fields["rbx"] == rbx
        found[event.name] = [value for name, value in event.fields.items() if name.startswith("arg")]
    table_at = trace.named("forms:memory")[0].fields["rax"]
    assert found.pop("forms:symbols")[:4] == [table[0], table[1], signed(table[2], 4), table_at]
    assert found == {
        "forms:words": [rbx, signed(rbx, 8), rbx & 0xffffffff, signed(rbx, 4), rbx & 0xffff, signed(rbx, 2), rbx & 0xff,
                        signed(rbx, 1), rbx >> 8 & 0xff],
        "forms:high": [r12, r12 & 0xffffffff, signed(r12, 4), r12 & 0xffff, signed(r12, 2), r12 & 0xff, rbx],
        "forms:frame": [slot, slot >> 32, -77, -77, 2],
        "forms:memory": [table[0], table[1], table[2], table[0] & 0xffffffff, 0, -1],
        "forms:constants": [5, -5, -(1 << 63), (1 << 64) - 1, 200, -100, 63],
        "forms:floats": [-2.5, 0.75, -2.5, -2.5, -2.5, -2.5],
        "forms:bad": [0, 0, 0, 0, 2],
        "forms:none": [],
        "forms:old": [2, 7],
    }
    assert trace.named("forms:memory")[0].fields["unreadable"] == "arg4"
    assert trace.named("forms:bad")[0].fields["unreadable"] == "arg0"


def test_thread_segment(dyntrace, program_path):
    """%fs:0 holds its own address."""
    _, trace = dyntrace.trace("--marker", "forms:symbols", "--", program_path("markers"))
    pointer = trace.events[0].fields["arg4"]
    assert pointer % 64 == 0 and pointer > 1 << 32


def expected_events(output):
    """The program's own output as {name: [[values]]}; the string for `text`."""
    found = collections.defaultdict(list)
    for line in output.splitlines():
        name, *values = line.split()
        if name == "twice":
            i = int(values[0])
            found["demo:twice" if i & 1 else "demo:twice-2"].append([i] if i & 1 else [-i, 7])
        elif name == "text":
            found["demo:text"].append([values[0], float(values[1])])
        elif name == "numbers":
            # its last argument is a signed long, which the program prints as an unsigned one
            numbers = list(map(int, values))
            found["demo:numbers"].append(numbers[:4] + [struct.unpack("q", struct.pack("Q", numbers[4]))[0]])
        elif name == "guarded":
            found["demo:guarded"].append([int(values[0])])
    return dict(found)


def recorded_events(trace):
    found = collections.defaultdict(list)
    for event in trace.events:
        values = [value for name, value in event.fields.items() if name.startswith("arg")]
        found[event.name].append([event.fields["word"], values[1]] if event.name == "demo:text" else values)
    return dict(found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_the_printed_ones(dyntrace, program_path, name):
    """Arguments with and without optimisation, the string behind a pointer, and two places of one name."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--marker", "demo:text", "-t", "string:word:arg0", "--", program_path(name))
    expected = expected_events(result.stdout)
    assert recorded_events(Trace(output)) == {"demo:text": expected["demo:text"]}
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--marker", "demo:[ngt][uw]*", "--", program_path(name), "--calls", 1000)
    expected = expected_events(result.stdout)
    del expected["demo:text"]
    assert len(expected["demo:guarded"]) == 1000
    assert recorded_events(Trace(output)) == expected


def test_filter_by_argument(dyntrace, program_path):
    _, trace = dyntrace.trace("--marker", "demo:numbers", "--filter", "arg0 >= 3 && arg1 < -8", "--",
                              program_path("markers"))
    assert [event.fields["arg0"] for event in trace.events] == [6, 7, 8, 9]


# ---- semaphores -----------------------------------------------------------------------------------------

def semaphore_reader(target, program_path):
    """Reads the counter of demo:guarded in the process."""
    with open(f"/proc/{target.pid}/maps") as lines:
        bias = int(next(line for line in lines if line.split()[-1].endswith("/markers")).split("-")[0], 16)
    address = bias + next(one[4] for one in readelf_markers(program_path("markers")) if one[1] == "guarded")

    def read(pid=target.pid):
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
            mem.seek(address)
            return struct.unpack("H", mem.read(2))[0]
    return read


def test_semaphore_is_raised_and_lowered(dyntrace, program, program_path):
    """The marker isn't reached before and after; a glob that matches it raises the semaphore once."""
    target = program("markers", "--rounds", 3, "--calls", 100).wait_ready()
    semaphore = semaphore_reader(target, program_path)
    assert semaphore() == 0
    target.go().wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--marker", "demo:guarded", "--marker", "demo:g*")
    until(lambda: semaphore() == 2, "the semaphore to be raised for two tracepoints")
    target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert semaphore() == 0
    assert trace.names() == {"demo:guarded": 100, "demo:guarded-2": 100}
    output = target.finish()
    assert output.count("guarded") == 100


def test_semaphore_of_others_stays(dyntrace, program, program_path):
    """Another tracer has raised it by three: it is three after the detach."""
    target = program("markers", "--rounds", 1).wait_ready()
    semaphore = semaphore_reader(target, program_path)
    address = next(one["semaphore"] for one in json.loads(dyntrace("list-markers", "--json", target.pid).stdout)
                   if one["name"] == "guarded")
    with open(f"/proc/{target.pid}/mem", "r+b", buffering=0) as mem:
        mem.seek(address)
        mem.write(struct.pack("H", 3))
    tracing = dyntrace.start_trace(target.pid, "--marker", "demo:guarded")
    until(lambda: semaphore() == 4, "the semaphore to be raised")
    tracing.stop()
    assert semaphore() == 3
    target.finish()


def test_semaphore_is_lowered_after_kill(dyntrace, program, program_path):
    """The next dyntrace lowers the semaphore that a killed one had raised."""
    target = program("markers", "--rounds", 2).wait_ready()
    semaphore = semaphore_reader(target, program_path)
    tracing = dyntrace.start_trace(target.pid, "--marker", "demo:guarded")
    until(lambda: semaphore() == 1, "the semaphore to be raised")
    tracing.process.kill()
    tracing.process.wait()
    target.go().wait_ready()
    assert semaphore() == 1
    dyntrace("detach", target.pid)
    assert semaphore() == 0
    tracing.before.assert_unchanged()
    assert target.finish().count("guarded") == 10


def test_semaphore_in_forked_children(dyntrace, program, program_path):
    """(M2) A child inherits the raised semaphore, records, and has it lowered when tracing ends."""
    target = program("markers", "--rounds", 1, "--children", 1, "--calls", 50).wait_ready()
    semaphore = semaphore_reader(target, program_path)
    tracing = dyntrace.start_trace(target.pid, "--marker", "demo:guarded")
    until(lambda: semaphore() == 1, "the semaphore to be raised")
    target.go().wait_ready()  # the child is, behind its work
    with open(f"/proc/{target.pid}/task/{target.pid}/children") as file:
        child = int(file.read().split()[0])
    assert semaphore(child) == 1
    trace = tracing.stop()
    assert (semaphore(), semaphore(child)) == (0, 0)
    assert trace.names() == {"demo:guarded": 50}
    assert {event.pid for event in trace.events} == {child}
    assert target.finish().splitlines()[-2:] == ["semaphore 0", "semaphore 0"]


# ---- real programs -----------------------------------------------------------------------------------------

def test_python_garbage_collections(dyntrace):
    """python:gc__start has the generation, python:gc__done what gc.collect returned. The rest of python's own ends
    before the first of ours."""
    script = ("import gc, os\ngc.disable()\n"
              "def ring(n):\n    for _ in range(n):\n        a = []; a.append(a)\n"
              "done = []\nfor i in range(60):\n    ring(i)\n    done.append((i % 3, gc.collect(i % 3)))\n"
              "os.write(1, repr(done).encode())\nos._exit(0)\n")
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--marker", "python:gc__*", "--", "/usr/bin/python3", "-I", "-c", script)
    done = eval(result.stdout)
    trace = Trace(output)
    last = trace.events[-120:]
    assert [event.name for event in last] == ["python:gc__start", "python:gc__done"] * 60
    pairs = list(zip(last[::2], last[1::2]))
    assert [(start.fields["arg0"], end.fields["arg0"]) for start, end in pairs] == done
    assert {count for _, count in done} >= {0, 1, 30}


def test_cpp_throws_and_catches(dyntrace, scratch):
    """libstdcxx:throw and :catch, with the object that the handler sees."""
    source = os.path.join(scratch, "thrower.cc")
    with open(source, "w") as file:
        file.write('#include <cstdio>\nstruct oops { long n; };\nint main() {\n'
                   'for (long i = 0; i < 100; i++)\n'
                   'try { throw oops{i}; } catch (oops &o) { printf("%p %ld\\n", (void *)&o, o.n); } }\n')
    path = os.path.join(scratch, "thrower")
    subprocess.run(["g++", "-O2", "-o", path, source], check=True)
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--marker", "libstdcxx:*", "-t", "long:n:arg0", "--", path)
    trace = Trace(output)
    expected = [(int(line.split()[0], 16), int(line.split()[1])) for line in result.stdout.splitlines()]
    assert len(expected) == 100
    for name in ("libstdcxx:throw", "libstdcxx:catch"):
        assert [(event.fields["arg0"], event.fields["n"]) for event in trace.named(name)] == expected
    assert len(trace.events) == 200


def test_attach_to_python(dyntrace, processes, scratch):
    """Placed in a running interpreter, and taken out again; no semaphore stays raised."""
    fifo = os.path.join(scratch, "fifo")
    os.mkfifo(fifo)
    python = processes.start(["/usr/bin/python3", "-I", "-c",
                              f"import gc\ngc.disable()\nfor line in open({fifo!r}):\n    gc.collect(int(line))\n"])
    with open(fifo, "w", buffering=1) as pipe:
        pipe.write("0\n")
        tracing = dyntrace.start_trace(python.pid, "--marker", "python:gc__start")
        markers = {one["name"]: one["semaphore"]
                   for one in json.loads(dyntrace("list-markers", "--json", python.pid).stdout)}

        def semaphore():
            with open(f"/proc/{python.pid}/mem", "rb", buffering=0) as mem:
                mem.seek(markers["gc__start"])
                return struct.unpack("H", mem.read(2))[0]
        until(lambda: semaphore() == 1, "the semaphore to be raised")
        for generation in (2, 1, 0):
            pipe.write(f"{generation}\n")
        summary = os.path.join(tracing.output, "metadata")
        until(lambda: os.path.exists(summary), "the trace")
        until(lambda: [e.fields["arg0"] for e in Trace(tracing.output).events] == [2, 1, 0], "three collections")
        tracing.stop(signal.SIGINT)
        assert semaphore() == 0


# ---- by the daemon --------------------------------------------------------------------------------------------

def test_added_to_a_running_process(daemon, program, program_path):
    """add TARGET:PROVIDER:NAME: listed with its fields; its semaphore is raised and lowered with it."""
    target = program("markers", "--rounds", 3, "--calls", 20).wait_ready()
    semaphore = semaphore_reader(target, program_path)
    assert daemon.add(f"{target.pid}:demo:guarded") == "demo:guarded"
    assert daemon("add", f"{target.pid}:demo:t*").stdout.splitlines() == ["demo:text", "demo:twice", "demo:twice-2"]
    assert semaphore() == 1
    target.go().wait_ready()
    assert daemon.hits(target.pid) == {"demo:guarded": 20, "demo:text": 20, "demo:twice": 10, "demo:twice-2": 10}
    daemon("rm", f"{target.pid}:demo:guarded")
    assert semaphore() == 0
    target.go().wait_ready()
    daemon("add", f"{target.pid}:demo:guarded", "-n", "mine", "--filter", "arg0 > 30")
    assert semaphore() == 1
    target.go().wait_ready()
    assert daemon.hits(target.pid)["mine"] == 9
    path = daemon.trace_of(target.pid)
    daemon("detach", target.pid)
    assert semaphore() == 0
    trace = Trace(path)
    assert trace.names() == {"demo:guarded": 20, "demo:text": 60, "demo:twice": 30, "demo:twice-2": 30, "mine": 9}
    assert [event.fields["arg0"] for event in trace.named("demo:guarded")] == list(range(0, 60, 3))
    target.finish()


# ---- include/dyntrace/marker.h --------------------------------------------------------------------------

HEADER = r"""
#include <dyntrace/marker.h>
#include <stdio.h>
DYNTRACE_MARKER_SEMAPHORE(shop, level);
enum color { RED, BLUE = 7 };
static int computed;
static int cost(void) { computed++; return -77; }
__attribute__((always_inline)) static inline void twice(int i) { DYNTRACE_MARKER(shop, twice, i); }
int main(int argc, char **argv)
{
	char array[10] = "array", byte = -5;
	double d = 2.5 * argc;
	float f = -0.5f;
	short s = -3;
	unsigned char u = 200;
	long long l = -(1LL << 40);
	void *p = argv;
	enum color e = BLUE;
	DYNTRACE_MARKER(shop, none);
	DYNTRACE_MARKER(shop, all, array, d, f, s, u, l, p, e, argc, "literal", 5, byte);
	DYNTRACE_MARKER(shop, floats, 0.25, d * 2, 1.5f);
	DYNTRACE_GUARDED_MARKER(shop, level, cost());
	twice(argc);
	twice(argc + 1);
	printf("%lu %lu %d\n", (unsigned long)array, (unsigned long)p, computed);
	return DYNTRACE_MARKER_ENABLED(shop, level);
}
"""


@pytest.mark.parametrize("compiler", ["gcc -std=c99 -O0", "gcc -std=gnu11 -O2 -flto", "clang -std=c11 -O2", "g++ -std=c++11 -O0",
                                      "g++ -O2", "clang++ -std=c++11 -O2"])
def test_header(dyntrace, scratch, compiler):
    """Needs no package; warns of nothing; each compiler's operands are read as what they mean."""
    words, path = compiler.split(), os.path.join(scratch, "shop")
    include = os.path.join(os.path.dirname(__file__), "..", "..", "include")
    subprocess.run([*words, "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-I", include, "-o", path,
                    "-x", "c++" if "++" in words[0] else "c", "-"], input=HEADER, text=True, check=True)
    assert [one[:2] for one in readelf_markers(path)] == \
        sorted([("shop", name) for name in ("none", "all", "floats", "level", "twice", "twice")])
    result = subprocess.run([path], capture_output=True, text=True)
    assert result.stdout.split()[2] == "0" and result.returncode == 0
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--marker", "shop:*", "--", path, status=1)
    array, pointer, computed = map(int, result.stdout.split())
    found = collections.defaultdict(list)
    for event in Trace(output).events:
        found[event.name].append([value for name, value in event.fields.items() if name.startswith("arg")])
    assert found["shop:all"][0].pop(9) > 0xffff  # the literal's address
    assert dict(found) == {"shop:none": [[]], "shop:all": [[array, 2.5, -0.5, -3, 200, -(1 << 40), pointer, 7, 1, 5, -5]],
                           "shop:floats": [[0.25, 5.0, 1.5]], "shop:level": [[-77]], "shop:twice": [[1]], "shop:twice-2": [[2]]}
    assert computed == 1
