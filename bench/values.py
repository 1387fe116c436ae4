#!/usr/bin/python3
"""bench/values.py [BUILD]: what values, filters and backtraces cost, as ratios to one rdtsc of the same run."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GOALS = {"three ints": 1.4, "filter says no": 0.4}
CASES = [
    # name, what is called, calls, options
    ("three ints", "ints", 200000, ["--function", "ints"]),
    ("three ints, filter says yes", "ints", 200000, ["--function", "ints", "--filter", "b == 2"]),
    ("filter says no", "ints", 200000, ["--function", "ints", "--filter", "b == 7"]),
    ("filter on memory says no", "text", 20000, ["--function", "text", "--filter", "s[0] == 'x'"]),
    ("--every 1000", "ints", 200000, ["--function", "ints", "--every", "1000"]),
    ("one double", "real", 200000, ["--function", "real"]),
    ("one string of 20 bytes", "text", 20000, ["--function", "text"]),
    ("backtrace, 4 frames of its own", "deep:4", 5000, ["--probe", "leaf", "-t", "backtrace"]),
    ("backtrace, 20 frames of its own", "deep:20", 5000, ["--probe", "leaf", "-t", "backtrace"]),
]


def measure(program, name, calls, tracer=()):
    output = subprocess.run([*tracer, program, name, str(calls)], check=True, capture_output=True, text=True).stdout
    return float(output.split()[-1])


def main():
    build = sys.argv[1] if len(sys.argv) > 1 else "build"
    scratch = tempfile.mkdtemp(prefix="dyntrace-bench-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
    program = os.path.join(scratch, "values")
    try:
        subprocess.run(["gcc", "-O2", "-g", "-fomit-frame-pointer", "-o", program, os.path.join(HERE, "values.c")],
                       check=True)
        run(build, scratch, program)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def traced(build, scratch, program, name, calls, options):
    output = os.path.join(scratch, "trace")
    shutil.rmtree(output, ignore_errors=True)
    return measure(program, name, calls, [os.path.join(build, "dyntrace"), "trace", "-q", "-o", output,
                                          "--buffer-size", "64M", *options, "--"])


def run(build, scratch, program):
    unit = measure(program, "rdtsc", 1000000)
    print(f"one rdtsc: {unit:.1f} ns; all others as multiples of it\n")
    costs = {}
    for name, called, calls, options in CASES:
        plain = min(measure(program, called, calls) for _ in range(2))
        cost = min(traced(build, scratch, program, called, calls, options) for _ in range(3)) - plain
        costs[name] = cost
        goal = GOALS.get(name)
        print(f"{name:34} {cost / unit:8.2f}" + (f"   goal {goal}" if goal else ""))
    frame = (costs["backtrace, 20 frames of its own"] - costs["backtrace, 4 frames of its own"]) / 16
    print(f"{'backtrace, each further frame':34} {frame / unit:8.2f}   goal 5")
    libc = [measure(program, f"backtrace:{depth}", 5000) for depth in (4, 20)]
    print(f"{'backtrace() of libc, each frame':34} {(libc[1] - libc[0]) / 16 / unit:8.2f}")
    first_probe(build, scratch)


def first_probe(build, scratch):
    """From the command line to a probe with types from 8 MB of separate debug information, and back."""
    best = 9.0
    for _ in range(3):
        shutil.rmtree(os.path.join(scratch, "trace"), ignore_errors=True)
        start = time.monotonic()
        subprocess.run([os.path.join(build, "dyntrace"), "trace", "-q", "-o", os.path.join(scratch, "trace"),
                        "--function", "qsort", "--", "true"], check=True)
        best = min(best, time.monotonic() - start)
    print(f"\ntrace one function of libc in `true`, all in all: {best:.2f} s   goal 0.3")


main()
