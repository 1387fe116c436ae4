"""The random programs of tests/e2e/test_signal_states.py, 3,000 of them. DYNTRACE_TORTURE multiplies the number; each run has programs of its
own, and a failure prints the seed."""
import os
import random

from test_signal_states import WANTED, check, check_counts

PROGRAMS = max(int(3000 * float(os.environ.get("DYNTRACE_TORTURE", "1"))), 1)


def test_many_states(dyntrace, processes, program_path):
    for _ in range(PROGRAMS):
        path = program_path(random.choice(["states", "states", "states_static"]))
        seed, steps = random.randrange(1, 1 << 40), random.choice([30, 100, 300])
        wanted = random.choice([*WANTED, None])
        print(path, seed, steps, wanted)
        if wanted:
            check(dyntrace, processes, path, seed, wanted, random.random() < 0.5, steps)
        else:
            check_counts(dyntrace, path, seed, steps)
