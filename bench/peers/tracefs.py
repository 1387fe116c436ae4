"""A uprobe that records an event with six arguments into the kernel's trace buffer."""

import glob
import os
import re
import subprocess

from case import Case, missing_program, needs_root
from workload import symbol_offset


# Holds tracefs mounted where only this process sees it, until its stdin ends.
HOLD = "mount -t tracefs tracefs /sys/kernel/tracing && echo mounted && read nothing"
REGISTERS = ("di", "si", "dx", "cx", "r8", "r9")


class Tracefs(Case):
    name = "tracefs"
    title = "uprobe: event in tracefs, six arguments"
    kind = "foo6"
    calls = 20_000
    remark = "at a push, its cheap case"

    def __init__(self, bench):
        super().__init__(bench)
        self.group = f"dyntrace_bench_{self.name}_{os.getpid()}"
        self.instance = f"instances/{self.group}"  # a buffer of its own: the machine's isn't touched
        self.holder = None
        self.counted = 0

    def available(self):
        with open("/proc/filesystems") as filesystems:
            if "tracefs" not in filesystems.read():
                return "the kernel has no tracefs"
        return needs_root() or missing_program("unshare")

    def file(self, *parts):
        return os.path.join(f"/proc/{self.holder.pid}/root/sys/kernel/tracing", *parts)

    def write(self, text, *parts):
        # Appending, since uprobe_events is cleared when it is opened otherwise; and without a seek.
        fd = os.open(self.file(*parts), os.O_WRONLY | os.O_APPEND)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)

    def hold_tracefs(self):
        self.holder = subprocess.Popen(["unshare", "--mount", "sh", "-c", HOLD], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.holder.stdout.readline() != "mounted\n":
            raise RuntimeError("tracefs can't be mounted")
        if not os.path.exists(self.file("uprobe_events")):
            raise RuntimeError("the kernel has no uprobe events")

    def start(self):
        super().start()
        self.hold_tracefs()
        os.mkdir(self.file(self.instance))
        offset = symbol_offset(self.workload.program, self.kind)
        fields = " ".join(f"arg{i}=%{name}:s64" for i, name in enumerate(REGISTERS))
        self.write(f"p:{self.group}/{self.kind} {self.workload.program}:{offset:#x} {fields}\n",
                   "uprobe_events")
        self.write("1", self.instance, "events", self.group, self.kind, "enable")
        self.workload.wait_patched(self.kind, self.holder)

    def count(self):
        total = 0
        for path in glob.glob(self.file(self.instance, "per_cpu/cpu*/stats")):
            with open(path) as stats:
                text = stats.read()
            # Both were recorded; what came later took the place of the second.
            total += sum(int(re.search(rf"^{what}: (\d+)", text, re.MULTILINE)[1])
                         for what in ("entries", "overrun"))
        return total

    def stop(self):
        super().stop()
        if not self.holder:
            return
        if os.path.isdir(self.file(self.instance)):
            self.counted = self.count()
            self.write("0", self.instance, "events/enable")
            os.rmdir(self.file(self.instance))
        if os.path.isdir(self.file("events", self.group)):
            self.write(f"-:{self.group}/{self.kind}\n", "uprobe_events")
        self.holder.communicate()

    def verify(self, hits):
        return None if self.counted == hits else f"{self.counted} events of {hits} hits"


CASES = [Tracefs]
