"""
LTTng-UST: the workload with static tracepoints, recorded by a session daemon of its own.

As root the daemon's sockets have fixed places, so it gets a mount namespace with its own /run and
/dev/shm; a daemon that the machine runs isn't disturbed, and nothing stays behind. Other users
get the same by LTTNG_HOME.
"""

import os
import re
import signal
import subprocess

from case import Case, missing_program
from workload import Workload, wait_until

# Everything the daemon and the trace need, on RAM disks that vanish with the namespace.
ENTER = ("mount -t tmpfs tmpfs /run && mkdir /run/lttng /run/home && "
         "mount -t tmpfs tmpfs /dev/shm && exec lttng-sessiond --no-kernel --quiet")


class Lttng(Case):
    calls = 200_000

    def __init__(self, bench):
        super().__init__(bench)
        self.daemon = None
        self.private = os.geteuid() == 0
        self.home = "/run/home" if self.private else bench.path(self.name)
        self.trace = "/dev/shm/trace" if self.private else bench.path(self.name + "/trace")
        self.env = {**os.environ, "LTTNG_HOME": self.home, "LTTNG_UST_REGISTER_TIMEOUT": "-1"}

    def available(self):
        if not os.access(self.bench.program("workload-lttng"), os.X_OK):
            return "liblttng-ust-dev is not installed"
        return missing_program("lttng", "lttng-sessiond", "babeltrace2", "nsenter", "unshare")

    def prefix(self):
        return ["nsenter", f"--mount=/proc/{self.daemon.pid}/ns/mnt"] if self.private else []

    def command(self, *words, check=True):
        return subprocess.run([*self.prefix(), *words], check=check, env=self.env, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def start_daemon(self):
        if self.private:
            words = ["unshare", "--mount", "sh", "-c", ENTER]
        else:
            os.makedirs(self.home)
            words = ["lttng-sessiond", "--no-kernel", "--quiet"]
        self.daemon = subprocess.Popen(words, env=self.env, stdin=subprocess.DEVNULL,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: self.command("lttng", "--no-sessiond", "list", check=False).returncode == 0,
                   "starting lttng-sessiond", self.daemon)

    def start(self):
        self.start_daemon()
        lttng = ("lttng", "--no-sessiond")
        self.command(*lttng, "create", "bench", f"--output={self.trace}")
        # 64 MiB per CPU hold several measurements: nothing waits for the consumer, nothing is lost.
        self.command(*lttng, "enable-channel", "--userspace", "--session=bench",
                     "--subbuf-size=16M", "--num-subbuf=4", "channel")
        self.command(*lttng, "enable-event", "--userspace", "--session=bench",
                     "--channel=channel", f"dyntrace_bench:{self.kind}")
        self.command(*lttng, "start", "bench")
        self.workload = Workload(self.program("workload-lttng"), self.prefix(), self.env)
        self.workload.go()

    def stop(self):
        super().stop()
        if not self.daemon or self.daemon.poll() is not None:
            return
        self.command("lttng", "--no-sessiond", "destroy", "bench", check=False)
        # Counted here: the trace goes with the namespace.
        self.counted = self.command("babeltrace2", self.trace, "-c", "sink.utils.counter",
                                    check=False).stdout
        self.daemon.send_signal(signal.SIGTERM)
        self.daemon.wait()

    def verify(self, hits):
        # The counter prints its figures again and again: the last ones count.
        counts = re.findall(r"(\d+) Event messages", self.counted)
        events = int(counts[-1]) if counts else 0
        return None if events == hits else f"babeltrace2 counts {events} events of {hits} hits"


class Bare(Lttng):
    name = "lttng-bare"
    title = "LTTng-UST: static tracepoint, no field"


class Args(Lttng):
    name = "lttng-args"
    title = "LTTng-UST: static tracepoint, six fields"
    kind = "foo6"


class Text(Lttng):
    name = "lttng-text"
    title = "LTTng-UST: static tracepoint, a string of 20 bytes"
    kind = "foo_text"


CASES = [Bare, Args, Text]
