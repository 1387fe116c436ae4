"""kill -9 of a tracer at each step around the moments in which it sets a thread's Syscall User Dispatch aside and puts it back (S7)."""
import pytest
from test_dispatched import killed_at


@pytest.mark.parametrize("turn", range(10))
def test_dispatch_comes_back_whenever_the_tracer_is_killed(build, program, scratch, turn):
    killed_at(build, program, scratch, range(-4, 6), range(-5, 5))
