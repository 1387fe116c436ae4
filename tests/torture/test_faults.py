"""Every call of every operation fails, one after the other (tests/faults). With a
DYNTRACE_TORTURE below 1: a few of them per operation."""
import os
import subprocess

import pytest

OPERATIONS = ["attach", "add", "add-exits", "add-placed", "add-many", "add-count", "add-trap", "exchange", "rm", "rm-shared", "rm-all", "switch",
              "add-context", "snapshot", "record", "rotate", "follow-exec", "follow-stay", "follow-count", "detach", "end", "clean",
              "inherit"]
SLICES = 2
FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))
THIN = ["--thin", str(max(int(20 * FACTOR), 1))] if FACTOR < 1 else []


def drive(build, *words):
    """Runs the driver in slices beside each other."""
    command = [os.path.join(build, "tests", "fault_driver"), *THIN, *words]
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
    drive(build, "--only", operation, *([] if THIN else ["--paths"]), "--onward")
