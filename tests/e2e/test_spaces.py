"""Targets in pid namespaces of their own, and processes that fork into new ones (H36, K3): nothing is lost, ids are those of both sides."""
import os
import signal
import subprocess

import pytest

from harness import Program, Snapshot, Trace, counts, in_call, status, until

INSIDE = ["unshare", "--pid", "--fork", "--kill-child"]
pytestmark = pytest.mark.skipif(os.getuid() != 0 or subprocess.run([*INSIDE, "true"], capture_output=True).returncode != 0,
                                reason="no pid namespaces here (needs root)")


class Inside(Program):
    """A program of tests/programs as the first process of a pid namespace; `pid` is its pid outside."""

    def __init__(self, processes, scratch, path, arguments, name=None):
        script = os.path.join(scratch, "start-inside")
        with open(script, "w") as file:
            file.write("#!/bin/sh\nexec " + " ".join([*INSIDE, name or path]) + ' "$@"\n')
        os.chmod(script, 0o755)
        super().__init__(processes, script, arguments)
        self.wait_ready()
        with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
            self.pid = int(file.read())


@pytest.fixture
def inside(processes, scratch, program_path):
    started = []

    def start(name, *arguments):
        started.append(Inside(processes, scratch, program_path(name), arguments))
        return started[-1]
    yield start
    for one in started:
        one.close()


def begin(where, program, inside, name, *arguments):
    return inside(name, *arguments) if where == "inside" else program(name, *arguments).wait_ready()


@pytest.mark.parametrize("where", ["outside", "inside"])
@pytest.mark.parametrize("deep", [0, 1])
def test_children_in_pid_namespaces_of_their_own(dyntrace, program, inside, where, deep):
    """Each is pid 1 or 2 of its namespace: a live thread isn't taken for a dead one, nor for another's."""
    target = begin(where, program, inside, "spaces", "--children", 3, "--threads", 2, "--bursts", 60, "--calls", 50, "--deep", deep)
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "--mode", "block", "--buffer-size", "1M")
    target.go().wait_ready()
    # ids outside can be found only while the threads live
    until(lambda: len(Trace(tracing.output).per_tid("foo_entry")) == 6, "events of all threads")
    target.go().wait_ready()
    trace = tracing.stop()
    tracing.before.assert_unchanged()
    assert (trace.names(), trace.lost) == ({"foo_entry": 18000}, 0)
    assert sorted(trace.per_tid("foo_entry").values()) == [3000] * 6  # by ids outside, which are all different
    assert {event.pid for event in trace.named("foo_entry")}.isdisjoint({1, 2, target.pid})
    assert target.finish().split() == ["18000"]


def test_threads_that_rest_are_alive(dyntrace, inside):
    """Threads with other ids here, that record, rest while dyntrace looks for dead ones, and go on: no chunk is taken from them."""
    rounds, calls = 6, 100
    target = inside("spin", "--threads", 2, "--calls", calls, "--rounds", rounds)
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    for done in range(1, rounds + 1):
        target.go().wait_ready()
        until(lambda: len(Trace(tracing.output).events) == 2 * calls * done, "events of all rounds so far")
    trace = tracing.stop()
    assert (trace.names(), trace.lost) == ({"foo": 2 * calls * rounds}, 0)
    assert list(trace.per_tid("foo").values()) == [calls * rounds] * 2
    target.finish()


LATE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int stat64(const char *path, struct stat64 *found)
{
	int pid, end = 0;

	if (sscanf(path, "/proc/%d/ns/pid%n", &pid, &end) == 1 && end && pid != getpid() && !access(getenv("ARMED"), F_OK)) {
		close(open(getenv("ASKED"), O_CREAT | O_WRONLY, 0600));
		while (!kill(pid, 0))
			usleep(1000);
	}
	return fstatat64(AT_FDCWD, path, found, 0);
}
"""


def test_ids_of_a_process_that_ends_while_it_is_looked_up(dyntrace, program, scratch):
    """A question for its pid namespace that comes too late gets no answer: the process is where it was when dyntrace came, and its threads have
    ids. The library below lets each such question come too late."""
    late, armed, asked = (os.path.join(scratch, name) for name in ("late.so", "armed", "asked"))
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", late, "-x", "c", "-"], input=LATE, text=True, check=True)
    target = program("spin", "--threads", 3, "--calls", 5000).wait_ready()
    prefix = ["env", f"LD_PRELOAD={late}", f"ARMED={armed}", f"ASKED={asked}"]
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", prefix=prefix).wait_told()
    open(armed, "w").close()
    target.go().wait_ready()
    until(lambda: os.path.exists(asked) or any(one.stat().st_size for one in os.scandir(tracing.output) if one.name.startswith("stream")), "events that are read")
    expected = dict(counts(target.finish()))
    _, errors = tracing.process.communicate(timeout=30)
    assert tracing.process.returncode == 0, errors
    assert Trace(tracing.output).per_tid("foo_entry") == expected


def sleeps(pid):
    """How often the threads of the process have gone to sleep by themselves."""
    return sum(int(status(f"{pid}/task/{tid}", "voluntary_ctxt_switches")) for tid in os.listdir(f"/proc/{pid}/task"))


def test_block_sees_a_dead_dyntrace(dyntrace, inside):
    """The kernel itself says so (beacon.h). A thread that waits for a dyntrace sleeps 20 times per second, for 10 s."""
    target = inside("spin", "--threads", 2, "--calls", 200_000, "--rounds", 2)  # between the rounds no thread ends
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block", "--buffer-size", "1M")
    tracing.process.kill()
    tracing.process.wait()
    before = sleeps(target.pid)
    target.go().wait_ready()
    assert sleeps(target.pid) - before < 100
    target.go().wait_ready()
    assert [calls for _, calls in counts(target.finish())] == [400_000] * 2


def test_follow_exec(dyntrace, processes, program_path, inside, scratch):
    """A shell inside executes programs, forked and in its own place: all their calls, with the ids of both sides."""
    spin, words = program_path("spin"), os.path.join(scratch, "words")
    os.mkfifo(words)
    shell = processes.start([*INSIDE, "--mount-proc", "sh", "-c", f". {words}"], stdout=subprocess.PIPE, text=True)
    children = f"/proc/{shell.pid}/task/{shell.pid}/children"
    pid = until(lambda: open(children).read().strip(), "the shell")
    until(lambda: in_call(pid, "openat"), "the shell to wait for words")
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "-p", pid, "-o", output, "--follow-exec", "--probe", "foo"],
                              stderr=subprocess.PIPE, text=True)
    assert "tracing sh" in tracing.stderr.readline()
    with open(words, "w") as file:
        file.write(f"{spin} --threads 2 --calls 300; {spin} --calls 40; exec {spin} --threads 3 --calls 500\n")
    printed = shell.communicate(timeout=100)[0]
    errors = tracing.communicate(timeout=100)[1]
    trace = Trace(output)
    assert (trace.names(), trace.lost) == ({"foo": 2 * 300 + 40 + 3 * 500}, 0), errors
    lines = subprocess.run(["babeltrace2", output], capture_output=True, text=True).stdout
    assert {f"vtid = {tid}," : lines.count(f"vtid = {tid},") for tid, _ in counts(printed)} == \
        {f"vtid = {tid},": calls for tid, calls in counts(printed)}


def test_all_of_a_name_inside_and_outside(dyntrace, program, inside, scratch, program_path):
    """-p NAME: processes of three pid namespaces in one trace."""
    own = os.path.join(scratch, f"spaces{os.getpid()}")
    os.symlink(program_path("spin"), own)
    targets = [inside(own, "--threads", 2, "--calls", 300, "--rounds", 1), inside(own, "--calls", 200, "--rounds", 1),
               program(own, "--calls", 100, "--rounds", 1).wait_ready()]
    before = [Snapshot(one.pid) for one in targets]
    tracing = dyntrace.start_trace(targets[0].pid, "--probe", "foo", target=os.path.basename(own))
    assert "and 2 more processes" in tracing.process.stderr.readline()
    for one in targets:
        one.go().wait_ready()
    trace = tracing.stop()
    for one in before:
        one.assert_unchanged()
    assert trace.lost == 0
    by_pid = {one.pid: sum(event.pid == one.pid for event in trace.events) for one in targets}
    assert list(by_pid.values()) == [600, 200, 100]
    assert all(status(one.pid, "State")[0] != "Z" for one in targets)
    for one in targets:
        one.finish()
