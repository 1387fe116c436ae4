"""Ten thousand damaged traces. DYNTRACE_TORTURE multiplies the number."""
import os

from test_hostile_traces import MUTATIONS, look_at_all, record

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


def test_mutations(dyntrace, scratch):
    count = max(int(10_000 * FACTOR), 1)
    seen = look_at_all(dyntrace, record(dyntrace, scratch, "-t", "comm"), scratch, range(MUTATIONS, MUTATIONS + count))
    print(seen)
    assert sum(seen.values()) == count
