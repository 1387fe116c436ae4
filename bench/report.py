"""The table, and the goals that it meets."""

import os

# Two shared cores: smaller differences count as equal.
NOISE = 0.2


def machine():
    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":", 1)[1].strip() for line in cpuinfo
                      if line.startswith("model name")), "unknown CPU")
    return f"{model}, {os.cpu_count()} CPUs, Linux {os.uname().release}"


def number(value, digits):
    return "-" if value is None else f"{value:,.{digits}f}"


def print_table(comparison):
    threads = comparison.threads
    print(machine())
    print("A hit's cost = a call with the probe - the same call without, CPU time of the thread;")
    print(f"minimum of {comparison.rounds} rounds, all cases in turn, T threads; noise about {NOISE:.0%}.\n")
    heads = [f"x rdtsc T={t}" for t in threads] + [f"ns T={t}" for t in threads]
    print(f"{'case':44}" + "".join(f"{head:>13}" for head in heads) + "  remark")
    for c in comparison.cases:
        if c.name not in comparison.ns:
            continue
        cells = [number(comparison.ratio(c.name, t), 2) for t in threads]
        cells += [number(comparison.cost(c.name, t), 1) for t in threads]
        print(f"{c.title:44}" + "".join(f"{cell:>13}" for cell in cells) + f"  {c.remark}".rstrip())
    for c in comparison.cases:
        if c.name in comparison.left_out:
            print(f"left out: {c.title}: {comparison.left_out[c.name]}")


def quotient(comparison, over, under):
    a, b = comparison.cost(over, 1), comparison.cost(under, 1)
    return None if a is None or not b else a / b


def slowdown(comparison, name):
    """Two threads against one."""
    one, two = comparison.cost(name, 1), comparison.cost(name, 2)
    return None if not one or two is None else two / one


def more(comparison, a, b):
    """What a costs above b, x rdtsc."""
    one, other = comparison.ratio(a, 1), comparison.ratio(b, 1)
    return None if one is None or other is None else one - other


# The goals: the words, the value, the bound, and whether more or less is better.
GOALS = [
    ("bare hit, x rdtsc", lambda c: c.ratio("dyntrace-bare", 1), 1.3, "at most"),
    ("entry with six integer arguments, x rdtsc", lambda c: c.ratio("dyntrace-args", 1), 1.6, "at most"),
    ("entry + exit, x rdtsc", lambda c: c.ratio("dyntrace-exit", 1), 2.2, "at most"),
    ("bare hit, only counted, x rdtsc", lambda c: c.ratio("dyntrace-count", 1), 1.3, "at most"),
    ("entry + exit, only counted, x rdtsc", lambda c: c.ratio("dyntrace-count-exit", 1), 2.6, "at most"),
    ("counted by an integer, more than counted, x rdtsc",
     lambda c: more(c, "dyntrace-count-by", "dyntrace-count"), 0.5, "at most"),
    ("the same with its exit, x rdtsc", lambda c: more(c, "dyntrace-count-exit-by", "dyntrace-count-exit"), 0.5, "at most"),
    ("counted by a string, more than counted, x rdtsc",
     lambda c: more(c, "dyntrace-count-by-text", "dyntrace-count"), 1.5, "at most"),
    ("bpftrace's map by an integer against it", lambda c: quotient(c, "bpftrace-by", "dyntrace-count-by"), 50, "at least"),
    ("call dropped by --min-duration against two rdtsc compiled in",
     lambda c: quotient(c, "dyntrace-slow", "floor-timed"), 1.1, "at most"),
    ("call of an empty function, x rdtsc", lambda c: c.ratio("dyntrace-call", 1), 1.5, "at most"),
    ("LTTng event from a probe against a static one", lambda c: quotient(c, "dyntrace-lttng", "lttng-args"), 1, "at most"),
    ("LTTng-UST, a string, against a string", lambda c: quotient(c, "lttng-text", "dyntrace-text"), 5, "at least"),
    ("uftrace against entry + exit", lambda c: quotient(c, "uftrace", "dyntrace-exit"), 1, "at least"),
    ("uprobe + uretprobe against entry + exit",
     lambda c: quotient(c, "uretprobe", "dyntrace-exit"), 50, "at least"),
    ("probe in place but off, x rdtsc", lambda c: c.ratio("dyntrace-off", 1), 0.2, "at most"),
    # "Nothing" within what two loops of the same code differ by.
    ("probe removed, x rdtsc", lambda c: c.ratio("dyntrace-removed", 1), 0.02, "at most"),
    ("bare hit, two threads against one", lambda c: slowdown(c, "dyntrace-bare"), 1 + NOISE, "at most"),
    ("six arguments, two threads against one", lambda c: slowdown(c, "dyntrace-args"), 1 + NOISE, "at most"),
    ("LTTng-UST, no field, against a bare hit",
     lambda c: quotient(c, "lttng-bare", "dyntrace-bare"), 7, "at least"),
    ("LTTng-UST, six fields, against six arguments",
     lambda c: quotient(c, "lttng-args", "dyntrace-args"), 7, "at least"),
    ("counted uprobe against a bare hit",
     lambda c: quotient(c, "bpftrace", "dyntrace-bare"), 50, "at least"),
    ("uprobe event against six arguments",
     lambda c: quotient(c, "tracefs", "dyntrace-args"), 50, "at least"),
]


def judge(comparison):
    """[(words, value, bound, sense, met)] of the goals that were measured."""
    rows = []
    for words, measure, bound, sense in GOALS:
        value = measure(comparison)
        if value is not None:
            met = value <= bound if sense == "at most" else value >= bound
            rows.append((words, value, bound, sense, met))
    return rows


def print_goals(comparison):
    rows = judge(comparison)
    if rows:
        print(f"\n{'goal':48}{'is':>10}{'bound':>18}")
    for words, value, bound, sense, met in rows:
        print(f"{words:48}{value:>10.2f}{f'{sense} {bound:g}':>18}  {'met' if met else 'MISSED'}")


def as_json(comparison):
    return {
        "machine": machine(),
        "rounds": comparison.rounds,
        "cases": [{
            "name": c.name,
            "title": c.title,
            "left_out": comparison.left_out.get(c.name),
            "ns": {t: comparison.cost(c.name, t) for t in comparison.threads},
            "x_rdtsc": {t: comparison.ratio(c.name, t) for t in comparison.threads},
        } for c in comparison.cases],
        "goals": [dict(zip(("goal", "value", "bound", "sense", "met"), row))
                  for row in judge(comparison)],
    }
