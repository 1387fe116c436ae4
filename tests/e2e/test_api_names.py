"""libdyntrace.so from small programs in C and C++, built against the installed header: symbols, markers, and the daemon's state."""
import json
import os
import subprocess

import pytest
from test_api import Installed, ROOT

SOURCE = os.path.join(ROOT, "tests", "programs", "api_client.c")
LANGUAGES = {"c": ["cc", "-std=c99", "-D_GNU_SOURCE", "-x", "c"], "c++": ["c++", "-std=c++11", "-x", "c++"]}


@pytest.fixture(scope="module")
def root(build, tmp_path_factory):
    return Installed(build, str(tmp_path_factory.mktemp("root")))


@pytest.fixture(scope="module", params=LANGUAGES)
def built(request, root, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("program") / "api_client")
    subprocess.run([*LANGUAGES[request.param], "-Wall", "-Wextra", "-Werror", SOURCE, "-pthread",
                    *root.config("--cflags", "--libs"), "-o", path], check=True)
    return path


@pytest.fixture
def client(built, root):
    """client("symbols", ...) -> its lines, each as a list of words; fails=True: the line on stderr."""
    def run(*words, fails=False, **environment):
        done = subprocess.run([built, *map(str, words)], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                              env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(root.library), **environment})
        assert done.returncode == (1 if fails else 0), (done.returncode, done.stderr)
        if fails:
            assert done.stdout == "" and done.stderr.count("\n") == 1
            return done.stderr.rstrip("\n")
        assert done.stderr == ""
        return [line.split("\t") for line in done.stdout.splitlines()]
    return run


def listed(dyntrace, *words):
    return json.loads(dyntrace(*words, "--json").stdout)


def test_symbols_are_those_of_the_command(client, dyntrace, spin):
    one = spin()
    for target in (one.pid, "/usr/bin/python3", "/lib/x86_64-linux-gnu/libc.so.6"):
        expected = listed(dyntrace, "list-symbols", "-a", target)
        assert [[str(item[key]) for key in ("address", "size", "module", "name", "kind", "source", "prototype")]
                for item in expected] == client("symbols", target, "")
        assert len(expected) > 20
    found = client("symbols", one.pid, "fo?")
    assert [line[2:4] for line in found] == [["spin", "foo"]] and \
        found[0][6] == "long int foo(int number, long int factor, const char *text)"
    one.finish()


def test_markers_are_those_of_the_command(client, dyntrace, program_path):
    target = program_path("markers")
    expected = listed(dyntrace, "list-markers", target)
    assert expected
    assert [[str(item[key] or 0) if key == "semaphore" else str(item[key])
             for key in ("provider", "name", "arguments", "module", "address", "semaphore")]
            for item in expected] == client("markers", target, "")
    assert client("markers", "/bin/true", "") == []


def test_errors_are_those_of_the_command(client, dyntrace, scratch):
    text = os.path.join(scratch, "text")
    with open(text, "w") as file:
        file.write("not a program")
    for words in (("symbols", text, ""), ("symbols", "/nowhere", ""), ("symbols", "/bin/ls", "no_such_name"),
                  ("symbols", "-a", ""), ("symbols", "--help", ""), ("markers", "4194305", "")):
        said = dyntrace.fails("list-" + words[0], "--", words[1], *filter(None, words[2:]))
        assert client(*words, fails=True)[3:] == said
    assert client("symbols", "", "", fails=True) == "1: the target is missing"
    assert client("symbols", "/bin/ls", "", fails=True, DYNTRACE_COMMAND="/nowhere/dyntrace") == \
        "0: cannot run /nowhere/dyntrace: No such file or directory"
    assert client("symbols", "/bin/ls", "", fails=True, DYNTRACE_COMMAND="/bin/true") == \
        "0: dyntrace ended without an answer"
    assert client("symbols", "/bin/ls", "", fails=True, DYNTRACE_COMMAND="/bin/echo").startswith(
        "0: cannot understand dyntrace's answer: ")


def test_status_is_that_of_the_command(client, daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo")
    before, after = client("status", DYNTRACE_SOCKET=daemon.socket)
    shown = daemon.json("status")
    assert before == [shown["version"], daemon.socket, shown["output"], str(shown["pid"]), str(os.getuid()), "1", "1", "1",
                      "0", "1"]
    assert after == before[:8] + ["1", "1"]
    daemon("stop")
    assert [line[5] for line in client("status", DYNTRACE_SOCKET=daemon.socket)] == ["0", "0"]
    daemon("detach", one.pid)
    assert client("status", fails=True, DYNTRACE_SOCKET="/nowhere/socket").startswith("0: no daemon answers at /nowhere/socket")


def test_two_threads_with_a_handle_each_while_a_third_lists(client, daemon, spin):
    """The helper that lists symbols is no child that the program could notice."""
    one = spin()
    daemon.attach(one.pid)
    assert client("threads", one.pid, 25, DYNTRACE_SOCKET=daemon.socket) == [["25 25 25, 0 signals, no child"]]
    assert daemon.json("list-tracepoints", one.pid) == []
    daemon("detach", one.pid)
    one.finish()


def test_the_helper_gets_nothing_of_the_program_and_hides_itself(built, root, build, scratch):
    """(H34) Descriptors of the program that aren't close-on-exec stay with the program, and the helper isn't dumpable."""
    secret, seen, script = (os.path.join(scratch, name) for name in ("secret", "seen", "script"))
    with open(script, "w") as file:
        file.write(f'#!/bin/sh\nls -l /proc/$$/fd > {seen}\nexec strace -qq -e trace=prctl -o {seen}.calls {build}/dyntrace "$@"\n')
    os.chmod(script, 0o755)
    with open(secret, "w") as file:
        os.set_inheritable(file.fileno(), True)
        subprocess.run([built, "symbols", "/bin/ls", "main"], stdin=subprocess.DEVNULL, capture_output=True, pass_fds=[file.fileno()],
                       env={**os.environ, "LD_LIBRARY_PATH": os.path.dirname(root.library), "DYNTRACE_COMMAND": script})
    with open(seen) as file:
        assert secret not in file.read()
    with open(f"{seen}.calls") as file:
        assert "PR_SET_DUMPABLE, SUID_DUMP_DISABLE" in file.read()
