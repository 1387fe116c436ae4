"""A member's process executes a setuid program while the daemon or a worker stands at one of its system calls (H33)."""
import contextlib
import os
import shutil
import signal
import subprocess

from daemon_harness import Daemon, UnderYama, helpers, message
from harness import until

GROUP = 61900
MEMBER = (61901, 61901, [GROUP])

LIBRARY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <dyntrace/probe.h>
static void leave_mark(const char *what)
{
	char path[300];
	snprintf(path, sizeof(path), "MARKS/%s-%d", what, geteuid());
	close(open(path, O_CREAT | O_WRONLY, 0666));
}
DYNTRACE_PROBE(called)
{
	leave_mark("called");
}
__attribute__((constructor)) static void loaded(void)
{
	leave_mark("loaded");
}
"""


def furnish(place, build, program_path):
    """A folder that all users may enter: the programs, a setuid program, a library that leaves marks, a folder for these."""
    os.chmod(place, 0o755)
    for name in ("dyntrace", "dyntraced", "libdyntrace-agent.so"):
        shutil.copy(os.path.join(build, name), place)
    for name, mode in (("turncoat", 0o755), ("rooted", 0o4755)):
        shutil.copy(program_path("turncoat"), f"{place}/{name}")
        os.chmod(f"{place}/{name}", mode)
    os.mkdir(f"{place}/marks")
    os.chmod(f"{place}/marks", 0o777)
    with open(f"{place}/library.c", "w") as file:
        file.write(LIBRARY.replace("MARKS", f"{place}/marks"))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{root}/include", "-o", f"{place}/library.so", f"{place}/library.c"], check=True)


class Stopped:
    """A daemon that stops before its first instruction, for the stepper."""
    first_stops = False

    def for_user(self, command, user):
        words = super().for_user(command, user)
        if self.first_stops and os.path.basename(command[0]) == "dyntraced":
            return ["sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *words]
        return words


class PlainDaemon(Stopped, Daemon):
    """Workers have the member's rights."""


class RootsWorkers(Stopped, UnderYama):
    """All workers are root's: the kernel seems to let users trace only their descendants."""


class Turncoat:
    """A process of the member's that executes the setuid program at its command."""

    def __init__(self, processes, place, way, *more):
        end, self.command = os.pipe()
        words = [f"{place}/turncoat", str(end), f"{place}/rooted", way, *more]
        self.place = place
        self.process = processes.start(Daemon.for_user(words, MEMBER), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       pass_fds=[end])
        os.close(end)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def has_turned(self):
        assert self.process.poll() is None, f"the process has ended: {self.process.returncode}"
        try:
            return os.readlink(f"/proc/{self.pid}/exe") == f"{self.place}/rooted"
        except FileNotFoundError:
            return False  # a thread executes the program: the leader has ended, and other threads are still to be collected

    def foreign_parts(self):
        """Mappings and bytes of text that the setuid program wouldn't have by itself."""
        found = []
        with open(f"/proc/{self.pid}/maps") as file:
            lines = file.read().splitlines()
        with open(f"/proc/{self.pid}/mem", "rb", buffering=0) as memory:
            for line in lines:
                span, mode, offset, _, inode, *path = line.split(None, 5)
                start, end = (int(text, 16) for text in span.split("-"))
                if any(word in line for word in ("dyntrace", "memfd", "library.so")) and "rooted" not in line:
                    found.append(line)
                if "x" not in mode or path in (["[vdso]"], ["[vsyscall]"]):
                    continue
                if not path or inode == "0":
                    found.append(line)
                    continue
                memory.seek(start)
                with open(path[0], "rb") as file:
                    file.seek(int(offset, 16))
                    wanted = file.read(end - start)
                if memory.read(end - start)[:len(wanted)] != wanted:
                    found.append(f"text: {line}")
        return found

    def close(self):
        if self.command >= 0:
            os.close(self.command)
            self.command = -1


class Stage:
    """A daemon, turncoats, and a stepper that stops the daemon at a point."""

    def __init__(self, daemon, place, processes, stepper):
        self.daemon, self.place, self.processes, self.stepper = daemon, place, processes, stepper
        self.library = f"{place}/library.so"
        self.stepping = self.one = None
        self.settled = 0

    def begin(self, way, *more):
        self.one = Turncoat(self.processes, self.place, way, *more)
        self.daemon.targets.add(str(self.one.pid))
        self.settled = self.daemon.log_text().count("): settled")
        return self.one

    def ask(self, *words):
        """A command of the member's, which may fail: a file of its own can't hang."""
        return self.daemon(*words, user=MEMBER, status=None)

    def step(self, point):
        words = [self.stepper, point, self.one.pid, self.one.command, self.daemon.process.pid]
        self.stepping = self.processes.start(list(map(str, words)), stdout=subprocess.PIPE, text=True, pass_fds=[self.one.command])
        assert self.stepping.stdout.readline().startswith("following ")

    def idle(self):
        """True: the stepper has done its work, or the daemon has done all that it had to do for the process."""
        return self.stepping.poll() is not None or self.daemon.log_text().count("): settled") > self.settled or \
            not self.has_journal()

    def has_journal(self):
        folder = f"{self.daemon.socket}.d/targets"
        return os.path.isdir(folder) and str(self.one.pid) in os.listdir(folder)

    def ready(self):
        """The process has the library and a tracepoint that calls a function of it."""
        self.daemon("load", self.one.pid, self.library, user=MEMBER)
        self.daemon("add", f"{self.one.pid}:foo", "call", f"{self.library}:called", user=MEMBER)
        until(lambda: self.daemon.log_text().count("): settled") > self.settled, "the worker")
        self.settled += 1

    def worker(self):
        return helpers("worker", self.one.pid)[0]

    def end(self):
        """Turns the process if it hasn't, and checks that nothing came along. Gives the stepper's report."""
        self.stepping.terminate()
        report = self.stepping.stdout.read()
        self.stepping.wait(20)
        one = self.one
        if "point " not in report:
            os.write(one.command, b"x")
        until(one.has_turned, f"the setuid program to run ({report})")
        # a list lets go of programs that are over
        until(lambda: not [each for each in self.daemon.json("list-processes") if each["pid"] == one.pid] and
              not self.has_journal() and not helpers("worker", one.pid), f"the journal and the worker to end ({report})")
        assert one.foreign_parts() == [], report
        assert [name for name in os.listdir(f"{self.place}/marks") if not name.endswith(f"-{MEMBER[0]}")] == [], report
        one.process.stdin.write("x\n")
        one.process.stdin.flush()
        said = one.process.stdout.read().splitlines()[-1]
        assert one.process.wait(20) == 0 and said.startswith("innocent "), (said, report)
        one.close()
        return report.strip().replace("\n", ", ") + ", " + said.strip()


@contextlib.contextmanager
def open_stage(workers, build, processes, scratch, program_path):
    """`workers`: whose rights they have, "member" or "root"."""
    furnish(scratch, build, program_path)
    kind, words = (PlainDaemon, []) if workers == "member" else (RootsWorkers, ["--all-targets"])
    daemon = kind(scratch, processes, scratch, ["--group", GROUP, *words])
    try:
        yield Stage(daemon.start(), scratch, processes, program_path("stepper"))
    finally:
        daemon.close()


# ---- what the daemon does meanwhile -------------------------------------------------------------------------

def attach_and_load(stage, point, way):
    one = stage.begin(way)
    stage.step(point)
    stage.ask("load", one.pid, stage.library)


def add(stage, point, way):
    one = stage.begin(way)
    stage.ask("attach", one.pid)
    stage.step(point)
    stage.ask("add", f"{one.pid}:foo", "-e", "call", f"{stage.library}:called")


def death_of_the_worker(stage, point, way):
    stage.begin(way)
    stage.ready()
    stage.step(point)
    os.kill(stage.worker(), signal.SIGKILL)
    until(stage.idle, "the next worker")


def next_supervisor(stage, point, way, with_worker=True):
    stage.begin(way)
    stage.ready()
    daemon = stage.daemon
    daemon.kill()
    if not with_worker:
        os.kill(stage.worker(), signal.SIGKILL)
        until(lambda: not helpers("worker", stage.one.pid), "the worker to be gone")
    daemon.first_stops = True
    with open(daemon.log, "ab") as log:
        command = [os.path.join(daemon.build, "dyntraced"), "--socket", daemon.socket, "--output", daemon.output, *daemon.words]
        daemon.process = daemon.processes.start(daemon.for_user(command, None), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                cwd=daemon.scratch)
    daemon.first_stops = False
    until(lambda: open(f"/proc/{daemon.process.pid}/stat").read().split()[2] == "T", "the daemon's first stop")
    stage.step(point)
    until(daemon.answers, "the daemon to answer")
    # with the worker of before nothing is replayed: what follows is a command
    stage.ask("list-tracepoints", stage.one.pid)
    if not with_worker:
        until(stage.idle, "the next worker")


def takeover(stage, point, way):
    next_supervisor(stage, point, way, with_worker=False)


def register(stage, point, way):
    stage.ask("add", "--wait", "turncoat:foo", "call", f"{stage.library}:called")
    text = message("WIRE_REGISTER", WIRE_LOADED="linked").hex()
    # the daemon hears of it when the stepper follows
    os.kill(stage.daemon.process.pid, signal.SIGSTOP)
    one = stage.begin(way, stage.daemon.socket + ".agents", text)
    stage.step(point)
    stage.ask("list-tracepoints", one.pid)
    stage.ask("rm", "turncoat:*")


SCENES = {"load": attach_and_load, "add": add, "replay": death_of_the_worker, "supervisor": next_supervisor, "takeover": takeover,
          "register": register}
WAYS = ("leader", "thread", "sharer")


def count_points(stage, scene):
    """The number of points of a scene, in which the process executes its program at the end."""
    SCENES[scene](stage, 0, "leader")
    report = stage.end()
    return int(report.split("points ")[1].split(",")[0])
