#!/usr/bin/python3
"""ping.py SOCKET: PINGs a redis in a loop until stdin ends, then prints how long the answers took, in ms."""

import gc
import os
import socket
import sys
import threading
import time


def take_precedence():
    """What is to be seen is the server's delay, not the wait for a CPU here."""
    os.sched_setaffinity(0, {os.cpu_count() - 1})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        pass


def main():
    take_precedence()
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(sys.argv[1])
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    gc.disable()
    times = []
    while not ended.is_set():
        begin = time.monotonic_ns()
        connection.sendall(b"PING\r\n")
        answer = connection.recv(64)
        times.append(time.monotonic_ns() - begin)
        if answer != b"+PONG\r\n":
            sys.exit(f"ping: redis said {answer!r}")
    times.sort()
    for share in (0.5, 0.99, 0.999):
        print(f"{times[int(len(times) * share)] / 1e6:.4f}", end=" ")
    print(f"{times[-1] / 1e6:.4f} {len(times)}")


main()
