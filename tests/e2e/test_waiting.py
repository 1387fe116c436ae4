"""Tracepoints that wait for programs: linked with the agent, with the agent preloaded, or seen only at their execve."""
import json
import os
import shutil
import subprocess

import pytest
from daemon_harness import Daemon
from harness import Program, Trace, in_first_pid_namespace, until

CALLS = 500


@pytest.fixture
def copy_of(program_path, scratch):
    """A copy of a program under a name that no other process has."""
    def make(name):
        path = os.path.join(scratch, f"{name}{os.getpid()}")
        if not os.path.exists(path):
            shutil.copy(program_path(name), path)
        return path
    return make


@pytest.fixture
def start(processes, daemon, build):
    """Starts a program under the daemon's eyes: start(path, "--calls", 5)."""
    started = []

    def run(path, *arguments, preload=None, user=None):
        environment = {**os.environ, "DYNTRACE_SOCKET": daemon.socket, "LD_LIBRARY_PATH": build}
        if preload:
            environment["LD_PRELOAD"] = preload

        class Started:
            @staticmethod
            def start(command, **more):
                return processes.start(Daemon.for_user([str(word) for word in command], user), env=environment, **more)
        started.append(Program(Started, path, arguments))
        return started[-1]
    yield run
    for one in started:
        one.close()


def processes_of(daemon, name):
    return {one["pid"]: one for one in daemon.json("list-processes") if one["name"] == name}


@pytest.mark.parametrize("preloaded", [False, True])
def test_appears_by_itself(daemon, start, copy_of, build, preloaded):
    """list-processes shows the program, and how its agent was loaded, until it ends."""
    path = copy_of("hello" if preloaded else "linked")
    one = start(path, preload=os.path.join(build, "libdyntrace-agent.so") if preloaded else None).wait_ready()
    row = processes_of(daemon, os.path.basename(path))[one.pid]
    assert row["loaded"] == ("preloaded" if preloaded else "linked")
    assert row["tracepoints"] == 0
    one.finish()
    until(lambda: not processes_of(daemon, os.path.basename(path)), "the process to go from the list")


def test_placed_before_main_and_after_every_restart(daemon, start, copy_of):
    """The program calls foo before anything else; each run's trace has every call."""
    path = copy_of("linked")
    name = os.path.basename(path)
    assert daemon.add(f"{name}:foo", "--wait") == "foo"
    assert daemon.json("status")["waiting"] == 1
    for run in range(4):
        one = start(path, "--calls", CALLS + run).wait_ready()
        assert daemon.hits(one.pid) == {"foo": CALLS + run}
        trace_path = daemon.trace_of(one.pid)
        one.finish()
        until(lambda: not processes_of(daemon, name), "the end to be seen")
        trace = Trace(trace_path)
        assert trace.names() == {"foo": CALLS + run} and trace.lost == 0
        assert {event.pid for event in trace.events} == {one.pid}
    daemon("rm", f"{name}:foo")
    assert daemon.json("status")["waiting"] == 0
    one = start(path).wait_ready()
    assert processes_of(daemon, name)[one.pid]["tracepoints"] == 0
    one.finish()


@pytest.mark.parametrize("preloaded", [False, True])
def test_watch_shows_how_the_agent_was_loaded(daemon, start, copy_of, build, preloaded):
    """Also if the kernel announced the program before its agent did."""
    path = copy_of("hello" if preloaded else "linked")
    daemon.add(f"{os.path.basename(path)}:main", "--wait")
    watch = daemon.watch()
    for _ in range(3):
        one = start(path, preload=os.path.join(build, "libdyntrace-agent.so") if preloaded else None).wait_ready()
        one.finish()
        seen = [(event["event"], event.get("detail")) for event in watch.until("exited") if event["event"] != "module-loaded"]
        assert seen[:2] == [("attached", "preloaded" if preloaded else "linked"), ("tracepoint-placed", "main")], seen


def test_a_process_that_executes_a_program_without_the_agent_is_unlisted(daemon, processes, build):
    """bash has the agent preloaded, and its exec doesn't."""
    process = processes.start(["bash", "-c", "read line; LD_PRELOAD= exec sleep 100"], stdin=subprocess.PIPE,
                              env={**os.environ, "DYNTRACE_SOCKET": daemon.socket,
                                   "LD_PRELOAD": os.path.join(build, "libdyntrace-agent.so")})
    until(lambda: process.pid in processes_of(daemon, "bash"), "bash to be listed")
    process.stdin.write(b"\n")
    process.stdin.flush()
    until(lambda: open(f"/proc/{process.pid}/comm").read() == "sleep\n", "sleep to begin")
    # (the kernel closes the agent's socket some time after that)
    until(lambda: process.pid not in [one["pid"] for one in daemon.json("list-processes")], "the process to go from the list")
    assert process.poll() is None


def test_two_at_once(daemon, start, copy_of):
    path = copy_of("linked")
    daemon.add(f"{os.path.basename(path)}:foo", "--wait")
    twins = [start(path, "--calls", CALLS), start(path, "--calls", 2 * CALLS)]
    for twin, calls in zip(twins, (CALLS, 2 * CALLS)):
        twin.wait_ready()
        assert daemon.hits(twin.pid) == {"foo": calls}
    for twin in twins:
        twin.finish()


def test_library_function_before_main(daemon, start, copy_of):
    """A library that the program is linked with is there when the agent is called."""
    path = copy_of("linked")
    daemon.add(f"{os.path.basename(path)}:getpid@libc.so.6", "--wait")
    one = start(path).wait_ready()
    assert daemon.hits(one.pid) == {"getpid": 1}
    one.finish()


def test_a_program_without_the_agent(daemon, start, copy_of):
    """The daemon sees the program at its execve, and places the tracepoint as soon as possible."""
    path = copy_of("spin")
    name = os.path.basename(path)
    daemon.add(f"{name}:foo", "--wait")
    for _ in range(3):
        one = start(path, "--calls", CALLS, "--rounds", 2).wait_ready()
        until(lambda: one.pid in processes_of(daemon, name) and daemon.hits(one.pid) == {"foo": 0}, "the tracepoint")
        one.go().wait_ready()
        assert daemon.hits(one.pid) == {"foo": CALLS}
        trace_path = daemon.trace_of(one.pid)
        one.finish()
        until(lambda: not processes_of(daemon, name), "the end to be seen")
        assert Trace(trace_path).names() == {"foo": 2 * CALLS}


def test_found_by_polling(new_daemon, processes, copy_of, place, scratch):
    """The kernel doesn't notify a user's daemon: it polls."""
    user = (65534, 65534, [])
    path = copy_of("spin")
    home = os.path.join(scratch, "home")
    os.mkdir(home)
    os.chown(home, user[0], user[1])
    daemon = new_daemon(folder=home, as_user=user)
    daemon.build = place
    daemon.start()
    name = os.path.basename(path)
    os.chmod(path, 0o755)
    daemon("add", f"{name}:foo", "--wait", user=user)

    class Started:
        @staticmethod
        def start(command, **more):
            return processes.start(Daemon.for_user([str(word) for word in command], user), **more)
    one = Program(Started, path, ["--calls", CALLS, "--rounds", 1]).wait_ready()
    pid = one.process.pid
    until(lambda: [row for row in daemon.json("list-processes", user=user) if row["pid"] == pid and row["tracepoints"]],
          "the tracepoint")
    one.go().wait_ready()
    assert [row["hits"] for row in daemon.json("list-tracepoints", pid, user=user)] == [CALLS]
    one.finish()
    one.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_found_in_a_pid_namespace_beside_another_daemon(new_daemon, daemon, processes, copy_of, scratch):
    """The kernel sends messages there as well, once a daemon outside listens, but their numbers are the outside's."""
    path, folder = copy_of("spin"), os.path.join(scratch, "inside")
    name = os.path.basename(path)
    daemon.add("no-such-program:foo", "--wait")  # listens
    os.mkdir(folder)
    inner = new_daemon(folder=folder)
    os.mkdir(os.path.join(folder, "run"))
    space = processes.start(["unshare", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sleep", "infinity"])
    first = int(until(lambda: open(f"/proc/{space.pid}/task/{space.pid}/children").read(), "the first process inside"))
    enter = ["nsenter", "--target", str(first), "--pid", "--mount"]
    until(lambda: os.readlink(f"/proc/{first}/exe").endswith("sleep"), "its own /proc")
    processes.start([*enter, os.path.join(inner.build, "dyntraced"), "--socket", inner.socket, "--output", inner.output])
    until(inner.answers, "the daemon inside")

    def ask(*words):
        return subprocess.run([*enter, "env", f"DYNTRACE_SOCKET={inner.socket}", os.path.join(inner.build, "dyntrace"), *words],
                              check=True, capture_output=True, text=True, timeout=50).stdout
    ask("add", f"{name}:foo", "--wait")
    for _ in range(3):
        subprocess.run(["true"], check=True)  # a message to both
    processes.start([*enter, path, "--calls", "1000000000", "--rounds", "1"], stdout=subprocess.DEVNULL)
    until(lambda: [row for row in json.loads(ask("list-processes", "--json")) if row["name"] == name and row["tracepoints"]],
          "the tracepoint")
    ask("detach", name)


def test_a_program_announced_twice_has_one_tracepoint(daemon, start, copy_of):
    """The kernel and the agent both announce the program: one tracepoint, not two."""
    path = copy_of("linked")
    name = os.path.basename(path)
    daemon.add(f"{name}:foo", "--wait")
    for _ in range(5):
        one = start(path, "--calls", CALLS).wait_ready()
        assert [row["name"] for row in daemon.json("list-tracepoints", one.pid)] == ["foo"]
        one.finish()


def test_waits_for_a_library_of_a_later_program(daemon, start, copy_of, program_path):
    """The program is executed later, and loads the library later still. The constructor's calls are recorded."""
    path = copy_of("plugins")
    name = os.path.basename(path)
    daemon.add(f"{name}:plugin_step@plugin.so", "-f", "--wait")
    one = start(path, "--rounds", 10, "--calls", 5, "--move", 1, program_path("plugin.so")).wait_ready()
    until(lambda: one.pid in processes_of(daemon, name) and processes_of(daemon, name)[one.pid]["tracepoints"],
          "the tracepoint to wait")
    one.go().wait_ready()
    assert daemon.hits(one.pid) == {"plugin_step": 10 * 9}
    trace_path = daemon.trace_of(one.pid)
    one.finish()
    until(lambda: not processes_of(daemon, name), "the end to be seen")
    assert [event.fields["n"] for event in Trace(trace_path).events] == [100, 101, 102, 0, 1, 2, 3, 4, 900] * 10


def test_idle_again_when_nothing_waits(daemon, copy_of):
    """The daemon closes its source of notifications."""
    name = os.path.basename(copy_of("spin"))

    def sockets():
        with open(f"/proc/{daemon.process.pid}/net/netlink") as file:
            return sum(line.split()[1] == "11" and line.split()[2] == str(daemon.process.pid) for line in file)
    daemon("add", f"{name}:foo", "--wait")
    assert sockets() == (1 if in_first_pid_namespace() else 0)  # in others the daemon reads /proc
    daemon("rm", f"{name}:foo")
    assert sockets() == 0


# ---- other users' programs ---------------------------------------------------------------------------------

NOBODY = (65534, 65534, [])


@pytest.fixture
def public(scratch, build, copy_of):
    """A place that other users can read, with the program and the agent."""
    os.chmod(scratch, 0o755)
    path = copy_of("linked")
    os.chmod(path, 0o755)
    shutil.copy(os.path.join(build, "libdyntrace-agent.so"), scratch)
    return path


def test_program_of_a_user_who_may_not_trace(daemon, processes, public, scratch):
    """The program may register at a socket that serves nothing else; root's tracepoint is in place before its main."""
    daemon.add(f"{os.path.basename(public)}:foo", "--wait")
    environment = {**os.environ, "DYNTRACE_SOCKET": daemon.socket, "LD_LIBRARY_PATH": scratch}

    class Started:
        @staticmethod
        def start(command, **more):
            return processes.start(Daemon.for_user([str(word) for word in command], NOBODY), env=environment, **more)
    one = Program(Started, public, ["--calls", CALLS]).wait_ready()
    row = processes_of(daemon, os.path.basename(public))[one.pid]
    assert (row["loaded"], row["user"]) == ("linked", "nobody")
    assert daemon.hits(one.pid) == {"foo": CALLS}
    one.finish()
    one.close()


def test_the_agents_socket_is_for_agents(daemon, dyntrace):
    """Open to everybody; every command but one is refused there."""
    agents = daemon.socket + ".agents"
    assert os.stat(agents).st_mode & 0o777 == 0o666
    for words in (["status"], ["list-processes"], ["attach", os.getpid()], ["add", f"{os.getpid()}:foo"]):
        assert dyntrace.fails(*words, "--socket", agents) == "this socket is for agents only"
    assert daemon.json("status")["targets"] == 0
    daemon.stop()
    assert not os.path.exists(agents)


AGAIN = r"""
#include "foo.h"
#include "handshake.h"
int main(int argc, char **argv)
{
	char left[16];
	long rounds = handshake_option(argc, argv, "rounds", 1);

	handshake(argc, argv);
	foo_many(handshake_option(argc, argv, "calls", 1));
	handshake(argc, argv);
	snprintf(left, sizeof(left), "%ld", rounds - 1);
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--rounds"))
			argv[i + 1] = left;
	if (rounds > 1)
		execv("/proc/self/exe", argv);
	return rounds > 1;
}
"""


def test_a_process_that_executes_its_program_again(daemon, start, scratch):
    """The same pid executes another program of the same name: its tracepoints are placed again."""
    programs = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
    path = os.path.join(scratch, f"again{os.getpid()}")
    subprocess.run(["gcc", "-D_GNU_SOURCE", "-O2", "-w", f"-I{programs}", "-o", path, "-x", "c", "-",
                    os.path.join(programs, "foo.c")], input=AGAIN, text=True, check=True)
    daemon.add(f"{os.path.basename(path)}:foo", "--wait")
    one = start(path, "--rounds", 3, "--calls", CALLS).wait_ready()
    traces = []

    def row_of():
        return next((row for row in daemon.json("list-processes") if row["pid"] == one.pid), None)

    def is_placed():
        row = row_of()
        return row and row["tracepoints"] == 1 and row["trace"] not in traces and row["trace"]
    for left in (3, 2, 1):
        traces.append(until(is_placed, f"the tracepoint, {left} rounds before the end"))
        one.go().wait_ready()
        assert daemon.hits(one.pid) == {"foo": CALLS}
        one.go()
        if left > 1:
            one.wait_ready()
    assert one.process.wait(20) == 0
    until(lambda: not row_of(), "the end to be seen")
    assert [Trace(path).names() for path in traces] == [{"foo": CALLS}] * 3
