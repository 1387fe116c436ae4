"""
One thread hits a probe 100,000,000 times, at full speed, into a pool of 64 MiB and a trace on a RAM disk.

Each hit must be an event in the trace or be counted as lost, exactly.
"""

import os
import re
import subprocess
import time

from peers.dyntrace import Bare, read_summary

HITS = 100_000_000
QUICK_HITS = 10_000_000


class Flood(Bare):
    name = "flood"
    buffer_size = "64M"


def trace_size(directory):
    return sum(entry.stat().st_size for entry in os.scandir(directory))


def count_events(directory):
    """As babeltrace2 counts them."""
    text = subprocess.run(["babeltrace2", directory, "-c", "sink.utils.counter"], check=True,
                          text=True, stdout=subprocess.PIPE).stdout
    return int(re.findall(r"(\d+) Event messages", text)[-1])


def hit(case, hits):
    """Seconds that the loop took."""
    case.start()
    begin = time.monotonic()
    case.workload.measure(case.kind, hits, 1)
    return time.monotonic() - begin


def print_figures(figures):
    for name, value in figures.items():
        if isinstance(value, float):
            print(f"{name:34}{value:>16,.2f}")
        else:
            print(f"{name:34}{value:>16,}")


def run(bench, args):
    hits = QUICK_HITS if args.quick else HITS
    case = Flood(bench)
    try:
        seconds = hit(case, hits)
    finally:
        case.stop()
    recorded, lost = read_summary(case.summary)
    directory = bench.path(case.name)
    figures = {
        "hits made": hits,
        "recorded": recorded,
        "lost": lost,
        "ns a hit, wall clock": seconds / hits * 1e9,
        "MB/s made": hits * 8 / seconds / 1e6,
        "bytes of trace": trace_size(directory),
    }
    if args.judge:
        figures["events counted by babeltrace2"] = count_events(directory)
    print_figures(figures)
    good = recorded + lost == hits and figures.get("events counted by babeltrace2", recorded) == recorded
    print("every hit is accounted for" if good else "NOT every hit is accounted for")
    if lost:
        print(f"{lost / hits:.2%} lost: the thread filled 64 MiB faster than the controller wrote it out")
    return {"flood": {**figures, "exact": good}}, good
