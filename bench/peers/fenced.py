"""dyntrace, in a workload behind filters of system calls."""

import os
import sys

from workload import Workload

from .dyntrace import Dyntrace

BEHIND = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "behind.py")
MOUNT, GETTID = 165, 186


def behind(count, number):
    """A command's first words: it runs behind that many filters, each of which denies one call."""
    return [sys.executable, BEHIND, str(count), str(number)]


class Fenced(Dyntrace):
    denied = MOUNT  # which nobody makes

    def begin_workload(self):
        self.workload = Workload(self.program("workload"), prefix=behind(1, self.denied))
        self.workload.go()


class Filtered(Fenced):
    name = "dyntrace-filtered"
    title = "dyntrace: bare hit, behind a seccomp filter"
    what = ("--probe", "foo")


class Quiet(Filtered):
    name = "dyntrace-quiet"
    title = "dyntrace: bare hit, quiet agent"
    denied = GETTID

CASES = [Filtered, Quiet]
