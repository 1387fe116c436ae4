"""Tracepoints removed and added again at random under threads that check their own results, for half an hour each; 100,000 cycles.

The program is the unit test of the same name, with more time. CHANGE_SECONDS and CHANGE_CYCLES set it."""
import os
import subprocess

import pytest


@pytest.mark.limit(7200)
@pytest.mark.parametrize("which", ["test_random", "test_random_exits", "test_random_mixed", "test_cycles_*"])
def test_random_changes_and_cycles(build, which):
    environment = {"CHANGE_SECONDS": "1800", "CHANGE_CYCLES": "100000", **os.environ, "CHANGE_ONLY": which}
    result = subprocess.run([os.path.join(build, "tests", "unit", "test_change")], env=environment,
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
