"""Thousands of random functions, by every compiler, at every level of optimisation, in both versions of DWARF."""
import pytest

from test_signatures import check


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("flags", ["-O0", "-O1", "-O2", "-O3"])
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++", "clang++"])
@pytest.mark.limit(300)
def test_random_signatures(dyntrace, scratch, compiler, flags, version):
    for seed in range(1000, 1003):
        check(dyntrace, scratch, compiler, flags, version, seed + 16 * version + len(compiler) * ord(flags[2]), 60)
