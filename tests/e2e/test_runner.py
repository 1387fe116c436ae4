"""tests/run itself: the output after a failure, jobs that pass alone, and interruption."""
import ctypes
import importlib.machinery
import importlib.util
import os
import signal
import subprocess
import sys

import pytest
from harness import threads, until

SYS_tgkill = 234
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
    """A script that fails the first time, and never again."""
    mark = tmp_path / "been-here"
    return f"if [ -e '{mark}' ]; then echo fine now; else : >'{mark}'; {how}; fi"


def result_of(runner, script):
    job = job_of(runner, script)
    return job, runner.run_job(job)[0]


def test_reasons_come_first(runner, capsys):
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


def test_passing_alone_is_no_excuse(runner, capsys, tmp_path):
    job, first = result_of(runner, once_bad(tmp_path, "echo '[  ERROR   ] too late'; exit 1"))
    assert first.failed == 1
    result, unsteady = runner.run_again(job, first, {"fake/other": "slow"})
    assert (result.failed, result.note, unsteady) == (1, "exit status 1; passes alone", False)
    assert "FAILED   fake/job: 1 failed beside other jobs, none alone" in capsys.readouterr().out


def test_listed_job_passes_alone(runner, capsys, tmp_path):
    job, first = result_of(runner, once_bad(tmp_path, "exit 1"))
    result, unsteady = runner.run_again(job, first, {"fake/job": "the disk is slow"})
    assert (result.failed, unsteady) == (0, True)
    assert "UNSTEADY fake/job: 1 failed beside other jobs, none alone; counts as passed: the disk is slow" \
        in capsys.readouterr().out


@pytest.mark.parametrize("how", ["kill -SEGV $$", "echo '==9==ERROR: LeakSanitizer: detected'; exit 1"])
def test_listed_job_crashed(runner, tmp_path, how):
    job, first = result_of(runner, once_bad(tmp_path, how))
    result, unsteady = runner.run_again(job, first, {"fake/job": "the disk is slow"})
    assert (result.failed, unsteady) == (1, False)


@pytest.mark.parametrize("line, crashed", [
    ("E   AssertionError: redis ended with SIGSEGV", True),
    ("E   assert -11 == 0", True),
    ("E   assert 11 == 0", False),
    ("    assert status != -signal.SIGSEGV", False),
])
def test_crash_of_a_target(runner, line, crashed):
    assert bool(runner.has_crashed(runner.Result(0, 1, 0, "exit status 1", line + "\n"))) == crashed


def test_listed_job_fails_alone_too(runner, capsys):
    job, first = result_of(runner, "echo '[  ERROR   ] broken'; exit 1")
    result, unsteady = runner.run_again(job, first, {"fake/job": "the disk is slow"})
    assert (result.failed, result.note, unsteady) == (1, "exit status 1; fails alone too", False)
    assert "UNSTEADY" not in capsys.readouterr().out


def test_list_of_unsteady_jobs(runner, tmp_path):
    path = tmp_path / "unsteady.txt"
    path.write_text("# a comment\n\ne2e/one  a reason, in words\n")
    assert runner.read_unsteady(path) == {"e2e/one": "a reason, in words"}
    path.write_text("e2e/one\n")
    with pytest.raises(SystemExit, match="'e2e/one' has no reason"):
        runner.read_unsteady(path)


def test_own_list_is_short_and_names_jobs(runner):
    listed = runner.read_unsteady()
    assert len(listed) <= 5
    for name in listed:
        kind, _, stem = name.partition("/")
        assert kind != "e2e" or os.path.exists(os.path.join(os.path.dirname(PATH), "e2e", f"test_{stem}.py"))


RENAMED = """
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, bytes.fromhex(sys.argv[1]), 0, 0, 0)
print("renamed", flush=True)
time.sleep(1000)
"""


@pytest.fixture
def badly_named(processes):
    """A process whose name is no text: the bytes ff, 1b and ) in it."""
    process = processes.start(["/usr/bin/python3", "-c", RENAMED, "61ff1b5d29206229"], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"renamed\n"
    return process


def test_names_of_processes_are_any_bytes(runner, badly_named):
    assert runner.stat_of(badly_named.pid)[0] == os.getpid()
    assert runner.name_of(badly_named.pid) == f"a\\ufffd\\x1b]) b) ({badly_named.pid})"
    assert result_of(runner, "exit 0")[1].passed == 1


def test_errors_around_a_job_are_its_own(runner, monkeypatch, capsys):
    """The jobs beside it run to their end."""
    good, bad = job_of(runner, "exit 0"), job_of(runner, "exit 0")._replace(name="fake/bad", judge=lambda *_: 1 / 0)
    results = dict((job.name, result) for job, result in runner.run_jobs([bad, good], 1))
    assert (results["fake/bad"].failed, results["fake/job"].passed) == (1, 1)
    assert "division by zero" in results["fake/bad"].note and "judge" in capsys.readouterr().out


def test_quick_jobs_exist(runner):
    """The list names files that are there; no sanitizer is among the quick ones."""
    folder = os.path.dirname(PATH)
    for stem in runner.QUICK_E2E:
        assert os.path.exists(os.path.join(folder, "e2e", f"test_{stem}.py")) and runner.is_quick(f"e2e/{stem}")
    for stem in runner.SLOW_UNIT:
        assert not runner.is_quick(f"unit/{stem}")
    assert runner.is_quick("unit/plan") and runner.is_quick("fuzz/fuzz_elf")
    assert not runner.is_quick("asan/plan") and not runner.is_quick("e2e/recording")


TWO_JOBS = """
import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader("runner", sys.argv[1])
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
sys.dont_write_bytecode = True
loader.exec_module(runner)
jobs = [runner.Job(f"fake/{at}", ["/bin/sh", "-c", sys.argv[2]], {}, 60, runner.judge_program) for at in range(2)]
runner.collect = lambda options, reports: jobs
listed = dict.fromkeys(sys.argv[3].split(), "the disk is slow")
runner.read_unsteady = lambda: listed
sys.argv = ["run", "-j", "2"]
runner.main()
"""


@pytest.mark.parametrize("listed, status, end", [
    ("", 1, ["0 unsteady (tests/unsteady.txt lists 0)", "1 passed, 1 failed"]),
    ("fake/0 fake/1", 0, ["1 unsteady (tests/unsteady.txt lists 2)", "2 passed, 0 failed"]),
])
def test_last_lines(tmp_path, listed, status, end):
    """One of two jobs fails, once."""
    script = f"mkdir '{tmp_path}/mark' 2>/dev/null && exit 1 || exit 0"
    run = subprocess.run(["/usr/bin/python3", "-c", TWO_JOBS, PATH, script, listed], capture_output=True, text=True)
    assert (run.returncode, run.stdout.splitlines()[-2:]) == (status, end), run.stdout + run.stderr


BURN = "import time\nwhile time.process_time() < 0.2: pass"


def test_ended_orphans_are_taken_leave_of(runner):
    """The first process of a pid namespace waits for that: killed or not, it would live on."""
    if os.fork() == 0:
        ended = os.fork() or os._exit(0)
        os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
        assert list(runner.orphans()) == []
        try:
            os.waitpid(ended, os.WNOHANG)
        except ChildProcessError:
            os._exit(0)
        os._exit(1)
    assert os.wait()[1] == 0


def test_who_stays_behind_is_told_and_killed(runner, monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "GRACE_SECONDS", 0)
    _, result = result_of(runner, f"setsid sleep 1000 & until read name </proc/$!/comm && [ $name = sleep ]; do :; done; echo $! >{tmp_path}/pid")
    pid = int((tmp_path / "pid").read_text())
    assert (result.failed, result.note) == (1, f"left processes behind: sleep ({pid})")
    until(lambda: not is_running(pid), "its end")


def test_who_is_about_to_end_is_waited_for(runner):
    """A process that gets its signal when the job has ended already."""
    _, result = result_of(runner, "setsid sh -c 'trap \"exit 0\" TERM; while :; do sleep 0.1; done' & pid=$!; setsid sh -c \"sleep 1.5; kill $pid\" &")
    assert (result.passed, result.failed, result.note) == (1, 0, "")


def test_make_around_us(runner, monkeypatch):
    """A test that runs make gets no words of the make that runs the tests."""
    monkeypatch.setenv("MAKEFLAGS", "w -j2")
    monkeypatch.setenv("LC_ALL", "tr_TR.UTF-8")
    monkeypatch.setenv("LANGUAGE", "tr")
    monkeypatch.setenv("MAKELEVEL", "1")
    _, result = result_of(runner, 'test -n "$TMPDIR" && test -z "$MAKEFLAGS$MAKELEVEL$LANGUAGE" && test "$LC_ALL" = C.UTF-8')
    assert result.passed == 1


def test_cpu_time_counts_children(runner):
    """Of the job's process and of those that it waited for: what others do beside it doesn't matter."""
    script = f"/usr/bin/python3 -c '{BURN}'; /usr/bin/python3 -c '{BURN}'"
    _, cost = runner.run_job(runner.Job("fake/burns", ["sh", "-c", script], {}, 60, runner.judge_program))
    assert cost.cpu >= 0.4


INTERRUPTED = """
import importlib.machinery, importlib.util, signal, sys
loader = importlib.machinery.SourceFileLoader("runner", sys.argv[1])
runner = importlib.util.module_from_spec(importlib.util.spec_from_loader("runner", loader))
sys.dont_write_bytecode = True
loader.exec_module(runner)
signal.signal(int(sys.argv[3]), runner.stop_all)
jobs = [runner.Job(str(at), ["/bin/sh", "-c", sys.argv[2]], {}, 1000, runner.judge_program) for at in range(5)]
if sys.argv[4] == "1":
    runner.run_again(jobs[0], runner.judge_program(1, ""), {})
else:
    runner.run_jobs(jobs, 2)
"""


def is_running(pid):
    """False for a zombie: the process that has to wait for it may be busy."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def inherited_signals():
    """Signals as a background job without job control has them, and blocked on top."""
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGQUIT]
    old = [signal.signal(number, signal.SIG_IGN) for number in numbers]
    signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    yield
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    for number, handler in zip(numbers, old):
        signal.signal(number, handler)


def signal_thread(pid, number):
    """Sends a signal to a thread that isn't the main one: it ends no wait of the main thread."""
    thread = next(tid for tid in threads(pid) if tid != pid)
    assert ctypes.CDLL(None).syscall(SYS_tgkill, pid, thread, int(number)) == 0


@pytest.mark.parametrize("send", [os.kill, signal_thread])
@pytest.mark.parametrize("number, alone", [(signal.SIGINT, 0), (signal.SIGTERM, 0), (signal.SIGINT, 1)])
def test_interrupted_nothing_stays_behind(tmp_path, processes, inherited_signals, number, alone, send):
    """Neither processes with a session of their own nor files stay; no other job is started. Also where a job runs
    once more, alone."""
    told, count = tmp_path / "told", 1 if alone else 2
    script = f'setsid sleep 1000 & : >"$TMPDIR/file"; echo "$$ $! $TMPDIR $DYNTRACE_TEST_MEMORY" >>{told}; wait'
    run = processes.start(["/usr/bin/python3", "-c", INTERRUPTED, PATH, script, int(number), alone],
                          stdout=subprocess.DEVNULL)
    try:
        until(lambda: told.exists() and len(told.read_text().splitlines()) == count, "the jobs")
        send(run.pid, number)
        assert run.wait(timeout=20) == 128 + number
        lines = told.read_text().splitlines()
        assert len(lines) == count
        for shell, sleeper, disk, memory in map(str.split, lines):
            assert not os.path.exists(disk) and not os.path.exists(memory)
            until(lambda: not is_running(shell) and not is_running(sleeper), "the end of the job's processes")
    finally:
        run.kill()  # first: it starts the next job when one ends
        run.wait()
        kill_jobs(told)


def kill_jobs(told):
    """Kills jobs that a failed test left: nobody else does, in sessions of their own."""
    for line in told.read_text().splitlines() if told.exists() else []:
        for pid in map(int, line.split()[:2]):
            if is_running(pid):
                os.kill(pid, signal.SIGKILL)
