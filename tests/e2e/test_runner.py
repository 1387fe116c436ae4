"""tests/run itself: what it prints of a failure, and what it makes of one that doesn't come back."""
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from harness import until

PATH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run")

CMOCKA = """[==========] tests: Running 3 test(s).
[ RUN      ] test_good
a word of the good one
[       OK ] test_good
[ RUN      ] test_bad
[  ERROR   ] --- 0x1 != 0x2
[   LINE   ] --- test_x.c:12: error: Failure!
[  FAILED  ] test_bad
[ RUN      ] test_fine
[       OK ] test_fine
[==========] tests: 3 test(s) run.
[  PASSED  ] 2 test(s).
[  FAILED  ] tests: 1 test(s), listed below:
[  FAILED  ] test_bad

 1 FAILED TEST(S)
"""

PYTEST = """.F                                       [100%]
=================================== FAILURES ===================================
____________________________________ test_a ____________________________________
    assert status == 0
E   assert 3 == 0
=========================== short test summary info ============================
FAILED tests/e2e/test_x.py::test_a - assert 3 == 0
"""


@pytest.fixture(scope="module")
def runner():
    loader = importlib.machinery.SourceFileLoader("runner", PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
    written, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    loader.exec_module(module)
    sys.dont_write_bytecode = written
    return module


def job_of(runner, script):
    return runner.Job("fake/job", ["/bin/sh", "-c", script], {}, 30, runner.judge_program)


def once_bad(tmp_path, how):
    """Fails the first time, and never again."""
    mark = tmp_path / "been-here"
    return f"if [ -e '{mark}' ]; then echo fine now; else : >'{mark}'; {how}; fi"


def result_of(runner, script):
    job = job_of(runner, script)
    return job, runner.run_job(job)[0]


def test_begins_with_what_failed(runner, capsys):
    runner.print_failure(runner.judge_program(1, CMOCKA))
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["| [ RUN      ] test_bad", "| [  ERROR   ] --- 0x1 != 0x2",
                         "| [   LINE   ] --- test_x.c:12: error: Failure!", "| [  FAILED  ] test_bad"]
    assert "| a word of the good one" in lines
    assert not [line for line in lines if "test_good" in line or "test_fine" in line]


def test_names_the_test_that_never_ended(runner):
    text = CMOCKA[:CMOCKA.index("[  ERROR")] + "==7==ERROR: AddressSanitizer: heap-use-after-free\n"
    assert runner.reasons(runner.judge_program(-6, text)) == [
        "[ RUN      ] test_bad", "==7==ERROR: AddressSanitizer: heap-use-after-free"]


def test_reasons_of_pytest(runner):
    result = runner.Result(1, 1, 0, "exit status 1", PYTEST)
    assert runner.reasons(result) == ["E   assert 3 == 0", "FAILED tests/e2e/test_x.py::test_a - assert 3 == 0"]


def test_list_at_the_end(runner, capsys):
    job = job_of(runner, "")
    runner.print_list([(job, runner.judge_program(0, "")), (job, runner.judge_program(1, CMOCKA))])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  FAILED   fake/job: exit status 1"
    assert len(lines) == 5 and lines[2].endswith("0x1 != 0x2")


@pytest.mark.parametrize("strict, failed, said", [(False, 0, "counts as passed"), (True, 1, "(--strict)")])
def test_unsteady(runner, capsys, tmp_path, strict, failed, said):
    job, first = result_of(runner, once_bad(tmp_path, "echo '[  ERROR   ] too late'; exit 1"))
    assert first.failed == 1
    assert runner.run_again(job, first, strict).failed == failed
    out = capsys.readouterr().out
    assert "UNSTEADY fake/job: 1 failed beside other tests, none alone; counts as" in out and said in out
    assert "[  ERROR   ] too late" in out


@pytest.mark.parametrize("how", ["kill -SEGV $$", "echo '==9==ERROR: LeakSanitizer: detected'; exit 1"])
def test_crash_is_no_matter_of_load(runner, capsys, tmp_path, how):
    job, first = result_of(runner, once_bad(tmp_path, how))
    assert runner.run_again(job, first, False).failed == 1
    assert "something crashed: counts as failed" in capsys.readouterr().out


@pytest.mark.parametrize("line, crashed", [
    ("E   AssertionError: redis ended with SIGSEGV", True),
    ("E   assert -11 == 0", True),
    ("E   assert 11 == 0", False),
    ("    assert status != -signal.SIGSEGV", False),
])
def test_crash_of_a_target(runner, line, crashed):
    assert bool(runner.has_crashed(runner.Result(0, 1, 0, "exit status 1", line + "\n"))) == crashed


def test_fails_twice(runner, capsys):
    job, first = result_of(runner, "echo '[  ERROR   ] broken'; exit 1")
    assert runner.run_again(job, first, False).failed == 1
    assert "UNSTEADY" not in capsys.readouterr().out


INTERRUPTED = """
import importlib.machinery, importlib.util, signal, sys
loader = importlib.machinery.SourceFileLoader("runner", sys.argv[1])
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
sys.dont_write_bytecode = True
loader.exec_module(runner)
signal.signal(signal.SIGTERM, runner.stop_all)
runner.run_jobs([runner.Job(str(at), ["/bin/sh", "-c", sys.argv[2]], {}, 1000, runner.judge_program)
                 for at in range(5)], 2)
"""


def is_running(pid):
    """A zombie isn't: who is to wait for it has other things to do."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_interrupted_nothing_stays_behind(tmp_path, processes):
    """Not even what has a session and an end of its own; and no other job is begun."""
    told = tmp_path / "told"
    script = f'setsid sleep 1000 & : >"$TMPDIR/file"; echo "$! $TMPDIR $DYNTRACE_TEST_MEMORY" >>{told}; wait'
    run = processes.start(["/usr/bin/python3", "-c", INTERRUPTED, PATH, script], stdout=subprocess.DEVNULL)
    until(lambda: told.exists() and len(told.read_text().splitlines()) == 2, "two jobs")
    run.terminate()
    assert run.wait(timeout=20) == 128 + signal.SIGTERM
    lines = told.read_text().splitlines()
    assert len(lines) == 2
    for sleeper, disk, memory in map(str.split, lines):
        assert not os.path.exists(disk) and not os.path.exists(memory)
        until(lambda: not is_running(sleeper), "the end of what it started")
