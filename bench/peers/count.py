"""dyntrace's counting tracer: hits, and how long calls take, counted in the target."""

import re

from .dyntrace import Dyntrace


class Count(Dyntrace):
    name = "dyntrace-count"
    title = "dyntrace: bare hit, only counted"
    what = ("--tracer", "count", "--probe", "foo")

    def output(self):
        return []  # it writes no trace

    def verify(self, hits):
        found = re.search(r"^foo\w*\s+(\d+)\s", self.summary, re.MULTILINE)
        counted = int(found[1]) if found else 0
        return None if counted == hits else f"{counted} counted of {hits} hits"


class CountPair(Count):
    name = "dyntrace-count-exit"
    title = "dyntrace: entry + exit, counted with its duration"
    kind = "foo6"
    calls = 250_000
    what = ("--tracer", "count", "-e", "--function", "foo6")


CASES = [Count, CountPair]
