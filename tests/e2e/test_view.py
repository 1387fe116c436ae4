"""dyntrace view, on traces made by hand and so known byte by byte."""
import json
import os
import shutil
import struct
import subprocess

import handmade
import harness
import pytest
from handmade import Packet
from test_values import compile_program

UTC = {**os.environ, "TZ": "UTC"}


@pytest.fixture
def trace(scratch):
    """Two threads; 123 events lost between the first thread's packets."""
    return handmade.write(
        os.path.join(scratch, "trace"),
        [Packet(100, 2000).add(0, 100).add(1, 1334, struct.pack("<QQ", 1, 0x7fff00001234)),
         Packet(2000, 5000, discarded=123).add(2, 3000, handmade.EVERYTHING)],
        [Packet(500, 500, tid=78).add(3, 500, b"x\0")])


def test_every_line(dyntrace, trace):
    assert dyntrace("view", trace, env=UTC).stdout.splitlines() == [
        "01:46:40.000000100 (+?.?????????) handmade tid 77 bare",
        '01:46:40.000000500 (+0.000000400) handmade tid 78 with space { text = "x" }',
        "01:46:40.000001334 (+0.000000834) handmade tid 77 main_entry { arg0 = 0x1, arg1 = 0x7fff00001234 }",
        "[lost 123 events between 01:46:40.000002000 and 01:46:40.000005000]",
        "01:46:40.000003000 (+0.000001666) handmade tid 77 everything { less = -5, most = 18446744073709551615, "
        'bits = 0xfffe, mode = 0175, flags = 0b101, text = "h\u00e9 \\"q\\"\\n\\x1b\\xff", state = MANY (7), '
        "single = 0.1, real = -1e+300, point = { x = 1, inner = { z = 2 } }, fixed = [ 10, 20, 30 ], count = 2, "
        "varied = [ 65535, 0 ], none = [], tag_value = 9 }",
    ]


def test_every_json_object(dyntrace, trace):
    objects = [json.loads(line) for line in dyntrace("view", "--json", trace).stdout.splitlines()]
    base = 10**18
    assert objects == [
        {"time": "2001-09-09T01:46:40.000000100Z", "ns": base + 100, "process": "handmade", "pid": 70, "tid": 77,
         "name": "bare", "fields": {}},
        {"time": "2001-09-09T01:46:40.000000500Z", "ns": base + 500, "process": "handmade", "pid": 70, "tid": 78,
         "name": "with space", "fields": {"text": "x"}},
        {"time": "2001-09-09T01:46:40.000001334Z", "ns": base + 1334, "process": "handmade", "pid": 70, "tid": 77,
         "name": "main_entry", "fields": {"arg0": 1, "arg1": 0x7fff00001234}},
        {"lost_events": 123, "begin_ns": base + 2000, "end_ns": base + 5000},
        {"time": "2001-09-09T01:46:40.000003000Z", "ns": base + 3000, "process": "handmade", "pid": 70, "tid": 77,
         "name": "everything", "fields": {
             "less": -5, "most": 2**64 - 1, "bits": -2, "mode": 0o175, "flags": 5,
             "text": "h\u00e9 \"q\"\n\x1b\ufffd", "state": "MANY", "single": 0.1, "real": -1e300,
             "point": {"x": 1, "inner": {"z": 2}}, "fixed": [10, 20, 30], "count": 2, "varied": [65535, 0],
             "none": [], "tag_value": 9}},
    ]


def test_the_harness_reads_the_same(dyntrace, trace):
    seen = harness.Trace(trace)
    objects = [json.loads(line) for line in dyntrace("view", "--json", trace).stdout.splitlines()]
    assert [(event.name, event.ns, event.tid, event.pid) for event in seen.events] == \
        [(one["name"], one["ns"], one["tid"], one["pid"]) for one in objects if "name" in one]
    assert seen.lost == 123
    assert seen.events[3].fields["point"] == {"x": 1, "inner": {"z": 2}}
    assert harness.count_events(trace) == (4, 123)
    assert seen.env == {"hostname": "here", "procname": "handmade"}


def test_local_time(dyntrace, trace):
    lines = dyntrace("view", trace, env={**os.environ, "TZ": "XYZ-05:30"}).stdout.splitlines()
    assert lines[0].startswith("07:16:40.000000100 ")


def test_traces_below_a_directory_are_one_story(dyntrace, scratch):
    for name, stamp in (("b", 10), ("a", 20)):
        handmade.write(os.path.join(scratch, "all", name), [Packet(stamp, stamp, tid=stamp).add(0, stamp)])
    lines = dyntrace("view", os.path.join(scratch, "all"), env=UTC).stdout.splitlines()
    assert [line.split(" ", 2)[2] for line in lines] == ["handmade tid 10 bare", "handmade tid 20 bare"]


def test_head_ends_it_quietly(dyntrace, scratch):
    packet = Packet(0, 200000)
    for stamp in range(200000):
        packet.events += struct.pack("<IQ", 0, stamp)
    path = handmade.write(os.path.join(scratch, "long"), [packet])
    for ignored in ("", "trap '' PIPE; "):
        result = subprocess.run(["sh", "-c", f"{ignored}{dyntrace.path} view {path} | head -n 1"],
                                capture_output=True, text=True, env=UTC)
        assert result.stdout == "01:46:40.000000000 (+?.?????????) handmade tid 77 bare\n"
        assert result.stderr == ""
    assert len(dyntrace("view", path).stdout.splitlines()) == 200000


def test_no_colours_in_a_pipe_and_colours_on_a_terminal(dyntrace, trace):
    assert "\033" not in dyntrace("view", trace).stdout

    assert "\033[1;32mbare\033[0m" in harness.on_a_terminal(dyntrace, trace)
    assert "\033" not in harness.on_a_terminal(dyntrace, trace, NO_COLOR="1")
    assert "\033" not in harness.on_a_terminal(dyntrace, trace, TERM="dumb")


def test_what_is_no_trace(dyntrace, scratch):
    assert dyntrace.fails("view", "/no/such/trace") == \
        "cannot open the trace '/no/such/trace': No such file or directory"
    assert dyntrace.fails("view", scratch) == f"'{scratch}' is not a trace (it has no file 'metadata')"
    assert dyntrace.fails("view", "/etc/passwd") == "'/etc/passwd' is not a trace (give its directory)"


def test_broken_traces(dyntrace, trace, scratch):
    broken = os.path.join(scratch, "broken")
    shutil.copytree(trace, broken)
    with open(os.path.join(broken, "metadata"), "a") as metadata:
        metadata.write("nonsense {")
    assert dyntrace.fails("view", broken).startswith(f"cannot read the trace '{broken}': ")

    with open(os.path.join(trace, "stream_0"), "r+b") as stream:
        stream.truncate(100)
    assert dyntrace.fails("view", trace).startswith(f"cannot read the trace '{trace}': ")


def shown(dyntrace, output, expression):
    return [(event["name"], event["fields"]) for event in
            map(json.loads, dyntrace("view", output, "--json", "--filter", expression).stdout.splitlines())]


def test_filter(dyntrace, scratch):
    """The language of trace --filter, over fields; events without the field aren't printed."""
    path = compile_program(scratch, "results.c", "-O1")
    output = dyntrace.new_output()
    dyntrace("trace", "-e", "-o", output, *[word for name in ("chosen", "colour", "pair", "large_struct", "point") for word in
                                            ("--function", name)], "--", path)
    everything = [json.loads(line) for line in dyntrace("view", output, "--json").stdout.splitlines()]
    assert len(everything) == 20
    assert [fields["ret"] for _, fields in shown(dyntrace, output, "ret < 0 && duration >= 0")] == [-1, -1]
    assert [fields["size"] for _, fields in shown(dyntrace, output, 'name == "t*" || name == "five"')] == [20, 30, 50]
    assert [fields["size"] for _, fields in shown(dyntrace, output, "factor > 1.2 && factor < 1.6 && size % 20 == 0")] == [0, 20, 40]
    assert [name for name, _ in shown(dyntrace, output, '$name == "pair_*"')] == ["pair_entry", "pair_exit"]
    assert [name for name, _ in shown(dyntrace, output, "ret.a == 1 && ret.b == -1")] == ["pair_exit"]
    assert [name for name, _ in shown(dyntrace, output, "ret.y == -1.5")] == ["point_exit"]
    assert [name for name, _ in shown(dyntrace, output, 'ret.numbers[2] == 3 && ret.name == "a large one"')] == ["large_struct_exit"]
    assert [name for name, _ in shown(dyntrace, output, "ret == BLUE")] == ["colour_exit"]
    assert len(shown(dyntrace, output, "$tid == $pid && size >= 0")) == 6
    assert len(shown(dyntrace, output, "$tid != $pid")) == 0
    assert shown(dyntrace, output, "10 / size == 1")[0][1]["size"] == 10  # of 0 there is no quotient


@pytest.mark.parametrize("expression, part, column", [
    ("nosuch > 1", "unknown field 'nosuch'", 0), ("duration >", "incomplete expression", 10), ("$nothing", "unknown field '$nothing'", 0)])
def test_wrong_filter(dyntrace, scratch, expression, part, column):
    path = compile_program(scratch, "results.c", "-O1")
    output = dyntrace.new_output()
    dyntrace("trace", "-e", "-o", output, "--function", "pair", "--", path)
    lines = dyntrace("view", output, "--filter", expression, status=2).stderr.splitlines()
    assert part in lines[0] and lines[1] == "  " + expression and lines[2] == "  " + " " * column + "^"
