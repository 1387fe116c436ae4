"""dyntrace's counting tracer: hits, and how long calls take, counted in the target."""

from .dyntrace import Dyntrace, read_hits


class Count(Dyntrace):
    name = "dyntrace-count"
    title = "dyntrace: bare hit, only counted"
    what = ("--tracer", "count", "--probe", "foo")

    def output(self):
        return []  # it writes no trace

    def verify(self, hits):
        counted, _ = read_hits(self.summary, "foo")
        return None if counted == hits else f"{counted} counted of {hits} hits"


class CountPair(Count):
    name = "dyntrace-count-exit"
    title = "dyntrace: entry + exit, counted with its duration"
    kind = "foo6"
    calls = 250_000
    what = ("--tracer", "count", "-e", "--function", "foo6")


CASES = [Count, CountPair]
