"""dyntrace view -f: the events of a trace that is being recorded, until recording ends, whatever ends it."""
import fcntl
import json
import os
import re
import signal
import struct
import subprocess

import pytest

from harness import Trace, until

NESTED = r"""
#include <stdio.h>
__attribute__((noinline, noipa)) int inner(int n) { return n + 1; }
__attribute__((noinline, noipa)) int outer(int n) { n = inner(n); getchar(); return inner(n) + 7; }
int main(void) { getchar(); return outer(1) != 10; }
"""


def follow(dyntrace, processes, path, *words):
    return processes.start([dyntrace.path, "view", "-f", path, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True, cwd=dyntrace.scratch)


def lines(view, count):
    return [view.stdout.readline() for _ in range(count)]


def test_as_they_come(dyntrace, program, processes):
    """Events come while recording goes on; after its end, all of them were printed once, and view ends by itself."""
    target = program("spin", "--threads", 2, "--calls", 50, "--rounds", 3).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "foo")
    target.go().wait_ready()
    view = follow(dyntrace, processes, tracing.output, "--json")
    seen = lines(view, 200)
    target.go().wait_ready()
    seen += lines(view, 200)  # what was recorded since
    assert view.poll() is None
    target.go()
    target.wait_ready()
    trace = tracing.stop()
    rest, errors = view.communicate(timeout=60)
    assert (view.returncode, errors) == (0, "")
    names = [json.loads(line)["name"] for line in seen + rest.splitlines()]
    assert len(names) == len(trace.events) == 600 and {name: names.count(name) for name in set(names)} == trace.names()
    assert sorted(map(without_time, seen + rest.splitlines())) == \
        sorted(map(without_time, dyntrace("view", "--json", tracing.output).stdout.splitlines()))
    target.finish()


def without_time(line):
    """The clock's frequency is known better at the end: times differ by some ns."""
    return json.dumps({name: value for name, value in json.loads(line).items() if name not in ("time", "ns")}, sort_keys=True)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_whatever_ends_it(dyntrace, program, processes, number):
    """kill -9 of the recorder ends the wait, too."""
    target = program("spin", "--calls", 20, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo")
    target.go().wait_ready()
    view = follow(dyntrace, processes, tracing.output, "--filter", "$name == \"foo*\"")
    assert all(lines(view, 20))
    tracing.process.send_signal(number)
    tracing.process.communicate()
    rest, errors = view.communicate(timeout=60)
    assert (view.returncode, rest, errors) == (0, "", "")
    target.finish()


def test_of_the_daemon(new_daemon, dyntrace, program, processes):
    """The daemon's keeper of the trace is its recorder."""
    daemon = new_daemon().start()
    target = program("spin", "--calls", 20, "--rounds", 3).wait_ready()
    path = dyntrace.new_output()
    daemon("add", f"{target.pid}:foo", "ctf", path)
    target.go().wait_ready()
    view = follow(dyntrace, processes, path)
    assert all(lines(view, 20))
    target.go().wait_ready()
    assert all(lines(view, 20)) and view.poll() is None
    target.finish()  # with its third round
    daemon.stop()
    rest, errors = view.communicate(timeout=60)
    assert (view.returncode, len(rest.splitlines()), errors) == (0, 20, "")


HEAD = 104  # bytes of a packet's header


def test_a_file_that_has_no_packet_yet(dyntrace, program, processes):
    """A thread's file begins as one empty packet, which its first packet takes the place of: a round between them finds nothing in it."""
    target = program("spin", "--threads", 2, "--calls", 20, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo")
    target.go().wait_ready()
    assert tracing.stop().names() == {"foo_entry": 40}
    target.finish()
    path = os.path.join(tracing.output, "stream_1")
    with open(path, "rb") as file:
        whole = file.read()
    begin, _, content, _, _, sequence = struct.unpack_from("<6Q", whole, 24)
    assert content > HEAD * 8 and sequence == 0
    with open(path, "wb") as file:
        file.write(whole[:24] + struct.pack("<6Q", begin, begin, HEAD * 8, len(whole) * 8, 0, 0) + bytes(len(whole) - 72))
    recorder = os.open(tracing.output, os.O_RDONLY)
    fcntl.flock(recorder, fcntl.LOCK_SH)
    view = follow(dyntrace, processes, tracing.output)
    assert all(lines(view, 20))  # of stream_0, in a round that has looked at stream_1
    with open(path, "r+b") as file:
        file.seek(HEAD)
        file.write(whole[HEAD:])
        file.flush()
        file.seek(0)
        file.write(whole[:HEAD])
    assert all(lines(view, 20)) and view.poll() is None
    os.close(recorder)
    rest, errors = view.communicate(timeout=60)
    assert (view.returncode, rest, errors) == (0, "", "")


def test_tree(dyntrace, processes, scratch):
    """A call that is open at the end of a round is known in the next one: its end has its place and its name."""
    path, output = os.path.join(scratch, "nested"), dyntrace.new_output()
    subprocess.run(["gcc", "-g", "-O1", "-x", "c", "-o", path, "-"], input=NESTED, text=True, check=True)
    tracing = processes.start([dyntrace.path, "trace", "-q", "-e", "--function", "outer", "--function", "inner", "-o", output, "--", path],
                              stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, bufsize=0)
    until(lambda: os.path.exists(os.path.join(output, "metadata")), "the trace")
    view = follow(dyntrace, processes, output, "--tree")
    tracing.stdin.write("a")
    seen = ""
    while not seen.endswith("inner = 2\n") and not seen.endswith("inner(n = 1) = 2\n"):
        seen += view.stdout.readline()
    assert view.poll() is None and "outer(n = 1) {\n" in seen and "outer = " not in seen
    tracing.stdin.write("b")
    rest, errors = view.communicate(timeout=60)
    assert (tracing.wait(timeout=60), view.returncode, errors) == (0, 0, "")
    # a packet may end between an entry and its exit: then a leaf has two lines
    lines = re.sub(r" \{\n[^\n]*\} inner", "", re.sub(r"^ *[\d.]* *[nmu]?s? *\[\d+\] ", "", seen + rest, flags=re.M).replace("outer(n = 1) {", "OUTER"))
    assert lines.splitlines()[1:] == ["| OUTER", "|   inner(n = 1) = 2", "|   inner(n = 2) = 3", "| } outer = 10"]


def test_over_already(dyntrace, program_path, processes):
    """A trace that nobody records is printed, and that's all; -n ends it earlier; Ctrl-C too."""
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--function", "foo", "--", program_path("spin"), "--calls", 30)
    assert dyntrace("view", "-f", output).stdout == dyntrace("view", "--lines", output).stdout
    assert len(dyntrace("view", "-f", "-n", 7, output).stdout.splitlines()) == 7
    assert len(Trace(output).events) == 30
    assert "is not one trace" in dyntrace.fails("view", "-f", dyntrace.scratch)


def test_interrupted(dyntrace, program, processes):
    target = program("spin", "--calls", 20, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo")
    target.go().wait_ready()
    view = follow(dyntrace, processes, tracing.output)
    assert len(lines(view, 20)) == 20
    view.send_signal(signal.SIGINT)
    assert (view.wait(timeout=60), view.stdout.read()) == (-signal.SIGINT, "")
    target.go()
    assert len(tracing.stop().events) >= 20
    target.finish()
