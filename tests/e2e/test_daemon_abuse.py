"""Malicious and clumsy clients, agents and targets: they don't delay others."""
import os
import socket
import struct
import time

import pytest
from daemon_harness import CALLS, KINDS, TAGS, connect, message
from harness import until


def reply_of(one):
    """All bytes up to the end of the connection, or to the first whole message."""
    bytes_ = b""
    while len(bytes_) < 16 or len(bytes_) < 16 + struct.unpack("<I", bytes_[12:16])[0]:
        more = one.recv(65536)
        if not more:
            break
        bytes_ += more
    return bytes_


def memory(pid):
    with open(f"/proc/{pid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


@pytest.mark.parametrize("garbage, text", [
    (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"doesn't speak dyntrace's protocol"),
    (message("WIRE_STATUS", version=99), b"speaks version 99 of the protocol"),
    (struct.pack("<IHHII", 0x74795964, 1, 999, 1, 0), b"unknown kind 999"),
    (struct.pack("<IHHII", 0x74795964, 1, 1, 1, 0xffffffff), b"too long"),
    (struct.pack("<IHHII", 0x74795964, 1, 1, 1, 4) + b"\1\0\0\0", b"malformed"),
    (struct.pack("<IHHII", 0x74795964, 1, 1, 1, 11) + struct.pack("<HHI", TAGS["WIRE_TARGET"], 0, 3) + b"abc", b"malformed"),
    (struct.pack("<IHHII", 0x74795964, 1, 1, 1, 11) + struct.pack("<HHI", TAGS["WIRE_PID"], 0, 3) + b"abc", b"malformed"),
])
def test_garbage_is_answered_and_dropped(daemon, garbage, text):
    with connect(daemon.socket) as one:
        one.sendall(garbage)
        assert text in reply_of(one)
        assert one.recv(100) == b""
    daemon("status")
    assert "dropped pid" in daemon.log_text()


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"WIRE_STATUS", "WIRE_PROCESSES", "WIRE_WATCH", "WIRE_START", "WIRE_STOP",
                                                     "WIRE_FLUSH", "WIRE_SNAPSHOT", "WIRE_REGISTER"}))
def test_requests_without_what_they_need_fail(daemon, kind):
    with connect(daemon.socket) as one:
        one.sendall(message(kind))
        answer = reply_of(one)
        assert struct.unpack("<H", answer[6:8])[0] == KINDS["WIRE_REPLY"]
        assert struct.pack("<H", TAGS["WIRE_ERROR_TEXT"]) in answer
    daemon("status")


def test_a_byte_now_and_then_and_a_silent_client_hold_nobody_up(daemon, spin):
    slow, silent = connect(daemon.socket), connect(daemon.socket)
    request = message("WIRE_STATUS")
    one = spin()
    for byte in request[:-1]:
        slow.sendall(bytes([byte]))
        began = time.monotonic()
        daemon("status")
        assert time.monotonic() - began < 20  # half a message is waited for longer than that
    daemon.add(f"{one.pid}:foo")
    slow.sendall(request[-1:])
    assert daemon.socket.encode() in reply_of(slow)
    slow.close()
    silent.close()


OTHER_CALLS = 20
ANSWERS_MAX = 150  # a socket holds 16; the daemon reads 335 requests at once


def test_a_client_that_never_reads_costs_no_more_than_one_answer(daemon, spin):
    """(D2) Its next request isn't read before the answer was taken."""
    one = spin()
    for number in range(10):
        daemon.add(f"{one.pid}:foo", "-n", f"a-rather-long-name-for-a-tracepoint-{number}" + "x" * 100)
    before = memory(daemon.process.pid)
    greedy = connect(daemon.socket)
    greedy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    greedy.settimeout(0.2)
    with pytest.raises(TimeoutError):  # its own requests wait in the socket
        while True:
            greedy.sendall(message("WIRE_TRACEPOINTS", WIRE_TARGET=str(one.pid)) * 10)
    answers, before_calls = daemon.log_text().count(" list-tracepoints "), -1
    while answers != before_calls:  # until the daemon does nothing for it any more
        before_calls = answers
        for _ in range(OTHER_CALLS):
            daemon("list-processes")
        answers = daemon.log_text().count(" list-tracepoints ")
        assert answers < ANSWERS_MAX  # as many as the socket holds, and no request more
    assert memory(daemon.process.pid) - before < 4 << 10  # KiB
    assert len(daemon.hits(one.pid)) == 10
    greedy.close()


def test_a_watcher_that_never_reads_is_dropped(daemon, spin):
    """(D1) Its queue is bounded."""
    one = spin()
    daemon.attach(one.pid)
    deaf = connect(daemon.socket)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    deaf.sendall(message("WIRE_WATCH"))
    until(lambda: " watch: ok" in daemon.log_text(), "the watch")
    name = "n" * 200
    with connect(daemon.socket) as busy:
        for number in range(1000):
            for kind, text in (("WIRE_ADD", name), ("WIRE_REMOVE", name + "*")):
                busy.sendall(message(kind, WIRE_TARGET=str(one.pid), WIRE_LOCATION="*", WIRE_NAME=text))
                until_reply(busy)
            if "doesn't read what it asked for" in daemon.log_text():
                break
        else:
            pytest.fail("the watcher was not dropped")
    assert 10 < number  # not at once either: a watcher may be late
    deaf.close()
    daemon("status")


def until_reply(one):
    bytes_ = b""
    while True:
        bytes_ += one.recv(65536)
        while len(bytes_) >= 16 and len(bytes_) >= 16 + struct.unpack("<I", bytes_[12:16])[0]:
            kind, _, length = struct.unpack("<HII", bytes_[6:16])
            if kind == KINDS["WIRE_REPLY"]:
                return
            bytes_ = bytes_[16 + length:]


def test_a_thousand_requests_at_once_from_one_client(daemon):
    """(D2) One request at a time, in order."""
    with connect(daemon.socket) as one:
        one.sendall(b"".join(message("WIRE_STATUS", sequence=number) for number in range(2000)))
        bytes_ = b""
        replies = []
        while len(replies) < 2000:
            bytes_ += one.recv(1 << 20)
            while len(bytes_) >= 16 and len(bytes_) >= 16 + struct.unpack("<I", bytes_[12:16])[0]:
                kind, sequence, length = struct.unpack("<HII", bytes_[6:16])
                if kind == KINDS["WIRE_REPLY"]:
                    replies.append(sequence)
                bytes_ = bytes_[16 + length:]
        assert replies == list(range(2000))


def test_descriptors_that_a_client_sends_are_not_kept(daemon):
    with connect(daemon.socket) as one:
        one.sendall(message("WIRE_STATUS"))
        reply_of(one)
        before = len(os.listdir(f"/proc/{daemon.process.pid}/fd"))
        socket.send_fds(one, [message("WIRE_STATUS")], [0] * 100)
        reply_of(one)
        until(lambda: len(os.listdir(f"/proc/{daemon.process.pid}/fd")) <= before + 10, "descriptors to be closed")


def test_a_target_that_spoils_its_buffers_harms_only_its_own_trace(daemon, spin):
    """All of the pool is overwritten through /proc/PID/mem, as the target itself could do."""
    bad, good = spin(), spin()
    for one in (bad, good):
        daemon.add(f"{one.pid}:foo")
        one.round()
    with open(f"/proc/{bad.pid}/maps") as lines:
        pools = [line.split() for line in lines if "dyntrace-pool" in line]
    assert pools
    with open(f"/proc/{bad.pid}/mem", "r+b", buffering=0) as mem:
        for words in pools:
            start, end = (int(word, 16) for word in words[0].split("-"))
            for at in range(start, min(end, start + (4 << 20)), 1 << 20):
                try:
                    mem.seek(at)
                    mem.write(os.urandom(min(1 << 20, end - at)))
                except OSError:
                    pass
    bad.process.kill()
    until(lambda: daemon.json("list-processes")[0]["pid"] == good.pid, "the spoilt one to be gone")
    good.round()
    assert daemon.finish(good.pid).names() == {"foo": 2 * CALLS}
