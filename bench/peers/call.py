"""dyntrace --tracer call: an empty user function in the target; and --tracer log."""

from .dyntrace import Dyntrace, read_hits


class Call(Dyntrace):
    name = "dyntrace-call"
    title = "dyntrace: call of an empty function"
    function = "on_hit_nothing"

    @property
    def what(self):
        return "--probe", "foo", "--tracer", f"call:{self.bench.program('probe_functions.so')}:{self.function}"

    def verify(self, hits):
        called, lost = read_hits(self.summary, "foo")
        return None if (called, lost) == (hits, 0) else f"{called} calls of {hits} hits, {lost} lost"


class CallUnknown(Call):
    name = "dyntrace-call-unknown"
    title = "dyntrace: call of one that calls another"
    function = "on_hit_unknown"
    calls = 250_000


class Log(Dyntrace):
    name = "dyntrace-log"
    title = "dyntrace: a line of text"
    calls = 20_000
    remark = "for information; lines are written by dyntrace"

    @property
    def what(self):
        return "--probe", "foo", "--tracer", f"log:{self.bench.path('log')}"

    def output(self):
        return []

    def verify(self, hits):
        with open(self.bench.path("log")) as log:
            lines = sum(1 for line in log)
        return None if lines == hits else f"{lines} lines of {hits} hits"


CASES = [Call, CallUnknown, Log]
