#!/usr/bin/python3 -IS
"""Stands for `dyntrace` and for `sleep` where commands of documents are tested (documents.py): a time by the clock ends when it is over
and the servers have done that much work, too. The documents show what servers do in half a second; beside a hundred other processes half
a second may pass without a single order.

    documents_pace.py dyntrace PATH WORDS...    with `--for TIME`: Ctrl-C comes after the time and the work
    documents_pace.py sleep SECONDS             ends after the time and the work
"""
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time

# How often threads of a server wait, for others or for their next turn: half of those on an idle machine. Who serves shop does its work.
WAITS_PER_SECOND = {"shop": 600, "boxed": 600, "orders.py": 120}
LONGEST = 60  # times the time: a server that does nothing at all is a failure
UNITS = {"": 1, "s": 1, "ms": 0.001}
BEGUN = "; Ctrl-C ends it\n"


def servers():
    """The processes whose work counts: (pid, name)."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as comm:
                name = comm.read().rstrip("\n")
        except OSError:
            continue  # it has ended
        if name in WAITS_PER_SECOND:
            yield pid, name


def waits(pid):
    """How often the threads of a process have waited for something, ever. One that has ended has nothing more to do."""
    total = 0
    try:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8", errors="replace") as status:
                total += int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read(), re.M)[1])
    except OSError:
        return math.inf
    return total


def work(seconds):
    """Waits for that time, and until each server has done the work of that time."""
    begun = time.monotonic()
    goals = {pid: waits(pid) + WAITS_PER_SECOND[name] * seconds for pid, name in servers()}
    time.sleep(seconds)
    while any(waits(pid) < goal for pid, goal in goals.items()) and time.monotonic() < begun + LONGEST * seconds:
        time.sleep(0.02)


def trace(path, words):
    """Runs dyntrace, which says when it has begun: without -q, whose work is done here."""
    at = words.index("--for") + 1
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", words[at]).groups()
    seconds = float(number) * UNITS[unit]
    words[at] = str(seconds * LONGEST)
    quiet = "-q" in words
    process = subprocess.Popen([path, *(word for word in words if word != "-q")], stderr=subprocess.PIPE, text=True)

    def end():
        work(seconds)
        process.send_signal(signal.SIGINT)

    has_begun, held_back = False, []
    for line in process.stderr:
        if line.endswith(BEGUN):
            has_begun, held_back = True, []
            threading.Thread(target=end, daemon=True).start()
            if quiet:
                continue
        if quiet and not has_begun:
            held_back.append(line)  # what -q leaves out, or why it failed
        elif not quiet or line.startswith("dyntrace: "):
            sys.stderr.write(line)
    sys.stderr.write("".join(held_back))
    return process.wait()


def main():
    kind, first, *words = sys.argv[1:]
    if kind == "sleep":
        work(float(first))
    elif "--for" in words:
        return trace(first, words)
    else:
        os.execv(first, [first, *words])
    return 0


if __name__ == "__main__":
    sys.exit(main())
