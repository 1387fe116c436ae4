"""
The cost of values, filters and backtraces, as ratios to one rdtsc of the same rounds; and of finding names and types in a
program with 100 MB of debug information.

A case is the same call with the probe and without, in turn, in every round; the minimum counts. The program with much debug
information is one object file, linked many times under other names.
"""

import os
import shutil
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 5
QUICK_ROUNDS = 2
CASES = [
    # name, what is called, calls, options, goal
    ("three ints", "ints", 200000, ["--function", "ints"], 1.4),
    ("three ints, filter says yes", "ints", 200000, ["--function", "ints", "--filter", "b == 2"], None),
    ("filter says no", "ints", 200000, ["--function", "ints", "--filter", "b == 7"], 0.4),
    ("--every 1000", "ints", 200000, ["--function", "ints", "--every", "1000"], None),
    ("one double", "real", 200000, ["--function", "real"], None),
    ("one string of 20 bytes, a literal", "text", 20000, ["--function", "text"], 1.5),
    ("one string of 20 bytes, in the heap", "heap", 20000, ["--function", "text"], 1.5),
    ("three strings of 20 bytes, in the heap", "heap3", 20000, ["--function", "texts"], 3),
    ("filter on memory says no, a literal", "text", 20000, ["--function", "text", "--filter", "s[0] == 'x'"], 0.5),
    ("filter on memory says no, in the heap", "heap", 20000, ["--function", "text", "--filter", "s[0] == 'x'"], 0.5),
    ("backtrace, 4 frames of its own", "deep:4", 5000, ["--probe", "leaf", "-t", "backtrace"], 8),
    ("backtrace, 20 frames of its own", "deep:20", 5000, ["--probe", "leaf", "-t", "backtrace"], None),
]
# Where plain loads need more proof, or have none: the same, in a static program (the name begins with "static-"), in one with a
# handler that blocks all signals, on a stack that nobody knows, and in a Go program ("go-"; left out where no Go is installed).
HARD_CASES = [
    ("static: one string of 20 bytes, a literal", "static-text", 5000, ["--function", "text"], 12),
    ("static: one string of 20 bytes, in the heap", "static-heap", 5000, ["--function", "text"], 12),
    ("static: backtrace, 4 frames of its own", "static-deep:4", 5000, ["--probe", "leaf", "-t", "backtrace"], 22),
    ("a handler blocks: one string, a literal", "shut-text", 5000, ["--function", "text"], 12),
    ("a handler blocks: one string, in the heap", "shut-heap", 5000, ["--function", "text"], 12),
    ("unknown stack: one string, a literal", "far-text", 5000, ["--function", "text"], 12),
    ("unknown stack: one string, in the heap", "far-heap", 5000, ["--function", "text"], 12),
    ("... of a thread with an alternate stack, in the heap", "alternate-heap", 5000, ["--function", "text"], 12),
    ("... filter on memory says no, in the heap", "alternate-heap", 5000, ["--function", "text", "--filter", "s[0] == 'x'"], 12),
    ("unknown stack: backtrace, 4 frames of its own", "far-deep:4", 5000, ["--probe", "leaf", "-t", "backtrace"], 22),
    ("Go: one string of 20 bytes, a literal", "go-text", 20000, ["--function", "main.text"], 12),
    ("Go: one string of 20 bytes, in the heap", "go-heap", 20000, ["--function", "main.text"], 12),
    ("Go: one string of 200 bytes, in the heap", "go-long", 5000, ["--function", "main.text"], 12),
    ("Go: filter on memory says no, in the heap", "go-heap", 20000, ["--function", "main.text", "--filter", "s.str[0] == 'x'"], 12),
    ("Go: backtrace, 4 frames of its own", "go-deep", 5000, ["--function", "main.leaf", "-t", "backtrace"], 22),
]
PEERS = [("backtrace() of libc", "backtrace"), ("unw_backtrace() of libunwind", "libunwind")]
COPIES, FUNCTIONS = 120, 600
FIRST_PROBE_GOAL = 0.3


def measure(program, name, calls, tracer=()):
    kind, _, rest = name.partition("-")
    words = [f"{program}-{kind}", rest] if kind in ("static", "go") else [program, name]
    if not os.path.exists(words[0]):
        return None
    done = subprocess.run([*tracer, *words, str(calls)], capture_output=True, text=True)
    return float(done.stdout.split()[-1]) if done.returncode == 0 and done.stdout else None


def traced(bench, program, name, calls, options):
    output = os.path.join(bench.scratch, "values-trace")
    shutil.rmtree(output, ignore_errors=True)
    return measure(program, name, calls, [os.path.join(bench.build, "dyntrace"), "trace", "-q", "-o", output, *options, "--"])


def least(found, key, value):
    if value is not None:
        found[key] = min(found.get(key, value), value)


def hits(bench, program, rounds):
    """{name: ratio}"""
    found = {}
    for _ in range(rounds):
        least(found, "rdtsc", measure(program, "rdtsc", 1000000))
        for name, called, calls, options, _ in CASES + HARD_CASES:
            least(found, ("plain", called), measure(program, called, calls))
            least(found, name, traced(bench, program, called, calls, options))
        for name, called in PEERS:
            for depth in (4, 20):
                least(found, (name, depth), measure(program, f"{called}:{depth}", 5000))
    unit = found["rdtsc"]
    ratios = {name: (found[name] - found["plain", called]) / unit for name, called, _, _, _ in CASES + HARD_CASES if name in found}
    ratios["backtrace, each further frame"] = (ratios["backtrace, 20 frames of its own"] -
                                               ratios["backtrace, 4 frames of its own"]) / 16
    for name, _ in PEERS:
        if (name, 20) in found:
            ratios[name + ", each frame"] = (found[name, 20] - found[name, 4]) / 16 / unit
    return ratios


# ---- much debug information -----------------------------------------------------------------------------------

def source():
    """Functions with a few types each: about 2.5 MB of DWARF."""
    lines = []
    for i in range(FUNCTIONS):
        members = "".join(f" {kind} m{j}_{i};" for j, kind in enumerate(["int", "long", "double", "char *", "short"] * 12))
        lines.append(f"enum e{i} {{ A{i}, B{i}, C{i} }};\nstruct s{i} {{{members} struct s{max(i - 1, 0)} *next; enum e{i} e; }};\n"
                     f"__attribute__((noinline)) long f{i}(struct s{i} *one, enum e{i} two, const char *three, double four)\n"
                     f"{{ long total = one->m1_{i}; for (int k = 0; k < two; k++) {{ struct s{i} *p = one + k;\n"
                     f"total += p->m0_{i} + three[k] + (long)four; }} return total; }}")
    return "\n".join(lines) + "\n"


def large_program(scratch):
    one, path = os.path.join(scratch, "one.o"), os.path.join(scratch, "large")
    subprocess.run(["gcc", "-g", "-O1", "-c", "-x", "c", "-", "-o", one], check=True, input=source(), text=True)
    objects = []
    for i in range(COPIES):
        objects.append(os.path.join(scratch, f"copy{i}.o"))
        subprocess.run(["objcopy", f"--prefix-symbols=c{i}_", one, objects[-1]], check=True)
    subprocess.run(["gcc", "-o", path, "-x", "c", "-", "-x", "none", *objects], check=True, text=True, input="int main(void) { return 0; }\n")
    for name in [one, *objects]:
        os.unlink(name)
    sizes = subprocess.run(["size", "-A", path], check=True, capture_output=True, text=True).stdout.splitlines()
    return path, sum(int(line.split()[1]) for line in sizes if line.startswith(".debug"))


def resources(command):
    """(seconds, MB) of the best of three."""
    best, memory = 99.0, 0
    for _ in range(3):
        start = time.monotonic()
        process = subprocess.Popen(command(), stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        best, memory = min(best, time.monotonic() - start), usage.ru_maxrss / 1024
    return best, memory


def names(bench):
    path, size = large_program(bench.scratch)
    dyntrace, output = os.path.join(bench.build, "dyntrace"), os.path.join(bench.scratch, "names-trace")

    def trace(function, program):
        shutil.rmtree(output, ignore_errors=True)
        return [dyntrace, "trace", "-q", "-o", output, "--function", function, "--", program]

    try:
        return size, [
            ("one function of libc, with types, in `true`", resources(lambda: trace("qsort", "true")), FIRST_PROBE_GOAL),
            ("one function of it, with types", resources(lambda: trace(f"c{COPIES // 2}_f{FUNCTIONS // 2}", path)), FIRST_PROBE_GOAL),
            ("the prototypes of all its functions", resources(lambda: [dyntrace, "list-symbols", "-a", path]), None)]
    finally:
        os.unlink(path)


def run(bench, args):
    program = os.path.join(bench.scratch, "values")
    compiler = ["gcc", "-O2", "-g", "-fomit-frame-pointer", os.path.join(HERE, "values.c"), "-o"]
    subprocess.run([*compiler, program], check=True)
    subprocess.run([*compiler, program + "-static", "-static", "-DALONE"], check=True)
    if shutil.which("go"):
        subprocess.run(["go", "build", "-o", program + "-go", os.path.join(HERE, "values.go")], check=True,
                       env={"HOME": bench.scratch, "PATH": "/usr/bin:/bin", "GO111MODULE": "off"})
    goals = {name: goal for name, _, _, _, goal in CASES + HARD_CASES if goal} | {"backtrace, each further frame": 1.2}
    ratios = hits(bench, program, QUICK_ROUNDS if args.quick else ROUNDS)
    print(f"{'values':48}{'x rdtsc':>10}")
    for name, ratio in ratios.items():
        goal = goals.get(name)
        print(f"{name:48}{ratio:>10.2f}" + (f"{f'at most {goal:g}':>18}  {'met' if ratio <= goal else 'MISSED'}" if goal else ""))
    size, rows = names(bench)
    print(f"\n{f'a program with {size / 1e6:.0f} MB of DWARF':48}{'s':>10}{'MB':>10}")
    for name, (seconds, memory), goal in rows:
        print(f"{name:48}{seconds:>10.2f}{memory:>10.0f}" +
              (f"{f'at most {goal:g}':>18}  {'met' if seconds <= goal else 'MISSED'}" if goal else ""))
    return {"values": ratios, "names": {name: {"s": s, "MB": m} for name, (s, m), _ in rows}, "dwarf_bytes": size}, True
