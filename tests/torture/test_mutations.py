"""Ten thousand damaged traces. DYNTRACE_TORTURE multiplies the number."""
import collections
import os
import subprocess

import mutations
from test_hostile_traces import MUTATIONS, SECONDS, look_at_all, record

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


def test_mutations(dyntrace, scratch):
    count = max(int(10_000 * FACTOR), 1)
    seen = look_at_all(dyntrace, record(dyntrace, scratch, "-t", "comm"), scratch, range(MUTATIONS, MUTATIONS + count))
    print(seen)
    assert sum(seen.values()) == count


# What reads a trace by itself, as numbers, trees and other formats. DYNTRACE_MUTATED names another build, with sanitizers.
READERS = [["view", "--tree"], ["report"], ["report", "--by", "function,$tid,caller", "--of", "self", "--hist"], ["report", "--tree"],
           ["report", "--by", "ret", "--linear", "--keys", "3"], ["report", "--callers", "--all-rows"], ["report", "--json", "--by", "$comm,$pid"],
           ["export", "--perfetto", "-"], ["export", "--folded", "-"], ["export", "--csv", "-"]]


def look(path, folder, command, number):
    """A trace is read, or one line says why not; no sanitizer speaks."""
    words = [command[0], folder, *command[1:]]
    result = subprocess.run([path, *words], stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS,
                            env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0:exitcode=99", "UBSAN_OPTIONS": "halt_on_error=1"})
    errors = result.stderr.decode(errors="replace")
    assert "Sanitizer" not in errors and "runtime error" not in errors, (number, command, errors)
    # an unknown key is wrong usage
    assert result.returncode in (0, 1, 2), (number, command, result.returncode, errors)
    assert (errors == "") == (result.returncode == 0), (number, command, errors)
    assert not errors or (errors.startswith("dyntrace: ") and errors.endswith("\n")), (number, command, errors)
    return "ended" if "is damaged: its reader" in errors else "refused" if result.returncode else "read"


def test_readers(dyntrace, scratch):
    """The same damage for report, view --tree and export, each of them in turn."""
    count = max(int(10_000 * FACTOR), 1)
    trace, seen = record(dyntrace, scratch, "-t", "comm"), collections.Counter()
    path = os.path.join(os.environ.get("DYNTRACE_MUTATED", os.path.dirname(dyntrace.path)), "dyntrace")
    for number in range(count):
        damaged = os.path.join(scratch, "damaged")
        mutations.damage(trace, damaged, number)
        seen[look(path, damaged, READERS[number % len(READERS)], number)] += 1
    print(dict(seen))
    assert sum(seen.values()) == count
