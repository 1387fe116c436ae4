"""A row of the table: one tracer on its own workload."""

import os
import shutil

from workload import Workload


class Bench:
    """Where things are."""

    def __init__(self, build, scratch):
        self.build = os.path.abspath(build)
        self.scratch = scratch  # on a RAM disk

    def program(self, name):
        return os.path.join(self.build, "bench", name)

    def path(self, name):
        return os.path.join(self.scratch, name)


class Case:
    """
    The life of a case: available, start, measured many times, stop, verify.

    The cost of a hit is the time of a call here, less that in the plain workload.
    """

    name = ""  # for --only and --json
    title = ""
    kind = "foo"  # the workload's loop
    calls = 1_000_000  # in one measurement; enough for 10 to 30 ms
    remark = ""

    def __init__(self, bench):
        self.bench = bench
        self.workload = None
        self.copies = []

    def available(self):
        """None, or the reason to leave this case out."""
        return None

    def program(self, name):
        """
        A copy of its own: a uprobe is put into every process that runs that file, whichever process
        was asked for, and would be part of what all of them cost.
        """
        copy = self.bench.program(f"{name}-{self.name}")
        shutil.copy(self.bench.program(name), copy)
        self.copies.append(copy)
        return copy

    def begin_workload(self):
        self.workload = Workload(self.program("workload"))
        self.workload.go()

    def start(self):
        self.begin_workload()

    def stop(self):
        """Also after a start that failed half way."""
        if self.workload:
            self.workload.end()
        while self.copies:
            os.unlink(self.copies.pop())

    def verify(self, hits):
        """None, or the fault in the record of that many hits."""
        return None


class Plain(Case):
    """The call itself, which is subtracted."""

    remark = "subtracted from what follows"


class PlainFoo(Plain):
    name = "plain-foo"
    title = "the call of foo, no probe"
    kind = "foo"


class PlainFoo6(Plain):
    name = "plain-foo6"
    title = "the call of foo6, no probe"
    kind = "foo6"


class PlainText(Plain):
    name = "plain-text"
    title = "the call of foo_text, no probe"
    kind = "foo_text"


class Rdtsc(Case):
    name = "rdtsc"
    title = "one rdtsc"
    kind = "rdtsc"


class Floor(Case):
    name = "floor"
    title = "floor: rdtsc + 8-byte store, compiled in"
    kind = "record"
    remark = "a call, the clock, a per-thread ring"


class TimedFloor(Case):
    name = "floor-timed"
    title = "floor: call between two rdtsc, compiled in"
    kind = "timed"
    remark = "and a branch: what --min-duration has to know"


def missing_program(*names):
    """The reason to leave a case out if one of these programs isn't installed."""
    for name in names:
        if not shutil.which(name):
            return f"{name} is not installed"
    return None


def needs_root():
    return None if os.geteuid() == 0 else "needs root"
