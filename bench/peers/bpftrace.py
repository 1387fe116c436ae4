"""A uprobe, counted by bpftrace."""

import re
import subprocess

from case import Case, missing_program, needs_root
from workload import interrupt

# bpftrace looks for tracefs where not every machine has it mounted: a mount of its own.
ENTER = 'mount -t tracefs tracefs /sys/kernel/tracing && exec bpftrace -p "$0" -e "$1"'


class Bpftrace(Case):
    name = "bpftrace"
    title = "uprobe: counted by bpftrace"
    calls = 20_000
    remark = "at a push, its cheap case; no event is recorded"
    map = "@hits"

    def __init__(self, bench):
        super().__init__(bench)
        self.tracer = None
        self.output = ""

    def available(self):
        return needs_root() or missing_program("bpftrace", "unshare")

    def start(self):
        super().start()
        program = f"uprobe:{self.workload.program}:{self.kind} {{ {self.map} = count(); }}"
        self.tracer = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", ENTER, str(self.workload.pid), program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.workload.wait_patched(self.kind, self.tracer)

    def stop(self):
        if self.tracer:
            self.output = interrupt(self.tracer)[0]
        super().stop()

    def verify(self, hits):
        counted = sum(map(int, re.findall(r"@hits.*: (\d+)", self.output)))
        return None if counted == hits else f"bpftrace counted {counted} of {hits} hits"


class Map(Bpftrace):
    name = "bpftrace-by"
    title = "uprobe: counted by an integer, by bpftrace"
    remark = ""
    map = "@hits[arg0 & 15]"


class TextMap(Map):
    name = "bpftrace-by-text"
    title = "uprobe: counted by a string, by bpftrace"
    map = "@hits[str(arg2)]"


CASES = [Bpftrace, Map, TextMap]
