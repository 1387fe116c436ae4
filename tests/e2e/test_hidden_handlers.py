"""No program is told of a handler of ours as its own (H42): it might keep it, and install it again when the agent is gone."""
import os
import subprocess

import pytest

from fixtures import ROOT

TURNS = 2  # each is an attach and a detach
COMPILERS = {
    "glibc": ["gcc"],
    "own calls": ["gcc", "-DOWN"],
    "static": ["gcc", "-static"],
    "musl": ["musl-gcc", "-static"],
}


@pytest.fixture
def asked(scratch):
    """Builds and starts asked.c; gives the process, and a function that ends it well."""
    running = []

    def start(libc):
        path = os.path.join(scratch, "asked")
        subprocess.run([*COMPILERS[libc], "-O2", "-g", os.path.join(ROOT, "tests", "programs", "asked.c"), "-o", path], check=True)
        running.append(subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        assert running[0].stdout.readline() == "ready\n"
        return running[0]
    yield start
    for process in running:
        process.kill()
        process.wait()


@pytest.mark.parametrize("libc, function", [
    ("glibc", "work"), ("glibc", "lone"), ("own calls", "work"), ("static", "work"), ("musl", "work"),
])
def test_h42_own_handlers_only(dyntrace, asked, libc, function):
    process = asked(libc)
    for _ in range(TURNS):
        result = dyntrace("trace", "-o", dyntrace.new_output(), "--mode", "overwrite", "--buffer-size", "1M", "-p", process.pid,
                          "--function", function, "--for", "0.02")
        assert "agent stays" not in result.stderr
    output, _ = process.communicate("\n", timeout=60)
    assert (output, process.returncode) == ("0 wrong, asked: 1\n", 0)
