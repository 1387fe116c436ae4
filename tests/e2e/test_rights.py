"""The tables of docs/rights.md: every cell is tried with a real daemon."""
import os
import re
import shutil
import subprocess

import pytest
from daemon_harness import Daemon, UnderYama, helpers
from exec_points import GROUP, MEMBER, furnish
from fixtures import ROOT
from harness import until

ROOT_USER = (0, 0, [])
OTHER_MEMBER = (61902, 61902, [GROUP])
STRANGER = (61903, 61903, [])
USERS = {"root": ROOT_USER, "member": MEMBER, "stranger": STRANGER, "user": STRANGER}
OWNERS = {"root's": ROOT_USER, "a member's": MEMBER, "another member's": OTHER_MEMBER, "a stranger's": STRANGER}


def tables():
    """The rows of both tables, as dictionaries."""
    found = []
    with open(os.path.join(ROOT, "docs", "rights.md")) as file:
        for block in re.findall(r"(?:^\|.*\n)+", file.read(), re.M):
            head, _, *rows = ([cell.strip() for cell in line.strip("|\n").split("|")] for line in block.splitlines())
            found.append([dict(zip(head, row)) for row in rows])
    return found


TABLE, REASONS = tables()[:2]
REASONS = {row["cell"]: row["the command fails with"] for row in REASONS}
COMMANDS = list(TABLE[0])[3:]
DAEMONS = list(dict.fromkeys(row["daemon"] for row in TABLE))


class Victim:
    """A process of the table that calls foo."""

    def __init__(self, what, owner, daemon, place, processes):
        words = [f"{place}/turncoat", "--innocent"]
        if what == "a setuid-root program":
            words[0] = f"{place}/rooted"
        elif what == "not dumpable":
            words[1] = "--hidden"
        elif what.endswith("a user namespace"):
            words = ["unshare", "--user", *(["--map-root-user"] if what.startswith("root") else []), *words]
        elif what.endswith("preloaded"):
            words = ["env", f"LD_PRELOAD={place}/libdyntrace-agent.so", f"DYNTRACE_SOCKET={daemon.socket}", *words]
        command = Daemon.for_user(words, owner)
        if what == "in root's user namespace":
            command = ["unshare", "--user", "sh", "-c", 'read word && exec "$@"', "sh", *command]
        if what == "in a pid namespace":
            command = ["unshare", "--pid", "--fork", "--kill-child", *command]
        self.process = processes.start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if what == "in root's user namespace":
            self.map_users()
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid
        if what == "in a pid namespace":
            with open(f"/proc/{self.pid}/task/{self.pid}/children") as file:
                self.pid = int(file.read())

    def map_users(self):
        """Everybody is who he was, in a namespace that root has made."""
        until(lambda: os.readlink(f"/proc/{self.process.pid}/ns/user") != os.readlink("/proc/self/ns/user"), "the namespace")
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{self.process.pid}/{name}", "w") as file:
                file.write("0 0 100000")
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def close(self):
        self.process.kill()
        self.process.wait()


def owner_of(row):
    """Special processes are the member's, and root tries the member's ones."""
    who = USERS[row["who"]]
    if row["process"] in OWNERS:
        return OWNERS[row["process"]]
    return MEMBER if who == ROOT_USER else who


def words_of(command, pid, place, folder):
    return {"record": ["add", f"{pid}:foo"], "log FILE": ["add", f"{pid}:foo", "log", f"{folder}/lines-{pid}"],
            "log": ["add", f"{pid}:foo", "log"], "load": ["load", pid, f"{place}/library.so"],
            "call": ["add", f"{pid}:foo", "call", f"{place}/library.so:called"], "lttng": ["add", f"{pid}:foo", "lttng"]}[command]


def start_daemon(name, place, processes):
    """The daemon of a cell in the column `daemon`."""
    words = [word for word in name.split() if word.startswith("--")]
    scratch, user, kind = place, None, Daemon
    if name == "his own":
        user, scratch, words = STRANGER, f"{place}/home{STRANGER[0]}", []
    elif name.startswith("Yama"):
        kind = UnderYama
    daemon = kind(place, processes, scratch, words if user else ["--group", GROUP, *words], as_user=user)
    daemon.log = os.path.join(place, "daemon.log")
    daemon.scope = name.split()[1] if name.startswith("Yama") else None
    return daemon


def try_row(row, daemon, place, processes):
    """The cells that aren't true."""
    wrong = []
    client, victim = USERS[row["who"]], Victim(row["process"], owner_of(row), daemon, place, processes)
    try:
        if row["process"].endswith("preloaded") and row["record"] == "yes":
            until(lambda: victim.pid in [each["pid"] for each in daemon.json("list-processes")], "its registration")
        for command in COMMANDS:
            result = daemon(*words_of(command, victim.pid, place, f"{place}/home{client[0]}"), user=client, status=None)
            wanted = row[command]
            if wanted == "yes" and result.returncode == 0:
                continue
            if wanted != "yes" and result.returncode != 0 and REASONS[wanted] in result.stderr:
                continue
            wrong.append((row["who"], row["process"], command, wanted, result.returncode, result.stderr))
        if "yes" in [row[command] for command in COMMANDS]:
            daemon("detach", victim.pid, user=client, status=None)
        elif not wrong:
            assert helpers("worker", victim.pid) == []
    finally:
        victim.close()
    return wrong


@pytest.mark.limit(120)
@pytest.mark.parametrize("name", DAEMONS)
def test_every_cell_is_true(build, processes, scratch, program_path, name):
    furnish(scratch, build, program_path)
    shutil.copy(os.path.join(build, "libdyntrace-lttng.so"), scratch)
    for user in (ROOT_USER, MEMBER, OTHER_MEMBER, STRANGER):
        os.mkdir(f"{scratch}/home{user[0]}", 0o700)
        os.chown(f"{scratch}/home{user[0]}", *user[:2])
    daemon = start_daemon(name, scratch, processes)
    try:
        daemon.start()
        rows = [row for row in TABLE if row["daemon"] == name]
        assert [wrong for row in rows for wrong in try_row(row, daemon, scratch, processes)] == []
    finally:
        daemon.close()


def test_the_table_is_whole():
    """All kinds of users, processes, daemons and reasons are in it, and no cell is of another kind."""
    assert {row["who"] for row in TABLE} == set(USERS)
    assert {row[command] for row in TABLE for command in COMMANDS} == {"yes", *REASONS}
    assert {"default", "--own-only", "--all-targets", "his own", "Yama 1", "Yama 2", "Yama 3"} <= set(DAEMONS)
    seen = [(row["who"], row["process"], row["daemon"]) for row in TABLE]
    assert len(seen) == len(set(seen)) and COMMANDS == ["record", "log FILE", "log", "load", "call", "lttng"]
