"""Building blocks of the end-to-end tests; conftest.py hands them out as fixtures.

Every process of a test is started by a Processes, which kills it, by pid, when the test is over, however it ended.
Tests don't sleep: programs say when they are ready (tests/programs/handshake.h), and until() waits for conditions
that can only be polled.
"""
import atexit
import collections
import contextlib
import ctypes
import difflib
import fcntl
import functools
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import tempfile
import termios
import time

import pytest

import own_reader

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
PATIENCE = 6  # fixtures.py
CALLS_THAT_WAIT = {"read": "0", "pause": "34", "futex": "202", "clock_nanosleep": "230", "openat": "257"}  # their numbers, as /proc has them


def memory():
    """A folder in memory (the one that tests/run gave to the job and removes after it), or None."""
    path = os.environ.get("DYNTRACE_TEST_MEMORY", "/dev/shm")
    return path if os.access(path, os.W_OK) else None


def until(condition, what, seconds=20):
    """Polls until the condition gives something true, and returns it. Sleeps twice as long as the condition takes: what is
    waited for needs the processor more than a condition that starts programs."""
    seconds *= PATIENCE
    deadline = time.monotonic() + seconds
    asked = time.monotonic()
    while not (result := condition()):
        now = time.monotonic()
        if now > deadline:
            raise AssertionError(f"waited {seconds} s for: {what}")
        time.sleep(min(max(0.002, 2 * (now - asked)), 0.2))
        asked = time.monotonic()
    return result


def patient(function):
    """Multiplies the timeout of a method by PATIENCE."""
    @functools.wraps(function)
    def wait(*words, **options):
        if function.__name__ == "wait" and len(words) == 2:
            words, options = words[:1], {**options, "timeout": words[1]}
        if options.get("timeout"):
            options["timeout"] *= PATIENCE
        return function(*words, **options)
    return wait


def be_patient():
    """For tests, and for scripts that run inside a machine of a test."""
    subprocess.Popen.wait = patient(subprocess.Popen.wait)
    subprocess.Popen.communicate = patient(subprocess.Popen.communicate)


# ---- compilers -----------------------------------------------------------------------------------

COMPILED = {}  # (command without its output): the program, in a folder that goes with this process


def compile_once(words, path):
    """Compiles a source of the tree to a path, once per command: tests of a file share the program, each has its copy."""
    words = list(map(str, words))
    if any(word.startswith("-gsplit-dwarf") for word in words):  # makes a second file, which knows the place of the first
        subprocess.run([*words, "-o", path], check=True)
        return path
    if not COMPILED:
        COMPILED[()] = tempfile.mkdtemp(prefix="dyntrace-compiled-")
        atexit.register(shutil.rmtree, COMPILED[()], ignore_errors=True)
    kept = COMPILED.get(tuple(words))
    if not kept:
        kept = os.path.join(COMPILED[()], str(len(COMPILED)))
        subprocess.run([*words, "-o", kept], check=True)
        COMPILED[tuple(words)] = kept
    shutil.copy(kept, path)
    return path


# ---- processes -----------------------------------------------------------------------------------

ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


def forget_inherited_signals():
    """A shell lets its background jobs ignore signals, and nohup does: so would each program of a test, which gets them from the test."""
    for number in ENDING:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


class Processes:
    """Starts programs; close() kills running ones with their process groups."""

    def __init__(self):
        self.started = []

    def start(self, command, **options):
        process = subprocess.Popen([str(word) for word in command], start_new_session=True,
                                   preexec_fn=die_with_parent, **options)
        self.started.append(process)
        return process

    def close(self):
        for process in reversed(self.started):
            running = process.poll() is None
            try:
                os.killpg(process.pid, signal.SIGKILL)  # its group, if anything is left of it
            except (ProcessLookupError, PermissionError):
                pass
            if running:
                process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


class Program:
    """A program of tests/programs that says when it is ready, and then waits for go()."""

    def __init__(self, processes, path, arguments):
        ready, ready_end = os.pipe()
        go_end, go = os.pipe()
        self.ready_fd, self.go_fd = ready, go
        command = [path, "--ready-fd", ready_end, "--go-fd", go_end, *arguments]
        self.process = processes.start(command, stdout=subprocess.PIPE, text=True, pass_fds=[ready_end, go_end])
        self.pid = self.process.pid
        os.close(ready_end)
        os.close(go_end)

    def wait_ready(self):
        assert os.read(self.ready_fd, 1) == b"r", "the program ended before it was ready"
        return self

    def go(self):
        os.write(self.go_fd, b"g")
        return self

    def finish(self, status=0):
        """Lets the program run to its end, through all its further rounds; gives its output."""
        os.close(self.go_fd)
        self.go_fd = None
        output = self.process.communicate()[0]
        assert self.process.returncode == status, f"exit status {self.process.returncode}, not {status}"
        return output

    def close(self):
        for name in ("ready_fd", "go_fd"):
            if getattr(self, name) is not None:
                os.close(getattr(self, name))
                setattr(self, name, None)


def counts(output):
    """The lines "ID COUNT" of a program, as (id, count) pairs."""
    return [tuple(map(int, line.split())) for line in output.splitlines()]


def wide(words):
    """The words of a command; `trace` gets --wide, so that its summary has all numbers."""
    return [words[0], "--wide", *words[1:]] if words and words[0] == "trace" else words


def summary_rows(stderr):
    """The table of `trace`, or of `report`: {function: {column: text}}, in the table's order. Columns are right-aligned."""
    rows, ends, begin = {}, None, None
    for line in stderr.splitlines():
        if re.fullmatch(r" *(calls|hits)( .*)?  function", line):
            begin = line.rindex("function")
            ends = [(found[0], found.end()) for found in re.finditer(r"\S+", line[:begin])]
        elif ends:
            cells = [line[start:end].strip() for start, end in zip([0, *(end for _, end in ends)], (end for _, end in ends))]
            if not cells[0].isdigit() or line[ends[-1][1]:begin] != "  ":
                break
            rows[line[begin:]] = dict(zip((title for title, _ in ends), cells))
    return rows


def hits(stderr, name=None):
    """{function: hits}, or the hits of one; a function without any has no row."""
    found = {function: int(row.get("hits", row.get("calls"))) for function, row in summary_rows(stderr).items()}
    return found if name is None else found.get(name, 0)


class Redis:
    """A redis server of the test's own: a socket in its scratch directory, nothing on disk, no port."""

    def __init__(self, processes, scratch):
        self.socket = os.path.join(scratch, "redis.sock")
        self.processes = processes
        self.loads = []
        self.process = processes.start(
            ["redis-server", "--port", 0, "--unixsocket", self.socket, "--save", "", "--appendonly", "no",
             "--dir", scratch, "--daemonize", "no", "--logfile", os.path.join(scratch, "redis.log")],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.pid = self.process.pid
        until(lambda: self.process.poll() is not None or self.answers(), "redis-server to answer")
        assert self.process.poll() is None, "redis-server ended"
        self.settle()

    def connected(self):
        """Whether redis holds a connection: its own end of one is a socket of that name, like the one that listens, in state 3."""
        with open(f"/proc/{self.pid}/net/unix") as lines:
            return any(line.endswith(f" {self.socket}\n") and line.split()[5] == "03" for line in lines)

    def settle(self):
        """Waits until redis has closed the connections of clients that have ended: it does so some time after their end."""
        until(lambda: self.process.poll() is not None or any(load.poll() is None for load in self.loads) or
              not self.connected(), "redis-server to close its connections")

    def answers(self):
        return os.path.exists(self.socket) and subprocess.run(
            ["redis-cli", "-s", self.socket, "ping"], capture_output=True, text=True).stdout == "PONG\n"

    def cli(self, *words):
        said = subprocess.run(["redis-cli", "-s", self.socket, *map(str, words)], check=True,
                              capture_output=True, text=True).stdout.rstrip("\n")
        self.settle()
        return said

    def info(self, section):
        lines = self.cli("info", section).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def commands_processed(self):
        """The number of commands by redis's own count, without this question."""
        return int(self.info("stats")["total_commands_processed"])

    def benchmark(self, requests=10000, clients=5, tests="set,get"):
        """Runs redis-benchmark to its end."""
        subprocess.run(["redis-benchmark", "-s", self.socket, "-q", "-n", str(requests), "-c", str(clients),
                        "-t", tests], check=True, capture_output=True)
        self.settle()

    def load(self, clients=2):
        """redis-benchmark in the background, until the test ends or stops it."""
        self.loads.append(self.processes.start(
            ["redis-benchmark", "-s", self.socket, "-q", "-l", "-c", clients, "-t", "set,get"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return self.loads[-1]


def needs_user_namespaces():
    """Skips the test where the kernel makes none."""
    if subprocess.run(["unshare", "--user", "true"], capture_output=True).returncode:
        pytest.skip("the kernel makes no user namespaces here (for a process in a chroot it never does)")


class Cgroup:
    """A cgroup of the test's own."""

    def __init__(self, path):
        self.path = path

    @classmethod
    def find(cls, choices):
        """(cgroup, choice) of the first choice, (folder, files, ...), whose folder makes cgroups with these files; (None, None)."""
        for choice in choices:
            path = os.path.join(choice[0], f"dyntrace-test-{os.getpid()}")
            try:
                os.mkdir(path)
            except OSError:
                continue
            if all(os.path.exists(os.path.join(path, name)) for name in choice[1]):
                return cls(path), choice
            os.rmdir(path)
        return None, None

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def read(self, name):
        with open(os.path.join(self.path, name)) as file:
            return file.read()

    def end(self):
        """Kills what is left in it, and removes it."""
        for pid in self.read("cgroup.procs").split():
            os.kill(int(pid), signal.SIGKILL)
        until(self.removed, "the cgroup to be empty")

    def removed(self):
        try:
            os.rmdir(self.path)
        except OSError:  # a process is still about to end
            return False
        return True


# ---- looking at a process --------------------------------------------------------------------------

def maps(pid):
    """/proc/PID/maps as lines, without the heap and the stack, which the program itself lets grow."""
    with open(f"/proc/{pid}/maps") as file:
        return [line.rstrip("\n") for line in file if not line.rstrip().endswith(("[heap]", "[stack]"))]


def text(pid):
    """The executable bytes of the files that a process has mapped, by address."""
    result = {}
    with open(f"/proc/{pid}/maps") as lines, open(f"/proc/{pid}/mem", "rb", buffering=0) as mem:
        for line in lines:
            words = line.split()
            if "x" not in words[1] or len(words) < 6 or not words[5].startswith("/") or "memfd:" in words[5]:
                continue
            start, end = (int(word, 16) for word in words[0].split("-"))
            mem.seek(start)
            result[start] = mem.read(end - start)
    return result


def descriptors(pid):
    """The open files of a process: {number: link}. redis reads its own /proc/PID/stat ten times per second: such files are left out."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:  # closed meanwhile
            pass
    return {number: link for number, link in found.items() if not link.startswith(f"/proc/{pid}/")}


def threads(pid):
    return sorted(map(int, os.listdir(f"/proc/{pid}/task")))


def state(pid):
    """A letter: R, S, T, Z..."""
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0]


def in_call(pid, name):
    """Is its first thread asleep in that system call? A program that has just begun has its name, and not yet all of its mappings."""
    try:
        with open(f"/proc/{pid}/syscall") as file:
            return file.read().split()[0] == CALLS_THAT_WAIT[name]
    except ProcessLookupError:  # (a process that has ended, and wasn't waited for)
        return False


def status(pid, key):
    """A line of /proc/PID/status."""
    with open(f"/proc/{pid}/status") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith(key + ":"))


@contextlib.contextmanager
def stracing(processes, pid, output, *words):
    """While the block runs, strace writes system calls of the process to the file."""
    tracer = processes.start(["strace", "-qq", "-o", output, *words, "-p", str(pid)], stderr=subprocess.DEVNULL)
    until(lambda: status(pid, "TracerPid") == str(tracer.pid), "strace is attached")
    yield
    tracer.terminate()
    tracer.wait()


def await_sleeps(controller, times):
    """Waits until a controller has gone through its loop that often. It sleeps in a futex there, for 50 ms at most; where it holds threads, or
    makes a child known, it waits for something else, often and for shorter times."""
    seen = set()

    def has_slept():
        if in_call(controller.pid, "futex"):
            seen.add(status(controller.pid, "voluntary_ctxt_switches"))
        return len(seen) > times
    until(has_slept, "the controller to go through its loop")


def build_path():
    return os.path.abspath(os.environ.get("DYNTRACE_BUILD", os.path.join(ROOT, "build")))


def gdb_words(pid):
    """gdb, attached to the process, which can call functions there whatever registers the processor has."""
    folder = os.path.join(build_path(), "tests", "programs")  # LD_PRELOAD takes no path with a colon or a space
    return ["env", "-C", folder, "LD_PRELOAD=./wide_registers.so", "gdb", "-q", "-nx", "-batch", "-p", str(pid)]


def difference(start, before, now):
    """The first place where two texts of a mapping differ, and the number of bytes that do."""
    places = [at for at, (old, new) in enumerate(zip(before, now)) if old != new]
    at = places[0] if places else min(len(before), len(now))
    return f"{start:#x}+{at:#x}: {before[at:at + 16].hex()}, now {now[at:at + 16].hex()}; {len(places)} bytes in all"


class Snapshot:
    """The state of a process now; assert_unchanged compares it with the state then."""

    def __init__(self, pid):
        self.pid = pid
        self.maps, self.text = maps(pid), text(pid)
        self.descriptors = descriptors(pid)

    def assert_unchanged(self, busy=False):
        """`busy`: the program itself maps anonymous memory and opens files meanwhile; compare only the rest."""
        def comparable(lines):
            return [line for line in lines if not busy or len(line.split()) > 5 or "x" in line.split()[1]]
        before, now = comparable(self.maps), comparable(maps(self.pid))
        assert now == before, "maps:\n" + "\n".join(difflib.unified_diff(before, now, lineterm="", n=1))
        changed = [difference(start, self.text[start], code) for start, code in text(self.pid).items() if self.text[start] != code]
        assert not changed, f"text differs: {changed}"
        open_now = descriptors(self.pid)
        assert not [link for link in open_now.values() if "dyntrace" in os.path.basename(link)]
        assert busy or open_now == self.descriptors, f"open: {open_now}; before: {self.descriptors}"
        assert status(self.pid, "TracerPid") == "0"


# ---- traces ----------------------------------------------------------------------------------------

Event = collections.namedtuple("Event", "name ns tid pid fields context")


def judge_folder():
    """Where babeltrace2 finds tests/judge; without a colon, which would separate two folders."""
    path = os.path.join(build_path(), "tests", "judge")
    if ":" not in path:
        return path
    folder = tempfile.mkdtemp(prefix="dyntrace-judge-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.symlink(path, os.path.join(folder, "judge"))
    return os.path.join(folder, "judge")


JUDGE_FOLDER = judge_folder()


def messages(path):
    """What babeltrace2 reads in a trace, message by message: the lists that tests/judge/dump.c writes."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        with subprocess.Popen(["babeltrace2", f"--plugin-path={JUDGE_FOLDER}", str(path), "-c", "sink.dyntrace_tests.json"],
                              stdout=subprocess.PIPE, stderr=errors) as reader:
            for line in reader.stdout:
                yield json.loads(line.decode(errors="surrogateescape"))
        errors.seek(0)
        assert reader.returncode == 0, f"babeltrace2 {path}: {errors.read()}"


class Trace:
    """A whole trace, as babeltrace2 reads it: events by time, losses, environment."""

    def __init__(self, path):
        self.events, self.lost, self.env = [], 0, {}
        if "DYNTRACE_COMPARE" in os.environ:  # the program: every trace by both of its readers
            own_reader.compare(os.environ["DYNTRACE_COMPARE"], str(path), f"{path}.copy")
        contexts = {}
        for kind, stream, *rest in messages(path):
            if kind == "event":
                name, _, ns, _, payload, *others = rest
                context = contexts.get(stream, {})
                fields = payload or {}
                for part in others:
                    if part:
                        fields.update(part)
                self.events.append(Event(name, ns, context.get("tid"), context.get("pid"), fields, context))
            elif kind == "packet":
                contexts[stream] = rest[1] or {}
            elif kind == "lost":
                self.lost += rest[0]
            elif kind == "stream":
                self.env.update(rest[0])

    def named(self, name):
        return [event for event in self.events if event.name == name]

    def names(self):
        """The number of events per name."""
        return dict(collections.Counter(event.name for event in self.events))

    def per_tid(self, name):
        return dict(collections.Counter(event.tid for event in self.named(name)))


def count_events(path):
    """(events, lost) of a trace that is too long for a Trace, from the lines and warnings of babeltrace2."""
    with tempfile.TemporaryFile("w+") as warnings:
        with subprocess.Popen(["babeltrace2", str(path)], stdout=subprocess.PIPE, stderr=warnings) as reader:
            events = sum(block.count(b"\n") for block in iter(lambda: reader.stdout.read(1 << 20), b""))
        warnings.seek(0)
        text = warnings.read()
    assert reader.returncode == 0, text
    return events, sum(map(int, re.findall(r"Tracer discarded (\d+) event", text)))


# ---- dyntrace ----------------------------------------------------------------------------------------

def on_a_terminal(dyntrace, *words, command="view", **env):
    """What `dyntrace view` writes to a terminal; without a pager, unless `env` has one."""
    master, slave = pty.openpty()
    with open(master, "rb", buffering=0) as screen, \
         subprocess.Popen([dyntrace.path, command, *words], env={**os.environ, "TZ": "UTC", "TERM": "xterm", "DYNTRACE_PAGER": "", **env},
                          stdin=subprocess.DEVNULL, stdout=slave) as process:
        os.close(slave)
        text = b""
        try:
            while data := screen.read(65536):
                text += data
        except OSError:  # how a terminal ends
            pass
    assert process.returncode == 0
    return text.decode()


class Dyntrace:
    """The program under test."""

    def __init__(self, build, processes, scratch):
        self.path = os.path.join(build, "dyntrace")
        self.processes, self.scratch = processes, scratch
        self.numbers = iter(range(1000000))

    def __call__(self, *words, status=0, seconds=50, **options):
        """Runs dyntrace to its end and checks its exit status (None: any). Gives the result of subprocess.run."""
        result = subprocess.run([self.path, *map(str, wide(words))], stdin=subprocess.DEVNULL, capture_output=True,
                                timeout=seconds, **{"text": True, "cwd": self.scratch, **options})
        assert status is None or result.returncode == status, \
            f"exit status {result.returncode}, not {status}\n{result.stdout}\n{result.stderr}"
        return result

    def fails(self, *words, status=1, **options):
        """Runs dyntrace, which must fail with one line; gives that line without "dyntrace: "."""
        result = self(*words, status=status, **options)
        assert result.stderr.startswith("dyntrace: ") and result.stderr.count("\n") == 1, result.stderr
        return result.stderr[len("dyntrace: "):-1]

    def for_others(self, *programs):
        """Copies dyntrace, its agent and programs to where any user can read them: the build may be in root's home.
        Gives the paths of the copies, dyntrace's first."""
        place = os.path.join(self.scratch, "for-others")
        os.makedirs(place, exist_ok=True)
        os.chmod(self.scratch, 0o777)
        os.chmod(place, 0o755)
        agent = os.path.join(os.path.dirname(self.path), "libdyntrace-agent.so")
        paths = [shutil.copy(path, place) for path in (self.path, agent, *programs)]
        return [paths[0], *paths[2:]] if programs else paths[0]

    def new_output(self):
        return os.path.join(self.scratch, f"trace-{next(self.numbers)}")

    def trace(self, *words, status=0, output=None, **options):
        """Runs dyntrace trace to its end; gives (result, Trace)."""
        output = output or self.new_output()
        result = self("trace", "-o", output, *words, status=status, **options)
        return result, Trace(output)

    def start_trace(self, pid, *words, target=None, prefix=()):
        """Starts dyntrace trace -p PID (or TARGET); returns when its probes are in the target.
        `prefix`: a command that starts dyntrace, such as env."""
        return Tracing(self, pid, target or pid, words, prefix)


class Tracing:
    """A running `dyntrace trace -p PID`."""

    def __init__(self, dyntrace, pid, target, words, prefix):
        self.pid, self.output = pid, dyntrace.new_output()
        self.before = Snapshot(pid)
        self.is_counting = "count" in words
        where = [] if self.is_counting else ["-o", self.output]
        self.process = dyntrace.processes.start(
            [*prefix, dyntrace.path, "trace", "--wide", "-p", target, *where, *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=dyntrace.scratch)
        until(self.is_placed, "probes in the target")

    def is_placed(self):
        if self.process.poll() is not None:
            raise AssertionError(f"dyntrace ended: {self.process.communicate()[1]}")
        # All probes are written in one stop: one changed byte means that the target has all of them.
        return any(self.before.text.get(start) != code for start, code in text(self.pid).items())

    def wait_told(self):
        """Returns when dyntrace has said that it traces: it holds no thread any more, until something changes."""
        until(lambda: fcntl.ioctl(self.process.stderr, termios.FIONREAD, bytes(4)) != bytes(4), "dyntrace's line")
        return self

    def stop(self, number=signal.SIGINT, status=0):
        """Ends dyntrace as Ctrl-C does; gives the Trace, if there is one."""
        self.process.send_signal(number)
        self.stdout, self.stderr = self.process.communicate(timeout=30)
        assert self.process.returncode == status, (self.process.returncode, self.stderr)
        return None if self.is_counting else Trace(self.output)


def comm_of(pid):
    """The process's name; None: there is no such process."""
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().rstrip("\n")
    except FileNotFoundError:
        return None


def in_first_pid_namespace():
    """The kernel tells of programs by the numbers of that one."""
    return os.stat("/proc/self/ns/pid").st_ino == 0xeffffffc  # in every kernel


@contextlib.contextmanager
def small_file_system(scratch, size):
    """Gives the path of a file system of that size."""
    path = os.path.join(scratch, "small")
    os.mkdir(path)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", path], check=True)
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
