"""Clones and pieces that compilers make of functions, C++ names without their arguments, and lists of candidates."""
import os
import re
import shutil
import subprocess

import pytest

import harness
from test_values import PROGRAMS


@pytest.fixture
def pieces(scratch):
    return harness.compile_once(["gcc", "-O1", os.path.join(PROGRAMS, "pieces.c")], os.path.join(scratch, "pieces"))


@pytest.fixture(params=["g++", "g++ -g, stripped", "clang++"])
def classes(scratch, request):
    """pieces.cc; also stripped, with a separate debug file."""
    path = os.path.join(scratch, "classes")
    compiler = request.param.split()[0]
    flags = ["-g"] if "-g" in request.param else []
    harness.compile_once([compiler, "-O2", *flags, os.path.join(PROGRAMS, "pieces.cc")], path)
    if flags:
        subprocess.run(["objcopy", "--only-keep-debug", path, path + ".debug"], check=True)
        subprocess.run(["strip", path], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={path}.debug", path], check=True)
    return path


def hits(dyntrace, path, name):
    names = dyntrace.trace("--function", name, "--", path)[1].names()
    return {event.removesuffix("_entry"): count for event, count in names.items()}


NAMES = {
    "add": {"add": 1, "add.isra.0": 2, "add.constprop.1": 3}, "add.isra.0": {"add.isra.0": 2}, "add.part.0": {"add.part.0": 4},
    "add.cold": {"add.cold": 5}, "add.isra.0.cold": {"add.isra.0.cold": 6}, "lone": {"lone": 7}, "split": {"split": 9},
    "private.lto_priv.1": {"private.lto_priv.1": 11}, "dotted.name": {"dotted.name": 13},
    "add*": {"add": 1, "add.isra.0": 2, "add.constprop.1": 3}, "add*.cold": {"add.cold": 5, "add.isra.0.cold": 6},
    "*.part.?": {"add.part.0": 4, "split.part.0": 9}}


def test_names(dyntrace, pieces):
    """A name means the function with its clones. Pieces have hits only where they are spelled out."""
    assert {name: hits(dyntrace, pieces, name) for name in NAMES} == NAMES


def test_globs_leave_pieces_out(dyntrace, pieces):
    names = set(hits(dyntrace, pieces, "*"))
    assert {"add", "add.isra.0", "lone.constprop.0", "private.lto_priv.0", "dotted.name"} <= names
    assert not [name for name in names if ".cold" in name or ".part" in name]


def test_refusals(dyntrace, pieces):
    result = dyntrace("trace", "--function", "private", "--", pieces, status=125)
    assert result.stderr.splitlines() == ["dyntrace: 'private': 2 functions have this name; give one of:",
                                          "  1. 'private.lto_priv.0'", "  2. 'private.lto_priv.1'"]
    assert dyntrace.fails("trace", "--function", "rare", "--", pieces, status=125) == \
        "'rare': only a piece that rarely runs is left of it, 'rare.cold' (its callers have the function inlined)"


# A name with parameters is no glob, even if it has a star.
READABLE = {
    "Book::add": [5], "Book::get": [1], "Only::put": [1], "cloned": [2], "cloned(int, int, int*)": [2], "over(int*)": [1],
    "sum<double>": [1], "Only<int>::put(int const*, int)": [1], "double sum<double>(double, double)": [1]}


def test_readable_names(dyntrace, classes):
    assert {name: list(hits(dyntrace, classes, name).values()) for name in READABLE} == READABLE
    assert hits(dyntrace, classes, "Box::*") == {"Box<int>::push": 1, "Box<double>::push": 1}
    assert set(hits(dyntrace, classes, "Book::*")) == {"Book::add", "Book::get"}
    assert not [name for name in hits(dyntrace, classes, "*") if ".cold" in name or "[clone" in name]
    for name in ("sum", "Box::push", "over"):
        candidates_can_be_pasted(dyntrace, classes, name)


def candidates_can_be_pasted(dyntrace, classes, name):
    lines = dyntrace("trace", "--function", name, "--", classes, status=125).stderr.splitlines()
    assert lines[0] == f"dyntrace: '{name}': 2 functions have this name; give one of:" and len(lines) == 3
    for number, line in enumerate(lines[1:], 1):
        pasted = re.fullmatch(rf"  {number}\. '(.*)'", line).group(1)
        assert list(hits(dyntrace, classes, pasted).values()) == [1]


def test_pieces_by_all_their_names(dyntrace, scratch):
    path = os.path.join(scratch, "classes")
    subprocess.run(["g++", "-O2", "-o", path, os.path.join(PROGRAMS, "pieces.cc")], check=True)
    symbols = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    assert "_ZN4Book3addEii.cold" in symbols
    for name in ("Book::add.cold", "Book::add(int, int) [clone .cold]", "Book::add(int, int).cold", "_ZN4Book3addEii.cold"):
        result = dyntrace("trace", "-o", dyntrace.new_output(), "--function", name, "--", path)
        assert "0 events" in result.stderr


def test_stripped_programs_show_no_pieces(dyntrace, scratch):
    """Pieces have unwind tables, too. Globs leave out those that begin in the middle of a frame."""
    path, stripped = os.path.join(scratch, "classes"), os.path.join(scratch, "stripped")
    subprocess.run(["g++", "-O2", "-o", path, os.path.join(PROGRAMS, "pieces.cc")], check=True)
    shutil.copy(path, stripped)
    subprocess.run(["strip", stripped], check=True)
    symbols = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
    cold = int(next(line.split()[0] for line in symbols.splitlines() if line.endswith("_ZN4Book3addEii.cold")), 16)

    def listed(glob):
        return harness.hits(dyntrace("trace", "--tracer", "count", "--all-rows", "--function", glob, "--", stripped).stderr)
    assert f"fn_{cold:x}" not in listed("*") and f"fn_{cold:x}" in listed("fn_*")


@pytest.mark.limit(120)
def test_node(dyntrace):
    """A program of 100,000 C++ functions, which nobody here wrote."""
    symbols = subprocess.run(["nm", "-C", "/usr/bin/node"], capture_output=True, text=True).stdout
    if "node::Start(int, char**)" not in symbols:
        pytest.skip("node has no symbols here")
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--function", "node::Start", "--", "node", "-e", "1")
    assert harness.hits(result.stderr, "node::Start") == 1
