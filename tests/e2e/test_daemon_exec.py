"""Rights end with execve (H33): what was granted for a process isn't done to the program that it begins.

A member of the group loads a library into his own process, which then executes a setuid program. Nothing that follows,
a death of the worker, of the supervisor, of both, a registration by another process, may bring the library there.
"""
import glob
import os
import shutil
import signal
import subprocess

import pytest
from daemon_harness import Daemon, alive, helpers, message
from harness import until

GROUP = 61900
MEMBER = (61901, 61901, [GROUP])

LIBRARY = r"""
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include <dyntrace/probe.h>
DYNTRACE_PROBE(nothing)
{
}
__attribute__((constructor)) static void loaded(void)
{
	char path[200];
	snprintf(path, sizeof(path), "MARKS/%d", geteuid());
	close(open(path, O_CREAT | O_WRONLY, 0666));
}
"""

# Connects to the agents' socket and leaves the descriptor to a child; executes a program when told to.
PROCESS = r"""
import os, select, socket, sys
agents, program, register = sys.argv[1], sys.argv[2], bytes.fromhex(sys.argv[3])
one = socket.socket(socket.AF_UNIX)
one.connect(agents)
one.set_inheritable(True)
if os.fork() == 0:
    print("child", os.getpid(), flush=True)
    for line in sys.stdin:
        if line == "register\n":
            one.sendall(register)
            one.settimeout(20)
            print("answer", one.recv(65536), flush=True)
    os._exit(0)
r, w = os.pipe()
with open(sys.argv[4], "w") as file:
    file.write(f"/proc/{os.getpid()}/fd/{w}")
while True:
    if select.select([r], [], [], 0.01)[0]:
        os.execv(program, [program, "1000"])
"""


@pytest.fixture
def place(scratch, build):
    """A folder that all users may enter, with the programs, a setuid program, and a folder for marks."""
    os.chmod(scratch, 0o755)
    for name in ("dyntrace", "dyntraced", "libdyntrace-agent.so"):
        shutil.copy(os.path.join(build, name), scratch)
    shutil.copy("/usr/bin/sleep", f"{scratch}/rooted")
    os.chown(f"{scratch}/rooted", 0, 0)
    os.chmod(f"{scratch}/rooted", 0o4755)
    os.mkdir(f"{scratch}/marks")
    os.chmod(f"{scratch}/marks", 0o777)
    with open(f"{scratch}/library.c", "w") as file:
        file.write(LIBRARY.replace("MARKS", f"{scratch}/marks"))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    subprocess.run(["cc", "-shared", "-fPIC", f"-I{root}/include", "-o", f"{scratch}/library.so", f"{scratch}/library.c"],
                   check=True)
    return scratch


class Member:
    """A process of the member's with the library, and its child with the old socket."""

    def __init__(self, daemon, place, processes):
        self.daemon, self.place = daemon, place
        script = f"{place}/process.py"
        with open(script, "w") as file:
            file.write(PROCESS)
        os.mkdir(f"{place}/own", 0o700)
        os.chown(f"{place}/own", MEMBER[0], MEMBER[1])
        register = message("WIRE_REGISTER", WIRE_LOADED="linked").hex()
        words = ["/usr/bin/python3", script, daemon.socket + ".agents", f"{place}/rooted", register, f"{place}/own/pipe"]
        self.process = processes.start(Daemon.for_user(words, MEMBER), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       text=True)
        self.pid = self.process.pid
        self.child = int(self.process.stdout.readline().split()[1])
        self.pipe = until(lambda: os.path.exists(f"{place}/own/pipe") and open(f"{place}/own/pipe").read(), "the pipe")
        daemon.targets.add(str(self.pid))
        daemon("load", self.pid, f"{place}/library.so", user=MEMBER)
        assert self.marks() == ["61901"]
        self.worker = helpers("worker", self.pid)[0]

    def marks(self):
        return sorted(os.listdir(f"{self.place}/marks"))

    def execute(self):
        with open(self.pipe, "wb", buffering=0) as pipe:
            pipe.write(b"x")
        until(lambda: os.readlink(f"/proc/{self.pid}/exe") == f"{self.place}/rooted", "the setuid program to run")

    def register(self):
        self.process.stdin.write("register\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()

    def kill_worker(self):
        os.kill(self.worker, signal.SIGKILL)
        until(lambda: not alive(self.worker), "the worker to be gone")

    def check(self):
        """The journal has ended, no worker is there, and nothing has been loaded as root."""
        until(lambda: "has begun another program or has other rights" in self.daemon.log_text(), "the journal to end")
        self.daemon("status")
        assert helpers("worker", self.pid) == []
        assert str(self.pid) not in os.listdir(glob.glob(f"{self.place}/run/*/targets")[0])
        assert self.marks() == ["61901"]
        assert alive(self.pid)

    def end(self):
        os.kill(self.child, signal.SIGKILL)


@pytest.fixture
def member(new_daemon, place, processes):
    def start(*words):
        daemon = new_daemon("--group", GROUP, *words)
        daemon.build = place
        one = Member(daemon.start(), place, processes)
        started.append(one)
        return one
    started = []
    yield start
    for one in started:
        one.end()


def test_registration_by_another_process_brings_no_code_to_a_setuid_program(member):
    one = member()
    os.kill(one.worker, signal.SIGSTOP)
    one.execute()
    answer = one.register()
    assert "another process" in answer, answer
    one.kill_worker()
    one.check()


def test_death_of_the_worker_brings_no_code_to_a_setuid_program(member):
    one = member()
    os.kill(one.worker, signal.SIGSTOP)
    one.execute()
    one.kill_worker()
    one.check()


@pytest.mark.parametrize("words", [[], ["--own-only"], ["--all-targets"]], ids=["plain", "own-only", "all-targets"])
def test_death_of_the_supervisor_brings_no_code_to_a_setuid_program(member, words):
    one = member(*words)
    os.kill(one.worker, signal.SIGSTOP)
    one.daemon.kill()
    one.execute()
    one.kill_worker()
    one.daemon.start()
    one.check()


def test_program_of_the_same_user_gets_nothing_that_was_asked_for_another(member, place):
    """Also where no right is gained: the requests were for the program that ran then."""
    one = member()
    os.chmod(f"{place}/rooted", 0o755)
    os.kill(one.worker, signal.SIGSTOP)
    one.execute()
    one.kill_worker()
    one.check()
