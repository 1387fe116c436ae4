"""Tracepoints that are added, removed, switched and given contexts at random under threads that count their own calls, for half
an hour; 100,000 cycles of add, add-context and remove, and of functions with exits.

The program is the unit test of the same name, with more time. LIVE_SECONDS and LIVE_CYCLES set it."""
import os
import subprocess

import pytest


@pytest.mark.limit(7200)
def test_random_changes_and_cycles(build):
    environment = {"LIVE_SECONDS": "1800", "LIVE_CYCLES": "100000", **os.environ}
    result = subprocess.run([os.path.join(build, "tests", "unit", "test_live")], env=environment,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
