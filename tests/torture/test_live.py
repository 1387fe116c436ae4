"""Tracepoints that are added, removed, switched and given contexts at random under threads that count their own calls, for half
an hour; 100,000 cycles of add, add-context and remove, and of functions with exits.

The program is the unit test of the same name, with more time. LIVE_SECONDS and LIVE_CYCLES set it, DYNTRACE_TORTURE
multiplies both."""
import os
import subprocess

import pytest

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


@pytest.mark.limit(7200)
def test_random_changes_and_cycles(build):
    environment = {"LIVE_SECONDS": str(max(int(1800 * FACTOR), 1)), "LIVE_CYCLES": str(max(int(100_000 * FACTOR), 1)),
                   **os.environ}
    result = subprocess.run([os.path.join(build, "tests", "unit", "test_live")], env=environment,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
