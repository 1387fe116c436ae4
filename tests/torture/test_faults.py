"""Every call of every operation fails, one after the other (tests/faults)."""
import os
import subprocess

import pytest

OPERATIONS = ["attach", "add", "add-exits", "add-placed", "add-many", "add-count", "exchange", "rm", "rm-shared", "rm-all", "switch",
              "add-context", "snapshot", "record", "follow-exec", "detach", "clean", "inherit"]
SLICES = 2


def drive(build, *words):
    """Runs the driver in slices beside each other."""
    command = [os.path.join(build, "tests", "fault_driver"), *words]
    running = [subprocess.Popen([*command, "--slice", f"{i}/{SLICES}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
               for i in range(SLICES)]
    outputs = [one.communicate()[0] for one in running]
    assert [one.returncode for one in running] == [0] * SLICES, "".join(outputs)
    assert all(" 0 bad" in output for output in outputs)


@pytest.mark.limit(7200)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_call_fails(build, operation):
    drive(build, "--only", operation)


@pytest.mark.limit(7200)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_all_calls_fail_from_one_on(build, operation):
    drive(build, "--only", operation, "--paths", "--onward")
