"""dyntrace export: each format decoded here and compared with Python over babeltrace2's module."""
import collections
import csv
import json
import os
import re
import struct
import xml.etree.ElementTree

import pytest

from calls_oracle import Calls, packets_of
from harness import Trace
from test_own_reader import CALLS, record
from test_report import SHORT_PACKETS, lose, take_out


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
    trace = record(dyntrace, "-e", "--function", "top_", "--function", "mid", "--probe", "leaf", *SHORT_PACKETS, "--",
                   program_path("calls"), 1500, 1)
    biggest = max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize)
    lose(biggest, 1, 77)
    assert take_out(biggest, {2}) > 3
    path = os.path.join(scratch, "trace.pftrace")
    dyntrace("export", trace, "--perfetto", path)
    perfetto = Perfetto(path)
    assert perfetto.marks == [("events lost", 77), ("packets lost", 1)]
    names = Trace(trace).names()
    assert len(perfetto.instants) == names["leaf"]
    assert len([1 for one_slice in perfetto.slices[next(iter(perfetto.slices))]]) == names["top__entry"] + names["mid_entry"]


def test_folded(dyntrace, trace):
    lines = dyntrace("export", trace, "--folded", "-").stdout.splitlines()
    assert {tuple(line.rsplit(" ", 1)[0].split(";")): int(line.rsplit(" ", 1)[1]) for line in lines} == \
        {path: numbers["self"] for path, numbers in Calls(trace).paths.items() if numbers["self"]}


def test_folded_backtraces(dyntrace, program_path):
    """Without exits: hits per backtrace, outermost function first; libbabeltrace2 has the addresses, and view names the functions."""
    trace = record(dyntrace, "--function", "leaf", "-t", "backtrace:8", "--", program_path("calls"), 50, 2)
    expected = collections.Counter()
    for line in dyntrace("view", trace).stdout.splitlines():
        frames = re.search(r"backtrace = \[ (.*) \]", line)[1]
        names = [re.sub(r"\+0x.*", "", frame).replace(" ", "_") for frame in frames.split(", ")]
        expected[";".join(reversed(names))] += 1
    found = {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in dyntrace("export", trace, "--folded", "-").stdout.splitlines()}
    assert found == expected and sum(found.values()) == len(Trace(trace).events) > 50
    assert all(path.endswith(";leaf") for path in found)
    plain = record(dyntrace, "--function", "leaf", "--", program_path("calls"), 5, 1)
    assert dyntrace.fails("export", plain, "--folded", "-") == \
        "the trace has neither durations nor backtraces (record with 'trace -e', or with '-t backtrace')"


def whole_calls(trace):
    """Per thread, the calls with an entry and an exit that no loss cut: (name, begin, end, depth of such calls), by babeltrace2's module."""
    threads = collections.defaultdict(list)
    for packet in packets_of(trace)[0]:
        threads[packet.who].append(packet)
    for who, packets in threads.items():
        ended, stack = [], []
        for packet in packets:
            stack = [] if packet.lost else stack
            for name, cycles, duration, *_ in packet.events:
                if duration is None:
                    stack.append((name[:-6], cycles))
                    continue
                at = max((i for i, call in enumerate(stack) if call[0] == name[:-5]), default=None)
                if at is not None:
                    ended.append((name[:-5], stack[at][1], cycles))
                    del stack[at:]
        yield who, ended


def speedscope_calls(profile, frames):
    """Checks the rules of the format: times never go back, what ends is the innermost call, all calls end."""
    stack, ended, last = [], [], profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= last
        last = event["at"]
        if event["type"] == "O":
            stack.append(event)
        else:
            opened = stack.pop()
            assert event["type"] == "C" and opened["frame"] == event["frame"]
            ended.append((frames[event["frame"]], event["at"] - opened["at"]))
    assert not stack and last <= profile["endValue"]
    return ended


@pytest.mark.parametrize("losses", [0, 2])
def test_speedscope(dyntrace, scratch, program_path, losses):
    """All calls with a duration, of each thread, nested. (O2) A call that a loss cut isn't there."""
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 1500 if losses else 100, 2)
    biggest = max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize)
    for number in range(losses):
        lose(biggest, 1 + number, 77)
    path = os.path.join(scratch, "trace.json")
    dyntrace("export", trace, "--speedscope", path)
    with open(path) as file:
        document = json.load(file)
    assert document["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    profiles = {profile["name"]: profile for profile in document["profiles"]}
    expected = dict(whole_calls(trace))
    assert [*profiles] == [f"process {pid}, thread {tid}" for pid, tid in expected] and len(profiles) == 2
    for (pid, tid), calls in expected.items():
        profile = profiles[f"process {pid}, thread {tid}"]
        assert (profile["type"], profile["unit"]) == ("evented", "nanoseconds")
        shown = speedscope_calls(profile, frames)
        assert [name for name, _ in shown] == [name for name, _, _ in calls] and shown
    durations = collections.defaultdict(list)
    for profile in document["profiles"]:
        for name, duration in speedscope_calls(profile, frames):
            durations[name].append(duration)
    for name, exact in Calls(trace).durations.items():  # [exit - duration, exit]; the clock of times is an estimate
        assert all(abs(a - b) <= 2 + b * 1e-2 for a, b in zip(sorted(durations[name]), exact, strict=True))


SVG = "{http://www.w3.org/2000/svg}"


def frames_of(path):
    """The frames of a flame graph: (name, row, x, width, title)."""
    for frame in xml.etree.ElementTree.parse(path).getroot().iter(f"{SVG}g"):
        if "f" in frame.get("class", "").split():
            name, title = frame.find(f"{SVG}title").text.split("\n")
            rect = frame.find(f"{SVG}rect")
            yield name, float(rect.get("y")), float(rect.get("x")), float(rect.get("width")), title


def drawn(paths):
    """The paths of a flame graph with their times: those that are wide enough."""
    weights = {key: sum(numbers["self"] for other, numbers in paths.items() if other[:len(key)] == key) for key in paths}
    scale = 1180 / sum(numbers["self"] for numbers in paths.values())
    return {key: weight for key, weight in weights.items() if weight * scale >= 0.1}


def test_flamegraph(dyntrace, scratch, trace):
    """Each path stands on its caller; widths are times."""
    path = os.path.join(scratch, "trace.svg")
    dyntrace("export", trace, "--flamegraph", path)
    paths, oracle = {}, Calls(trace).paths
    whole = sum(numbers["self"] for numbers in oracle.values())
    frames = [*frames_of(path)]
    rows = sorted({frame[1] for frame in frames}, reverse=True)
    for name, y, x, width, title in frames[1:]:
        names, inside = [name], 0
        for below in rows[1:rows.index(y)]:
            under, = (one for one in frames if one[1] == below and one[2] - 0.01 <= x and x + width <= one[2] + one[3] + 0.01)
            names.insert(inside, under[0])
            inside += 1
        paths[tuple(names)] = width, title
    assert frames[0][0] == "all" and frames[0][3] == 1180 and set(paths) == set(drawn(oracle))
    for key, (width, title) in paths.items():
        time = drawn(oracle)[key]
        assert width == pytest.approx(time * 1180 / whole, abs=0.01)
        assert f"({time * 100 / whole:.2f}%), self " in title and title.endswith(f", calls {oracle[key]['calls']}")


def test_flamegraph_in_a_browser(dyntrace, scratch, trace, browser):
    """One request, zoom by click and by keyboard, search, back; it is a whole picture without its script."""
    path = os.path.join(scratch, "trace.svg")
    dyntrace("export", trace, "--flamegraph", path)
    browser.open(path)
    shown = "[...document.querySelectorAll('.f:not(.hidden)')].map(g => g.querySelector('title').textContent.split('\\n')[0])"
    label = "[...document.querySelectorAll('.f text')].map(text => text.textContent).filter(text => text)"
    everything, paths, label_texts = browser.run(shown), drawn(Calls(trace).paths), browser.run(label)
    wide = max((path for path in paths if len(path) == 2), key=paths.get)  # mid or rec, whichever took longer
    inside = sorted(["all", "top_"] + [path[-1] for path in paths if path[:2] == wide])
    assert len(everything) == 1 + len(paths) and {"all", "top_", wide[-1]} <= set(label_texts)
    browser.run("document.querySelectorAll('.f')[[...document.querySelectorAll('.f title')].findIndex(t => t.textContent.startsWith('"
                + wide[-1] + "'))].setAttribute('id', 'wide')")
    browser.click(*browser.box("#wide rect"))
    assert sorted(browser.run(shown)) == inside
    assert browser.run("+document.querySelector('#wide rect').getAttribute('width')") == 1180
    browser.key("Escape")
    assert browser.run(shown) == everything
    browser.run("document.querySelector('#wide').focus()")
    browser.key("Enter")
    assert sorted(browser.run(shown)) == inside
    browser.key("Escape")
    browser.key("/")
    browser.type(wide[-1].upper())
    share = paths[wide] * 100 / paths[("top_",)]
    assert float(browser.run("document.querySelector('#matched').textContent").removesuffix("% matched")) == pytest.approx(share, abs=0.011)
    assert browser.run("document.querySelectorAll('.f:not(.dim)').length") == sum(path[-1] == wide[-1] for path in paths)
    assert browser.requests() == [f"file://{path}"] and not browser.complaints()


HOSTILE = "</script><script>alert(1)</script>\"'&]]>\\n\uffff\u202e\x7f"


def test_a_zoomed_frame_fills_the_picture(dyntrace, scratch, trace, browser):
    """Exactly, also if its width times the quotient of both widths isn't exactly the picture's."""
    path = os.path.join(scratch, "trace.svg")
    dyntrace("export", trace, "--flamegraph", path)
    top = min((frame for frame in frames_of(path)), key=lambda frame: frame[1])
    odd = next(width for width in (step / 1000 for step in range(round(top[3] * 1000), 0, -1)) if width * (1180 / width) != 1180)
    with open(path) as file:
        text = file.read()
    before = re.search(rf'>{re.escape(top[0])}\n.*?<rect x="{top[2]:.3f}" y="{top[1]:.1f}" width="', text, re.S).end()
    with open(path, "w") as file:
        file.write(text[:before] + f"{odd:.3f}" + text[text.index('"', before):])
    browser.open(path)
    browser.run(f"[...document.querySelectorAll('.f rect')].find(rect => +rect.getAttribute('width') === {odd:.3f}).parentNode.focus()")
    browser.key("Enter")
    assert browser.run("[...document.querySelectorAll('.f:not(.hidden):not(.around) rect')].map(rect => +rect.getAttribute('width'))") == [1180]


def rename(trace, old, new):
    """Gives a function another name, in the metadata's words."""
    path = os.path.join(trace, "metadata")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for part in ("_entry", "_exit"):
        quoted = (new + part).replace("\\", "\\\\").replace('"', '\\"')
        assert f'name = "{old}{part}"' in text
        text = text.replace(f'name = "{old}{part}"', f'name = "{quoted}"')
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def test_hostile_names(dyntrace, scratch, trace, browser):
    """A name is text wherever it goes: no element, no script, no character that XML forbids."""
    rename(trace, "mid", HOSTILE)
    for form in ("flamegraph", "speedscope"):
        dyntrace("export", trace, f"--{form}", os.path.join(scratch, form))
    names = {name for name, *_ in frames_of(os.path.join(scratch, "flamegraph"))}
    assert {"all", "top_", "rec", "leaf"} < names
    name, = names - {"all", "top_", "rec", "leaf"}
    assert name.startswith(HOSTILE[:len(HOSTILE) - 4]) and name.endswith("\ufffd\\xe2\\x80\\xae\\x7f")
    with open(os.path.join(scratch, "speedscope")) as file:
        assert HOSTILE in [frame["name"] for frame in json.load(file)["shared"]["frames"]]
    os.rename(os.path.join(scratch, "flamegraph"), os.path.join(scratch, "f.svg"))
    browser.open(os.path.join(scratch, "f.svg"))
    assert not browser.complaints() and browser.run("document.querySelectorAll('script').length") == 1
    assert not browser.run("[...document.querySelectorAll('*')].some(e => e.localName === 'parsererror')")


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
    assert dyntrace.fails("export", trace, status=2) == "export: give a format: --perfetto, --flamegraph, --speedscope, --folded or --csv"
    assert dyntrace.fails("export", trace, "--csv", "-", "--folded", "-", status=2) == "export: give one format"
    assert dyntrace.fails("export", "--csv", "-", status=2) == "export: give one TRACE, a trace's directory"
    assert dyntrace.fails("export", trace, "--csv", "/no/such/file").startswith("cannot write '/no/such/file': ")


def test_a_trace_that_cannot_be_read_costs_no_file(dyntrace, scratch, trace):
    """FILE is emptied when the trace is open, not before."""
    kept, new = os.path.join(scratch, "kept"), os.path.join(scratch, "new")
    broken = os.path.join(scratch, "broken")
    os.mkdir(broken)
    with open(os.path.join(broken, "metadata"), "w") as file:
        file.write("/* CTF 1.8 */\nnonsense\n")
    for path in (os.path.join(scratch, "nowhere"), broken):
        with open(kept, "w") as file:
            file.write("all that is left\n")
        for file in (kept, new):
            dyntrace.fails("export", path, "--csv", file)
        assert open(kept).read() == "all that is left\n" and not os.path.exists(new)
    dyntrace("export", trace, "--csv", kept)
    assert open(kept).readline().startswith("ns,")
