"""What seccomp filters of a target cost at the attach: `bench/run --fences`."""

import os
import re
import statistics
import subprocess
import time

from peers.fenced import MOUNT, behind
from workload import Workload

COUNTS = (0, 1, 34)
ROUNDS = 15
QUICK_ROUNDS = 5


def attach_once(bench, pid):
    """(ms from the command's start to its probe, ms that the target stood still)"""
    begin = time.perf_counter()
    with subprocess.Popen([os.path.join(bench.build, "dyntrace"), "trace", "-p", str(pid), "--probe", "foo", "-o", bench.path("fences"), "--for", "0.001"],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as tracer:
        line = tracer.stderr.readline()
        took = time.perf_counter() - begin
        tracer.stderr.read()
    stood = re.search(r"target stopped for ([\d.]+) (ms|us)", line)
    if tracer.returncode or not stood:
        raise RuntimeError(f"dyntrace did not attach: {line.strip()}")
    return took * 1000, float(stood[1]) / (1 if stood[2] == "ms" else 1000)


def run(bench, args):
    """In turns, so that other work of the machine is everybody's."""
    workloads, times = {}, {count: [] for count in COUNTS}
    try:
        for count in COUNTS:
            workloads[count] = Workload(bench.program("workload"), prefix=behind(count, MOUNT))
            workloads[count].go()
        for _ in range(QUICK_ROUNDS if args.quick else ROUNDS):
            for count, workload in workloads.items():
                times[count].append(attach_once(bench, workload.pid))
    finally:
        for workload in workloads.values():
            workload.end()
    figures = {str(count): {"attach_ms": statistics.median(took for took, _ in found), "stopped_ms": statistics.median(stood for _, stood in found)}
               for count, found in times.items()}
    print(f"{'filters':>8} {'attach ms':>10} {'stopped ms':>11}   (medians; a filter has 402 instructions)")
    for count, row in figures.items():
        print(f"{count:>8} {row['attach_ms']:10.1f} {row['stopped_ms']:11.2f}")
    return {"fences": figures}, True
