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


SOLD = "int sold(int n) { return n + 1; }"
SHOP = """#include <dlfcn.h>
int sold(int);
int main(int argc, char **argv)
{
	int (*call)(int) = argc > 1 ? (int (*)(int))dlsym(dlopen(argv[1], RTLD_NOW), "sold") : sold;
	return call(1) + call(2) == 5 ? 0 : 1;
}"""
SPELLINGS = ["libsold.so.1", "libsold.so.2.1", "libsold.so", "libsold", "libsold.so.2", "libsold.so.1*", "libsol?.so.1", "libgoods.so",
             "{folder}/libsold.so.2.1", "{folder}/libsold.so.1", "{link}/libsold.so.2.1", "{link}/libgoods.so",
             "./link/libgoods.so"]


def shop(scratch, *, linked):
    """A program, started by a link, with a library whose file, soname and links have names of their own; or a library that it loads."""
    folder = os.path.join(scratch, "lib")
    os.makedirs(folder)
    os.symlink(folder, os.path.join(scratch, "link"))
    for name, text in (("sold.c", SOLD), ("shop.c", SHOP)):
        with open(os.path.join(scratch, name), "w") as file:
            file.write(text)
    gcc = ["gcc", "-O1", "-fno-builtin", "-o"]
    subprocess.run([*gcc, f"{folder}/libsold.so.2.1", "-shared", "-fPIC", "-Wl,-soname,libsold.so.1", "sold.c"], check=True, cwd=scratch)
    for link in ("libsold.so.1", "libgoods.so"):
        os.symlink("libsold.so.2.1", os.path.join(folder, link))
    words = [f"{folder}/libsold.so.2.1"] if linked else ["-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run([*gcc, "shop-file", "shop.c", *words, f"-Wl,-rpath,{folder}"], check=True, cwd=scratch)
    os.symlink("shop-file", os.path.join(scratch, "shop"))
    return [os.path.join(scratch, "shop"), *([] if linked else [f"{folder}/libsold.so.1"])], folder, os.path.join(scratch, "link")


@pytest.mark.parametrize("linked", [True, False])
def test_sonames_and_links(dyntrace, scratch, linked):
    """What ldd shows names a library, and so do links to it, with a path and without."""
    command, folder, link = shop(scratch, linked=linked)
    for spelling in SPELLINGS:
        loc = "sold@" + spelling.format(folder=folder, link=link)
        _, trace = dyntrace.trace("-e", *([] if linked else ["--wait"]), "--function", loc, "--", *command)
        assert trace.names() == {"sold_entry": 2, "sold_exit": 2}, loc
        assert [event.fields["ret"] for event in trace.named("sold_exit")] == [2, 3]


def test_a_program_by_its_links(dyntrace, scratch):
    command, _, link = shop(scratch, linked=True)
    for spelling in ("shop", "shop-file", f"{scratch}/shop", f"{scratch}/shop-file", f"{link}/../shop"):
        _, trace = dyntrace.trace("--function", f"main@{spelling}", "--", *command)
        assert trace.names() == {"main_entry": 1}, spelling


def test_list_symbols_knows_sonames(dyntrace, processes, scratch):
    shop(scratch, linked=True)
    target = processes.start(["env", f"LD_PRELOAD={scratch}/lib/libsold.so.1", "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    target.stdin.write(b"x")
    target.stdin.flush()
    assert target.stdout.read(1) == b"x"
    for glob in ("sold@libsold.so.1", "sol?@libsold.so.2.1", "sold@libsold.so.1*", "libsold:sold"):
        assert listed(dyntrace, target.pid, glob) == ["sold"], glob
    target.stdin.close()
    assert target.wait() == 0
