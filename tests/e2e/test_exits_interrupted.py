"""A signal's handler interrupts the code that records an exit, and runs for longer than it takes dyntrace to leave: that code stays
mapped until the handler has returned to it (R12)."""
import os
import signal
import subprocess

import pytest

from harness import Program, Snapshot
from stepper import Stepper

INTERRUPTED = r"""
#include <signal.h>
#include "handshake.h"
static int count;
static char **words;
__attribute__((noinline)) int next(int x) { __asm__ volatile("" : "+r"(x)); return x + 1; }
static void on_user(int number) { handshake(count, words); }
int main(int argc, char **argv)
{
	int sum = 0;

	count = argc;
	words = argv;
	signal(SIGUSR1, on_user);
	for (int i = 0; i < 3; i++) {
		handshake(argc, argv);
		sum += next(i);
	}
	printf("%d\n", sum);
	return 0;
}
"""


def step_into_exit(stepper, number):
    """To the instruction of that number, from 0, of those behind the traced function's return. False: there are fewer."""
    visits, inside = 0, False
    while True:
        stepper.step()
        before, inside = inside, stepper.is_in_ours()
        visits += inside and not before
        if visits == 2 and (number == 0 or not inside):  # the first is the entry's
            return inside
        number -= visits == 2


def interrupt(dyntrace, processes, path, number):
    """Leaves while a handler has interrupted that instruction. Tells whether there is such an instruction."""
    target = Program(processes, path, []).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "next").wait_told()
    stepper = Stepper(target.pid)
    target.go()
    found = step_into_exit(stepper, number)
    os.kill(target.pid, signal.SIGUSR1)
    stepper.end()
    target.wait_ready()
    tracing.process.send_signal(signal.SIGINT)
    _, said = tracing.process.communicate(timeout=60)
    if found:
        assert tracing.process.returncode == 125 and "a thread stays in the code that records exits" in said, said
    target.go().wait_ready()
    target.go().wait_ready()
    dyntrace("detach", target.pid, status=None)
    before.assert_unchanged()
    assert target.finish() == "6\n"
    return found


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("interrupted") / "interrupted")
    sources = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-I", sources, "-x", "c", "-", "-o", path], input=INTERRUPTED, text=True, check=True)
    return path


@pytest.mark.parametrize("number", [0, 50])
def test_left_while_a_handler_runs(dyntrace, processes, interrupted, number):
    assert interrupt(dyntrace, processes, interrupted, number)
