"""dyntrace itself: attached to a running workload, as a user would do it."""

import os
import re
import subprocess

from case import Case
from workload import interrupt


def read_summary(text):
    """(recorded, lost) from the last lines of `dyntrace trace`."""
    found = re.search(r"^(\d+) events, (\d+) lost", text, re.MULTILINE)
    if not found:
        raise RuntimeError(f"dyntrace printed no summary: {text.strip() or 'nothing'}")
    return int(found[1]), int(found[2])


def read_hits(text, name):
    """(hits, lost) of one tracepoint, from its line in the summary."""
    found = re.search(rf"^ *(\d+) +(\d+)\b.*  {name}\S*$", text, re.MULTILINE)
    if not found:
        raise RuntimeError(f"dyntrace's summary has no line of {name}: {text.strip() or 'nothing'}")
    return int(found[1]), int(found[2])


class Dyntrace(Case):
    what = ()
    buffer_size = "64M"  # the default: room for what one measurement records

    def __init__(self, bench):
        super().__init__(bench)
        self.tracer = None
        self.summary = ""
        self.answer = ""  # to --by

    def available(self):
        program = os.path.join(self.bench.build, "dyntrace")
        return None if os.access(program, os.X_OK) else f"{program} isn't built"

    def start(self):
        super().start()
        self.tracer = subprocess.Popen(
            [os.path.join(self.bench.build, "dyntrace"), "trace", "--wide", "-p", str(self.workload.pid),
             *self.what, "--buffer-size", self.buffer_size, *self.output()],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.workload.wait_patched(self.kind, self.tracer)

    def output(self):
        return ["-o", self.bench.path(self.name)]

    def stop(self):
        if self.tracer:
            self.answer, self.summary = interrupt(self.tracer)
        super().stop()

    def verify(self, hits):
        recorded, lost = read_summary(self.summary)
        if lost:
            return f"{lost} of {hits} hits lost: more than the cost of recording was measured"
        return None if recorded == hits else f"{recorded} events of {hits} hits"


class Bare(Dyntrace):
    name = "dyntrace-bare"
    title = "dyntrace: bare hit"
    what = ("--probe", "foo")


class Args(Dyntrace):
    name = "dyntrace-args"
    title = "dyntrace: entry, six integer arguments"
    kind = "foo6"
    calls = 250_000
    what = ("--function", "foo6")


class Text(Dyntrace):
    name = "dyntrace-text"
    title = "dyntrace: entry, a string of 20 bytes"
    kind = "foo_text"
    calls = 250_000
    what = ("--function", "foo_text")


class Off(Case):
    name = "dyntrace-off"
    title = "dyntrace: probe in place but off"

    def start(self):
        super().start()
        self.tracer = subprocess.Popen(
            [self.bench.program("off"), str(self.workload.pid), self.bench.path(self.name), "foo"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ,
                 "DYNTRACE_AGENT": os.path.join(self.bench.build, "libdyntrace-agent.so")})
        if self.tracer.stdout.readline() != "off\n":
            raise RuntimeError("bench/off placed nothing")

    def stop(self):
        if hasattr(self, "tracer"):
            self.events = self.tracer.communicate()[0].strip()
        super().stop()

    def verify(self, hits):
        return None if self.events == "0 events" else f"{self.events} from a probe that is off"


class Removed(Bare):
    """Placed, taken out again, and only then measured."""

    name = "dyntrace-removed"
    title = "dyntrace: probe removed"

    def start(self):
        super().start()
        self.answer, self.summary = interrupt(self.tracer)
        self.tracer = None
        if self.workload.text(self.kind) != self.workload.original(self.kind):
            raise RuntimeError("the probe is still there")

    def verify(self, hits):
        return super().verify(0)


CASES = [Bare, Args, Text, Off, Removed]
