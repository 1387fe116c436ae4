"""kill -9 of dyntrace at each of its steps, from the first look at the target to the last. DYNTRACE_TORTURE: the share of them."""
import os

import pytest
from kills import STEPS, change_words, count_calls, kill_at, second_instruction, trace_words

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


def kill_at_each(count, kill):
    """kill(number) for these calls. There may be some calls more or less each time: the last quarter is perhaps not made."""
    killed = [kill(number) for number in range(1, count + 1, max(round(1 / FACTOR), 1))]
    assert killed and all(killed[:len(killed) * 3 // 4 + 1])


@pytest.mark.parametrize("words", [["--function", "foo"], ["--function", "foo", "-e"]])
def test_killed_at_every_step(dyntrace, program, words):
    def make(pid):
        return trace_words(dyntrace, pid, words)

    kill_at_each(count_calls(dyntrace, program, make), lambda number: kill_at(dyntrace, program, number, make))


@pytest.mark.parametrize("call", STEPS)
def test_killed_in_an_exchange(dyntrace, program, program_path, call):
    second = second_instruction(dyntrace, program_path("spin"), "foo")

    def make(pid):
        return change_words(dyntrace, pid, second)

    kill_at_each(count_calls(dyntrace, program, make, call), lambda number: kill_at(dyntrace, program, number, make, call))
