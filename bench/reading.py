"""
Reading a trace: CPU seconds and memory of report, view and export for 10 M events of two threads, beside babeltrace2, and
uftrace report over as many calls of the same program.
"""

import os
import shutil
import subprocess

import paging

LOOPS = 280_000  # of tests/programs/calls, per thread: 10.08 M events
QUICK_LOOPS = 28_000
THREADS = 2
FUNCTIONS = ("leaf", "mid", "rec", "top_")
GOALS = {"report": 0.5, "view": 3.0, "export --perfetto": 2.0, "report --html": 8.0}  # seconds per 10 M events
BYTES_GOAL = 45  # of Perfetto's format, per call with two arguments
MEMORY_GOAL = 16 << 10  # KiB


TWO = """
__attribute__((noinline, noipa)) long two(long a, long b) { return a + b; }
int main(void)
{
	long sum = 0;
	for (long i = 0; i < %d; i++)
		sum += two(i %% 1000, i);
	return sum == 1;
}
"""


def measure(bench, command):
    """Exit status, CPU seconds and the largest process in KiB, of the command and its children."""
    done = subprocess.run([os.path.join(bench.build, "bench", "usage"), *command], capture_output=True, text=True, check=True)
    status, seconds, memory = done.stdout.split()
    return int(status), float(seconds), int(memory)


def record(bench, trace, loops):
    words = [word for name in FUNCTIONS for word in ("--function", name)]
    subprocess.run([os.path.join(bench.build, "dyntrace"), "trace", "-q", "-e", "-o", trace, "--mode", "block", *words, "--",
                    os.path.join(bench.build, "tests", "programs", "calls"), str(loops), str(THREADS)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def record_uftrace(bench, data, loops):
    """The same calls, by gcc's -pg, which is how uftrace records fastest; gives its report, or None if it isn't here."""
    if not shutil.which("uftrace"):
        return None
    program = bench.path("calls-pg")
    source = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "programs", "calls.c")
    subprocess.run(["gcc", "-O2", "-pg", "-o", program, source, "-lpthread"], check=True)
    subprocess.run(["uftrace", "record", "--no-libcall", "--no-event", f"--data={data}", program, str(loops), str(THREADS)],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return ["uftrace", "report", "--no-pager", f"--data={data}"]


def bytes_per_call(bench, loops):
    """Of an export of calls with two numbers, and a result of their size."""
    trace, exported, calls = bench.path("two"), bench.path("two.perfetto"), bench.path("two-calls")
    program = os.path.join(bench.build, "dyntrace")
    with open(calls + ".c", "w") as source:
        source.write(TWO % loops)
    subprocess.run(["gcc", "-g", "-O1", "-o", calls, calls + ".c"], check=True)
    subprocess.run([program, "trace", "-q", "-e", "-o", trace, "--mode", "block", "--function", "two", "--", calls],
                   check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    subprocess.run([program, "export", trace, "--perfetto", exported], check=True)
    size = os.path.getsize(exported) / loops
    shutil.rmtree(trace)
    for path in (exported, calls, calls + ".c"):
        os.remove(path)
    return size


def run(bench, args):
    """Prints the table; gives the figures, and whether the goals were met."""
    loops = QUICK_LOOPS if args.quick else LOOPS
    trace = bench.path("reading")
    record(bench, trace, loops)
    program = os.path.join(bench.build, "dyntrace")
    cases = {"report": [program, "report", trace], "report --tree": [program, "report", "--tree", trace],
             "view": [program, "view", trace], "view --tree": [program, "view", "--tree", trace],
             "view --json": [program, "view", "--json", trace],
             "report --html": [program, "report", trace, "--html", bench.path("reading.html")],
             "export --perfetto": [program, "export", trace, "--perfetto", os.devnull],
             "babeltrace2 (dummy)": ["babeltrace2", trace, "-o", "dummy"]}
    data = bench.path("uftrace-data")
    peer = record_uftrace(bench, data, loops)
    if peer:
        cases["uftrace report"] = peer
    figures, good, scale = {}, True, LOOPS / loops
    print(f"{'reading 10 M events':28}{'CPU s':>8}{'MiB':>8}")
    for name, command in cases.items():
        if not shutil.which(command[0]):
            continue
        status, seconds, memory = measure(bench, command)
        if status:
            print(f"{name:28}  failed")
            good = False
            continue
        figures[name] = {"seconds": seconds * scale, "memory": memory}
        missed = seconds * scale > GOALS.get(name, float("inf")) or (name == "report" and memory > MEMORY_GOAL)
        good = good and not missed
        print(f"{name:28}{seconds * scale:8.2f}{memory / 1024:8.1f}{'  missed' if missed else ''}")
    size = bytes_per_call(bench, QUICK_LOOPS)
    figures["perfetto"] = {"bytes per call": size}
    good = good and size <= BYTES_GOAL
    print(f"{'perfetto, bytes per call':28}{size:8.1f}{'  missed' if size > BYTES_GOAL else ''}")
    if not peer:
        print("uftrace: not installed")
    for path in (trace, data):
        shutil.rmtree(path, ignore_errors=True)
    page, is_good = paging.run(bench, record, os.path.getsize(bench.path("reading.html")))
    os.unlink(bench.path("reading.html"))
    return {"reading": figures, "page": page}, good and is_good
