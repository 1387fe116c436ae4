"""A dyntraced of the test's own, at a socket in its scratch directory."""
import glob
import json
import os
import signal
import socket
import struct
import subprocess

from harness import PATIENCE, Trace, state, until

CALLS = 1000  # of foo, per round of the program spin


def helpers(kind, word):
    """The pids of dyntraced's helper processes of one kind (worker, keeper) whose first argument is `word`."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if len(words) > 2 and words[0] == b"dyntraced" and words[1] == b"--" + kind.encode() \
                and words[2] == str(word).encode():
            found.append(int(path.split("/")[2]))
    return found


def alive(pid):
    """Threads may live, and keep descriptors open, when the first one is a zombie already."""
    try:
        return state(pid) not in "ZX" or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


class Daemon:
    """A dyntraced in the foreground; daemon("add", ...) runs a command of dyntrace against it."""

    def __init__(self, build, processes, scratch, words=(), as_user=None, group=None):
        self.build, self.processes, self.scratch = build, processes, scratch
        self.words, self.as_user = list(map(str, words)), as_user
        self.socket = os.path.join(scratch, "run", "s")
        self.output = os.path.join(scratch, "traces")
        self.log = os.path.join(scratch, "daemon.log")
        self.process = None
        self.targets = set()  # whose workers must be gone when the test is over

    def start(self):
        command = [os.path.join(self.build, "dyntraced"), "--socket", self.socket, "--output", self.output, *self.words]
        with open(self.log, "ab") as log:
            self.process = self.processes.start(self.for_user(command, self.as_user), stdin=subprocess.DEVNULL,
                                                stdout=log, stderr=log, cwd=self.scratch)
        until(lambda: self.process.poll() is not None or self.answers(), "the daemon to answer")
        assert self.process.poll() is None, self.log_text()
        return self

    @staticmethod
    def for_user(command, user):
        """The command as (uid, gid, [groups]); None: as the test's own user."""
        if user is None:
            return command
        uid, gid, groups = user
        more = ["--groups", ",".join(map(str, groups))] if groups else ["--clear-groups"]
        return ["setpriv", "--reuid", str(uid), "--regid", str(gid), *more, *command]

    def answers(self):
        with socket.socket(socket.AF_UNIX) as one:
            try:
                one.connect(self.socket)
            except OSError:
                return False
        return True

    def log_text(self):
        with open(self.log) as file:
            return file.read()

    def __call__(self, *words, status=0, user=None, seconds=50, **options):
        """Runs a command to its end; gives the result of subprocess.run."""
        command = self.for_user([os.path.join(self.build, "dyntrace"), *map(str, words)], user)
        result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds,
                                env={**os.environ, "DYNTRACE_SOCKET": self.socket}, cwd=self.scratch, **options)
        assert status is None or result.returncode == status, \
            f"exit status {result.returncode}, not {status}\n{result.stdout}\n{result.stderr}\n{self.log_text()}"
        if result.returncode == 0:
            assert result.stderr == "" or status is None, result.stderr
        return result

    def fails(self, *words, status=1, **options):
        """Runs a command that must fail with one line; gives that line without "dyntrace: "."""
        result = self(*words, status=status, **options)
        assert result.stderr.startswith("dyntrace: ") and result.stderr.count("\n") == 1, result.stderr
        return result.stderr[len("dyntrace: "):-1]

    def json(self, *words, **options):
        return json.loads(self(*words, "--json", **options).stdout)

    def add(self, where, *words, **options):
        """Adds a tracepoint; gives the name that the command prints."""
        self.targets.add(where.split(":")[0])
        lines = self("add", where, *words, **options).stdout.splitlines()
        assert len(lines) == 1, lines
        return lines[0]

    def attach(self, target, **options):
        self.targets.add(str(target))
        return self("attach", target, **options)

    def hits(self, target):
        """{name: hits} of its tracepoints."""
        return {one["name"]: one["hits"] for one in self.json("list-tracepoints", target)}

    def trace_of(self, pid):
        return next(one["trace"] for one in self.json("list-processes") if one["pid"] == pid)

    def finish(self, pid):
        """Detaches; gives the Trace."""
        path = self.trace_of(pid)
        self("detach", pid)
        return Trace(path)

    def watch(self, *words):
        """Starts `dyntrace watch --json`; returns when it listens."""
        process = self.processes.start([os.path.join(self.build, "dyntrace"), "watch", "--json", *words],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                                       env={**os.environ, "DYNTRACE_SOCKET": self.socket})
        until(lambda: f"pid={process.pid} watch" in self.log_text(), "the watch to begin")
        return Watch(process)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(20)
        return self.process.returncode

    def workers(self, pid):
        return helpers("worker", pid)

    def kill_with_workers(self, pid):
        """The next daemon meets nobody: a worker that has been killed may still take a connection before it is gone."""
        workers = self.workers(pid)
        self.kill()
        for worker in workers:
            os.kill(worker, signal.SIGKILL)
            until(lambda: not alive(worker), "the worker to be gone")

    def close(self):
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.kill()
        for target in self.targets:
            for pid in self.workers(target):
                os.kill(pid, signal.SIGKILL)
        folder = os.path.join(self.socket + ".d", "workers")
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            for pid in self.workers(name.split(".")[0]):
                os.kill(pid, signal.SIGKILL)


class UnderYama(Daemon):
    """A daemon that sees a chosen kernel.yama.ptrace_scope."""
    scope = "1"

    def for_user(self, command, user):
        if "dyntraced" not in os.path.basename(command[0]):
            return Daemon.for_user(command, user)
        folder = "/proc/sys/kernel"
        script = f'mount -t tmpfs none {folder} && mkdir {folder}/yama && echo {self.scope} > {folder}/yama/ptrace_scope && exec "$@"'
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command]


class Watch:
    def __init__(self, process):
        self.process = process

    def next(self):
        line = self.process.stdout.readline()
        assert line, "the watch ended"
        return json.loads(line)

    def until(self, event):
        """All events up to that one."""
        seen = []
        while not seen or seen[-1]["event"] != event:
            seen.append(self.next())
        return seen


# ---- the protocol, spoken by hand -------------------------------------------------------

MAGIC, VERSION = 0x74795964, 1


def constants():
    """Kinds and tags by name, from the header that both sides are built from."""
    import re
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(root, "src", "shared", "wire.h")) as file:
        text = file.read()
    kinds = re.findall(r'X\((WIRE_\w+), "', text)
    tags = re.findall(r"X\((WIRE_\w+), WIRE_(?:NUMBER|TEXT)\)", text)
    return {name: number + 1 for number, name in enumerate(kinds)}, {name: number + 1 for number, name in enumerate(tags)}


KINDS, TAGS = constants()


def message(kind, version=VERSION, magic=MAGIC, sequence=1, **attributes):
    """message("WIRE_ATTACH", WIRE_TARGET="redis-server")"""
    body = b""
    for tag, value in attributes.items():
        raw = struct.pack("<Q", value) if isinstance(value, int) else value.encode() + b"\0"
        body += struct.pack("<HHI", TAGS[tag], 0, len(raw)) + raw
    return struct.pack("<IHHII", magic, version, KINDS[kind], sequence, len(body)) + body


def connect(path):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(20 * PATIENCE)
    one.connect(path)
    return one
