"""
Attach to and detach from a busy redis-server, 1,000 times.

Beside redis-benchmark a client pings in a loop; its longest wait is the cost of a stop for the server's users,
plus the cost of two busy cores: so the same is measured for as long without attaching. The server
has the first CPU, its clients have the last, server and pinging client with precedence over what else the
machine does; dyntrace runs where it can, with the priority of any command. At the end
text, mappings, descriptors and threads must be as they were; memory is printed.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time

from case import missing_program
from peers.dyntrace import read_summary
from workload import wait_until

TIMES = 1000
QUICK_TIMES = 50
WARM_UP_SECONDS = 3  # redis has taken the memory that this load needs
HERE = os.path.dirname(os.path.abspath(__file__))


class Redis:
    """A server on a socket of its own, without files."""

    def __init__(self, directory):
        self.socket = os.path.join(directory, "socket")
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.socket, "--save", "",
             "--appendonly", "no", "--dir", directory],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        os.sched_setaffinity(self.pid, {0})
        take_precedence(self.pid)
        wait_until(lambda: os.path.exists(self.socket), "starting redis-server", self.process)

    def load(self):
        process = subprocess.Popen(["redis-benchmark", "-s", self.socket, "-q", "-l", "-c", "4",
                                    "-t", "set,get"], stdout=subprocess.DEVNULL)
        os.sched_setaffinity(process.pid, {os.cpu_count() - 1})
        return process

    def end(self):
        end(self.process)


def take_precedence(pid):
    """Raises the priority, where allowed, so that other work on the machine delays the server less."""
    try:
        os.setpriority(os.PRIO_PROCESS, pid, -20)
    except PermissionError:
        pass


def end(process):
    process.terminate()
    process.wait()


class Pinger:
    def __init__(self, redis):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "ping.py"), redis.socket],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def end(self):
        words = self.process.communicate()[0].split()
        if len(words) != 5:
            raise RuntimeError("the pinging client failed")
        return dict(zip(("p50", "p99", "p99.9", "longest", "pings"), map(float, words)))


def read(pid, name):
    with open(f"/proc/{pid}/{name}") as file:
        return file.read()


def mappings(pid):
    return read(pid, "maps").splitlines()


def text_hash(pid):
    """Of every executable mapping that has a file."""
    digest = hashlib.sha256()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in mappings(pid):
            found = re.match(r"(\w+)-(\w+) r.xp .* /", line)
            if found:
                begin, past = int(found[1], 16), int(found[2], 16)
                memory.seek(begin)
                digest.update(memory.read(past - begin))
    return digest.hexdigest()


def memory_kib(pid):
    found = re.findall(r"^(Rss|Pss|Private_Dirty): +(\d+) kB", read(pid, "smaps_rollup"), re.MULTILINE)
    return {name: int(value) for name, value in found}


class Snapshot:
    def __init__(self, pid):
        self.maps = mappings(pid)
        self.text = text_hash(pid)
        self.memory = memory_kib(pid)
        self.descriptors = len(os.listdir(f"/proc/{pid}/fd"))
        self.threads = len(os.listdir(f"/proc/{pid}/task"))


def differences(before, after):
    """The differences between two snapshots, in words."""
    found = [f"mapping gone: {line}" for line in before.maps if line not in after.maps]
    found += [f"mapping new: {line}" for line in after.maps if line not in before.maps]
    for name in ("text", "descriptors", "threads"):
        if getattr(before, name) != getattr(after, name):
            found.append(f"{name}: {getattr(before, name)}, now {getattr(after, name)}")
    return found


def attach_once(bench, pid):
    """(seconds, events) of one attach and detach."""
    output = bench.path("trace")
    begin = time.monotonic()
    done = subprocess.run(
        [os.path.join(bench.build, "dyntrace"), "trace", "-p", str(pid), "--function",
         "processCommand", "--for", "0.01", "-o", output], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.monotonic() - begin
    shutil.rmtree(output, ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"dyntrace ended with {done.returncode}: {done.stderr.strip()}")
    return seconds, read_summary(done.stderr)[0]


def quiet_snapshot(redis):
    """When no load runs, and redis has put its clients' memory away."""
    wait_until(lambda: len(os.listdir(f"/proc/{redis.pid}/fd")) == redis.idle_descriptors,
               "closing the clients' connections")
    return Snapshot(redis.pid)


def under_load(redis, action):
    """The pinging client's waits while action() ran beside redis-benchmark."""
    load = redis.load()
    try:
        pinger = Pinger(redis)
        try:
            result = action()
        finally:
            seen = pinger.end()
    finally:
        end(load)
    return result, seen


def measure(bench, redis, times):
    """(snapshots before and after, what the client saw while attaching and in as much time without, rounds)."""
    redis.idle_descriptors = len(os.listdir(f"/proc/{redis.pid}/fd"))
    under_load(redis, lambda: time.sleep(WARM_UP_SECONDS))
    before = quiet_snapshot(redis)
    rounds, busy = under_load(redis, lambda: [attach_once(bench, redis.pid) for _ in range(times)])
    after = quiet_snapshot(redis)
    _, quiet = under_load(redis, lambda: time.sleep(sum(seconds for seconds, _ in rounds)))
    return before, after, quiet, busy, rounds


def print_pings(title, seen):
    print(f"{title:34}" + "".join(f"{seen[name]:>12.3f}" for name in ("p50", "p99", "p99.9", "longest"))
          + f"{seen['pings']:>12,.0f}")


def run(bench, args):
    reason = missing_program("redis-server", "redis-benchmark")
    if reason:
        sys.exit(f"bench/run: --attach: {reason}")
    redis = Redis(bench.scratch)
    try:
        before, after, quiet, busy, rounds = measure(bench, redis, QUICK_TIMES if args.quick else TIMES)
    finally:
        redis.end()
    events = sum(events for _, events in rounds)
    print(f"{len(rounds)} times attached and detached; {events:,} events; "
          f"{sum(seconds for seconds, _ in rounds) / len(rounds) * 1e3:.0f} ms each, 10 of them tracing\n")
    print(f"{'a client waits for PING, ms':34}" + "".join(
        f"{head:>12}" for head in ("p50", "p99", "p99.9", "longest", "pings")))
    print_pings("nobody attaches", quiet)
    print_pings("attaching and detaching", busy)
    print(f"\n{'memory, KiB':34}" + "".join(f"{name:>16}" for name in before.memory))
    for title, snapshot in (("before", before), ("after", after)):
        print(f"{title:34}" + "".join(f"{value:>16,}" for value in snapshot.memory.values()))
    changed = differences(before, after)
    print("\ntext, mappings, descriptors and threads are as before" if not changed
          else "\nNOT as before:\n" + "\n".join(changed))
    return {"attach": {"times": len(rounds), "events": events, "quiet_ms": quiet, "busy_ms": busy,
                       "memory_kib": [before.memory, after.memory], "changed": changed}}, not changed
