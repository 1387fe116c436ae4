"""Entry and exit of a function, by dyntrace and by the kernel; uftrace's row is of the same kind."""

import os

from workload import symbol_offset

from .dyntrace import Dyntrace, read_summary
from .tracefs import Tracefs


class Pair(Dyntrace):
    name = "dyntrace-exit"
    title = "dyntrace: entry + exit, return value, duration"
    kind = "foo6"
    calls = 100_000
    what = ("-e", "--function", "foo6")

    def verify(self, hits):
        recorded, lost = read_summary(self.summary)
        if lost:
            return f"{lost} of {2 * hits} events lost: more than the cost of recording was measured"
        return None if recorded == 2 * hits else f"{recorded} events of {hits} calls"


class Slow(Pair):
    """Calls of which none is slow enough: nothing may be recorded."""
    name = "dyntrace-slow"
    title = "dyntrace: entry + exit, call dropped by --min-duration"
    calls = 250_000
    what = ("-e", "--function", "foo6", "--min-duration", "10s")

    def verify(self, hits):
        recorded, lost = read_summary(self.summary)
        return f"{recorded} events, {lost} lost, of calls that are to be dropped" if recorded or lost else None


class Result(Slow):
    name = "dyntrace-result"
    title = "dyntrace: entry + exit, call dropped by its result"
    what = ("-e", "--function", "foo6", "--filter", "$ret == 0x123456789")


class Uretprobe(Tracefs):
    name = "uretprobe"
    title = "uprobe + uretprobe: events in tracefs"
    calls = 10_000
    remark = ""

    def start(self):
        super().start()
        offset = symbol_offset(self.workload.program, self.kind)
        self.write(f"r:{self.group}/ret {self.workload.program}:{offset:#x} ret=$retval:s64\n", "uprobe_events")
        self.write("1", self.instance, "events", self.group, "ret", "enable")

    def stop(self):
        returns = self.holder and os.path.isdir(self.file("events", self.group, "ret"))
        counted = self.count() if returns else 0  # the kernel empties the buffer when an event's kind is removed
        if returns:
            self.write("0", self.instance, "events", self.group, "ret", "enable")
            self.write(f"-:{self.group}/ret\n", "uprobe_events")
        super().stop()
        self.counted = counted

    def verify(self, hits):
        return super().verify(2 * hits)


CASES = [Pair, Slow, Result, Uretprobe]
