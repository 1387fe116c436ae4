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

    def __init__(self, bench):
        super().__init__(bench)
        self.tracer = None
        self.output = ""

    def available(self):
        return needs_root() or missing_program("bpftrace", "unshare")

    def start(self):
        super().start()
        program = f"uprobe:{self.workload.program}:{self.kind} {{ @hits = count(); }}"
        self.tracer = subprocess.Popen(
            ["unshare", "--mount", "sh", "-c", ENTER, str(self.workload.pid), program],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.workload.wait_patched(self.kind, self.tracer)

    def stop(self):
        if self.tracer:
            self.output = interrupt(self.tracer)[0]
        super().stop()

    def verify(self, hits):
        found = re.search(r"@hits: (\d+)", self.output)
        counted = int(found[1]) if found else 0
        return None if counted == hits else f"bpftrace counted {counted} of {hits} hits"


CASES = [Bpftrace]
