"""
Recording as a whole: events that reach a RAM disk, or a disk, without loss, the cost of reading beside writing, memory against threads.

One and two threads hit a probe as fast as they can, in block mode into a pool that is small, so that the reader has to keep up;
then one with the default mode and pool. Events are bare, have numbers, have a string, have exits. The cost of dyntrace's start and
end is measured by a run with one hit, and subtracted. The floor is the cost of the file system alone for the same bytes in pieces of
the size of the longest packets.
"""

import os
import subprocess
import tempfile
import time

HITS = 20_000_000
QUICK_HITS = 2_000_000
THREADS = (1, 10, 100, 1000, 5000)
PIECE = 512 << 10
GOAL, GOAL_ALONE = 0.5, 0.3  # reader against writer, with and without the file system
BARE = ["--probe", "foo"]
BLOCK = ["--mode", "block", "--buffer-size", "16M"]
NUMBERS = [word for name in ("rdi", "rsi", "rdx", "rcx", "r8", "r9") for word in ("-t", f"reg:{name}")]
STRING = ["-t", "string:text:arg2"]
# title, threads, events per call, options
CASES = [
    ("bare", 1, 1, [*BARE, *BLOCK]),
    ("bare, 2 threads", 2, 1, [*BARE, *BLOCK]),
    ("bare, default", 1, 1, BARE),
    ("6 numbers", 1, 1, [*BARE, *NUMBERS, *BLOCK]),
    ("a string", 1, 1, [*BARE, *STRING, *BLOCK]),
    ("arguments", 1, 1, ["--function", "foo", *BLOCK]),
    ("... and exits", 1, 2, ["--function", "foo", "-e", *BLOCK]),
    ("exits, 2 threads", 2, 2, ["--function", "foo", "-e", *BLOCK]),
    ("by duration", 1, 2, ["--function", "foo", "-e", "--filter", "ret != 0", *BLOCK]),
]


def cpu_seconds(process):
    """Of that process alone, to its end."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime


class Spin:
    """Threads that hit the probe at go() and end at close()."""

    def __init__(self, bench, threads, calls):
        ready, ready_end = os.pipe()
        go_end, go = os.pipe()
        program = os.path.join(bench.build, "tests", "programs", "spin")
        self.process = subprocess.Popen([program, "--threads", str(threads), "--calls", str(calls), "--ready-fd",
                                         str(ready_end), "--go-fd", str(go_end)], stdout=subprocess.DEVNULL,
                                        pass_fds=[ready_end, go_end])
        os.close(ready_end)
        os.close(go_end)
        self.ready, self.go_fd = ready, go
        self.pid = self.process.pid
        os.read(ready, 1)

    def go(self):
        """Returns when all have hit."""
        os.write(self.go_fd, b"g")
        os.read(self.ready, 1)

    def close(self):
        """Gives the CPU time it took."""
        os.close(self.go_fd)
        seconds = cpu_seconds(self.process)
        os.close(self.ready)
        return seconds


def start_tracer(bench, pid, output, words):
    tracer = subprocess.Popen([os.path.join(bench.build, "dyntrace"), "trace", "-p", str(pid), "-o", output, *words],
                              stderr=subprocess.PIPE, text=True)
    tracer.stderr.readline()  # it says when the probe is in
    return tracer


def finish_tracer(tracer, output):
    """The tracer's last output, its CPU time, and the size of its trace, which is then removed."""
    words = next(line for line in tracer.stderr.read().splitlines() if " events, " in line or " event, " in line).split()
    row = {"reader": cpu_seconds(tracer), "events": int(words[0]), "lost": int(words[2])}
    row["bytes"] = 0
    for entry in os.scandir(output):
        row["bytes"] += entry.stat().st_size
        os.unlink(entry.path)
    os.rmdir(output)
    return row


def measure(bench, folder, threads, calls, words):
    """words None: without dyntrace."""
    output = os.path.join(folder, "recording")
    spin = Spin(bench, threads, calls)
    tracer = start_tracer(bench, spin.pid, output, words) if words is not None else None
    begin = time.monotonic()
    row = {"target": spin.close(), "seconds": time.monotonic() - begin}
    if tracer:
        row.update(finish_tracer(tracer, output))
    return row


def floor_seconds(folder, size):
    """CPU time for a new file of that size, by writes of whole pieces."""
    piece = bytes(PIECE)
    path = os.path.join(folder, "floor")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    before = os.times()
    for at in range(0, size, PIECE):
        os.pwrite(fd, piece, at)
    after = os.times()
    os.close(fd)
    os.unlink(path)
    return after.user + after.system - before.user - before.system


def rates(bench, folder, threads, hits, each, words):
    calls = hits // threads // each
    idle = measure(bench, folder, threads, 1, words)
    base = measure(bench, folder, threads, calls, None)
    row = measure(bench, folder, threads, calls, words)
    events = row["events"] or 1
    writer, reader = row["target"] - base["target"], row["reader"] - idle["reader"]
    floor = floor_seconds(folder, row["bytes"])
    good = row["lost"] == 0 and row["events"] == calls * threads * each
    return good, {
        "events a second, on disk": row["events"] / row["seconds"],
        "bytes an event": row["bytes"] / events,
        "ns an event, writer": writer / events * 1e9,
        "ns an event, reader": reader / events * 1e9,
        "ns an event, file system alone": floor / events * 1e9,
        "reader against writer": reader / writer if writer > 0 else 0.0,
        "the same without the file system": max(reader - floor, 0) / writer if writer > 0 else 0.0,
        "lost": float(row["lost"]),
    }


def resident_kib(pid, name=None):
    """Of the mappings with that name; None: of all others."""
    total, counts = 0, False
    with open(f"/proc/{pid}/smaps") as file:
        for line in file:
            words = line.split()
            if "-" in words[0] and ":" not in words[0]:
                ours = "memfd:dyntrace-pool" in line
                counts = ours if name else not ours
            elif words[0] == "Rss:" and counts:
                total += int(words[1])
    return total


def memory(bench, threads):
    """Twenty hits of each; all live at the same time."""
    output = bench.path("memory")
    spin = Spin(bench, threads, 20)
    before = resident_kib(spin.pid)
    tracer = start_tracer(bench, spin.pid, output, BARE)
    spin.go()
    row = {"pool KiB": resident_kib(spin.pid, "pool"), "target KiB": resident_kib(spin.pid) - before,
           "dyntrace KiB": resident_kib(tracer.pid)}
    spin.close()
    row.update(finish_tracer(tracer, output))
    return {"pool KiB": row["pool KiB"], "target KiB": row["target KiB"], "dyntrace KiB": row["dyntrace KiB"],
            "files KiB": row["bytes"] // 1024, "lost": row["lost"]}


def full_speed(bench, folder, hits):
    figures, good = {}, True
    for title, threads, each, words in CASES:
        complete, figures[title] = rates(bench, folder, threads, hits, each, words)
        good &= complete
    names = list(next(iter(figures.values())))
    print(f"{'':36}" + "".join(f"{title:>18}" for title in figures))
    for name in names:
        print(f"{name:36}" + "".join(f"{figures[title][name]:>18,.2f}" for title in figures))
    for name, goal in (("reader against writer", GOAL), ("the same without the file system", GOAL_ALONE)):
        worst = max(figures, key=lambda title: figures[title][name])
        reached = figures[worst][name]
        print(f"\n{'met' if reached <= goal else 'MISSED'}: {name}: at most {goal}; the most is {reached:.2f}, {worst}")
    print()
    return figures, good


def run(bench, args):
    hits = QUICK_HITS if args.quick else HITS
    print("Recording to a RAM disk at full speed; start and end of dyntrace taken off:\n")
    memory_figures, good = full_speed(bench, bench.scratch, hits)
    with tempfile.TemporaryDirectory(prefix="dyntrace-bench-") as folder:
        kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True, check=True).stdout.strip()
        print(f"The same to {tempfile.gettempdir()} ({kind}):\n")
        disk_figures, also_good = full_speed(bench, folder, hits)
    print("Memory against threads that live at the same time, default pool (64 MiB, taken as a whole), 20 hits of each:\n")
    rows = {count: memory(bench, count) for count in THREADS}
    columns = list(rows[THREADS[0]])
    print(f"{'threads':>10}" + "".join(f"{column:>16}" for column in columns))
    for count, row in rows.items():
        print(f"{count:>10,}" + "".join(f"{row[column]:>16,}" for column in columns))
    return {"recording": memory_figures, "disk": disk_figures, "memory": rows}, good and also_good
