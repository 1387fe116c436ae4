"""Bounds of the daemon: what one user asks for, in whatever amount, costs a bounded amount of memory, descriptors and time,
and never changes what root's commands do. Memory and descriptors are measured, not guessed."""
import os
import random
import signal
import struct
import subprocess

import pytest
from daemon_harness import KINDS, TAGS, connect, message
from harness import in_call, until

MANY = 20000
MOST = 33000  # two times this is more than a process may have


@pytest.fixture(scope="module")
def many_path(tmp_path_factory):
    """A program with functions many_N and most_N, which waits."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"many_{number}" for number in range(MANY)] + [f"most_{number}" for number in range(2 * MOST)]
    body = "".join(f".globl {name}\n.type {name},@function\n{name}: push %rbp\nmov %rsp,%rbp\nmov $1,%eax\npop %rbp\nret\n"
                   f".size {name},.-{name}\n" for name in names)
    (folder / "many.s").write_text(".text\n" + body + '.section .note.GNU-stack,"",@progbits\n')
    (folder / "main.c").write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    subprocess.run(["gcc", "-o", folder / "many", folder / "main.c", folder / "many.s"], check=True)
    return str(folder / "many")


def start_many(processes, path):
    """Returns when the program waits: before that, not all of it may be mapped."""
    one = processes.start([path])
    until(lambda: in_call(one.pid, "pause"), "the program to wait")
    return one


# ---- one command -----------------------------------------------------------------------------------

@pytest.mark.limit(110)
def test_names_of_many_tracepoints_cost_a_search_each(daemon, processes, many_path):
    """MANY tracepoints that want one name took longer than the 120 s after which a worker is replaced."""
    one = start_many(processes, many_path)
    daemon.targets.add(str(one.pid))
    name = "n" * 249  # with its number 255 bytes, the longest that a command takes
    made = daemon("add", f"{one.pid}:many_*", "-n", name, seconds=100).stdout.splitlines()
    assert made == [name] + [f"{name}-{number}" for number in range(2, MANY + 1)]
    for number in (7, 12000):
        daemon("rm", f"{one.pid}:{name}-{number}")
    again = [daemon("add", f"{one.pid}:many_{number}*", "-n", name).stdout[:-1] for number in (6000, 7000)]
    assert again == [f"{name}-7", f"{name}-12000"]  # the first names that are free


def test_one_add_makes_no_more_tracepoints_than_a_process_may_have(daemon, processes, many_path):
    one = start_many(processes, many_path)
    daemon.targets.add(str(one.pid))
    why = daemon.fails("add", f"{one.pid}:most_*")
    assert why == f"'most_*' has {2 * MOST} places, and the process 0 tracepoints already (65536 are the limit)"
    assert len(daemon("add", f"{one.pid}:many_1*").stdout.splitlines()) == 11111
    assert len(daemon.json("list-tracepoints", one.pid)) == 11111


# ---- the journal -----------------------------------------------------------------------------------

GROUP = 61900
MEMBER = (61901, 61901, [GROUP])


def memory(pid):
    """Resident memory, in KiB."""
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@pytest.fixture
def shared(new_daemon, place):
    """Root's daemon, for the members of a group."""
    one = new_daemon("--group", GROUP)
    one.build = place
    return one.start()


class User:
    """A connection as another user, who has several of them at once: the kernel notes who connects."""

    def __init__(self, path, user=None):
        if user:
            os.setgroups(user[2])
            os.setresgid(user[1], user[1], 0)
            os.setresuid(user[0], user[0], 0)
        try:
            self.socket = connect(path)
        finally:
            if user:
                os.setresuid(0, 0, 0)
                os.setresgid(0, 0, 0)
                os.setgroups([])
        self.bytes = b""

    def send(self, kind, **attributes):
        self.socket.sendall(message(kind, **attributes))

    def reply(self):
        """The error of the next reply; None: it succeeded."""
        while True:
            while len(self.bytes) < 16 or len(self.bytes) < 16 + struct.unpack("<I", self.bytes[12:16])[0]:
                more = self.socket.recv(1 << 20)
                assert more, "the daemon has closed the connection"
                self.bytes += more
            kind, _, length = struct.unpack("<HII", self.bytes[6:16])
            body, self.bytes = self.bytes[16:16 + length], self.bytes[16 + length:]
            if kind == KINDS["WIRE_REPLY"]:
                return texts_of(body).get(TAGS["WIRE_ERROR_TEXT"])

    def ask(self, kind, **attributes):
        self.send(kind, **attributes)
        return self.reply()

    def close(self):
        self.socket.close()


def texts_of(body):
    found = {}
    while body:
        tag, _, length = struct.unpack("<HHI", body[:8])
        found[tag] = body[8:8 + length].rstrip(b"\0").decode()
        body = body[8 + length:]
    return found


def journal_size(daemon, pid):
    return os.path.getsize(f"{daemon.socket}.d/targets/{pid}")


def test_switches_and_unknown_attributes_leave_nothing_in_the_journal(shared, spin):
    """(J3) Of any number of switches the last counts; of a message only what its command knows."""
    one = spin()
    shared.add(f"{one.pid}:foo", user=MEMBER)
    shared.add(f"{one.pid}:foo_many", user=MEMBER)
    client = User(shared.socket, MEMBER)
    client.ask("WIRE_STATUS")
    before, began = memory(shared.process.pid), journal_size(shared, one.pid)
    junk = {tag: "x" * 4000 for tag in ("WIRE_LIBRARY", "WIRE_DETAIL", "WIRE_PROGRAM", "WIRE_OUTPUT", "WIRE_MODULE", "WIRE_FIELD",
                                        "WIRE_STATE", "WIRE_HOW", "WIRE_FILTER", "WIRE_TRACER", "WIRE_MADE", "WIRE_NOTE_TEXT")}
    for number in range(300):
        for kind in ("WIRE_DISABLE", "WIRE_ENABLE"):
            assert client.ask(kind, WIRE_TARGET=str(one.pid), WIRE_NAME="foo" if number % 2 else "f*", **junk) is None
        for kind in ("WIRE_STOP", "WIRE_START"):
            assert client.ask(kind, WIRE_TARGET=str(one.pid), **junk) is None
    client.close()
    assert journal_size(shared, one.pid) < began + (130 << 10)
    assert memory(shared.process.pid) < before + (1 << 10)
    shared("disable", f"{one.pid}:foo_many")
    for worker in shared.workers(one.pid):
        os.kill(worker, signal.SIGKILL)
    until(lambda: "its worker died: starting another" in shared.log_text(), "the next worker")
    # Root's request waits for the end of the replay (D13). The line "settled" is the member's: his part of the log is used up.
    assert {each["name"]: each["state"] for each in shared.json("list-tracepoints", one.pid)} == \
        {"foo": "enabled", "foo_many": "disabled"}
    assert journal_size(shared, one.pid) < began + 2000  # written anew for the next worker: what is kept, and nothing else


def test_a_users_requests_have_a_limit_that_root_does_not_feel(shared, processes, many_path):
    """(J4) A member fills his part of the journal. Root goes on."""
    one = start_many(processes, many_path)
    shared.add(f"{one.pid}:main", "-n", "first")  # the trace is root's
    client = User(shared.socket, MEMBER)
    before = memory(shared.process.pid)
    contexts = [(f"int:{'c' * 3900}{number}:0") for number in range(14)]
    why, made = None, 0
    while why is None and made < 1000:
        client.socket.sendall(add_with_contexts(one.pid, f"many_{made}", contexts))
        why = client.reply()
        made += why is None
    assert why == ("the requests of user 61901 that must be remembered are too large together: more than 8 MiB "
                   "(remove tracepoints, or detach processes)"), why
    assert 120 < made < 170
    assert journal_size(shared, one.pid) < 9 << 20
    assert memory(shared.process.pid) - before < 12 << 10
    shared.add(f"{one.pid}:main", "-n", "roots")
    shared("disable", f"{one.pid}:roots")
    assert client.ask("WIRE_REMOVE", WIRE_TARGET=str(one.pid), WIRE_NAME="many_*") is None
    client.socket.sendall(add_with_contexts(one.pid, "many_0", contexts))
    assert client.reply() is None
    client.close()
    assert journal_size(shared, one.pid) < 1 << 20


def add_with_contexts(pid, location, contexts):
    def attribute(tag, text):
        return struct.pack("<HHI", TAGS[tag], 0, len(text) + 1) + text.encode() + b"\0"
    body = attribute("WIRE_TARGET", str(pid)) + attribute("WIRE_LOCATION", location)
    body += attribute("WIRE_TRACER", "ctf") + b"".join(attribute("WIRE_CONTEXT_TYPE", context) for context in contexts)
    return message("WIRE_ADD")[:12] + struct.pack("<I", len(body)) + body


def crash(daemon, pid):
    """Kills the worker and the supervisor; the next supervisor has nothing but the journal."""
    settled = daemon.log_text().count("settled")
    daemon.kill_with_workers(pid)
    daemon.start()
    until(lambda: daemon.log_text().count("settled") > settled, "the journal to be done again")


def test_names_of_a_glob_are_known_to_the_next_supervisor(daemon, spin):
    """Removing one of the names after a crash removed all of them at the next."""
    one = spin()
    made = daemon("add", f"{one.pid}:foo*", "-n", "glob").stdout.split()
    daemon.targets.add(str(one.pid))
    assert len(made) >= 2
    crash(daemon, one.pid)
    daemon("rm", f"{one.pid}:glob")
    crash(daemon, one.pid)
    assert sorted(each["name"] for each in daemon.json("list-tracepoints", one.pid)) == sorted(made[1:])
    daemon("rm", f"{one.pid}:*")
    crash(daemon, one.pid)
    assert daemon.json("list-tracepoints", one.pid) == []
    assert journal_size(daemon, one.pid) < 1000


@pytest.mark.parametrize("seed", range(2))
def test_a_journal_gives_the_same_tracepoints_whatever_was_dropped(daemon, spin, seed):
    """(J3) Random commands, then a crash, several times: what is listed stays the same."""
    one, dice = spin(), random.Random(seed)
    daemon.attach(one.pid)
    client = User(daemon.socket)
    names = ["a", "ab", "abc", "b", "b-2", "c"]
    patterns = names + ["*", "a*", "?", "b*", "[ab]*", "*-2", "ab?"]
    sizes = []
    for _ in range(3):
        for _ in range(60):
            kind = dice.choice(["WIRE_ADD", "WIRE_ADD", "WIRE_REMOVE", "WIRE_ENABLE", "WIRE_DISABLE", "WIRE_CONTEXT",
                                "WIRE_NO_CONTEXT"])
            attributes = {"WIRE_TARGET": str(one.pid), "WIRE_NAME": dice.choice(names if kind == "WIRE_ADD" else patterns)}
            if kind == "WIRE_ADD":
                attributes["WIRE_LOCATION"] = dice.choice(["foo", "foo*", "main", "foo_many"])
            if kind == "WIRE_ADD" and dice.random() < 0.3:
                attributes["WIRE_CONTEXT_TYPE"] = "tid"
            if kind in ("WIRE_CONTEXT", "WIRE_NO_CONTEXT"):
                attributes["WIRE_CONTEXT_TYPE"] = dice.choice(["tid", "cpu"])
            client.ask(kind, **attributes)  # may fail: a name is taken, nothing matches
        client.close()
        before = daemon.json("list-tracepoints", one.pid)
        crash(daemon, one.pid)
        client = User(daemon.socket)
        after = daemon.json("list-tracepoints", one.pid)
        assert [described(each) for each in after] == [described(each) for each in before], daemon.log_text()
        sizes.append(journal_size(daemon, one.pid))
    client.close()
    assert max(sizes) < 100 << 10


def test_a_context_is_taken_away_after_a_crash_too(daemon, spin):
    """(J3) Adding and taking away leave nothing only if no tracepoint came between them."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-n", "a")
    words = ["-u", "--pid", one.pid, "-e", "*", "-t", "tid"]
    before = journal_size(daemon, one.pid)
    daemon("add-context", *words)
    daemon("remove-context", *words)
    assert journal_size(daemon, one.pid) < before + 1000
    daemon("add-context", *words)
    daemon.add(f"{one.pid}:foo", "-n", "b", "-t", "tid")
    daemon("remove-context", *words)
    crash(daemon, one.pid)
    assert [each.get("contexts", []) for each in daemon.json("list-tracepoints", one.pid)] == [[], []]


def described(each):
    return each["name"], each["location"], each["state"], each.get("contexts"), each.get("module"), each.get("address")
