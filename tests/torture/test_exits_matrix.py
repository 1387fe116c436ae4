"""Exits in C++, over compilers, optimisation levels, frame pointers and kinds of libgcc; all functions of real programs
under bigger workloads."""
import itertools
import os

import pytest
from test_exits_cpp import BUILDS, FAULTS, check_exceptions
from test_exits_interrupted import interrupt, interrupted  # noqa: F401
from test_exits_real import PYTHON, SQL, compare

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
COMPILERS = {"gcc": ["g++", *FAULTS], "clang": ["clang++"]}
LEVELS = ["-O0", "-O1", "-O2", "-O3", "-Os"]
POINTERS = ["-fomit-frame-pointer", "-fno-omit-frame-pointer"]
LIBGCC = {"shared": [], "libgcc": ["-static-libgcc", "-static-libstdc++"], "static": ["-static"], "nopie": ["-no-pie", "-fno-pie"]}


@pytest.mark.parametrize("compiler,level,pointer,libgcc", itertools.product(COMPILERS, LEVELS, POINTERS, LIBGCC))
def test_exceptions(dyntrace, scratch, compiler, level, pointer, libgcc):
    check_exceptions(dyntrace, scratch, [*COMPILERS[compiler], level, pointer, *LIBGCC[libgcc]])


@pytest.mark.parametrize("level,pointer", itertools.product(LEVELS, POINTERS))
def test_llvm_unwinder(dyntrace, scratch, level, pointer):
    check_exceptions(dyntrace, scratch, [*BUILDS["llvm-unwinder"], level, pointer])


def test_python(dyntrace):
    compare(dyntrace, ["/usr/bin/python3", "-c", PYTHON.replace("range(10)", "range(200)")], "*")


def test_sqlite(dyntrace):
    compare(dyntrace, ["sqlite3", ":memory:"], "*", "*@libsqlite3.so.0", input=SQL.replace("x<50", "x<1000"), status=1)


@pytest.mark.limit(1800)
def test_left_while_a_handler_has_interrupted_any_instruction(dyntrace, processes, interrupted):
    """(R12) Each instruction of an exit, one per visit."""
    number = 0
    while interrupt(dyntrace, processes, interrupted, number):
        number += max(round(1 / FACTOR), 1)
    assert number > 50
