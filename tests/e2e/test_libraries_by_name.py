"""Functions of libraries, by the names that people type: globs without a module, globs of modules, libc:malloc; and
list-symbols, which takes what trace takes."""
import os
import re
import subprocess

import pytest

from harness import Program
from test_values import PROGRAMS


@pytest.fixture
def classes(scratch):
    path = os.path.join(scratch, "classes")
    subprocess.run(["g++", "-O2", "-o", path, os.path.join(PROGRAMS, "pieces.cc")], check=True)
    return path


def test_a_glob_says_which_library_has_matches(dyntrace):
    message = dyntrace.fails("trace", "--function", "EVP_Digest*", "--", "openssl", "version", status=125)
    count, module, loc = re.fullmatch(r"no function of openssl matches 'EVP_Digest\*' \((\d+) match in (libcrypto\.so\.\d+): '(.*)'\)",
                                      message).groups()
    library = next(line.split()[-1] for line in subprocess.run(["ldd", "/usr/bin/openssl"], capture_output=True, text=True,
                                                               check=True).stdout.replace(" (0x", "\n(0x").splitlines() if module in line)
    exported = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert int(count) == len(re.findall(r" T EVP_Digest", exported)) and loc == f"EVP_Digest*@{module}"
    result = dyntrace("trace", "--tracer", "count", "--all-rows", "--function", loc, "--", "openssl", "version")
    assert result.stderr.count("  EVP_Digest") == int(count)


@pytest.mark.parametrize("loc", ["fopen@libc*", "fope?@lib?.so.6", "libc:fopen", "libc.so.6:fopen", "fopen@libc"])
def test_a_function_of_libc(dyntrace, loc):
    _, trace = dyntrace.trace("--function", loc, "-t", "str(arg0)", "--", "sort", "/etc/passwd")
    assert set(trace.names()) == {"fopen_entry"} and trace.lost == 0


def test_wrong_libraries(dyntrace):
    assert dyntrace.fails("trace", "--function", "libc:nosuchfunction", "--", "ls", status=125) == \
        "no function 'nosuchfunction' in libc.so.6"
    assert dyntrace.fails("trace", "--function", "nosuch:x", "--", "ls", status=125) == "no marker 'nosuch:x' in ls or its libraries"
    assert dyntrace.fails("trace", "--function", "x@nosuch*", "--", "ls", status=125).startswith("no module 'nosuch*' in ls")
    assert "no marker 'libc:fopen'" in dyntrace.fails("trace", "--marker", "libc:fopen", "--", "ls", status=125)


def listed(dyntrace, *words):
    """The names after the header."""
    head, *lines = dyntrace("list-symbols", *words).stdout.splitlines()
    assert re.fullmatch(r"ADDRESS +SIZE +MODULE +NAME", head)
    return [line.split(None, 3)[3] for line in lines]


def test_list_symbols_takes_what_trace_takes(dyntrace, classes, processes, program_path):
    assert listed(dyntrace, classes, "Book::add") == listed(dyntrace, classes, "Book::a*") == ["Book::add(int, int)"]
    assert sorted(listed(dyntrace, classes, "Box::push")) == ["Box<double>::push(double)", "Box<int>::push(int)"]
    assert listed(dyntrace, classes, "Book::add.cold") == listed(dyntrace, classes, "Book::*dd*.cold") == ["Book::add(int, int).cold"]
    hello = Program(processes, program_path("hello"), []).wait_ready()
    for glob in ("fope?@libc*", "fopen@libc", "libc:fopen"):
        assert set(listed(dyntrace, hello.pid, glob)) == {"fopen"}
    hello.finish()
    assert dyntrace.fails("list-symbols", classes, "0x1234", status=2) == \
        "list-symbols: '0x1234' is not the name of a function, or a glob"
    row = dyntrace("list-symbols", "-a", classes, "Book::get").stdout.splitlines()[1]
    assert "_ZN4Book3getEi" in row and row.endswith("Book::get(int)")
