"""
Recording as a whole: events that reach a RAM disk with none lost (block mode), and what reading costs beside writing.

One and two threads hit a bare probe as fast as they can, into a pool that is small, so that the reader has to keep up.
"""

import os
import subprocess
import time

HITS = 20_000_000
QUICK_HITS = 2_000_000


def cpu_seconds(process):
    """Of that process alone, to its end."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


def start_spin(bench, threads, calls):
    """Returns when it is ready; ends when the pipe is closed."""
    ready, ready_end = os.pipe()
    go_end, go = os.pipe()
    spin = os.path.join(bench.build, "tests", "programs", "spin")
    process = subprocess.Popen([spin, "--threads", str(threads), "--calls", str(calls), "--ready-fd", str(ready_end),
                                "--go-fd", str(go_end)], stdout=subprocess.DEVNULL, pass_fds=[ready_end, go_end])
    os.close(ready_end)
    os.close(go_end)
    os.read(ready, 1)
    return process, go, ready


def measure(bench, threads, calls, traced):
    output = bench.path(f"recording-{threads}")
    spin, go, ready = start_spin(bench, threads, calls)
    if traced:
        tracer = subprocess.Popen([os.path.join(bench.build, "dyntrace"), "trace", "-p", str(spin.pid), "--mode", "block",
                                   "--buffer-size", "16M", "-o", output, "--probe", "foo"],
                                  stderr=subprocess.PIPE, text=True)
        tracer.stderr.readline()  # it says when the probe is in
    begin = time.monotonic()
    os.close(go)
    row = {"target": cpu_seconds(spin), "seconds": time.monotonic() - begin}
    os.close(ready)
    if traced:
        errors = tracer.stderr.read()
        row["reader"] = cpu_seconds(tracer)
        words = next(line for line in errors.splitlines() if " events, " in line).split()
        row.update(events=int(words[0]), lost=int(words[2]),
                   bytes=sum(entry.stat().st_size for entry in os.scandir(output)))
    return row


def run(bench, args):
    hits = QUICK_HITS if args.quick else HITS
    figures, good = {}, True
    for threads in (1, 2):
        base = measure(bench, threads, hits // threads, False)
        row = measure(bench, threads, hits // threads, True)
        good &= row["lost"] == 0 and row["events"] == hits // threads * threads
        writer = row["target"] - base["target"]
        figures[threads] = {
            "events a second, on disk": row["events"] / row["seconds"],
            "bytes an event": row["bytes"] / row["events"],
            "ns an event, writer": writer / row["events"] * 1e9,
            "ns an event, reader": row["reader"] / row["events"] * 1e9,
            "reader against writer": row["reader"] / writer if writer > 0 else 0.0,
            "lost": float(row["lost"]),
        }
        for name, value in figures[threads].items():
            print(f"{threads} thread{'s' if threads > 1 else ' '}: {name:32}{value:>16,.2f}")
    return {"recording": figures}, good
