"""Calls of the daemon's supervisor, workers and keepers fail, one after the other (tests/faults/daemon_faults.py): one per way by
which the code comes to a call. With a DYNTRACE_TORTURE below 1: a few of them per operation."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults"))
import daemon_faults  # noqa: E402

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
THIN = ["--thin", str(max(int(100 * FACTOR), 2))] if FACTOR < 1 else []


@pytest.mark.limit(7200)
@pytest.mark.parametrize("role", daemon_faults.ROLES[:3])
@pytest.mark.parametrize("operation", daemon_faults.OPERATIONS)
def test_one_call_of_the_daemon_fails(build, operation, role):
    daemon_faults.drive(build, "--only", operation, "--role", role, *THIN)
