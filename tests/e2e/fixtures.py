"""Fixtures of the end-to-end and the torture tests, and a time limit per test: @pytest.mark.limit(SECONDS), else
LIMIT. Limits and timeouts (of processes and of until()) are for an idle machine, and end only tests that hang: all of them
are multiplied by PATIENCE, for busy machines."""
import os
import re
import shutil
import signal
import tempfile

import browser as browsers
import daemon_harness
import harness
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LIMIT = 60


def pytest_configure(config):
    os.environ["LC_ALL"] = "C.UTF-8"  # tests read what compilers, readelf and cat say
    os.environ.pop("LANGUAGE", None)
    harness.be_patient()
    harness.forget_inherited_signals()
    config.addinivalue_line("markers", "limit(seconds): time limit of a test")


def out_of_time(number, frame):
    pytest.fail("not done in time", pytrace=True)


def limited(item):
    """Limits the time of one phase of a test; fixtures clean up as after any failure."""
    mark = item.get_closest_marker("limit")
    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, (mark.args[0] if mark else LIMIT) * harness.PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_setup(item):
    yield from limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    yield from limited(item)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_teardown(item):
    yield from limited(item)


@pytest.fixture(scope="session")
def build():
    """The build folder."""
    path = os.path.abspath(os.environ.get("DYNTRACE_BUILD", os.path.join(ROOT, "build")))
    assert os.access(os.path.join(path, "dyntrace"), os.X_OK), f"no dyntrace in {path}: run make"
    if not re.search(r"\s", path):
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="dyntrace-build-") as folder:  # LD_PRELOAD knows no quotes
        os.chmod(folder, 0o755)
        os.symlink(path, os.path.join(folder, "build"))
        yield os.path.join(folder, "build")


@pytest.fixture
def scratch():
    """A directory for the test, in memory if possible."""
    path = tempfile.mkdtemp(prefix="dyntrace-test-", dir=harness.memory())
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def processes(scratch):
    """Starts programs, and kills them when the test is over."""
    group = harness.Processes()
    yield group
    group.close()


@pytest.fixture
def dyntrace(build, processes, scratch):
    """The program: dyntrace("view", path), dyntrace.fails(...), dyntrace.trace(...), dyntrace.start_trace(pid, ...)."""
    return harness.Dyntrace(build, processes, scratch)


@pytest.fixture
def program_path(build):
    """The path of a program of tests/programs."""
    return lambda name: os.path.join(build, "tests", "programs", name)


@pytest.fixture
def program(processes, program_path):
    """Starts a program of tests/programs: program("spin", "--threads", 2).wait_ready()."""
    started = []

    def start(name, *arguments):
        started.append(harness.Program(processes, program_path(name), arguments))
        return started[-1]
    yield start
    for one in started:
        one.close()


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    """One process for all tests of a file: its start takes longer than most pages."""
    one = browsers.Browser(str(tmp_path_factory.mktemp("chromium")))
    yield one
    one.close()


@pytest.fixture
def browser(chromium):
    """Chromium, without a window and without a network."""
    yield chromium
    chromium.leave()


@pytest.fixture
def redis(processes, scratch):
    """A redis server of the test's own."""
    return harness.Redis(processes, scratch)


@pytest.fixture
def new_daemon(build, processes, scratch):
    """Makes a dyntraced of the test's own: new_daemon("--own-only", as_user=(1000, 1000, [])).start()."""
    made = []

    def make(*words, folder=scratch, **options):
        made.append(daemon_harness.Daemon(build, processes, folder, words, **options))
        return made[-1]
    yield make
    for one in made:
        one.close()


@pytest.fixture
def daemon(new_daemon):
    """A running dyntraced, as root."""
    return new_daemon().start()


@pytest.fixture
def spin(program, program_path, scratch, processes):
    """A program that calls foo daemon_harness.CALLS times per round: spin().round(). `name`: the name of its copy."""
    started = []

    def launch(name, words):
        if not name:
            return program("spin", *words)
        path = os.path.join(scratch, name)
        if not os.path.exists(path):
            shutil.copy(program_path("spin"), path)
        started.append(harness.Program(processes, path, words))
        return started[-1]

    def start(rounds=20, threads=1, name=None):
        one = launch(name, ["--calls", daemon_harness.CALLS, "--rounds", rounds, "--threads", threads]).wait_ready()

        def run_round():
            one.go()
            one.wait_ready()
        one.round = run_round
        return one
    yield start
    for one in started:
        one.close()


@pytest.fixture
def own_name():
    """A name that no other process has, and no other's name begins like it."""
    return f"spin{os.getpid()}-own"


@pytest.fixture
def place(scratch, build):
    """A folder that all users may enter, with the programs: the build may be in a private place."""
    os.chmod(scratch, 0o755)
    for name in ("dyntrace", "dyntraced", "libdyntrace-agent.so"):
        shutil.copy(os.path.join(build, name), scratch)
    return scratch
