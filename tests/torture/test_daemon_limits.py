"""The daemon's limits: 200 targets, 20,000 tracepoints, 1,000 clients with requests at once."""
import concurrent.futures
import os

import pytest
import test_daemon_bounds
from daemon_harness import CALLS, connect, message
from harness import Redis, Trace, until
from test_daemon_bounds import GROUP, descriptors, memory, shared  # noqa: F401
from test_daemon_shares import connections


@pytest.mark.limit(1200)
def test_two_hundred_targets(new_daemon, spin):
    daemon = new_daemon("--buffer-size", "1M").start()
    several = [spin(rounds=3) for _ in range(200)]
    daemon.targets |= {str(one.pid) for one in several}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        names = list(pool.map(lambda one: daemon("add", f"{one.pid}:foo", seconds=300).stdout, several))
    assert names == ["foo\n"] * 200
    assert daemon.json("status")["targets"] == 200
    for one in several:
        one.round()
    daemon("flush", seconds=300)
    assert [len(Trace(each["trace"]).events) for each in daemon.json("list-processes")] == [CALLS] * 200
    daemon.kill()
    daemon.start()
    until(lambda: len(daemon.json("list-processes")) == 200, "all to be found again", seconds=60)
    for one in several:
        one.round()
    hits = [daemon.hits(one.pid) for one in several[::20]]
    assert hits == [{"foo": 2 * CALLS}] * 10
    assert daemon.stop() == 0
    for one in several:
        one.finish()


@pytest.mark.limit(1200)
def test_twenty_thousand_tracepoints(daemon, processes, scratch):
    servers = []
    for number in range(5):
        folder = os.path.join(scratch, str(number))
        os.mkdir(folder)
        servers.append(Redis(processes, folder))
    made = 0
    for server in servers:
        daemon.targets.add(str(server.pid))
        made += len(daemon("add", f"{server.pid}:*@redis-check-rdb", seconds=300).stdout.splitlines())
    assert made >= 20000
    placed = [one for server in servers for one in daemon.json("list-tracepoints", server.pid) if one.get("placed")]
    assert len(placed) == made
    for server in servers:
        server.benchmark(requests=2000)
        assert sum(daemon.hits(server.pid).values()) > 0
    for server in servers:
        daemon("rm", f"{server.pid}:*", seconds=300)
        assert daemon.json("list-tracepoints", server.pid) == []
        assert server.answers()


@pytest.mark.limit(600)
def test_a_thousand_clients_that_change_one_target(daemon, spin):
    one = spin()
    daemon.attach(one.pid)
    clients = [connect(daemon.socket) for _ in range(1000)]
    for number, client in enumerate(clients):
        client.settimeout(500)
        client.sendall(message("WIRE_ADD", WIRE_TARGET=str(one.pid), WIRE_LOCATION="foo", WIRE_NAME=f"n{number}"))
        client.sendall(message("WIRE_REMOVE", WIRE_TARGET=str(one.pid), WIRE_NAME=f"n{number}", sequence=2))
    until(lambda: daemon.log_text().count(" rm target=") == 1000, "all to be done", seconds=500)
    for client in clients:
        client.close()
    assert daemon.json("list-tracepoints", one.pid) == []
    one.round()
    daemon("detach", one.pid)


@pytest.mark.limit(600)
def test_thirty_four_users_with_all_their_connections(shared, spin):  # noqa: F811
    """Agents of strangers and clients of members, as many as each gets, for as long as they like: root does all that it did."""
    before, fds = memory(shared.process.pid), descriptors(shared.process.pid)
    held = []
    for number in range(34):
        held += connections(shared.socket + ".agents", (62000 + number, 62000 + number, []), 128)[0]
    for number in range(6):
        held += connections(shared.socket, (63000 + number, 63000 + number, [GROUP]), 1024)[0]
    assert len(held) == 1024 * 7 // 8 + 4096 * 7 // 8
    assert descriptors(shared.process.pid) < fds + 4096 + 1024
    assert memory(shared.process.pid) < before + (64 << 10)
    one = spin()
    shared.add(f"{one.pid}:foo")
    one.round()
    assert shared.hits(one.pid) == {"foo": CALLS}
    shared("detach", one.pid)
    for client in held:
        client.close()
    until(lambda: descriptors(shared.process.pid) < fds + 10, "all to be gone", seconds=60)
    one.finish()


@pytest.mark.limit(600)
@pytest.mark.parametrize("seed", range(100, 130))
def test_journals_of_random_commands(daemon, spin, seed):
    test_daemon_bounds.test_a_journal_gives_the_same_tracepoints_whatever_was_dropped(daemon, spin, seed)
