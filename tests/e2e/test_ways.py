"""Ways in which people use the commands: pipes, traces that exist, daemons without a session, children that stay."""
import collections
import os
import pwd
import re
import signal
import subprocess

import pytest

from daemon_harness import CALLS, Daemon
from harness import Snapshot, Trace, hits, maps, until


def test_print_into_head_ends(dyntrace, program):
    """-p goes on for ever; its reader doesn't."""
    target = program("spin", "--threads", 1, "--calls", 1000, "--rounds", 1000000).wait_ready()
    output = dyntrace.new_output()
    with subprocess.Popen([dyntrace.path, "trace", "-p", str(target.pid), "--function", "foo", "--print", "-o", output],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tracing:
        assert "Ctrl-C ends it" in tracing.stderr.readline()
        head = subprocess.Popen(["head", "-n", "3"], stdin=tracing.stdout, stdout=subprocess.PIPE, text=True)
        tracing.stdout.close()
        target.go().wait_ready()
        assert head.communicate(timeout=60)[0].count("foo_entry") == 3
        until(lambda: target.go().wait_ready() and tracing.poll() is not None, "dyntrace to end")
        errors = tracing.stderr.read()
    assert tracing.returncode == 0 and "not printed" not in errors
    assert len(Trace(output).events) >= 1000


def test_print_to_standard_error_or_a_file(dyntrace, program_path, scratch):
    words = ["trace", "--probe", "foo", "-q"]
    run = ["--", program_path("spin"), "--calls", "3"]
    result = dyntrace(*words, "-o", dyntrace.new_output(), "--print-to", "/dev/stderr", *run)
    assert result.stderr.count(" foo\n") == 3 and "foo" not in result.stdout
    path = os.path.join(scratch, "lines")
    result = dyntrace(*words, "-o", dyntrace.new_output(), "--print-to", path, *run)
    assert open(path).read().count(" foo\n") == 3 and "foo" not in result.stdout + result.stderr
    assert "cannot write to /no/such/file" in dyntrace(*words, "--print-to", "/no/such/file", *run, status=125).stderr


def test_a_trace_that_exists_becomes_old(dyntrace, program_path, scratch):
    output = os.path.join(scratch, "t")
    for calls in (3, 4, 5):
        dyntrace("trace", "--probe", "foo", "-o", output, "--", program_path("spin"), "--calls", calls)
    assert (len(Trace(output).events), len(Trace(output + ".old").events)) == (5, 4)
    # a request that fails takes nothing away
    dyntrace("trace", "--probe", "no_such_function", "-o", output, "--", program_path("spin"), status=125)
    assert (len(Trace(output).events), len(Trace(output + ".old").events)) == (5, 4)
    # only a trace is moved
    open(os.path.join(output, "notes"), "w").close()
    said = dyntrace("trace", "--probe", "foo", "-o", output, "--", program_path("spin"), status=125).stderr
    assert "exists already, and is no complete trace" in said
    os.remove(os.path.join(output, "notes"))
    open(os.path.join(output + ".old", "notes"), "w").close()
    said = dyntrace("trace", "--probe", "foo", "-o", output, "--", program_path("spin"), status=125).stderr
    assert "can't be moved" in said and len(Trace(output).events) == 5


def test_children_that_stay_are_named(dyntrace, scratch):
    pids, fifo = os.path.join(scratch, "pids"), os.path.join(scratch, "fifo")
    os.mkfifo(fifo)
    script = f"for i in 1 2; do (read x <{fifo}) >/dev/null 2>&1 & echo $! >>{pids}; done"
    try:
        result = dyntrace("trace", "--function", "main", "-o", dyntrace.new_output(), "--", "sh", "-c", script)
        assert "2 forked children still run and are no longer traced" in result.stderr
    finally:
        for pid in map(int, open(pids).read().split()):
            os.kill(pid, signal.SIGKILL)


DAEMON = """
#include <stdio.h>
#include <unistd.h>
volatile int n;
__attribute__((noinline)) void foo(void) { n++; }
int main(int argc, char **argv)
{
	char word;
	foo();
	if (fork())
		return 7;
	if (fork()) /* as daemons do */
		return 0;
	printf("%d\\n", getpid());
	fflush(stdout);
	while (read(0, &word, 1) == 1)
		for (int i = 0; i < 100; i++)
			foo();
	if (argc > 1)
		execv(argv[1], argv + 1);
	return 0;
}
"""


@pytest.fixture(name="daemonise")
def daemon_program(dyntrace, processes, scratch):
    """Starts a traced program that becomes a daemon, whose words it gets: gives dyntrace and the daemon's pid."""
    path = os.path.join(scratch, "daemonise")
    with open(path + ".c", "w") as file:
        file.write(DAEMON)
    subprocess.run(["gcc", "-O1", "-o", path, path + ".c"], check=True)

    def start(*words, program=()):
        tracing = processes.start([dyntrace.path, "trace", *words, "--", path, *program], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=scratch)
        return tracing, int(tracing.stdout.readline())
    return start


def test_daemons_are_followed_to_their_end(dyntrace, daemonise):
    """The command has ended long before; its status is dyntrace's."""
    output = dyntrace.new_output()
    tracing, pid = daemonise("--follow-daemons", "--function", "foo", "-o", output)
    assert "daemonise has ended, processes that it has forked run on; Ctrl-C ends tracing" in tracing.stderr.readline()
    for _ in range(3):
        tracing.stdin.write("x")
        tracing.stdin.flush()
    until(lambda: len(Trace(output).events) == 301, "the daemon's calls")
    assert tracing.poll() is None
    tracing.stdin.close()
    tracing.stdin = None
    errors = tracing.communicate(timeout=60)[1]
    assert tracing.returncode == 7 and "still run" not in errors
    assert collections.Counter(event.pid == pid for event in Trace(output).events) == {True: 300, False: 1}


def test_daemons_are_followed_until_ctrl_c(dyntrace, daemonise):
    output = dyntrace.new_output()
    tracing, pid = daemonise("--follow-daemons", "--function", "foo", "-e", "-o", output)
    assert "has ended" in tracing.stderr.readline()
    assert any("dyntrace-code" in line for line in maps(pid))
    tracing.send_signal(signal.SIGINT)
    assert tracing.wait(60) == 7
    assert not any("memfd:dyntrace" in line for line in maps(pid))
    tracing.stdin.close()  # it has the same standard error
    assert "1 forked child still runs and is no longer traced" in tracing.stderr.read()


def test_daemons_that_execute_programs_are_followed(dyntrace, daemonise, program_path):
    tracing, _ = daemonise("--follow-daemons", "--follow-exec", "--function", "foo", "--tracer", "count",
                           program=[program_path("spin"), "--calls", "40"])
    assert "has ended" in tracing.stderr.readline()
    tracing.stdin.close()
    tracing.stdin = None
    errors = tracing.communicate(timeout=60)[1]
    assert tracing.returncode == 7 and hits(errors) == {"foo": 1, "foo@spin": 40}


def test_without_children_nothing_is_followed(dyntrace):
    assert "has ended" not in dyntrace("trace", "--follow-daemons", "--function", "main", "-o", dyntrace.new_output(), "--", "true").stderr
    assert "not with --no-follow-fork" in dyntrace.fails("trace", "--follow-daemons", "--no-follow-fork", "--function", "main", "--",
                                                         "true", status=2)


def test_a_second_trace_is_told_what_to_do(dyntrace, program):
    """Where the first one can't serve it (test_two_traces.py: where it can)."""
    target = program("spin", "--threads", 1, "--calls", 10).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "overwrite")
    said = dyntrace("trace", "-p", target.pid, "--probe", "foo", status=125).stderr
    assert re.search(r"is being traced already, by dyntrace, pid \d+, which another one can't join \(end that first; .*'dyntrace attach \d+'\)", said)
    tracing.stop()


# ---- beside the daemon -----------------------------------------------------------------------------

class Beside:
    """A `trace -p` of a process that a daemon has."""

    def __init__(self, daemon, pid, *words, output=None):
        self.output = output
        self.process = daemon.processes.start(
            [os.path.join(daemon.build, "dyntrace"), "trace", "-p", str(pid), *(["-o", output] if output else []), *words],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=daemon.scratch,
            env={**os.environ, "DYNTRACE_SOCKET": daemon.socket})
        self.said = self.process.stderr.readline()
        assert "by the daemon that has it" in self.said and "Ctrl-C ends it" in self.said, self.said

    def stop(self, number=signal.SIGINT):
        if number:
            self.process.send_signal(number)
        self.said += self.process.communicate(timeout=60)[1]
        assert self.process.returncode == 0, self.said
        return Trace(self.output) if self.output else None


@pytest.mark.parametrize("first", ["add", "attach"])
def test_several_traces_beside_the_daemon(daemon, dyntrace, spin, first):
    """Each has its own tracepoints, begins and ends when it wants, and has its own events in its own trace."""
    one = spin(threads=2)
    before = Snapshot(one.pid)
    if first == "add":
        daemon.add(f"{one.pid}:foo", "-e")
    else:
        daemon.attach(one.pid)
    a = Beside(daemon, one.pid, "--function", "foo", "-e", output=dyntrace.new_output())
    one.round()
    b = Beside(daemon, one.pid, "--function", "foo", "-t", "tid", "--probe", "foo_many", output=dyntrace.new_output())
    one.round()
    a_trace = a.stop()
    one.round()
    b_trace = b.stop(signal.SIGTERM)
    one.round()
    assert a_trace.names() == {"foo_entry": 4 * CALLS, "foo_exit": 4 * CALLS} and a_trace.lost == 0
    assert b_trace.names() == {"foo_entry": 4 * CALLS, "foo_many": 4} and b_trace.lost == 0
    assert all(event.fields["tid"] == event.tid for event in b_trace.named("foo_entry"))
    assert hits(a.said) == {"foo": 4 * CALLS} and hits(b.said) == {"foo": 4 * CALLS, "foo_many": 4}
    with open(os.path.join(b.output, "metadata")) as file:
        assert file.read().count("event {") == 2  # none of others
    lines = dyntrace("view", a.output).stdout.splitlines()  # our own reader takes it for one of ours
    assert len(lines) == 8 * CALLS
    assert sorted(daemon.hits(one.pid).values()) == ([8 * CALLS] if first == "add" else [])
    daemon("detach", one.pid)
    before.assert_unchanged()


def test_counts_beside_the_daemon(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    counting = Beside(daemon, one.pid, "--tracer", "count", "--function", "foo")
    one.round()
    counting.stop()
    assert hits(counting.said) == {"foo": CALLS} and "traced for" in counting.said
    assert list(daemon.hits(one.pid)) == ["foo"]


def test_a_process_that_ends_beside_the_daemon(daemon, dyntrace, spin):
    """The trace is complete, and what was at -o is kept."""
    one, output = spin(rounds=3), dyntrace.new_output()
    dyntrace("trace", "--probe", "main", "-o", output, "--", "true")
    daemon.add(f"{one.pid}:foo")
    tracing = Beside(daemon, one.pid, "--probe", "foo", output=output)
    one.round()
    one.finish()
    assert tracing.stop(number=0).names() == {"foo": 3 * CALLS}
    assert Trace(output + ".old").names() == {"main": 1}


def test_refusals_beside_the_daemon(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    said = daemon.fails("trace", "-p", one.pid, "--function", "foo", "--print", status=125)
    assert said.startswith(f"--print: not beside the daemon, which traces process {one.pid} already (leave it out")
    assert "no function 'nosuch'" in daemon.fails("trace", "-p", one.pid, "--function", "foo", "--function", "nosuch", status=125)
    assert list(daemon.hits(one.pid)) == ["foo"]  # the first request was taken back


# ---- the daemon ----------------------------------------------------------------------------------

def test_status_tells_of_processes_that_are_stopped(daemon, spin):
    one, two = spin(), spin()
    for target in (one, two):
        daemon.add(f"{target.pid}:foo")
    assert "recording:   on\n" in daemon("status").stdout
    daemon("stop", one.pid)
    assert re.search(rf"^recording:   on, but stopped in {one.pid} \(\S+\)$", daemon("status").stdout, re.MULTILINE)
    assert [text.split()[0] for text in daemon.json("status")["stopped"]] == [str(one.pid)]
    daemon("start", one.pid)
    assert "recording:   on\n" in daemon("status").stdout and daemon.json("status")["stopped"] == []


def test_detach_of_a_preloaded_process_without_tracepoints(daemon, build, processes):
    """Nothing is there to remove: that is no error; its agent stays, and can be used again."""
    target = processes.start(["sleep", "1000"], env=dict(os.environ, LD_PRELOAD=os.path.join(build, "libdyntrace-agent.so"),
                                                          DYNTRACE_SOCKET=daemon.socket))
    until(lambda: [one["pid"] for one in daemon.json("list-processes")] == [target.pid], "it to register")
    assert daemon("detach", target.pid).stderr == ""
    said = daemon("stop", target.pid, status=1).stderr
    assert f"process {target.pid} (sleep) has no tracepoints yet ('dyntrace add {target.pid}:LOC' adds one)" in said
    assert daemon.add(f"{target.pid}:nanosleep@libc.so.6") == "nanosleep"
    daemon("detach", target.pid)


def test_the_refusal_names_the_daemons_group(build, processes, scratch, dyntrace):
    """Of --group, whatever it is called."""
    if os.geteuid() != 0:
        return
    copy = dyntrace.for_others()
    daemon = Daemon(build, processes, scratch, words=["--group", "games"]).start()
    nobody = pwd.getpwnam("nobody")
    said = subprocess.run([copy, "status", "--socket", daemon.socket], capture_output=True, text=True, user=nobody.pw_uid,
                          group=nobody.pw_gid, extra_groups=[], timeout=60)
    assert "only root and members of its group (games) may" in said.stderr and said.returncode != 0
    daemon.process.send_signal(signal.SIGTERM)
    daemon.process.wait(timeout=60)


def test_without_a_runtime_folder(dyntrace):
    """su and cron set none: there is a place all the same."""
    if os.geteuid() != 0:
        return
    copy, nobody = dyntrace.for_others(), pwd.getpwnam("nobody")
    said = subprocess.run([copy, "status"], capture_output=True, text=True, user=nobody.pw_uid, group=nobody.pw_gid,
                          extra_groups=[], timeout=60, env={"PATH": os.environ["PATH"]})
    assert f"no daemon answers at /tmp/dyntrace-{nobody.pw_uid}/dyntrace.sock" in said.stderr


def test_add_tells_of_traps(daemon, program):
    """Where only a trap fits, the user learns what it costs."""
    target = program("traps", "resetting").wait_ready()
    result = daemon("add", f"{target.pid}:lone", status=None)
    assert result.returncode == 0
    assert "lone is placed by a trap, for want of room: each hit is a signal, about 3 us" in result.stderr
    assert daemon("add", f"{target.pid}:main").stderr == ""
    daemon("detach", target.pid)
    target.process.kill()
