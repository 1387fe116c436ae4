"""A private session daemon of LTTng, for tests of the tracer lttng."""
import os
import re
import subprocess

from harness import until

# Everything the daemons need, on RAM disks that vanish with the mount namespace, and ports that nobody else has.
SPACE = "ip link set lo up && mount -t tmpfs tmpfs /run && mkdir /run/lttng /run/home && mount -t tmpfs tmpfs /dev/shm"
DAEMON = ["lttng-sessiond", "--no-kernel", "--quiet"]
QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


SMALL = r"""
#include <stdio.h>
int volatile sink;
__attribute__((noinline)) int foo(int a) { sink = a; return a; }
int main(void)
{
	char line[64];
	setvbuf(stdout, NULL, _IONBF, 0);
	printf("%p\n", (void *)foo);
	while (fgets(line, sizeof(line), stdin)) {
		LOOP
		printf("done\n");
	}
	return 0;
}
"""


def build_small(path, loop, *words, include=""):
    """Builds a program for Target that runs its loop once per input line."""
    source = f"{path}.c"
    with open(source, "w") as file:
        file.write(include + SMALL.replace("LOOP", loop))
    subprocess.run(["gcc", "-O2", "-g", "-o", path, source, *words], check=True)
    return path


def listens(process, ports):
    """Does the process's network have listeners at all ports? Several threads of lttng-relayd open them, in any order: an answer from one port says
    nothing of the others."""
    if process.poll() is not None:
        raise AssertionError(f"it ended: {process.returncode}")
    with open(f"/proc/{process.pid}/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    return set(ports) <= {int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A"}


class Lttng:
    """A session daemon that disturbs no other daemon and leaves nothing behind. Needs root."""

    def __init__(self, processes):
        self.processes = processes
        self.env = {**os.environ, "LTTNG_HOME": "/run/home", "LTTNG_UST_REGISTER_TIMEOUT": "-1"}
        self.space = processes.start(["unshare", "--mount", "--net", "sh", "-c",
                                      f"{SPACE} && echo ready && exec sleep infinity"], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE, text=True)
        assert self.space.stdout.readline() == "ready\n"
        self.start_daemon()

    def start_daemon(self):
        self.daemon = self.processes.start(self.inside(*DAEMON), env=self.env, **QUIET)
        until(lambda: self.run("lttng", "--no-sessiond", "list", check=False).returncode == 0, "lttng-sessiond to start")

    def end_daemon(self, number):
        self.daemon.send_signal(number)
        self.daemon.wait(30)

    def inside(self, *words):
        """Makes a command run in the daemon's namespaces, and with its root: tests may run in a chroot."""
        space = f"/proc/{self.space.pid}"
        return ["nsenter", f"--mount={space}/ns/mnt", f"--net={space}/ns/net", f"--root={space}/root", *map(str, words)]

    def run(self, *words, check=True):
        result = subprocess.run(self.inside(*words), check=False, env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
        assert not check or result.returncode == 0, f"{words}: exit status {result.returncode}\n{result.stdout}\n{result.stderr}"
        return result

    def __call__(self, *words, check=True):
        return self.run("lttng", "--no-sessiond", *words, check=check).stdout

    def create(self, *events, session="test", more=(), start=True):
        """Creates and starts a session with events: words of enable-event, or a name."""
        self("create", session, *(more or [f"--output=/dev/shm/{session}"]))
        # per process: the unfinished event of a killed target spoils no other's buffer
        self("enable-channel", "--userspace", "-s", session, "--buffers-pid", "channel0")
        for words in events:
            self("enable-event", "--userspace", "-s", session, "-c", "channel0", *([words] if isinstance(words, str) else words))
        if start:
            self("start", session)

    def stop(self, session="test"):
        """The session's events: (name, {field: text}) in order; nothing lost."""
        self("stop", session)
        return self.read(f"/dev/shm/{session}")

    def read(self, path):
        result = self.run("babeltrace2", "--no-delta", "--clock-seconds", path)
        assert "discarded" not in result.stderr, result.stderr
        return parse(result.stdout)


def parse(output):
    events = []
    for line in output.splitlines():
        found = re.match(r"\[[\d.]+\] (?:\S+ )?([\w]+:[^ ]+): (.*)$", line)
        assert found, line
        events.append((found[1], fields(found[2])))
    return events


def fields(text):
    """Top-level `name = value` of all groups in braces."""
    found, depth, start = {}, 0, 0
    inner = []
    quoted = False
    for at, letter in enumerate(text):
        if letter == '"' and text[at - 1] != "\\":
            quoted = not quoted
        if quoted:
            continue
        if letter in "{[":
            depth += 1
            if depth == 1:
                start = at + 1
        elif letter in "}]":
            depth -= 1
            if depth == 0:
                inner.append(text[start:at])
        elif letter == "," and depth == 1:
            inner.append(text[start:at])
            start = at + 1
    for part in inner:
        name, equals, value = part.partition(" = ")
        if equals:
            found[name.strip()] = value.strip()
    return found
