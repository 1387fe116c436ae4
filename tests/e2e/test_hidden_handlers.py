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


SETS = r"""
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>

__attribute__((noipa)) void work(void) { __asm__ volatile("nop; nop; nop; nop; nop"); }
static void one(int number) {}
static void other(int number) {}

int main(void)
{
	struct sigaction action = { .sa_handler = one }, was;
	struct pollfd input = { .events = POLLIN };
	long wrong = 0;

	sigaction(SIGSEGV, &action, NULL);
	puts("ready");
	fflush(stdout);
	do {
		for (int i = 0; i < 1000; i++) {
			action.sa_handler = i % 2 ? one : other;
			sigaction(SIGSEGV, &action, &was);
			wrong += was.sa_handler != (i % 2 ? other : one);
			work();
		}
	} while (poll(&input, 1, 0) == 0);
	printf("%ld wrong\n", wrong);
	return 0;
}
"""


def test_h42_handlers_that_are_set_meanwhile(dyntrace, processes, scratch):
    """The thread is in a guard, with a handler of ours to set, when dyntrace leaves."""
    path = os.path.join(scratch, "sets")
    subprocess.run(["gcc", "-O2", "-o", path, "-x", "c", "-"], input=SETS, text=True, check=True)
    with processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        for _ in range(8):
            dyntrace("trace", "-o", dyntrace.new_output(), "--mode", "overwrite", "--buffer-size", "1M", "-p", process.pid, "--function", "work", "--for", "0.02")
        output, _ = process.communicate("\n", timeout=60)
    assert (output, process.returncode) == ("0 wrong\n", 0)
