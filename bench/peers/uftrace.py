"""uftrace, full dynamic: all functions patched at launch, entry and exit recorded."""

import re
import subprocess

from case import Case, missing_program
from workload import Workload


class Uftrace(Case):
    name = "uftrace"
    title = "uftrace: full dynamic (-P .), entry + exit"
    calls = 200_000
    remark = "only at launch"

    def available(self):
        return missing_program("uftrace")

    def start(self):
        self.directory = self.bench.path(self.name)
        # Without the kernel's scheduling events, which it would record beside the functions.
        self.workload = Workload(self.program("workload"),
                                 ["uftrace", "record", "--no-libcall", "--no-event", "--patch=.",
                                  f"--data={self.directory}"])
        self.workload.go()

    def verify(self, hits):
        # It places nothing without a word where it can't: only the count tells.
        report = subprocess.run(["uftrace", "report", "--no-pager", f"--data={self.directory}",
                                 "--output-fields=call"], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL).stdout
        found = re.search(rf"^\s*(\d+)\s+{self.kind}$", report, re.MULTILINE)
        counted = int(found[1]) if found else 0
        return None if counted == hits else f"uftrace recorded {counted} of {hits} calls"


CASES = [Uftrace]
