"""Tracepoints removed and added again at random under threads that check their own results, for half an hour each; 100,000 cycles.

The program is the unit test of the same name, with more time. CHANGE_SECONDS and CHANGE_CYCLES set it, DYNTRACE_TORTURE
multiplies both."""
import os
import subprocess

import pytest

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


@pytest.mark.limit(7200)
@pytest.mark.parametrize("which", ["test_random", "test_random_exits", "test_random_mixed", "test_cycles_*"])
def test_random_changes_and_cycles(build, which):
    environment = {"CHANGE_SECONDS": str(max(int(1800 * FACTOR), 1)), "CHANGE_CYCLES": str(max(int(100_000 * FACTOR), 1)),
                   **os.environ, "CHANGE_ONLY": which}
    result = subprocess.run([os.path.join(build, "tests", "unit", "test_change")], env=environment,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
