"""
Placing probes: probes per second, the target's pause, memory.

All functions of a redis-server that runs, of a postgres that is started for it, and one probe in a process of 64 busy
threads; then the pause against the number of probes and of threads. Each figure is the minimum of some tries: the machine has
other work too. "In all" is from the start of dyntrace to the moment it records, reading the program's symbols included.
"""

import os
import re
import signal
import subprocess
import time

from attach import Redis
from case import missing_program

TRIES = 7
QUICK_TRIES = 3
CODE_SIZE = 256 << 20  # DT_CODE_SIZE
PLACED = re.compile(r"(\d+) tracepoints? placed, target stopped for ([\d.]+) (ms|us)")


class Spin:
    """A process of busy threads."""

    def __init__(self, build, threads):
        ready, ready_end = os.pipe()
        go_end, self.go = os.pipe()
        self.process = subprocess.Popen(
            [os.path.join(build, "tests", "programs", "spin"), "--threads", str(threads), "--calls", str(10 ** 12),
             "--ready-fd", str(ready_end), "--go-fd", str(go_end)], pass_fds=[ready_end, go_end])
        os.close(ready_end)
        os.close(go_end)
        os.read(ready, 1)
        os.close(ready)
        os.write(self.go, b"g")

    def end(self):
        self.process.kill()
        self.process.wait()
        os.close(self.go)


def code_memory(controller):
    """KiB of code memory in use: agent, site table and trampolines. Seen from the controller, which has it open."""
    folder = f"/proc/{controller}/fd"
    sizes = []
    for fd in os.listdir(folder):
        try:  # descriptors come and go meanwhile
            if "memfd:" in os.readlink(f"{folder}/{fd}"):
                sizes.append(os.stat(f"{folder}/{fd}"))
        except FileNotFoundError:
            pass
    code = [size for size in sizes if size.st_size == CODE_SIZE]
    return sum(size.st_blocks for size in code) // 2


def place(bench, pid, words, number):
    """Probes placed, ms stopped, seconds in all, KiB of code."""
    begin = time.monotonic()
    process = subprocess.Popen([os.path.join(bench.build, "dyntrace"), "trace", "-p", str(pid),
                                "-o", os.path.join(bench.scratch, f"placing-{number}"), *words],
                               stderr=subprocess.PIPE, text=True)
    found = None
    for line in process.stderr:
        found = PLACED.search(line)
        if found:
            break
    seconds = time.monotonic() - begin
    memory = code_memory(process.pid) if found else 0
    process.send_signal(signal.SIGINT)
    process.communicate()
    if not found:
        raise RuntimeError(f"dyntrace placed nothing: {' '.join(words)}")
    stopped = float(found[2]) / (1 if found[3] == "ms" else 1000)
    return int(found[1]), stopped, seconds, memory


class Placing:
    def __init__(self, bench, tries):
        self.bench, self.tries, self.number, self.figures = bench, tries, 0, []

    def measure(self, title, pid, words, goal_ms=None, goal_s=None):
        runs = []
        for _ in range(self.tries):
            self.number += 1
            runs.append(place(self.bench, pid, words, self.number))
        count, memory = runs[0][0], runs[-1][3]
        stopped, seconds = min(run[1] for run in runs), min(run[2] for run in runs)
        met = (goal_ms is None or stopped <= goal_ms) and (goal_s is None or seconds <= goal_s)
        self.figures.append({"case": title, "probes": count, "stopped_ms": stopped, "seconds": seconds,
                             "code_kib": memory, "met": met})
        goals = [f"{goal_s} s"] * (goal_s is not None) + [f"{goal_ms} ms"] * (goal_ms is not None)
        print(f"{title:34} {count:7,} {stopped:10.2f} {seconds:9.3f} {count / seconds:11,.0f} "
              f"{1024 * memory / count:9,.0f}  {'goal ' + ', '.join(goals) + (': met' if met else ': NOT met') if goals else ''}",
              flush=True)


def measure_postgres(placing):
    """Postgres isn't set up here: its single-user mode, waiting for commands, is as large."""
    path = next((p for p in ("/usr/lib/postgresql/15/bin/postgres", "/usr/bin/postgres") if os.path.exists(p)), None)
    if not path:
        print("left out: postgres isn't installed")
        return
    begin = time.monotonic()
    result = subprocess.run([os.path.join(placing.bench.build, "dyntrace"), "trace", "-o",
                             os.path.join(placing.bench.scratch, "postgres"), "--probe", "*", "--", path, "--version"],
                            capture_output=True, text=True)
    seconds = time.monotonic() - begin
    print(f"{'postgres --version, all functions':34} {'':7} {'':10} {seconds:9.3f} {'':11} {'':9}  "
          f"goal 1 s, its run included: {'met' if seconds <= 1 and result.returncode == 0 else 'NOT met'}", flush=True)
    placing.figures.append({"case": "postgres", "seconds": seconds, "met": seconds <= 1})


def run(bench, args):
    placing = Placing(bench, QUICK_TRIES if args.quick else TRIES)
    reason = missing_program("redis-server")
    print(f"{'target':34} {'probes':>7} {'stopped ms':>10} {'in all s':>9} {'probes a s':>11} {'bytes each':>9}")
    if not reason:
        redis = Redis(bench.scratch)
        try:
            placing.measure("redis-server, all functions", redis.pid, ["--probe", "*"], 5, 0.2)
            for glob in ("a*", "[a-c]*", "[a-m]*"):
                placing.measure(f"redis-server, {glob}", redis.pid, ["--probe", glob])
        finally:
            redis.end()
    measure_postgres(placing)
    for threads in (1, 8, 64):
        spin = Spin(bench.build, threads)
        try:
            placing.measure(f"one probe, {threads} busy threads", spin.process.pid, ["--probe", "main"],
                            2 if threads == 64 else None)
        finally:
            spin.end()
    return {"placing": placing.figures}, all(figure["met"] for figure in placing.figures)
