"""A few hundred random functions; thousands of them are in the torture tests."""
import os
import subprocess

import pytest

import signatures


def check(dyntrace, scratch, compiler, flags, version, seed, count):
    source, made = signatures.make(seed, count)
    path = os.path.join(scratch, "signatures")
    with open(path + ".c", "w") as file:
        file.write(source)
    language = "c++" if compiler.endswith("++") else "c"
    subprocess.run([compiler, "-g", f"-gdwarf-{version}", flags, "-w", "-x", language, "-o", path, path + ".c"], check=True)
    _, trace = dyntrace.trace("-e", "--function", "f[0-9]*", "--", path)
    assert signatures.differences(trace, made) == []
    assert trace.lost == 0


@pytest.mark.parametrize("seed, compiler, flags, version", [
    (1, "gcc", "-O0", 5), (2, "gcc", "-O2", 5), (3, "gcc", "-O3", 4), (4, "gcc", "-O1", 4),
    (5, "clang", "-O0", 4), (6, "clang", "-O2", 5), (7, "clang", "-O3", 5), (8, "clang", "-O1", 4),
    (9, "g++", "-O0", 5), (10, "g++", "-O2", 4), (11, "clang++", "-O0", 5), (12, "clang++", "-O2", 4)])
def test_random_signatures(dyntrace, scratch, seed, compiler, flags, version):
    check(dyntrace, scratch, compiler, flags, version, seed, 40)
