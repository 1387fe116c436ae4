"""
For how long threads are held: as dyntrace prints it, and as a busy thread of the target sees it (`bench/run --held`).

One probe, then one with its exit, in a process of 64 threads that sleep or compute. dyntrace prints the longest stop of the attach; the
thread (`held.c`) also sees the stops that remove the probe and the agent: the longest of all, and their sum. The minimum and the median of
some tries, as the machine has other work too; of another build in turns (`--beside`).
"""

import os
import re
import shutil
import statistics
import subprocess

THREADS = 64
ROUNDS = 15
QUICK_ROUNDS = 5
GOAL_MS = 1.0
NICE = "-15"  # between the thread that watches and the others: dyntrace isn't what they wait for, and gets ahead
PRINTED = re.compile(r"target stopped for ([\d.]+) (ms|us)")
CASES = [(kind, words) for kind in ("idle", "busy") for words in ([], ["-e"])]


class Target:
    """The process, with a thread that watches the clock."""

    def __init__(self, bench, kind):
        self.process = subprocess.Popen([bench.program("held"), str(THREADS), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        self.gaps()

    def gaps(self):
        """Times in ms for which its thread was held since the last call."""
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return [int(word) / 1000 for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.kill()
        self.process.communicate()


def attach_once(bench, build, target, words):
    """(ms printed, ms that the thread saw: the longest, and all)"""
    output = bench.path("held")
    target.gaps()
    done = subprocess.run(["nice", "-n", NICE, os.path.join(build, "dyntrace"), "trace", "-p", str(target.pid), "--function", "work", *words,
                           "--for", "0.02", "-o", output], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    shutil.rmtree(output, ignore_errors=True)
    found = PRINTED.search(done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"dyntrace did not attach: {done.stderr.strip()}")
    gaps = target.gaps()
    return float(found[1]) / (1 if found[2] == "ms" else 1000), max(gaps, default=0), sum(gaps)


def measure(bench, builds, kind, words, rounds):
    """In turns, so that other work of the machine is everybody's."""
    found = {build: [] for build in builds}
    target = Target(bench, kind)
    try:
        for _ in range(rounds):
            for build in builds:
                found[build].append(attach_once(bench, build, target, words))
    finally:
        target.end()
    return {build: list(zip(*runs)) for build, runs in found.items()}


def run(bench, args):
    builds = [bench.build] + ([os.path.abspath(args.beside)] if args.beside else [])
    print(f"{f'one probe, {THREADS} threads':34} {'printed ms':>10} {'median':>7} {'seen ms':>8} {'median':>7} {'in all':>7} {'median':>7}  goal")
    figures, good = [], True
    for kind, words in CASES:
        rows = measure(bench, builds, kind, words, QUICK_ROUNDS if args.quick else ROUNDS)
        for number, columns in enumerate(rows.values()):
            title = f"{kind}{', with exit' if words else ''}{', the other build' if number else ''}"
            least, middle = [min(column) for column in columns], [statistics.median(column) for column in columns]
            met = max(least[:2]) <= GOAL_MS
            figures.append({"case": title, "least_ms": least, "median_ms": middle, "met": met})
            good = good and (met or number > 0)
            print(f"{title:34} {least[0]:10.2f} {middle[0]:7.2f} {least[1]:8.2f} {middle[1]:7.2f} {least[2]:7.2f} {middle[2]:7.2f}  "
                  f"{GOAL_MS:.0f} ms: {'met' if met else 'NOT met'}", flush=True)
    return {"held": figures}, good
