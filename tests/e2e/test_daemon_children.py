"""Tracepoints added after the target has forked: its children get them and lose them, too (K1, K2)."""
import os
import subprocess

import pytest
from harness import Snapshot, Trace, until

CALLS, CHILDREN = 100, 3


def children_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(word) for word in file.read().split()]


@pytest.fixture
def server(daemon, program):
    """A server with the agent, and with children forked after the attach."""
    one = program("prefork", "--children", CHILDREN, "--calls", CALLS, "--rounds", 20).wait_ready()
    one.before = Snapshot(one.pid)
    daemon.attach(one.pid)
    one.go().wait_ready()
    one.children = children_of(one.pid)
    assert len(one.children) == CHILDREN
    one.round = lambda: one.go().wait_ready()
    return one


def text_of(pid):
    """The program's code, as the process has it."""
    with open(f"/proc/{pid}/maps") as file:
        ranges = [line.split()[0] for line in file if " r-xp " in line and line.rstrip().endswith("prefork")]
    found = []
    with open(f"/proc/{pid}/mem", "rb") as memory:
        for one in ranges:
            start, end = (int(word, 16) for word in one.split("-"))
            memory.seek(start)
            found.append(memory.read(end - start))
    return found


def has_agent(pid):
    with open(f"/proc/{pid}/maps") as file:
        return "memfd:dyntrace" in file.read()


@pytest.mark.parametrize("words, names", [
    ([], {"foo": 1}), (["-e"], {"foo_entry": 1, "foo_exit": 1}), (["-t", "backtrace"], {"foo": 1})],
    ids=["bare", "exits", "backtrace"])
def test_they_get_what_is_added_later(daemon, server, words, names):
    texts = [text_of(pid) for pid in server.children]
    daemon.add(f"{server.pid}:foo", *words)
    server.round()
    daemon.add(f"{server.pid}:foo_many")
    server.round()
    hits = daemon.hits(server.pid)
    assert hits == {"foo": 2 * (CHILDREN + 1) * CALLS, "foo_many": CHILDREN + 1}
    daemon("rm", f"{server.pid}:foo_many")
    server.round()
    trace = daemon.trace_of(server.pid)
    daemon("detach", server.pid)
    server.before.assert_unchanged(busy=True)  # it has made pipes
    assert [text_of(pid) for pid in server.children] == texts
    assert not [pid for pid in server.children if has_agent(pid)]
    server.round()
    found = Trace(trace)
    assert (found.lost, found.names()) == \
        (0, {"foo_many": CHILDREN + 1, **{name: n * 3 * (CHILDREN + 1) * CALLS for name, n in names.items()}})
    assert {event.pid for event in found.named("foo_many")} == {server.pid, *server.children}


def test_counts_and_durations_of_children(daemon, server):
    """K1: children get memory that the target got after the fork, and keep no descriptor."""
    descriptors = [sorted(os.listdir(f"/proc/{pid}/fd")) for pid in server.children]
    daemon.add(f"{server.pid}:foo", "count")
    daemon.add(f"{server.pid}:foo_many", "-e", "count")
    server.round()
    assert daemon.hits(server.pid) == {"foo": (CHILDREN + 1) * CALLS, "foo_many": CHILDREN + 1}
    assert daemon.json("list-tracepoints", server.pid)[1]["calls"] == CHILDREN + 1
    assert [sorted(os.listdir(f"/proc/{pid}/fd")) for pid in server.children] == descriptors
    daemon("detach", server.pid)
    server.round()
    assert not [pid for pid in server.children if has_agent(pid)]


def test_more_at_one_place_and_a_context_more(daemon, server):
    """Sites are exchanged in the children, too."""
    daemon.add(f"{server.pid}:foo", "-n", "one")
    server.round()
    daemon.add(f"{server.pid}:foo", "-n", "two")
    daemon("add-context", "-u", "-e", "one", "--pid", server.pid, "-t", "tid")
    server.round()
    daemon("disable", f"{server.pid}:one")
    server.round()
    one = (CHILDREN + 1) * CALLS
    assert daemon.hits(server.pid) == {"one": 2 * one, "two": 2 * one}
    trace = daemon.trace_of(server.pid)
    daemon("detach", server.pid)
    found = Trace(trace)
    assert len([event for event in found.named("one") if event.fields]) == one
    server.before.assert_unchanged(busy=True)  # it has made pipes


def test_children_are_named_by_who_they_were_forked_from(daemon, server):
    why = daemon.fails("add", f"{server.children[0]}:foo")
    assert f"was forked from {server.pid}, which is traced already" in why and f"name {server.pid}" in why


def test_a_child_that_can_not_get_it_is_told(daemon, server):
    """A child under a debugger is left alone, with a message; the others get the tracepoint."""
    with subprocess.Popen(["strace", "-p", str(server.children[0]), "-e", "trace=none", "-o", "/dev/null"],
                          stderr=subprocess.PIPE, text=True) as strace:
        try:
            assert "attached" in strace.stderr.readline()
            result = daemon("add", f"{server.pid}:foo", status=None)
        finally:
            strace.terminate()
    assert result.returncode == 0
    assert f"1 process forked from {server.pid} earlier stays without it (process {server.children[0]}: " in result.stderr
    until(lambda: "TracerPid:\t0" in open(f"/proc/{server.children[0]}/status").read(), "strace to be gone")
    server.round()
    assert daemon.hits(server.pid) == {"foo": CHILDREN * CALLS}


def test_nginx_workers_that_were_there(daemon, processes, scratch):
    if not os.path.exists("/usr/sbin/nginx"):
        pytest.skip("no nginx")
    conf = os.path.join(scratch, "nginx.conf")
    port = os.path.join(scratch, "web")
    with open(conf, "w") as file:
        file.write(f"daemon off; master_process on; worker_processes 2; pid {scratch}/nginx.pid; error_log {scratch}/error.log;\n"
                   "events {}\nhttp { access_log off; server { listen unix:" + port + "; location / { return 200 'hello\\n'; } } }\n")
    os.chmod(scratch, 0o755)
    master = processes.start(["/usr/sbin/nginx", "-c", conf, "-p", scratch], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(port) and len(children_of(master.pid)) == 2, "nginx")
    daemon.attach(master.pid)
    before = set(children_of(master.pid))
    os.kill(master.pid, 1)  # a reload: its new workers are forked with the agent
    until(lambda: len(children_of(master.pid)) == 2 and not before & set(children_of(master.pid)), "its new workers")
    daemon.add(f"{master.pid}:recv")
    for _ in range(10):
        answer = subprocess.run(["curl", "-s", "--unix-socket", port, "http://here/"], capture_output=True, text=True, timeout=20)
        assert answer.stdout == "hello\n"
    assert daemon.hits(master.pid)["recv"] >= 10
    daemon("detach", master.pid)
    assert not [pid for pid in children_of(master.pid) if has_agent(pid)]
    answer = subprocess.run(["curl", "-s", "--unix-socket", port, "http://here/"], capture_output=True, text=True, timeout=20)
    assert answer.stdout == "hello\n"
