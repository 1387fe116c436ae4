"""dyntrace export: each format decoded here and compared with Python over babeltrace2's module."""
import collections
import csv
import os
import struct

import pytest

from calls_oracle import Calls
from harness import Trace
from test_own_reader import CALLS, record
from test_report import lose


def fields_of(data):
    """The fields of a protobuf message: (number, value), bytes for parts."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            at += 8
            yield key >> 3, struct.unpack_from("<d", data, at - 8)[0]
        else:
            assert key & 7 == 2
            size = varint()
            assert at + size <= len(data)
            at += size
            yield key >> 3, data[at - size:at]


def one(data, number, default=None):
    return next((value for key, value in fields_of(data) if key == number), default)


class Perfetto:
    """Slices per thread: (name, begin, end, depth, annotations), and marks of losses."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        self.slices, self.marks, self.instants = collections.defaultdict(list), [], []
        self.threads, clock, names, notes, stacks, tracks = {}, {}, {}, {}, collections.defaultdict(list), {}
        for number, packet in fields_of(data):
            assert number == 1
            sequence, flags = one(packet, 10), one(packet, 13, 0)
            if flags & 1:
                names[sequence], notes[sequence] = {}, {}
                clocks = [dict(fields_of(value)) for key, value in fields_of(one(packet, 6)) if key == 1]
                assert [one_clock[1] for one_clock in clocks] == [6, 64] and clocks[1][3] == 1
                clock[sequence] = clocks[0][2]
                defaults = one(packet, 59)
                assert one(defaults, 58) == 64
                tracks[sequence] = one(one(defaults, 11), 11)
                continue
            if (track := one(packet, 60)) is not None:
                assert one(track, 1) == tracks[sequence]
                self.threads[sequence] = (one(one(track, 4), 1), one(one(track, 4), 2))
                continue
            for key, entry in fields_of(one(packet, 12, b"")):
                {2: names, 3: notes}[key][sequence][one(entry, 1)] = one(entry, 2).decode()
            clock[sequence] += one(packet, 8)
            self.take(self.threads[sequence], clock[sequence], one(packet, 11), names[sequence], notes[sequence],
                      stacks[sequence])
        assert not any(stacks.values())  # balanced

    def take(self, thread, ns, event, names, notes, stack):
        values = {}
        for key, note in fields_of(event):
            if key == 4:
                value = next(value for number, value in fields_of(note) if number in (3, 4, 5, 6))
                name = notes[one(note, 1)] if one(note, 1) else one(note, 10).decode()
                values[name] = value.decode() if isinstance(value, bytes) else value
        kind = one(event, 9)
        if kind == 1:
            stack.append((names[one(event, 10)], ns, values))
        elif kind == 2:
            name, begin, arguments = stack.pop()
            self.slices[thread].append((name, begin, ns, len(stack), {**arguments, **values}))
        elif one(event, 23) is not None:
            self.marks.append((one(event, 23).decode(), values["count"]))
        else:
            self.instants.append((thread, names[one(event, 10)], ns, values))


@pytest.fixture(name="trace")
def one_trace(dyntrace, program_path):
    return record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 100, 2)


def expected_slices(trace):
    """Per thread, from entries and exits in order."""
    slices, stacks = collections.defaultdict(list), collections.defaultdict(list)
    for event in Trace(trace).events:
        name, kind = event.name.rsplit("_", 1)
        thread = event.pid, event.tid
        if kind == "entry":
            stacks[thread].append((name, event.ns, event.fields))
        else:
            _, begin, fields = stacks[thread].pop()
            slices[thread].append((name, begin, event.ns, len(stacks[thread]), {**fields, "ret": event.fields["ret"]}))
    return slices


def test_perfetto(dyntrace, scratch, trace):
    path = os.path.join(scratch, "trace.pftrace")
    dyntrace("export", trace, "--perfetto", path)
    perfetto = Perfetto(path)
    assert perfetto.slices == expected_slices(trace) and len(perfetto.slices) == 2
    assert not perfetto.marks and not perfetto.instants
    calls = sum(map(len, perfetto.slices.values()))
    assert os.path.getsize(path) / calls < 60


def test_perfetto_losses_and_probes(dyntrace, scratch, program_path):
    """A loss is a mark, and ends what was open: slices stay balanced (Perfetto asserts it)."""
    trace = record(dyntrace, "-e", "--function", "top_", "--function", "mid", "--probe", "leaf", "--mode", "block", "--",
                   program_path("calls"), 1500, 1)
    lose(max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize), 1, 77)
    path = os.path.join(scratch, "trace.pftrace")
    dyntrace("export", trace, "--perfetto", path)
    perfetto = Perfetto(path)
    assert perfetto.marks == [("events lost", 77)]
    names = Trace(trace).names()
    assert len(perfetto.instants) == names["leaf"]
    assert len([1 for one_slice in perfetto.slices[next(iter(perfetto.slices))]]) == names["top__entry"] + names["mid_entry"]


def test_folded(dyntrace, trace):
    lines = dyntrace("export", trace, "--folded", "-").stdout.splitlines()
    assert {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in lines} == \
        {path: numbers["self"] for path, numbers in Calls(trace).paths.items() if numbers["self"]}


def test_csv(dyntrace, scratch, trace):
    path = os.path.join(scratch, "trace.csv")
    dyntrace("export", trace, "--csv", path)
    with open(path, newline="") as file:
        rows = [*csv.DictReader(file)]
    assert [(int(row["ns"]), int(row["pid"]), int(row["tid"]), row["name"]) for row in rows] == \
        [(event.ns, event.pid, event.tid, event.name) for event in Trace(trace).events]
    third = [row for row in rows if row["tid"] == rows[0]["tid"]][2]  # threads begin in any order
    assert third["name"] == "leaf_entry" and third["fields"] == 'n = 0, text = "hello"'


def test_wrong_words(dyntrace, scratch, trace):
    assert dyntrace.fails("export", trace, status=2) == "export: give a format: --perfetto, --folded or --csv"
    assert dyntrace.fails("export", trace, "--csv", "-", "--folded", "-", status=2) == "export: give one format"
    assert dyntrace.fails("export", "--csv", "-", status=2) == "export: give one TRACE, a trace's directory"
    assert dyntrace.fails("export", trace, "--csv", "/no/such/file").startswith("cannot write '/no/such/file': ")
