"""dyntrace's counting tracer: hits, and how long calls take, counted in the target; by a key, too."""

import json

from .dyntrace import Dyntrace, read_hits


class Count(Dyntrace):
    name = "dyntrace-count"
    title = "dyntrace: bare hit, only counted"
    what = ("--tracer", "count", "--probe", "foo")

    def output(self):
        return []  # it writes no trace

    def counted(self):
        return read_hits(self.summary, "foo")[0]

    def verify(self, hits):
        counted = self.counted()
        return None if counted == hits else f"{counted} counted of {hits} hits"


class CountPair(Count):
    name = "dyntrace-count-exit"
    title = "dyntrace: entry + exit, counted with its duration"
    kind = "foo6"
    calls = 250_000
    what = ("--tracer", "count", "-e", "--function", "foo6")


class Keyed(Count):
    """Sixteen keys, in turn."""

    name = "dyntrace-count-by"
    title = "dyntrace: bare hit, counted by an integer"
    calls = 500_000
    what = ("--tracer", "count", "--probe", "foo", "--json", "--by", "$rdi & 15")

    def counted(self):
        return sum(row["hits"] for row in json.loads(self.answer))


class KeyedPair(Keyed):
    name = "dyntrace-count-exit-by"
    title = "dyntrace: entry + exit, counted by an integer"
    kind = "foo6"
    calls = 250_000
    what = ("--tracer", "count", "-e", "--function", "foo6", "--json", "--by", "$rdi & 15")


class KeyedText(Keyed):
    name = "dyntrace-count-by-text"
    title = "dyntrace: bare hit, counted by a string of 20 bytes"
    calls = 50_000
    what = ("--tracer", "count", "--probe", "foo", "--json", "--by", "(char *)$rdx")


CASES = [Count, CountPair, Keyed, KeyedPair, KeyedText]
