"""--follow-exec: programs that the target and its children execute are traced, too, into the same trace. Counts are exact."""
import json
import os
import re
import shutil
import signal
import subprocess

import pytest

from harness import Snapshot, Trace, counts, hits, maps, status, summary_rows, until

PYTHON = "/usr/bin/python3"


def rows(errors):
    """The summary's table: {tracepoint: hits}."""
    return hits(errors)


def followed(dyntrace, *words, **options):
    return dyntrace.trace("--follow-exec", *words, **options)


def test_shell(dyntrace, program_path):
    """Programs forked by the shell, in its own place, and repeatedly: every call of every thread."""
    spin = program_path("spin")
    script = f"{spin} --threads 2 --calls 300; {spin} --calls 40; exec {spin} --threads 3 --calls 500"
    result, trace = followed(dyntrace, "--probe", "foo", "--", "sh", "-c", script)
    assert trace.per_tid("foo") == dict(counts(result.stdout))
    assert trace.lost == 0
    assert rows(result.stderr) == {"foo@spin": 2 * 300 + 40 + 3 * 500}


def test_names_and_programs(dyntrace):
    """main of each executed program, in order; the old program's events stay."""
    result, trace = followed(dyntrace, "--function", "main", "--", "sh", "-c", "ls -d /; env true; exec ls -d /")
    assert result.stdout == "/\n/\n"
    assert rows(result.stderr) == {"main": 1, "main@ls": 2, "main@env": 1, "main@true": 1}
    assert trace.names() == {"main_entry": 5}
    pids = [event.pid for event in trace.events]
    assert len(set(pids)) == 3 and pids[0] == pids[4] and pids[2] == pids[3]


def test_events_of_one_program_have_one_type(dyntrace):
    """(F2) Fifty times the same program: the metadata doesn't grow."""
    _, trace = followed(dyntrace, "--function", "main", "-o", os.path.join(dyntrace.scratch, "many"), "--", "sh", "-c",
                        "i=0; while [ $i -lt 50 ]; do /bin/true; i=$((i+1)); done",
                        output=os.path.join(dyntrace.scratch, "many"))
    assert trace.names() == {"main_entry": 51}
    with open(os.path.join(dyntrace.scratch, "many", "metadata")) as file:
        assert file.read().count("event {") == 2


def test_make(dyntrace, program_path, scratch):
    """Several at a time, by posix_spawn or vfork."""
    with open(os.path.join(scratch, "Makefile"), "w") as file:
        file.write("all: 1 2 3 4 5 6\n1 2 3 4 5 6:\n\t@" + program_path("spin") + " --threads 2 --calls 10$@\n")
    result, trace = followed(dyntrace, "--probe", "foo", "--", "make", "-s", "-j4", cwd=scratch)
    assert trace.per_tid("foo") == dict(counts(result.stdout))
    assert rows(result.stderr) == {"foo@spin": 2 * sum(100 + i for i in range(1, 7))}


def test_python(dyntrace, program_path):
    """subprocess, system, a command that isn't there, and at last an exec of its own, from a thread."""
    spin = program_path("spin")
    script = f"""
import os, subprocess, threading
for calls in (10, 20, 30):
    subprocess.run(["{spin}", "--calls", str(calls)], check=True)
os.system("{spin} --calls 40")
try:
    subprocess.run(["no-such-command"])
except FileNotFoundError:
    print("1 0", flush=True)
threading.Thread(target=os.execv, args=("{spin}", ["spin", "--calls", "50"])).start()
"""
    result, trace = followed(dyntrace, "--probe", "foo", "--", PYTHON, "-c", script)
    expected = dict(counts(result.stdout))
    assert expected.pop(1) == 0
    assert trace.per_tid("foo") == expected
    assert sorted(expected.values()) == [10, 20, 30, 40, 50]


@pytest.mark.parametrize("mode", ["discard", "block", "overwrite"])
def test_modes(dyntrace, program_path, mode):
    """(F1) One pool for all programs."""
    spin = program_path("spin")
    result, trace = followed(dyntrace, "--mode", mode, "--probe", "foo", "--", "sh", "-c",
                             f"{spin} --calls 2000 & {spin} --calls 3000 & wait; exec {spin} --calls 100")
    assert trace.per_tid("foo") == dict(counts(result.stdout))
    assert trace.lost == 0


def test_exits(dyntrace, program_path):
    spin = program_path("spin")
    result, trace = followed(dyntrace, "--function", "foo", "-e", "--", "sh", "-c", f"{spin} --calls 70; {spin} --calls 80")
    assert trace.names() == {"foo_entry": 150, "foo_exit": 150}
    assert rows(result.stderr) == {"foo@spin": 150}


def test_threads_that_exec_again_and_again(dyntrace, program):
    """From any of seven threads, thirty times, attached from outside."""
    target = program("execer", "--rounds", 30).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--follow-exec", "--function", "main")
    target.finish()
    _, errors = tracing.process.communicate(timeout=50)
    assert tracing.process.returncode == 0, errors
    trace = Trace(tracing.output)
    assert trace.names() == {"main_entry": 30}
    assert {event.pid for event in trace.events} == {target.pid}


def test_without_the_option(dyntrace, program_path):
    _, trace = dyntrace.trace("--function", "main", "--", "sh", "-c", "ls -d /; exec ls -d /")
    assert trace.names() == {"main_entry": 1}


def test_left_clean(dyntrace, program_path, processes):
    """Ctrl-C: the executed programs are as if they had never been traced."""
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "--follow-exec", "-o", output, "--function", "main", "--",
                               "sh", "-c", "env sleep 1000 & echo $!; wait"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    pid = int(tracing.stdout.readline())
    until(lambda: os.readlink(f"/proc/{pid}/exe").endswith("sleep"), "sleep to begin")
    until(lambda: len(Trace(output).events) == 3, "all three mains")
    assert [line for line in maps(pid) if "dyntrace-code" in line]
    tracing.send_signal(signal.SIGTERM)
    tracing.wait(timeout=30)
    before = Snapshot(pid)
    assert not [line for line in before.maps if "memfd:dyntrace" in line]
    fresh = processes.start(["sleep", "1000"])
    until(lambda: os.readlink(f"/proc/{fresh.pid}/exe").endswith("sleep"), "another sleep")
    until(lambda: status(fresh.pid, "State").startswith("S"), "it to sleep")
    assert sorted(before.text.values()) == sorted(Snapshot(fresh.pid).text.values())


def test_controller_killed(dyntrace, program_path, processes):
    """Programs start without the controller, at once."""
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "--follow-exec", "-o", output, "--function", "main", "--",
                               "sh", "-c", "echo ready; read x; /bin/echo one; exec echo two"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert tracing.stdout.readline() == b"ready\n"
    tracing.kill()
    tracing.wait()
    tracing.stdin.write(b"\n")
    tracing.stdin.close()
    assert tracing.stdout.read() == b"one\ntwo\n"
    Trace(output)


# ---- limits ------------------------------------------------------------------------------------------

def test_requests_no_program_has(dyntrace):
    result, trace = followed(dyntrace, "--function", "main", "--function", "no_such_function", "--", "sh", "-c",
                             "ls -d /; true")
    assert trace.names() == {"main_entry": 2}
    assert "dyntrace: in no program: no function 'no_such_function'" in result.stderr


def test_static_program_without_names(dyntrace, program_path):
    """The program is traced, but programs that it executes can't be: dyntrace says so."""
    if not shutil.which("strip"):
        pytest.skip("no strip")
    bare = os.path.join(dyntrace.scratch, "bare")
    subprocess.run(["strip", "-o", bare, program_path("hello_static")], check=True)
    result, trace = followed(dyntrace, "--function", "main", "--", "sh", "-c", f"{bare}; true")
    assert "bare" in result.stderr and "execve can't be watched" in result.stderr
    assert trace.names()["main_entry"] == 2


def test_setuid_program_keeps_its_rights(dyntrace, program_path):
    """As a user who isn't root: the program runs with its set-user-id rights, untraced, and dyntrace says so."""
    if os.getuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    probe = subprocess.run(["findmnt", "-no", "OPTIONS", "-T", dyntrace.scratch], capture_output=True, text=True)
    home = dyntrace.scratch if "nosuid" not in probe.stdout else "/var/tmp"
    whoami = os.path.join(home, f"whoami-{os.getpid()}")
    shutil.copy(shutil.which("id"), whoami)
    os.chmod(whoami, 0o4755)
    os.chmod(dyntrace.scratch, 0o777)
    try:
        output = dyntrace.new_output()
        result = subprocess.run(["setpriv", "--reuid", "nobody", "--clear-groups", dyntrace.for_others(), "trace", "--follow-exec",
                                 "-o", output, "--function", "main", "--", "sh", "-c", f"{whoami} -u; true"],
                                capture_output=True, text=True, cwd=dyntrace.scratch)
        assert result.stdout == "0\n", result.stderr
        assert "not traced: it executes a program with other rights (setuid)" in result.stderr
        assert rows(result.stderr) == {"main": 1}
    finally:
        os.unlink(whoami)


def test_other_tracers_are_refused(dyntrace):
    assert "only with ctf and count" in dyntrace.fails("trace", "--follow-exec", "--tracer", "log", "--function", "main", "--",
                                                       "true", status=2)


# ---- counts and backtraces ---------------------------------------------------------------------------

def test_counts(dyntrace, program_path):
    """Each program counts in memory of its own; one program begun twice, forks and an exec of its own are added up."""
    spin = program_path("spin")
    script = f"{spin} --threads 2 --calls 300; {spin} --calls 40 & wait; ls -d /; exec {spin} --threads 3 --calls 500"
    result = dyntrace("trace", "--follow-exec", "--tracer", "count", "--function", "foo", "--function", "main", "--", "sh", "-c", script)
    assert rows(result.stderr) == {"main": 1, "main@ls": 1, "main@spin": 3, "foo@spin": 2 * 300 + 40 + 3 * 500}
    assert not os.listdir(dyntrace.scratch)  # no trace


def test_counts_by_key(dyntrace, program_path):
    """Rows with the same keys of several programs become one, also when the programs are over."""
    spin = program_path("spin")
    script = f"{spin} --threads 2 --calls 300; {spin} --calls 40 & wait; exec {spin} --threads 3 --calls 500"
    for words in ([], ["-e"]):
        result = dyntrace("trace", "--follow-exec", "--tracer", "count", "--function", "foo", "--by", "$comm", *words, "--", "sh", "-c", script)
        assert re.search(r"^spin +(\d+)( |$)", result.stderr, re.M)[1] == str(2 * 300 + 40 + 3 * 500), result.stderr


def test_counts_with_durations(dyntrace, program_path):
    spin = program_path("spin")
    result = dyntrace("trace", "--follow-exec", "--tracer", "count", "--function", "foo", "-e", "--", "sh", "-c",
                      f"{spin} --calls 70; {spin} --calls 80")
    numbers = summary_rows(result.stderr)["foo@spin"]
    assert numbers["hits"] == "150" and (numbers["unwound"], numbers["inside"], numbers["missed"]) == ("0", "0", "0")
    assert all(numbers[key] != "-" for key in ("total", "mean", "p50", "p99", "max"))


def frames_of(line):
    """The names of a printed event's backtrace, without offsets."""
    return [re.sub(r"\+0x.*", "", frame) for frame in re.search(r"backtrace = \[ (.*) \]", line)[1].split(", ")]


def test_backtraces(dyntrace, program_path, scratch):
    """Names of each program's own files, at its own addresses: two programs in one process, one program twice, and a fork."""
    fork = os.path.join(scratch, "forks")
    with open(fork + ".c", "w") as file:
        file.write("#include <unistd.h>\n#include <sys/wait.h>\nvolatile int n;\n"
                   "__attribute__((noinline)) void foo(void) { n++; }\n__attribute__((noinline)) void by_child(void) { foo(); n++; }\n"
                   "int main(void) { if (!fork()) { by_child(); _exit(0); } wait(0); foo(); return n != 1; }\n")
    subprocess.run(["gcc", "-O1", "-o", fork, fork + ".c"], check=True)
    spin, lines = program_path("spin"), os.path.join(scratch, "lines")
    _, trace = followed(dyntrace, "--function", "foo", "-t", "backtrace", "-o", os.path.join(scratch, "t"), "--print-to", lines,
                        "--", "sh", "-c", f"{spin} --calls 2; {spin} --calls 1; {fork}; exec {fork}", output=os.path.join(scratch, "t"))
    assert trace.names() == {"foo_entry": 7}
    viewed = dyntrace("view", os.path.join(scratch, "t")).stdout.splitlines()
    chains = [["foo", "foo_many", "main"]] * 3 + [["foo", "by_child", "main"], ["foo", "main"]] * 2
    assert [frames_of(line)[:len(chain)] for line, chain in zip(viewed, chains)] == chains
    assert len(viewed) == 7 and open(lines).read().splitlines() == viewed
    by_others = dyntrace("view", "--json", os.path.join(scratch, "t")).stdout.splitlines()
    assert [frame.split("+")[0] for frame in json.loads(by_others[3])["fields"]["backtrace"][:2]] == ["foo", "by_child"]


def test_leaving_a_shell_that_executes_all_the_time(dyntrace, processes):
    """Threads that ask while dyntrace leaves whether their next program is followed don't wait for an answer: no memory stays."""
    shell = processes.start(["sh", "-c", "echo ready; while :; do /bin/true; done"], stdout=subprocess.PIPE, text=True)
    assert shell.stdout.readline() == "ready\n"
    before = Snapshot(shell.pid)
    for _ in range(3):
        result = dyntrace("trace", "-p", shell.pid, "--follow-exec", "--probe", "malloc@libc.so.6", "-o", dyntrace.new_output(), "--for", "0.1")
        assert "stays in process" not in result.stderr, result.stderr
    shell.send_signal(signal.SIGSTOP)
    before.assert_unchanged(busy=True)
    shell.kill()
