"""The daemon and its commands, on programs that count their own calls."""
import json
import os
import re
import signal
import subprocess

import pytest
from daemon_harness import CALLS, alive, helpers
from harness import Snapshot, Trace, comm_of, counts, maps, until


# ---- the daemon ----------------------------------------------------------------------------------

def test_status_tells_daemon_user_targets_and_traces(daemon, spin):
    status = daemon.json("status")
    assert status == {"version": "0.1.0", "pid": daemon.process.pid, "user": "root", "socket": daemon.socket,
                      "output": daemon.output, "recording": True, "targets": 0, "tracepoints": 0, "waiting": 0,
                      "clients": 1, "stopped": [], "profiles": 0, "profile_errors": [], "overhead": []}
    text = daemon("status").stdout
    assert f"pid {daemon.process.pid}, user root" in text and f"traces:      {daemon.output}\n" in text
    one = spin()
    daemon.add(f"{one.pid}:foo")
    assert daemon.json("status")["targets"] == 1
    assert daemon.json("status")["tracepoints"] == 1


def test_daemonize_returns_when_it_answers(build, scratch, dyntrace):
    socket = os.path.join(scratch, "run", "s")
    command = [os.path.join(build, "dyntraced"), "--daemonize", "--socket", socket, "--output", scratch + "/traces"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    status = json.loads(dyntrace("status", "--json", "--socket", socket).stdout)
    pid = status["pid"]
    try:
        with open(f"/proc/{pid}/stat") as file:
            parent, _, session, terminal = file.read().rpartition(")")[2].split()[1:5]
        assert session == str(pid) and terminal == "0"  # of its own, with no terminal
        assert os.readlink(f"/proc/{pid}/cwd") == "/"
        assert "dyntraced 0.1.0 at" in open(socket + ".log").read()
        again = subprocess.run(command, capture_output=True, text=True, timeout=20)
        assert again.returncode == 1
        assert again.stderr == f"dyntraced: a daemon runs already at {socket} ('dyntrace status' asks it)\n"
    finally:
        os.kill(pid, signal.SIGTERM)
    until(lambda: not alive(pid), "the daemon's end")
    assert not os.path.exists(socket)


def test_one_daemon_a_socket_and_a_stale_socket_is_replaced(daemon, build):
    command = [os.path.join(build, "dyntraced"), "--socket", daemon.socket, "--output", daemon.output]
    second = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert second.returncode == 1 and "a daemon runs already" in second.stderr
    daemon("status")
    daemon.kill()
    assert os.path.exists(daemon.socket)
    daemon.start()
    daemon("status")


def test_two_daemons_at_two_sockets_know_nothing_of_each_other(new_daemon, scratch, spin):
    folders = [os.path.join(scratch, name) for name in ("a", "b")]
    for folder in folders:
        os.mkdir(folder)
    first, second = (new_daemon(folder=folder).start() for folder in folders)
    one = spin()
    first.attach(one.pid)
    assert [process["pid"] for process in first.json("list-processes")] == [one.pid]
    assert second.json("list-processes") == []
    worker = first.workers(one.pid)[0]
    assert second.fails("attach", one.pid) == \
        f"process {one.pid} is being traced already, by dyntraced-work, pid {worker} " \
        f"(add tracepoints there: 'dyntrace add {one.pid}:LOC'; or 'dyntrace detach {one.pid}' first)"


def test_help_and_version_and_wrong_words(build, scratch):
    program = os.path.join(build, "dyntraced")

    def run(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, timeout=20)
    assert run("--version").stdout == "dyntraced 0.1.0\n"
    assert run("--help").stdout.startswith("dyntraced: daemon that traces programs")
    assert max(map(len, run("--help").stdout.splitlines())) <= 100
    assert (run("--nonsense").returncode, run("--nonsense").stderr) == \
        (2, "dyntraced: unknown option '--nonsense' (--help lists them)\n")
    assert run("word").returncode == 2
    wrong = run("--group", "no-such-group", "--socket", scratch + "/s", "--output", scratch + "/o")
    assert wrong.returncode == 1 and wrong.stderr == "dyntraced: no group 'no-such-group'\n"


@pytest.mark.parametrize("words", [["attach", "1"], ["add", "1:foo"], ["rm", "1:foo"], ["enable", "1:foo"],
                                   ["list-processes"], ["list-tracepoints", "1"], ["start"], ["status"], ["watch"],
                                   ["enable-event", "x", "-u", "--pid", "1", "--probe", "foo"], ["load", "1", "x.so"]])
def test_without_a_daemon_commands_say_how_to_start_one(dyntrace, scratch, words):
    error = dyntrace.fails(*words, "--socket", scratch + "/none")
    assert error == f"no daemon answers at {scratch}/none (start one with 'dyntraced --daemonize', or use 'dyntrace trace', " \
        "which needs none)"


# ---- attach and detach ------------------------------------------------------------------------------

def test_attach_and_detach_leave_the_process_as_it_was(daemon, spin):
    one = spin()
    before = Snapshot(one.pid)
    daemon.attach(one.pid)
    assert "dyntrace-code" in "".join(maps(one.pid))
    groups = [line.split(":", 2)[1:] for line in open(f"/proc/{one.pid}/cgroup").read().splitlines()]
    group = dict(groups).get("name=systemd", dict(groups).get(""))
    listed = daemon.json("list-processes")[0]
    container = listed.pop("container", "-")  # where the tests themselves run in one
    assert listed == {"pid": one.pid, "name": "spin", "user": "root", "loaded": "injected", "tracepoints": 0, "cgroup": group}
    line = daemon("list-processes").stdout.splitlines()[1]
    assert line.split() == [str(one.pid), "spin", "root", "injected", "0", container]
    daemon.attach(one.pid)  # again is no error
    one.round()
    daemon("detach", one.pid)
    before.assert_unchanged()
    assert daemon.json("list-processes") == []
    assert daemon("list-processes").stdout == ""
    until(lambda: not helpers("worker", one.pid), "the worker's end")
    assert not os.path.exists(daemon.output) or os.listdir(daemon.output) == []  # nothing was recorded
    daemon.attach(one.pid)
    daemon("detach", one.pid)
    before.assert_unchanged()
    one.finish()


def test_by_name_and_several_of_one_name(daemon, spin, own_name):
    one = spin(name=own_name)
    daemon.attach(own_name)
    assert [process["pid"] for process in daemon.json("list-processes")] == [one.pid]
    daemon("detach", own_name)
    two = spin(name=own_name)
    error = daemon.fails("attach", own_name)
    first, second = f"{one.pid} ({own_name})", f"{two.pid} ({own_name})"
    begin = f"2 processes are called '{own_name}': use the pid of one, or --all: "
    assert error in (begin + f"{first}, {second}", begin + f"{second}, {first}")
    daemon.targets |= {str(one.pid), str(two.pid)}
    daemon("attach", "--all", own_name)
    assert [process["pid"] for process in daemon.json("list-processes")] == sorted([one.pid, two.pid])
    names = daemon("add", "--all", f"{own_name}:foo").stdout.splitlines()
    assert sorted(names) == sorted(f"{pid}:foo" for pid in (one.pid, two.pid))
    one.round()
    assert daemon.hits(one.pid) == {"foo": CALLS} and daemon.hits(two.pid) == {"foo": 0}
    daemon("detach", "--all", own_name)
    assert daemon.json("list-processes") == []


@pytest.mark.parametrize("words, text", [
    (["attach", "99999999"], "no process 99999999"),
    (["attach", "0"], "no process 0"),
    (["attach", "no-such-program"], "no process is called 'no-such-program' (give its pid or its program's name)"),
    (["add", "no-such-program:foo"], "no process is called 'no-such-program' (give its pid, or --wait for it)"),
    (["attach", "2"], "process 2 (kthreadd) is a kernel thread"),
])
def test_targets_that_are_refused(daemon, words, text):
    if "kthreadd" in text and comm_of(2) != "kthreadd":
        pytest.skip("no kernel threads in this pid namespace")
    assert daemon.fails(*words).startswith(text)
    assert daemon.json("list-processes") == []


def test_commands_for_a_process_without_the_agent(daemon, spin):
    one = spin()
    expected = f"process {one.pid} (spin) doesn't have the agent ('dyntrace attach {one.pid}' injects it)"
    for words in (["list-tracepoints", one.pid], ["rm", f"{one.pid}:foo"], ["flush", one.pid]):
        assert daemon.fails(*words) == expected
    assert daemon.fails("detach", one.pid) == f"process {one.pid} is not traced"


@pytest.mark.parametrize("words, text", [
    (["attach"], "attach: give one TARGET (a pid or a name)"),
    (["add"], "add: give TARGET:LOC and optionally a tracer (default: ctf)"),
    (["add", "foo"], "add: 'foo' is not TARGET:LOC (a pid or name, a colon, and a location)"),
    (["rm", "foo:"], "rm: 'foo:' is not TARGET:NAME (a pid or name, a colon, and a tracepoint's name)"),
    (["enable-event", "x", "-u"], "enable-event: no process (give --pid PID)"),
    (["add-context", "-u", "--pid", "1", "-t", "regs"], "add-context: no event (give -e NAME)"),
    (["remove-context", "-u", "--pid", "1", "-e", "hit"], "remove-context: no context (give -t TYPE)"),
])
def test_wrong_usage(daemon, words, text):
    assert daemon.fails(*words, status=2) == text


# ---- tracepoints ---------------------------------------------------------------------------------------

def test_add_prints_the_name_and_every_hit_is_recorded(daemon, spin):
    one = spin()
    assert daemon.add(f"{one.pid}:foo") == "foo"
    assert daemon.add(f"{one.pid}:foo", "ctf") == "foo-2"
    assert daemon.add(f"{one.pid}:foo", "-n", "mine", "-f") == "mine"
    one.round()
    one.round()
    assert daemon.hits(one.pid) == {"foo": 2 * CALLS, "foo-2": 2 * CALLS, "mine": 2 * CALLS}
    trace = daemon.finish(one.pid)
    assert trace.names() == {"foo": 2 * CALLS, "foo-2": 2 * CALLS, "mine_entry": 2 * CALLS}
    assert trace.lost == 0
    assert counts(one.finish())[0] == (one.pid, 20 * CALLS)


def test_entry_and_exit_by_address_with_context_and_filter(daemon, spin, dyntrace):
    one = spin()
    symbols = json.loads(dyntrace("list-symbols", "--json", one.pid, "foo").stdout)
    address = next(symbol["address"] for symbol in symbols if symbol["module"] == "spin")
    assert daemon.add(f"{one.pid}:{address:#x}", "-e", "-n", "call", "-t", "tid", "-t", "reg:rdi") == "call"
    one.round()
    listed = daemon.json("list-tracepoints", one.pid)[0]
    assert listed["address"] == address and listed["kind"] == "entry and exit" and listed["state"] == "enabled"
    assert listed["contexts"] == ["tid", "reg:rdi"] and listed["hits"] == CALLS and listed["lost"] == 0
    assert listed["tracer"] == "ctf" and listed["location"] == f"{address:#x}" and listed["bytes"] > 0
    assert listed["placed"] in ("jump", "short-jump", "pun")
    text = daemon("list-tracepoints", "-a", one.pid).stdout
    assert f"0x{address:x}" in text and "tid, reg:rdi" in text and re.search(rf"hits +{CALLS}\b.*lost 0", text)
    trace = daemon.finish(one.pid)
    assert trace.names() == {"call_entry": CALLS, "call_exit": CALLS}
    assert {event.fields["tid"] for event in trace.named("call_entry")} == {one.pid}


def test_rm_takes_names_and_globs_and_the_name_is_free_again(daemon, spin):
    one = spin()
    before = Snapshot(one.pid)
    for name in ("a1", "a2", "b"):
        daemon.add(f"{one.pid}:foo", "-n", name)
    daemon("rm", f"{one.pid}:a*")
    one.round()
    assert daemon.hits(one.pid) == {"b": CALLS}
    assert daemon.add(f"{one.pid}:foo", "-n", "a1") == "a1"
    one.round()
    assert daemon.hits(one.pid) == {"b": 2 * CALLS, "a1": CALLS}
    assert "a2" in daemon.fails("rm", f"{one.pid}:a2")
    daemon("rm", f"{one.pid}:*")
    assert daemon.json("list-tracepoints", one.pid) == []
    trace = daemon.finish(one.pid)
    assert trace.names() == {"b": 2 * CALLS, "a1": CALLS}
    before.assert_unchanged()


def test_disable_and_enable_without_a_stop(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    one.round()
    daemon("disable", f"{one.pid}:foo")
    assert daemon.json("list-tracepoints", one.pid)[0]["state"] == "disabled"
    one.round()
    daemon("enable", f"{one.pid}:f*")
    one.round()
    daemon.add(f"{one.pid}:foo", "-n", "off", "--disabled")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": 3 * CALLS}


def test_stop_and_start_of_one_target_and_of_all(daemon, spin):
    one, two = spin(), spin()
    for each in (one, two):
        daemon.add(f"{each.pid}:foo")
        each.round()
    daemon("stop", one.pid)
    one.round(), two.round()
    daemon("stop")
    assert daemon.json("status")["recording"] is False
    one.round(), two.round()
    daemon("start", one.pid)
    one.round(), two.round()
    daemon("start")
    one.round(), two.round()
    assert len(daemon.finish(one.pid).events) == 3 * CALLS
    assert len(daemon.finish(two.pid).events) == 3 * CALLS


def test_a_daemon_that_begins_stopped_records_nothing_before_start(new_daemon, spin):
    daemon = new_daemon("--stopped").start()
    one = spin()
    daemon.add(f"{one.pid}:foo")
    one.round()
    assert daemon.hits(one.pid) == {"foo": 0}
    daemon("start")
    one.round()
    daemon("stop")
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}


def test_flush_brings_events_to_the_disk(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    one.round()
    daemon("flush", one.pid)
    assert len(Trace(daemon.trace_of(one.pid)).events) == CALLS
    one.round()
    daemon("flush")
    assert len(Trace(daemon.trace_of(one.pid)).events) == 2 * CALLS


def test_traces_of_several_targets_lie_side_by_side_on_one_clock(daemon, spin):
    several = [spin() for _ in range(3)]
    for one in several:
        daemon.add(f"{one.pid}:foo", "-n", f"foo{one.pid}")
    for one in several + several:
        one.round()
    daemon("flush")
    order = [event.name for event in Trace(daemon.output).events]
    expected = [f"foo{one.pid}" for one in several + several for _ in range(CALLS)]
    assert order == expected
    for name in os.listdir(daemon.output):
        assert re.fullmatch(r"spin-\d+-\d{8}-\d{6}", name)


def test_ctf_directory_of_the_clients_choice_and_no_second_one(daemon, spin, scratch):
    one = spin()
    daemon.add(f"{one.pid}:foo", "ctf", "here")
    assert daemon.trace_of(one.pid) == os.path.join(scratch, "here")
    assert daemon.fails("add", f"{one.pid}:foo", "ctf", "there") == \
        f"process {one.pid} is already recorded to {scratch}/here, with all its tracepoints (detach it to begin " \
        "another trace)"
    one.round()
    assert daemon.finish(one.pid).names() == {"foo": CALLS}
    error = daemon.fails("add", f"{one.pid}:foo", "ctf", "here")
    assert "here" in error and "exist" in error
    error = daemon.fails("add", f"{one.pid}:foo", "ctf", "no/such/folder")
    assert "no/such/folder" in error and "the directory above it does not exist" in error


def test_the_lttng_words(daemon, spin):
    one = spin()
    daemon.targets.add(str(one.pid))
    assert daemon("enable-event", "hit", "-u", "--pid", one.pid, "--probe", "foo").stdout == ""
    daemon("enable-event", "work", "-u", "--pid", one.pid, "--function", "foo_many", "-e")
    one.round()
    daemon("disable-event", "hit", "-u", "--pid", one.pid)
    one.round()
    daemon("enable-event", "hit", "-u", "--pid", one.pid)
    daemon("add-context", "-u", "-e", "hit", "--pid", one.pid, "-t", "tid")
    one.round()
    trace = daemon.finish(one.pid)
    assert trace.names() == {"hit": 2 * CALLS, "work_entry": 3, "work_exit": 3}
    assert [event.fields.get("tid") for event in trace.named("hit")] == [None] * CALLS + [one.pid] * CALLS


def test_contexts_that_are_taken_away(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "hit", "-t", "cpu")
    daemon.add(f"{one.pid}:foo_many", "-n", "work")
    words = ["-u", "--pid", one.pid]
    daemon("add-context", *words, "-e", "hit", "-t", "tid")
    one.round()
    daemon("remove-context", *words, "-e", "*", "-t", "cpu")  # of those that have it
    one.round()
    daemon("remove-context", *words, "-e", "hit", "-t", "tid")
    assert daemon.fails("remove-context", *words, "-e", "hit", "-t", "tid", status=2) == \
        "remove-context: hit: has no context tid (-t as it was given then)"
    one.round()
    assert [tp.get("contexts", []) for tp in daemon.json("list-tracepoints", one.pid)] == [[], []]
    trace = daemon.finish(one.pid)
    assert trace.names() == {"hit": 3 * CALLS, "work": 3} and trace.lost == 0
    assert [sorted({"tid", "cpu"} & set(event.fields)) for event in trace.named("hit")] == \
        [["cpu", "tid"]] * CALLS + [["tid"]] * CALLS + [[]] * CALLS


def test_tracepoints_that_share_a_place_with_exits_change_after_calls_were_recorded(daemon, spin):
    """Return stubs are bound by then: they must not bypass the change."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "hit")
    daemon.add(f"{one.pid}:foo", "-n", "work", "-e")
    one.round()
    daemon("add-context", "-u", "-e", "hit", "--pid", one.pid, "-t", "tid")
    one.round()
    daemon.add(f"{one.pid}:foo", "-n", "third")
    daemon("disable", f"{one.pid}:hit")
    one.round()
    assert daemon.hits(one.pid) == {"hit": 2 * CALLS, "work": 3 * CALLS, "third": CALLS}
    daemon("rm", f"{one.pid}:hit")
    one.round()
    assert daemon.hits(one.pid) == {"work": 4 * CALLS, "third": 2 * CALLS}
    trace = daemon.finish(one.pid)
    assert trace.names() == {"hit": 2 * CALLS, "work_entry": 4 * CALLS, "work_exit": 4 * CALLS, "third": 2 * CALLS}
    assert [event.fields.get("tid") for event in trace.named("hit")] == [None] * CALLS + [one.pid] * CALLS


def test_lttng_passes_the_rest_on(dyntrace, scratch, daemon, spin):
    fake = os.path.join(scratch, "bin")
    os.mkdir(fake)
    with open(os.path.join(fake, "lttng"), "w") as file:
        file.write('#!/bin/sh\necho "real $*"\nexit 7\n')
    os.chmod(os.path.join(fake, "lttng"), 0o755)
    env = {**os.environ, "PATH": fake + ":" + os.environ["PATH"]}
    result = dyntrace("lttng", "create", "my session", "--live", status=7, env=env)
    assert result.stdout == "real create my session --live\n"
    assert dyntrace("lttng", "enable-event", "-k", "sched_switch", status=7, env=env).stdout == \
        "real enable-event -k sched_switch\n"
    one = spin()
    daemon.targets.add(str(one.pid))
    daemon("lttng", "enable-event", "hit", "-u", "--pid", one.pid, "--probe", "foo", "--tracer", "ctf")
    assert list(daemon.hits(one.pid)) == ["hit"]
    nothing = {**os.environ, "PATH": scratch}
    assert "lttng is not installed" in dyntrace("lttng", "list", status=1, env=nothing).stderr


def test_a_backtrace_that_is_added_later_has_names(daemon, dyntrace, spin):
    """The trace exists already, without a table of modules."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "hit")
    one.round()
    daemon("add-context", "-u", "-e", "hit", "--pid", one.pid, "-t", "backtrace")
    one.round()
    path = daemon.trace_of(one.pid)
    one.finish()
    until(lambda: not daemon.json("list-processes"), "the end of the trace")
    lines = [line for line in dyntrace("view", path).stdout.splitlines() if "backtrace" in line]
    assert len(lines) >= CALLS and all("[ foo+0x0" in line and "main+0x" in line for line in lines), lines[:2]


# ---- notifications ------------------------------------------------------------------------------------

def test_watch_tells_what_happens_in_order(daemon, spin):
    watch = daemon.watch()
    one = spin()
    daemon.add(f"{one.pid}:foo")
    daemon("rm", f"{one.pid}:foo")
    one.finish()
    seen = watch.until("exited")
    assert [(event["event"], event.get("detail")) for event in seen] == [
        ("attached", "injected"), ("tracepoint-placed", "foo"), ("tracepoint-gone", "foo"), ("exited", "exit status 0")]
    assert all(event["pid"] == one.pid and event["name"] == "spin" for event in seen)
    assert [event["ns"] for event in seen] == sorted(event["ns"] for event in seen)
    assert daemon.json("list-processes") == []


def test_watch_of_one_target_tells_of_that_alone_and_how_it_was_killed(daemon, spin):
    one, two = spin(), spin()
    watch = daemon.watch(str(two.pid))
    daemon.attach(one.pid)
    daemon.attach(two.pid)
    daemon("detach", one.pid)
    two.process.send_signal(signal.SIGKILL)
    assert [(event["event"], event.get("detail"), event["pid"]) for event in watch.until("exited")] == [
        ("attached", "injected", two.pid), ("exited", "killed by SIGKILL", two.pid)]


@pytest.mark.parametrize("command, how", [
    ("exit 3", "exit status 3"), ("kill -SEGV $$", "killed by SIGSEGV"), ("kill -KILL $$", "killed by SIGKILL")])
def test_watch_tells_how_a_process_ended_that_its_parent_reaped(daemon, processes, command, how):
    """The shell ends a line after it; its parent ignores SIGCHLD, so no zombie waits to be asked."""
    parent = processes.start(["/usr/bin/python3", "-c",
                              "import signal, subprocess, sys; signal.signal(signal.SIGCHLD, signal.SIG_IGN);"
                              f"child = subprocess.Popen(['sh', '-c', 'ulimit -c 0; read line; {command}']);"
                              "print(child.pid, flush=True); child.wait()"],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    watch = daemon.watch(str(pid))
    daemon.attach(pid)
    parent.stdin.write("\n")
    parent.stdin.close()
    kernel = tuple(int(number) for number in re.findall(r"\d+", os.uname().release)[:2])
    assert watch.until("exited")[-1]["detail"] == (how if kernel >= (6, 15) else "exit status unknown")


def test_a_trace_is_complete_when_its_program_has_ended(daemon, spin):
    one = spin(rounds=3)
    watch = daemon.watch()
    daemon.add(f"{one.pid}:foo")
    path = daemon.trace_of(one.pid)
    one.finish()
    watch.until("exited")
    assert Trace(path).names() == {"foo": 3 * CALLS}


def test_an_empty_name_is_nobody_s(daemon):
    for words in (["attach", ""], ["detach", ""], ["list-tracepoints", ""]):
        assert daemon.fails(*words).startswith("no process is called ''")


def test_lists_have_columns_whatever_is_in_them(daemon, spin, scratch):
    """Long names, other alphabets; and a process's name can't play with the terminal."""
    name = "evil\x1b[31m\t\u00fc"
    one = spin(name=name)
    daemon.add(f"{one.pid}:foo", "-n", "a-name-that-is-much-longer-than-any-column-was")
    daemon.add(f"{one.pid}:foo", "-n", "\u00fcmlaut")
    lines = daemon("list-tracepoints", one.pid).stdout.splitlines()
    assert len(lines) == 3
    at = [line.index(word) for line, word in zip(lines, ("LOCATION", "foo", "foo"))]
    assert at == [len("a-name-that-is-much-longer-than-any-column-was") + 2] * 3
    assert [line.split()[2:] for line in lines[1:]] == [["ctf", "enabled", "0"]] * 2
    listed = daemon("list-processes").stdout
    assert "evil\\x1b[31m\\t\u00fc" in listed and "\x1b" not in listed
    assert [each["name"] for each in daemon.json("list-processes")] == [name]
    daemon("detach", one.pid)
    one.finish()
