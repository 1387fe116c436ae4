"""What users have of the daemon (D6): connections, processes, waiting tracepoints, unread answers. Each user has a share, and
root finds room whatever others do. And what a worker that was taken over can't do (D7)."""
import ctypes
import glob
import os
import resource
import signal
import socket
import struct
import subprocess
import threading

import pytest
from daemon_harness import KINDS, TAGS, alive, helpers, message
from harness import Program, gdb_words, until
from test_daemon_bounds import GROUP, MEMBER, User, descriptors, many_path, memory, shared, texts_of  # noqa: F401

STRANGERS = [(62000 + number, 62000 + number, []) for number in range(17)]
MEMBERS = [(63000 + number, 63000 + number, [GROUP]) for number in range(5)]
DESCRIPTORS = 2048  # then all limits are an eighth of what they are with 16384 and more


@pytest.fixture
def small(new_daemon, place):  # noqa: F811
    """Root's daemon, with few descriptors: limits are reached soon."""
    one = new_daemon("--group", GROUP)
    one.build = place
    one.for_user = lambda command, user: ["prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}", *command]
    one.start()
    del one.for_user
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (before[1], before[1]))  # for the test's own ends
    yield one
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def connections(path, user, count):
    """As many as the user gets of `count`, and the first refusal."""
    got, why = [], None
    for _ in range(count):
        one = User(path, user)
        try:
            one.send("WIRE_STATUS")
        except BrokenPipeError:
            pass  # refused; the answer can be read
        answer = one.reply()
        if answer and "already (the limit" in answer:
            why = why or answer
            one.close()
        else:
            got.append(one)
    return got, why


def test_agents_of_strangers_leave_room_for_root(small, processes):
    """17 users with 128 silent connections each left no descriptor for root."""
    before, fds = memory(small.process.pid), descriptors(small.process.pid)
    held = []
    for user in STRANGERS:
        held += connections(small.socket + ".agents", user, 128)[0]
    small("status")
    sleep = processes.start(["sleep", "1000"], env={**os.environ, "DYNTRACE_SOCKET": small.socket,
                                                    "LD_PRELOAD": os.path.join(small.build, "libdyntrace-agent.so")})
    until(lambda: sleep.pid in [each["pid"] for each in small.json("list-processes")], "root's program to register")
    assert descriptors(small.process.pid) < fds + 150
    assert memory(small.process.pid) < before + (4 << 10)
    assert "has 32 connections already (the limit)" in small.log_text()
    until(lambda: descriptors(small.process.pid) < fds + 10, "silent agents to be dropped", seconds=40)
    assert "an agent that says nothing" in small.log_text()
    for one in held:
        one.close()
    sleep.kill()


def test_clients_of_members_leave_room_for_root(small):
    held, fds = [], descriptors(small.process.pid)
    for user in MEMBERS:
        got, why = connections(small.socket, user, 140)
        held += got
        if user is not MEMBERS[-1]:
            assert why in (f"user {user[0]} has 128 connections already (the limit)",
                           "the daemon has 448 connections already (the limit for users other than root)")
    assert len(held) == 448
    assert descriptors(small.process.pid) < fds + 460
    small("status")
    assert small.json("status")["clients"] >= 448
    for one in held:
        one.close()
    until(lambda: descriptors(small.process.pid) < fds + 10, "the connections to end")


class Registered:
    """Processes of a user that say they have the agent, and wait."""

    def __init__(self, path, user, count):
        self.pids, self.answers = [], []
        for _ in range(count):
            r, w = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    os.setgroups([])
                    os.setresgid(user[1], user[1], user[1])
                    os.setresuid(user[0], user[0], user[0])
                    ctypes.CDLL(None).prctl(4, 1)  # PR_SET_DUMPABLE: as after an execve
                    one = User(path)
                    why = one.ask("WIRE_REGISTER", WIRE_LOADED="linked")
                    one.close()
                    os.write(w, (why or "ok").encode())
                    signal.pause()
                finally:
                    os._exit(1)
            os.close(w)
            self.pids.append(pid)
            self.answers.append(os.read(r, 1000).decode())
            os.close(r)

    def close(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_processes_of_users_leave_room_for_root(small, spin):
    groups = []
    try:
        for user in STRANGERS[:4]:
            groups.append(Registered(small.socket + ".agents", user, 33))
        assert groups[0].answers == ["ok"] * 32 + [f"user {STRANGERS[0][0]} has 32 processes with the agent already (the limit)"]
        assert groups[3].answers == ["ok"] * 16 + \
            ["the daemon has 112 processes with the agent already (the limit for users other than root)"] * 17
        one = spin()
        small.add(f"{one.pid}:foo")
        small("detach", one.pid)
    finally:
        for group in groups:
            group.close()
    until(lambda: small.json("list-processes") == [], "the processes to be forgotten")


def test_waiting_tracepoints_are_their_users_own(shared, processes, program_path, place):  # noqa: F811
    """A member can't take root's place, remove root's, or take its name."""
    client, other = User(shared.socket, MEMBER), User(shared.socket, MEMBERS[0])
    for number in range(256):
        assert client.ask("WIRE_ADD", WIRE_TARGET="nothing-of-the-kind", WIRE_LOCATION="foo", WIRE_NAME=f"n{number}", WIRE_WAIT=1) is None
    assert client.ask("WIRE_ADD", WIRE_TARGET="nothing-of-the-kind", WIRE_LOCATION="foo", WIRE_NAME="more", WIRE_WAIT=1) == \
        "user 61901 has 256 tracepoints that wait for programs already (the limit)"
    assert other.ask("WIRE_ADD", WIRE_TARGET="waited-for", WIRE_LOCATION="foo", WIRE_NAME="mine", WIRE_WAIT=1, WIRE_DISABLED=1) is None
    shared("add", "waited-for:foo_many", "-n", "mine", "--wait")
    assert shared.json("status")["waiting"] == 258
    assert other.ask("WIRE_REMOVE", WIRE_TARGET="nothing-of-the-kind", WIRE_NAME="*") == \
        "'*' waits for 'nothing-of-the-kind' by another user's request: only that user and root can remove it"
    shared("rm", "nothing-of-the-kind:n*")
    assert client.ask("WIRE_REMOVE", WIRE_TARGET="waited-for", WIRE_NAME="*") is not None
    assert shared.json("status")["waiting"] == 2
    os.symlink(program_path("spin"), f"{place}/waited-for")
    one = Program(processes, f"{place}/waited-for", ["--calls", 1, "--rounds", 1])
    shared.targets.add(str(one.pid))
    until(lambda: shared.log_text().count("name='mine'") >= 4, "both to be tried")
    assert [(each["name"], each["location"]) for each in shared.json("list-tracepoints", one.pid)] == [("mine", "foo_many")]
    client.close()
    other.close()
    one.process.kill()
    one.close()


# ---- answers that nobody reads ---------------------------------------------------------------------

@pytest.mark.limit(120)
def test_unread_lists_leave_the_process_to_root(shared, processes, many_path):  # noqa: F811
    """40 of them made a worker give up its supervisor, and the target unmanageable."""
    one = processes.start([many_path])
    shared.targets.add(str(one.pid))
    shared("add", f"{one.pid}:many_1*")
    worker = shared.workers(one.pid)
    before, fds = memory(shared.process.pid), descriptors(shared.process.pid)
    clients = [User(shared.socket, MEMBER) for _ in range(40)]
    for client in clients:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.send("WIRE_TRACEPOINTS", WIRE_TARGET=str(one.pid))
    until(lambda: "requests of user 61901 wait for its worker already" in shared.log_text(), "the limit of requests", seconds=60)
    until(lambda: "its user doesn't read what it asked for" in shared.log_text(), "the limit of answers", seconds=60)
    assert len(shared.json("list-tracepoints", one.pid)) == 11111
    shared.add(f"{one.pid}:many_2", "-n", "roots")
    assert shared.workers(one.pid) == worker and "starting another" not in shared.log_text()
    assert memory(shared.process.pid) < before + (200 << 10)
    assert memory(worker[0]) < 300 << 10
    for client in clients:
        client.close()
    until(lambda: descriptors(shared.process.pid) <= fds + 2, "the connections to end")
    shared("detach", one.pid)


# ---- workers that were taken over ------------------------------------------------------------------

def gdb(pid, *commands):
    words = [word for command in commands for word in ("-ex", command)]
    return subprocess.run([*gdb_words(pid), *words], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True)


def test_a_worker_that_leaves_its_supervisor_is_ended_before_the_next_begins(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    old = daemon.workers(one.pid)[0]
    gdb(old, "p (int)shutdown(5, 2)", "p (int)shutdown(6, 2)", "p (int)shutdown(7, 2)", "p (int)shutdown(8, 2)")
    until(lambda: daemon.log_text().count("settled") == 2, "the next worker")
    assert not alive(old)
    assert len(daemon.workers(one.pid)) == 1
    one.round()
    assert daemon.hits(one.pid) == {"foo": 1000}
    assert daemon.finish(one.pid).names() == {"foo": 1000}


def test_a_worker_names_no_directory_for_the_next_keeper(daemon, spin, scratch):
    """(D7) The worker's answer to the first tracepoint says that the trace is in another directory of the client's."""
    victim = os.path.join(scratch, "victim")
    os.mkdir(victim, 0o700)
    one = spin()
    daemon.attach(one.pid)
    old = daemon.workers(one.pid)[0]
    debugger = subprocess.Popen([*gdb_words(old), "-ex", "handle all nostop noprint pass", "-ex", "break send_reply", "-ex", "echo READY\\n",
                                 "-ex", "continue", "-ex", f'p (char *)strcpy(worker->directory->path, "{victim}")', "-ex", "delete",
                                 "-ex", "detach"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    for line in debugger.stdout:
        if "READY" in line:
            break
    result = daemon("add", f"{one.pid}:foo", status=None)
    said = debugger.communicate()[0]
    assert victim in said, said
    until(lambda: "names a directory that no keeper was started for: ending it" in daemon.log_text(), "it to be noticed")
    assert result.returncode != 0
    until(lambda: not alive(old), "the worker to be ended")
    assert victim not in [each.get("trace") for each in daemon.json("list-processes")]
    assert os.listdir(victim) == [] and not helpers("keeper-again", scratch)
    daemon.add(f"{one.pid}:foo", "-n", "again")
    one.round()
    assert daemon.finish(one.pid).names()["again"] == 1000


def test_a_worker_of_an_earlier_supervisor_names_no_directory_either(daemon, spin, scratch):
    """(D7) A worker that a new supervisor finds again."""
    victim = os.path.join(scratch, "victim")
    os.mkdir(victim, 0o700)
    one = spin()
    daemon.attach(one.pid)
    daemon.kill_with_workers(one.pid)
    path = glob.glob(f"{daemon.socket}.d/workers/*")[0]
    os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve():
        fake, _ = listener.accept()
        head = fake.recv(65536)
        sequence = struct.unpack("<I", head[8:12])[0]
        assert struct.unpack("<H", head[6:8])[0] == KINDS["WIRE_CONFIGURE"]
        fake.sendall(message("WIRE_REPLY", sequence=sequence, WIRE_STATE="again", WIRE_OUTPUT=victim, WIRE_TRACEPOINT_COUNT=1))
        kept.append(fake)
    kept = []
    thread = threading.Thread(target=serve)
    thread.start()
    daemon.start()
    thread.join()
    until(lambda: "found again" in daemon.log_text(), "the answer")
    assert [each.get("trace") for each in daemon.json("list-processes")] in ([None], [""])
    kept[0].close()
    listener.close()


def test_a_root_worker_makes_no_file_where_another_users_process_says(new_daemon, processes, dyntrace):
    """With --all-targets a worker may have more rights than its target, whose memory names the trace of a killed dyntrace."""
    code = "import os, sys; os.setresgid(61903, 61903, 61903); os.setresuid(61903, 61903, 61903); print('ready', flush=True); " \
        "sys.stdin.read()"
    one = processes.start(["/usr/bin/python3", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert one.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(one.pid, "--probe", "read@libc.so.6")
    tracing.process.kill()
    tracing.process.communicate()
    daemon = new_daemon("--all-targets").start()
    daemon.targets.add(str(one.pid))
    before = sorted(os.listdir(tracing.output))
    result = daemon("attach", one.pid, status=None)
    assert result.returncode == 0 and "removed 1 probe of a dyntrace that was killed" in result.stderr
    assert "saved in" not in result.stderr
    assert sorted(os.listdir(tracing.output)) == before
    daemon("detach", one.pid)
