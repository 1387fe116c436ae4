"""Thousands of random functions, by every compiler, at every level of optimisation, in both versions of DWARF.

Each run has new functions; a failure prints its seed, and DYNTRACE_SEED repeats it.
"""
import os
import random

import pytest

from test_signatures import check

SEED = int(os.environ.get("DYNTRACE_SEED") or random.randrange(1 << 30))


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
@pytest.mark.limit(300)
def test_random_signatures(dyntrace, scratch, compiler, flags, version):
    print(f"DYNTRACE_SEED={SEED}")
    rng = random.Random(f"{SEED} {compiler} {flags} {version}")
    for _ in range(3):
        check(dyntrace, scratch, compiler, flags, version, rng.randrange(1 << 30), 60)
