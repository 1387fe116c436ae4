"""An upgrade of dyntrace while the agent of the version before is in a process: it is left alone, and goes on."""
import os
import re
import signal
import struct

from daemon_harness import CALLS
from fixtures import ROOT
from harness import maps, text, until

with open(os.path.join(ROOT, "src", "shared", "layout.h"), encoding="utf-8") as file:
    LAYOUT = file.read()
MAGIC = int(re.search(r"#define DT_MAGIC (0x[0-9a-f]+)ULL", LAYOUT)[1], 16)
VERSION = int(re.search(r"#define DT_LAYOUT_VERSION (\d+)", LAYOUT)[1])


def become_older(controllers):
    """Makes the agent one of the version before. Only the memory of those who put it there can be written to: the agent's
    file is sealed."""
    changed = 0
    for pid in controllers:
        with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
            for line in maps(pid):
                where, rights = line.split()[:2]
                start = int(where.split("-")[0], 16)
                if rights != "rw-s":
                    continue
                memory.seek(start)
                if memory.read(12) == struct.pack("<QI", MAGIC, VERSION):
                    memory.seek(start + 8)
                    memory.write(struct.pack("<I", VERSION - 1))
                    changed += 1
    assert changed


REASON = "has the agent of another version of dyntrace (use that one)"


def test_commands_leave_it_alone(dyntrace, spin):
    """The probes stay, byte for byte, and the process runs to its end."""
    target = spin(rounds=5)
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.round()
    become_older([tracing.process.pid])
    tracing.process.kill()
    tracing.process.communicate()
    probed = text(target.pid)
    for words in (["detach", target.pid], ["trace", "-o", dyntrace.new_output(), "--probe", "foo", "-p", target.pid],
                  ["trace", "--tracer", "count", "--function", "foo", "-p", target.pid]):
        assert REASON in dyntrace.fails(*words, status=125 if words[0] == "trace" else 1)
        assert text(target.pid) == probed != tracing.before.text
        target.round()
    target.round()
    target.finish()


def test_the_daemon_after_the_upgrade(new_daemon, spin):
    """Killed with its tracepoints in a process; the next one, of another version, says why it leaves that process alone, and
    serves others."""
    first, target, other = new_daemon().start(), spin(rounds=3), spin(rounds=1)
    before = text(target.pid)
    first("add", f"{target.pid}:foo", "count")
    target.round()
    workers = first.workers(target.pid)
    become_older(workers)
    first.kill()
    for pid in workers:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not first.workers(target.pid), "the end of its worker")
    probed = text(target.pid)
    second = new_daemon().start()
    assert REASON in second.fails("add", f"{target.pid}:foo")
    assert text(target.pid) == probed != before
    target.round()
    second("add", f"{other.pid}:foo", "count")
    other.round()
    assert second.hits(other.pid) == {"foo": CALLS}
    second("detach", other.pid)
    other.finish()
    target.round()
    target.finish()


def test_a_daemon_that_runs_on_beside_the_new_files(new_daemon, place, spin):
    """It goes on counting where it is, and says why it doesn't attach to another process."""
    daemon, traced, other = new_daemon(), spin(rounds=2), spin(rounds=1)
    daemon.build = place
    daemon.start()
    daemon("add", f"{traced.pid}:foo", "count")
    traced.round()
    agent = os.path.join(place, "libdyntrace-agent.so")
    name = f"dt_version_{VERSION}".encode()
    with open(agent, "rb") as file:
        newer = file.read().replace(name, name[:-1] + b"?")
    os.unlink(agent)  # as dpkg does: the old file lives as long as somebody has it
    with open(agent, "wb") as file:
        file.write(newer)
    assert "restart dyntraced after an upgrade" in daemon.fails("add", f"{other.pid}:foo", "count")
    traced.round()
    assert daemon.hits(traced.pid) == {"foo": 2 * CALLS}
    daemon("detach", traced.pid)
    for one in (traced, other):
        one.finish()
