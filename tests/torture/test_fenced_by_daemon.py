"""The daemon and filters that kill for one call, for every call that dyntrace makes in a target: never a death (test_daemon_asker.py has a few)."""
import pytest
from test_daemon_asker import no_death
from test_fenced import OURS, RESTART


@pytest.mark.parametrize("name", sorted({**OURS, **RESTART}))
def test_no_call_of_ours_kills(daemon, program, name):
    no_death(daemon, program, name)
