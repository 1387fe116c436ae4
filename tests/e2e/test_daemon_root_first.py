"""What a member or a stranger does never changes what root's commands do: the order of requests (D9), whose trace it is (D10),
switches, shares. The attacker's part is done first in each test."""
import contextlib
import os
import re
import shutil
import signal
import threading

import pytest
from daemon_harness import CALLS, helpers, message
from harness import Trace, small_file_system, state, until
from test_daemon_bounds import GROUP, MEMBER, User, many_path, memory, shared  # noqa: F401
from test_daemon_users import STRANGER, _program as start_as, folder_of


def stopped_worker(daemon, pid):
    """Stops the worker; gives its pid."""
    worker = helpers("worker", pid)[0]
    os.kill(worker, signal.SIGSTOP)
    until(lambda: state(worker) == "T", "the worker to stand")
    return worker


def lines_of(daemon, kind):
    """(uid, how it ended) of each request of a kind, in the order of their ends."""
    return re.findall(rf"uid=(\d+) pid=\d+ {kind} [^\n]*: (ok|failed: [^\n]*)\n", daemon.log_text())


def ask(daemon, user, kind, **attributes):
    """Sends a request on a connection of its own, and returns when the daemon has it."""
    one = User(daemon.socket, user)
    one.send(kind, **attributes)
    return one


# ---- the order of requests (D9) -------------------------------------------------------------------------------

@pytest.mark.limit(120)
def test_root_goes_first_at_a_worker(shared, spin):  # noqa: F811
    """32 requests of a member's were done before root's."""
    one = spin()
    shared.attach(one.pid, user=MEMBER)
    worker = stopped_worker(shared, one.pid)
    users = [ask(shared, MEMBER, "WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_NAME=f"his{number}", WIRE_TRACER="count")
             for number in range(32)]
    until(lambda: shared.json("status")["clients"] >= 33, "the member's requests")
    assert "32 requests of user 61901 wait for its worker already" in User(shared.socket, MEMBER).ask(
        "WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_TRACER="count")
    users.append(ask(shared, None, "WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_NAME="hers", WIRE_TRACER="count"))
    shared("status")  # behind it: the daemon has root's request, too
    os.kill(worker, signal.SIGCONT)
    until(lambda: len(lines_of(shared, "add")) == 34, "all requests to be done")
    done = [line for line in lines_of(shared, "add") if "wait for its worker already" not in line[1]]
    assert ("0", "ok") in done[:2] and done.count(("61901", "ok")) > 10, done  # not all find room at one place
    assert "hers" in shared.hits(one.pid)
    for user in users:
        user.close()
    shared("detach", one.pid)


@pytest.mark.limit(120)
def test_a_request_that_waits_is_judged_when_its_turn_comes(shared, spin):  # noqa: F811
    """A member asks to remove what root adds before the member's turn."""
    one = spin()
    shared.attach(one.pid, user=MEMBER)
    worker = stopped_worker(shared, one.pid)
    target = str(one.pid)
    users = [ask(shared, MEMBER, "WIRE_ADD", WIRE_TARGET=target, WIRE_LOCATION="foo", WIRE_NAME="his", WIRE_TRACER="count"),
             ask(shared, MEMBER, "WIRE_REMOVE", WIRE_TARGET=target, WIRE_NAME="h*"),
             ask(shared, MEMBER, "WIRE_STOP", WIRE_TARGET=target),
             ask(shared, MEMBER, "WIRE_DETACH", WIRE_TARGET=target)]
    until(lambda: shared.json("status")["clients"] >= 5, "the member's requests")
    users.append(ask(shared, None, "WIRE_ADD", WIRE_TARGET=target, WIRE_LOCATION="foo", WIRE_NAME="hers", WIRE_TRACER="count"))
    shared("status")
    os.kill(worker, signal.SIGCONT)
    until(lambda: lines_of(shared, "detach"), "all requests to be done")
    assert "tracepoint 'hers' is user 0's" in lines_of(shared, "rm")[0][1]
    assert "is traced by user 0, too" in lines_of(shared, "stop")[0][1] + lines_of(shared, "detach")[0][1]
    one.round()
    assert shared.hits(one.pid) == {"hers": CALLS, "his": CALLS}
    for user in users:
        user.close()
    shared("detach", one.pid)


@pytest.mark.limit(120)
def test_a_member_who_detaches_makes_no_request_of_roots_fail(shared, spin):  # noqa: F811
    """"is being detached: try again in a moment", said the daemon: in a loop of attach and detach it did nearly always."""
    one = spin()
    shared.attach(one.pid, user=MEMBER)
    worker = stopped_worker(shared, one.pid)
    leaving = ask(shared, MEMBER, "WIRE_DETACH", WIRE_TARGET=str(one.pid))
    until(lambda: shared.json("status")["clients"] >= 2, "the member's request")
    root = ask(shared, None, "WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_TRACER="count")
    shared("status")
    os.kill(worker, signal.SIGCONT)
    until(lambda: lines_of(shared, "add"), "root's request")
    assert lines_of(shared, "detach") == [("61901", "ok")] and lines_of(shared, "add") == [("0", "ok")]
    one.round()
    assert shared.hits(one.pid) == {"foo": CALLS}
    for user in (leaving, root):
        user.close()
    shared("detach", one.pid)


def test_looks_at_a_stopped_worker_do_not_pile_up(shared, processes, program_path):  # noqa: F811
    """Each list asked the worker of a process that had begun another program to look: one more call in the daemon's memory."""
    one = processes.start(["sh", "-c", "read x; exec sleep 1000"], stdin=-1, text=True)
    shared.attach(one.pid)
    worker = stopped_worker(shared, one.pid)
    one.stdin.write("x\n")
    one.stdin.flush()
    until(lambda: open(f"/proc/{one.pid}/comm").read() == "sleep\n", "the next program")
    user = User(shared.socket, MEMBER)
    for _ in range(500):
        assert user.ask("WIRE_PROCESSES") is None
    before = memory(shared.process.pid)
    for _ in range(4000):
        assert user.ask("WIRE_PROCESSES") is None
    assert memory(shared.process.pid) < before + 128
    user.close()
    os.kill(worker, signal.SIGCONT)
    until(lambda: not shared.json("list-processes"), "the process to be forgotten")
    one.kill()


# ---- the trace (D10), switches ---------------------------------------------------------------------------------

def test_root_records_to_a_trace_of_its_own(shared, spin, place):  # noqa: F811
    """Root's events went to the member's trace, in the member's folder; with a folder of root's, `add` was refused."""
    one, theirs, own = spin(), os.path.join(folder_of(place, MEMBER), "trace"), os.path.join(place, "own")
    shared.add(f"{one.pid}:foo", "ctf", theirs, user=MEMBER)
    one.round()
    added = shared("add", f"{one.pid}:foo", "ctf", own, status=None)
    assert (added.returncode, added.stdout) == (0, "foo\n"), added.stderr
    assert f"user 0 traces the process: the trace of user 61901, {theirs}, ends" in added.stderr
    one.round()
    assert os.stat(own).st_uid == 0
    assert f"process {one.pid} (spin) is traced by root" not in shared("add", f"{one.pid}:foo_many", user=MEMBER).stderr
    shared("detach", one.pid)
    assert Trace(theirs).names() == {"foo": CALLS}
    assert Trace(own).names()["foo"] == CALLS


def test_a_member_begins_no_trace_behind_root(shared, spin, place):  # noqa: F811
    """It could be removed, or fill up, and end root's recording with it."""
    one = spin()
    shared.add(f"{one.pid}:foo", "count")
    assert shared.fails("add", f"{one.pid}:foo_many", "ctf", os.path.join(folder_of(place, MEMBER), "trace"), user=MEMBER) == \
        f"process {one.pid} (spin) is traced by root: only root begins its trace (the tracers count and log need none)"
    shared.add(f"{one.pid}:foo_many", "count", user=MEMBER)
    shared.add(f"{one.pid}:foo", "-n", "recorded")
    shared.add(f"{one.pid}:foo_many", "-n", "his", user=MEMBER)
    one.round()
    assert shared.hits(one.pid) == {"foo": CALLS, "foo_many": 1, "recorded": CALLS, "his": 1}
    assert shared.finish(one.pid).names() == {"recorded": CALLS, "his": 1}


@pytest.mark.parametrize("tracer", ["ctf", "count"])
def test_a_member_who_stops_recording_does_not_stop_roots(shared, spin, tracer):  # noqa: F811
    one = spin()
    shared.attach(one.pid, user=MEMBER)
    shared("stop", one.pid, user=MEMBER)
    shared.add(f"{one.pid}:foo", tracer)
    one.round()
    assert shared.hits(one.pid) == {"foo": CALLS}
    os.kill(helpers("worker", one.pid)[0], signal.SIGKILL)  # the next worker records, too
    until(lambda: "settled" in shared.log_text().split("starting another")[-1] and "starting another" in shared.log_text(), "the next worker")
    one.round()
    assert shared.hits(one.pid)["foo"] in (CALLS, 2 * CALLS)  # of count and ctf: those of ctf begin anew
    shared("detach", one.pid)


def test_a_member_who_starts_recording_does_not_start_roots(shared, spin):  # noqa: F811
    one = spin()
    shared("stop")
    shared.attach(one.pid, user=MEMBER)
    shared("start", one.pid, user=MEMBER)
    shared.add(f"{one.pid}:foo", "count")
    one.round()
    assert shared.hits(one.pid) == {"foo": 0}
    shared("start")
    one.round()
    assert shared.hits(one.pid) == {"foo": CALLS}
    shared("detach", one.pid)


# ---- shares (D6) ----------------------------------------------------------------------------------------------

def test_tracepoints_of_members_leave_room_for_root(shared, processes, many_path):  # noqa: F811
    """Of the 65536 that a process may have, an eighth is root's."""
    one = processes.start([many_path])
    shared.targets.add(str(one.pid))
    for user, most in ((MEMBER, 57344), (None, 65536)):
        assert shared.fails("add", f"{one.pid}:most_*", "count", user=user) == \
            f"'most_*' has 66000 places, and the process 0 tracepoints already ({most} are the limit)"
    shared("detach", one.pid)


def test_waiting_tracepoints_of_a_member_are_bounded_in_bytes(shared):  # noqa: F811
    """They lie in /run, and each new one writes all of them anew: 256 with 64 KiB each, of each member."""
    user = User(shared.socket, MEMBER)
    answers = [user.ask("WIRE_ADD", WIRE_TARGET="never", WIRE_LOCATION="x" * 4000, WIRE_NAME=f"n{number}", WIRE_FILTER="1" * 4000,
                        WIRE_TRACER="ctf", WIRE_ARGUMENT="/" + "y" * 4000, WIRE_WAIT=1) for number in range(100)]
    assert 50 < answers.count(None) < 90
    assert set(answers) == {None, "the tracepoints of user 61901 that wait for programs are too large together: more than 1024 KiB "
                            "(remove some)"}
    assert os.path.getsize(f"{shared.socket}.d/waiting") <= 1 << 20
    shared("add", "--wait", "never:foo")
    shared("rm", "never:*")
    user.close()


def test_programs_of_strangers_do_not_use_up_what_root_waits_with(shared, place, processes, program_path):  # noqa: F811
    """Root waits for programs of a name; a stranger starts them, hundreds if he likes. They count to the stranger."""
    name = f"wanted{os.getpid()}"
    shutil.copy(program_path("spin"), f"{place}/{name}")
    shared("add", "--wait", f"{name}:foo", "count")
    one = start_as(processes, ["--reuid", STRANGER[0], "--regid", STRANGER[1], "--clear-groups", f"{place}/{name}"], ["--rounds", 9])
    shared.targets.add(str(one.pid))
    until(lambda: [each["pid"] for each in shared.json("list-processes")] == [one.pid], "the program")
    until(lambda: shared.hits(one.pid), "the tracepoint")
    shared("rm", f"{name}:foo")
    # whose it is among the targets
    assert f"was attached by user {STRANGER[0]}: only that user and root may detach it" in shared.fails("detach", one.pid, user=MEMBER)
    shared("detach", one.pid)
    one.close()


def test_a_member_takes_no_snapshots_of_roots_trace(new_daemon, place, spin):  # noqa: F811
    """A trace has at most 255."""
    daemon = new_daemon("--group", GROUP, "--mode", "overwrite")
    daemon.build = place
    daemon.start()
    one = spin()
    daemon.add(f"{one.pid}:foo")
    assert "is traced by user 0, too" in daemon.fails("snapshot", one.pid, user=MEMBER)
    daemon("snapshot", one.pid)
    daemon("detach", one.pid)


# ---- time (D11) and the log -----------------------------------------------------------------------------------

def test_time_is_shared_by_users_not_by_connections(shared):  # noqa: F811
    """Root's `status` took 45 s beside 900 connections of one member that all asked for something."""
    users = [User(shared.socket, MEMBER) for _ in range(300)]
    until(lambda: shared.json("status")["clients"] > 300, "the connections")
    os.kill(shared.process.pid, signal.SIGSTOP)
    for user in users:
        user.socket.sendall(2 * message("WIRE_ATTACH", WIRE_TARGET="no such process"))
    users += [User(shared.socket, MEMBER) for _ in range(300)]
    root = ask(shared, None, "WIRE_STATUS")
    os.kill(shared.process.pid, signal.SIGCONT)
    assert root.reply() is None
    # by the log's order: the daemon goes on while we read it
    before = shared.log_text().partition(f"uid=0 pid={os.getpid()} status")[0].count("uid=61901 ")
    assert before <= 10, before  # a turn for the listener, and one or two for root
    assert f"uid=0 pid={os.getpid()} status" in shared.log_text()
    for user in [root, *users]:
        user.close()


def test_lines_of_a_member_do_not_fill_the_log(shared):  # noqa: F811
    """A line per request: root's lines would be pushed out of a log of bounded size."""
    shared("status")
    user = User(shared.socket, MEMBER)
    for _ in range(3000):
        assert user.ask("WIRE_STATUS") is None
    user.close()
    lines = shared.log_text().count("uid=61901 ")
    assert 1000 <= lines < 3000
    shared("status")
    assert len(re.findall(r"uid=0 .* status: ok", shared.log_text())) == 2

    def accounted():
        shared("status", user=MEMBER)
        text = shared.log_text()
        return text.count("uid=61901 ") + sum(map(int, re.findall(r"uid=61901: (\d+) lines left out: too many at once", text))) > 3000
    until(accounted, "the number of lines that were left out")


def test_a_member_does_not_hide_that_recording_could_not_go_on(shared, spin, scratch):  # noqa: F811
    """He uses up his part of the log when the worker dies, and the next one finds no room for the trace (D6)."""
    with small_file_system(scratch, "4m") as small:
        os.chmod(scratch, 0o755)
        os.chmod(small, 0o777)
        one = spin()
        shared.add(f"{one.pid}:foo", "ctf", os.path.join(small, "trace"), user=MEMBER)
        one.round()
        shared("flush", user=MEMBER)
        worker = stopped_worker(shared, one.pid)
        one.round()
        with open(os.path.join(small, "filler"), "wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(bytes(4096)):
                pass
        user, over = User(shared.socket, MEMBER), threading.Event()

        def flood():
            while not over.is_set():
                assert user.ask("WIRE_STATUS") is None
        flooding = threading.Thread(target=flood)
        flooding.start()
        try:
            until(lambda: shared.log_text().count("uid=61901 ") > 1000, "his part to be used up")
            os.kill(worker, signal.SIGKILL)
            until(lambda: re.search(r"uid=61901 pid=0 add .*: failed: cannot write the trace", shared.log_text()),
                  "the line about the failure")
        finally:
            over.set()
            flooding.join()
        user.close()
        os.unlink(os.path.join(small, "filler"))
        shared("detach", one.pid)
        one.finish()


def test_a_log_file_is_bounded(new_daemon, place, scratch):  # noqa: F811
    path = os.path.join(scratch, "audit")
    with open(path, "wb") as file:
        file.write(b"old\n" * (4 << 20))
    with open(path + ".1", "w") as file:
        file.write("older\n")
    daemon = new_daemon("--log", path)
    daemon.build = place
    daemon.start()
    daemon("status")
    daemon("status")
    with open(path + ".1") as file:
        text = file.read()
    assert text.startswith("old\n") and "dyntraced[" in text and "older" not in text
    with open(path) as file:
        assert file.read().count(" status: ok\n") == 2
    assert os.stat(path).st_mode & 0o777 == 0o640
