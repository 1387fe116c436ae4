"""kill -9 of dyntrace at each of its steps, from the first look at the target to the last. DYNTRACE_TORTURE: the share of them."""
import os

import pytest
from kills import kill_at, ptrace_calls

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


@pytest.mark.parametrize("words", [["--function", "foo"], ["--function", "foo", "-e"]])
def test_killed_at_every_step(dyntrace, program, words):
    calls = ptrace_calls(dyntrace, program, words)
    for call in range(1, calls + 1, max(round(1 / FACTOR), 1)):
        kill_at(dyntrace, program, call, words)
