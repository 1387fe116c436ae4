"""A few calls of the daemon's supervisor and of a worker fail (tests/faults/daemon_faults.py); all of them: tests/torture."""
import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "faults"))
import daemon_faults  # noqa: E402


@pytest.mark.parametrize("operation, role", [("rm", "supervisor"), ("add", "worker")])
def test_a_call_of_the_daemon_fails(build, operation, role):
    daemon_faults.drive(build, "--only", operation, "--role", role, "--thin", "3")
