"""The page of `report --html` in Chromium: its numbers against Python over babeltrace2's module, and how it is used."""
import collections
import json
import os
import signal
import subprocess

import pytest

from calls_oracle import Calls, packets_of
from harness import until
from test_export import HOSTILE, rename
from test_own_reader import CALLS, record
from test_report import SHORT_PACKETS, lose, take_out
from test_values import compile_program

READY = "!!globalThis.page"
ALL = "page.count(-1e18, 1e18, null)"
FUNCTIONS = "({0}).functions.filter(f => f).map(f => [page.functions[f.function].name, f.hits, f.calls, f.total, f.self, f.spread.max])"
PATHS = """(() => { const all = {0}, path = i => i > 0 ? [...path(all.nodes[i].parent), page.functions[all.nodes[i].function].name] : [];
    return all.nodes.map((node, i) => [path(i), node.calls, node.total, node.self]).filter(one => one[1]) })()"""


@pytest.fixture(name="page")
def page_of(dyntrace, scratch, browser):
    """Makes a trace's page and opens it."""
    def make(trace, env=None, **options):
        path = os.path.join(scratch, "page.html")
        dyntrace("report", trace, "--html", path, env={**os.environ, **(env or {})})
        browser.open(path, ready=READY, **options)
        return browser
    yield make
    if browser.session:
        assert not browser.complaints()
        assert browser.requests() == [f"file://{scratch}/page.html"]  # and nothing else


def table_of(page):
    """The page's own table: every cell of every column as its row has it."""
    return {row["name"]: row for row in page.run("page.numbers().rows()")}


def check(page, trace):
    """All numbers, once as the report has counted them and once as the page counts its calls."""
    oracle = Calls(trace)
    rows = table_of(page)
    assert set(rows) == {name for name, numbers in oracle.numbers.items() if numbers["hits"] or numbers["calls"]}
    for name, row in rows.items():
        for key in ("hits", "calls", "total", "self", "max", "cut", "partial", "unwound", "inside", "missed"):
            assert row[key] == oracle.numbers[name][key], (name, key)
    for name, _, *counted in page.run(FUNCTIONS.replace("{0}", ALL)):
        numbers = oracle.numbers[name]
        if name in oracle.with_exit:
            assert counted == [numbers["calls"], numbers["total"], numbers["self"], numbers["max"]], name
    assert {tuple(path): tuple(rest) for path, *rest in page.run(PATHS.replace("{0}", ALL))} == \
        {path: (one["calls"], one["total"], one["self"]) for path, one in oracle.paths.items()}
    assert page.run("page.meta.lost") == oracle.lost == page.run("page.meta.losses.reduce((sum, loss) => sum + (loss[5] ? 0 : loss[2]), 0)")
    assert page.run("page.meta.lostPackets") == oracle.lost_packets
    return oracle


def check_bars(page, trace):
    """A bar is [exit - duration, exit], of each call with a duration, to the nanosecond. (O2) Cut calls have none."""
    first = int(page.run("page.meta.first"))
    shown = page.run("page.threads.map(thread => [thread.pid, thread.tid, Array.from({length: thread.to - thread.from}, (_, i) => i + thread.from)"
                     ".filter(i => page.calls.kind[i] <= 1).map(i => [page.calls.end[i], page.calls.end[i] - page.calls.begin[i]])])")
    exits = collections.defaultdict(collections.Counter)
    for pid, tid, calls in shown:
        exits[pid, tid].update((end + first, duration) for end, duration in calls)
    expected = collections.defaultdict(collections.Counter)
    for packet in packets_of(trace)[0]:
        expected[packet.who].update((ns, duration) for duration, ns in packet.exits)
    oracle = Calls(trace)
    cut = sum(numbers["cut"] for numbers in oracle.numbers.values())
    for who, counter in exits.items():
        assert counter <= expected[who]
    assert sum(map(len, exits.values())) == sum(numbers["calls"] for numbers in oracle.numbers.values())
    return cut


def test_recursion_and_threads(dyntrace, program_path, page):
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 100, 3)
    one = page(trace)
    check(one, trace)
    assert check_bars(one, trace) == 0
    rows = one.run("[...document.querySelectorAll('#slowest tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))")
    slowest = sorted((ns for durations in Calls(trace).durations.values() for ns in durations), reverse=True)[:20]
    assert one.run("page.findSlowest().map(i => page.calls.end[i] - page.calls.begin[i])") == slowest and len(rows) == 20
    assert rows[0][1] == "top_" and rows[0][4].startswith("n = ") and " -> " in rows[0][4]


def test_losses(dyntrace, program_path, page):
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 900, 1)
    lose(max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize), 1, 77)
    one = page(trace)
    check(one, trace)
    assert check_bars(one, trace) > 0
    assert "77 events were lost" in one.run("document.getElementById('notes').textContent")
    # no call lies over the gap, and the gap has its count
    thread = "page.threads.find(thread => thread.losses.length)"
    assert one.run(f"{thread}.losses.map(loss => loss.count)") == [77]
    assert one.run(f"(() => {{ const t = {thread}, loss = t.losses[0]; for (let i = t.from; i < t.to; i++) if (page.calls.kind[i] <= 1 &&"
                   "page.calls.begin[i] < loss.begin && page.calls.end[i] > loss.end) return false; return loss.end >= loss.begin })()")


def test_missing_packets(dyntrace, program_path, page):
    """(O2) As a loss: a gap with a count, and no call over it."""
    trace = record(dyntrace, "-e", *CALLS, "--function", "run", *SHORT_PACKETS, "--", program_path("calls"), 400, 1)
    assert take_out(max((os.path.join(trace, name) for name in os.listdir(trace)), key=os.path.getsize), {1}) > 2
    one = page(trace)
    check(one, trace)
    assert check_bars(one, trace) > 0
    assert "1 packet of events is missing" in one.run("document.getElementById('notes').textContent")
    assert one.run("page.threads.map(thread => thread.losses.map(loss => [loss.count, loss.isPackets]))") == [[[1, True]]]


def test_unwound(dyntrace, scratch, page):
    path = compile_program(scratch, "throws.cpp", "-O1", compiler="g++", name="throws")
    trace = record(dyntrace, "-e", "--function", "*@throws", "--", path, status=None)
    one = page(trace)
    assert sum(numbers["unwound"] for numbers in check(one, trace).numbers.values()) > 0
    assert "in no number" in one.run("document.getElementById('notes').textContent")


def test_forks(dyntrace, program_path, page):
    trace = record(dyntrace, "-e", "--function", "foo", "--", program_path("forker"), "--children", 5, "--calls", 20)
    one = page(trace)
    check(one, trace)
    assert len(set(one.run("page.threads.map(thread => thread.pid)"))) == 6


def test_calls_without_an_exit(dyntrace, program_path, page):
    """(O10) Missed returns aren't calls that are still open."""
    trace = record(dyntrace, "-e", "--function", "callee", "--function", "call_plainly", "--", program_path("runtime"))
    one = page(trace)
    assert check(one, trace).numbers["callee"]["missed"] == 100
    assert "100 calls had returns that could not be watched: drawn as outlines" in one.run("document.getElementById('notes').textContent")
    kinds = "Array.from(page.calls.kind).reduce((all, kind) => ({ ...all, [kind]: (all[kind] || 0) + 1 }), {})"
    assert one.run(kinds) == {"0": 200, "6": 100}


def test_exec(dyntrace, program_path, page):
    """Programs that one process begins one after the other."""
    trace = record(dyntrace, "-e", "--follow-exec", *CALLS, "--mode", "block", "--", "/bin/sh", "-c",
                   f"{program_path('calls')} 20 1; exec {program_path('calls')} 30 2")
    one = page(trace)
    assert check(one, trace).numbers["top_"]["calls"] == 20 + 60
    assert check_bars(one, trace) == 0


def test_overwritten(dyntrace, program_path, page):
    """A ring has the end of a recording: exits without entries, and calls cut where older events are gone."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "overwrite", "--buffer-size", "1M", "--", program_path("calls"), 1000, 2)
    one = page(trace)
    oracle = check(one, trace)
    check_bars(one, trace)
    assert 0 < oracle.numbers["leaf"]["calls"] < 1000 * 9


def test_rotated(dyntrace, program_path, page):
    """The oldest files are gone: calls that began in them have no entry, and no bar."""
    dyntrace.trace("-e", "--max-size", "1M", "--mode", "block", *CALLS, "--", program_path("calls"), 2000, 2, output=(output := dyntrace.new_output()))
    one = page(output)
    oracle = check(one, output)
    check_bars(one, output)
    assert oracle.lost == 0 and 0 < oracle.numbers["top_"]["calls"] < 4000


def test_snapshot(dyntrace, program, page):
    """A snapshot of a ring that goes on begins in the middle of calls."""
    target = program("spin", "--threads", 2, "--calls", 20000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "-e", "--function", "foo", "--mode", "overwrite", "--buffer-size", "1M")
    target.go().wait_ready()
    tracing.process.send_signal(signal.SIGUSR1)
    snapshot = tracing.output + ".snapshot-1"
    until(lambda: os.path.exists(os.path.join(snapshot, "metadata")) and "snapshot:" in tracing.process.stderr.readline(), "the snapshot")
    tracing.stop()
    target.finish()
    one = page(snapshot)
    check(one, snapshot)
    check_bars(one, snapshot)


def test_probes(dyntrace, program_path, page):
    """Without exits: hits, no durations."""
    trace = record(dyntrace, *CALLS, "--probe", "main", "--", program_path("calls"), 3, 1)
    one = page(trace)
    check(one, trace)
    cells = one.run("[...document.querySelectorAll('#functions tbody tr')].map(row => [row.cells[0].textContent, row.cells[1].textContent, row.cells[2].textContent])")
    assert sorted(cells) == [["leaf", "12", "–"], ["main", "1", "–"], ["mid", "3", "–"], ["rec", "6", "–"], ["top_", "3", "–"]]


def test_selection(dyntrace, program_path, page):
    """A thread, a time and a function restrict all views."""
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 60, 2)
    one = page(trace)
    first, oracle = int(one.run("page.meta.first")), collections.defaultdict(list)
    for packet in packets_of(trace)[0]:
        oracle[packet.who[1]] += [(name[:-5], ns - first - duration, ns - first) for (duration, ns), name in zip(packet.exits, packet.exit_names)]
    tid = sorted(oracle)[1]
    one.run(f"page.chooseThread(page.threads.find(thread => thread.tid === {tid}))")
    assert {name: row["count"] for name, row in table_of(one).items()} == collections.Counter(name for name, _, _ in oracle[tid])
    ends = sorted(end for _, _, end in oracle[tid])
    begin, end = ends[len(ends) // 3] + 1, ends[len(ends) * 2 // 3] + 1
    one.run(f"page.chooseTime({begin}, {end})")
    inside = [call for call in oracle[tid] if call[2] >= begin and call[1] <= end]
    assert {name: row["count"] for name, row in table_of(one).items()} == collections.Counter(name for name, _, _ in inside)
    total = sum(min(call[2], end) - max(call[1], begin) for call in inside if call[0] == "top_")
    assert table_of(one)["top_"]["total"] == total
    one.run("page.chooseFunction(page.functions.findIndex(f => f.name === 'leaf'))")
    leaves = sorted((call[2] - call[1] for call in inside if call[0] == "leaf"), reverse=True)
    assert one.run("page.findSlowest().map(i => page.calls.end[i] - page.calls.begin[i])") == leaves[:20]
    assert int(one.run("document.getElementById('histogram').dataset.calls")) == len(leaves)
    assert one.run("document.querySelectorAll('.chip').length") == 3
    assert one.run("page.threads.filter(thread => !thread.isHidden).length") == 1
    one.key("Escape")
    assert one.run("document.querySelectorAll('.chip').length") == 0 and table_of(one)["top_"]["count"] == 120
    # the table has the chosen function and what was called inside it
    one.run("page.chooseFunction(page.functions.findIndex(f => f.name === 'rec'))")
    inside = collections.defaultdict(collections.Counter)
    for path, numbers in Calls(trace).paths.items():
        if "rec" in path:
            inside[path[-1]].update(numbers)
    rows = {row["name"]: row for row in one.run("page.table.rows")}
    assert set(rows) == set(inside) == {"rec", "leaf"}
    for name, row in rows.items():
        assert (row["calls"], row["self"]) == (inside[name]["calls"], inside[name]["self"]), name
    assert rows["leaf"]["total"] == inside["leaf"]["total"] and rows["rec"]["total"] == Calls(trace).numbers["rec"]["total"]
    assert rows["leaf"]["calls"] < Calls(trace).numbers["leaf"]["calls"]
    assert len(one.run("[...document.querySelectorAll('#functions tbody tr')].map(row => row.cells[0].textContent)")) == 2
    assert "inside calls of rec" in one.run("document.getElementById('table-what').textContent")


def test_use(dyntrace, program_path, page):
    """Search, sort, zoom, keys, mouse, in light and dark, wide and narrow."""
    one = page(record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 100, 2))
    names = "[...document.querySelectorAll('#functions tbody tr')].map(row => row.cells[0].textContent)"
    assert one.run(names)[0] == "top_"
    one.click(*one.box("th[data-key=name] button"))
    assert one.run(names) == ["leaf", "mid", "rec", "top_"]
    one.click(*one.box("th[data-key=name] button"))
    assert one.run(names) == ["top_", "rec", "mid", "leaf"] and one.run("document.querySelector('th[aria-sort]').ariaSort") == "descending"
    one.run("document.body.focus()")
    one.key("/")
    one.type("LE")
    assert one.run(names) == ["leaf"]
    one.key("Escape")
    assert len(one.run(names)) == 4
    one.click(*one.box("#functions tbody tr"))
    assert one.run("page.chosen.function !== null") and one.run("document.querySelectorAll('[aria-selected=true]').length") == 1
    one.key("Escape")
    # the timeline
    shown = "[page.view.from, page.view.to]"
    one.run("document.getElementById('timeline').focus()")
    span = one.run("page.view.to")
    one.key("+")
    assert one.run(shown) == [span / 4, span * 3 / 4]
    one.key("ArrowRight")
    assert one.run(shown) == pytest.approx([span * 0.35, span * 0.85])
    for _ in range(60):
        one.key("+")
    begin, end = one.run(shown)
    assert end - begin == 10  # nanoseconds
    one.key("Home")
    assert one.run(shown) == [0, span]
    one.key("+")
    one.key("Enter")
    assert one.run("page.chosen.hasTime") and one.run("page.numbers().calls") < one.run("page.meta.calls")
    one.key("Escape")
    one.key("Home")
    x, y = one.box("#ruler")
    one.drag(x, y, x + 200, y)
    assert one.run("page.chosen.hasTime") and one.run("page.chosen.from") == pytest.approx(span / 2, rel=0.02)
    one.key("Escape")
    x, y = one.box("#heat")
    one.drag(x - 20, y, x + 40, y)
    assert one.run("page.chosen.hasTime")
    one.key("Escape")
    # call paths
    one.run("document.getElementById('flame').focus()")
    one.key("ArrowDown")
    one.key("ArrowDown")
    one.key("Enter")
    assert one.run("document.getElementById('flame').dataset.zoomed") in ("mid", "rec")
    one.key("f")
    assert one.run("page.functions[page.chosen.function].name") in ("mid", "rec")
    one.key("Escape")
    assert one.run("document.getElementById('flame').dataset.zoomed") == "all"
    one.click(*one.box("#as-flame"))
    assert one.run("page.flame.isIcicle") is False
    # another screen
    light = one.run("getComputedStyle(document.body).backgroundColor")
    one.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    assert sum(map(int, one.run("getComputedStyle(document.body).backgroundColor")[4:-1].split(","))) < 128 < \
        sum(map(int, light[4:-1].split(",")))
    one.resize(375, 800)
    assert one.run("document.documentElement.scrollWidth") <= 375


def test_hostile(dyntrace, scratch, page):
    """Foreign text is text: names, arguments, the command, the process."""
    source = os.path.join(scratch, "evil.c")
    text = b"</script><script>alert(1)</script><!--\xff\x01\"'&\xe2\x80\xa8"
    with open(source, "w") as file:
        file.write("__attribute__((noinline, noipa)) int foo(const char *text) { return text[0]; }\n"
                   f'int main(void) {{ return foo("{"".join(f"{chr(92)}{byte:03o}" for byte in text)}") == 0; }}\n')
    subprocess.run(["gcc", "-g", "-O1", "-o", os.path.join(scratch, "evil"), source], check=True)
    trace = record(dyntrace, "-e", "--function", "foo", "--", os.path.join(scratch, "evil"), "</script><script>alert(2)</script>")
    rename(trace, "foo", HOSTILE)
    one = page(trace)
    assert one.run("document.querySelectorAll('script').length") == 2  # the page's own: `meta`, and itself
    name = one.run("document.querySelector('#functions td').textContent")
    assert name.startswith("</script><script>alert(1)</script>\"'&]]>\\n\uffff")
    assert "</script><script>alert(1)</script><!--\\xff\\x01" in one.run("document.querySelector('#slowest td.arguments').textContent").replace("\\\\x", "\\x")
    assert "</script><script>alert(2)</script>" in one.run("document.getElementById('about').textContent")


def test_sums(dyntrace, program_path, page):
    """(O8, O9) Of too many calls, short ones become sums, the slowest stay whole, and all numbers of the whole trace stay exact."""
    trace = record(dyntrace, "-e", *CALLS, *SHORT_PACKETS, "--", program_path("calls"), 400, 2)
    one = page(trace, env={"DYNTRACE_PAGE_CALLS": "2000"})
    oracle, rows = Calls(trace), table_of(one)
    for name, numbers in oracle.numbers.items():
        assert [rows[name][key] for key in ("calls", "total", "self", "max")] == [numbers[key] for key in ("calls", "total", "self", "max")]
    whole, left = one.run("[page.meta.calls, page.meta.left]")
    assert whole + left == sum(numbers["calls"] for numbers in oracle.numbers.values()) == 7200 and whole <= 2000
    assert one.run("page.threads.reduce((sum, thread) => sum + thread.sums.reduce((all, one) => all + one.calls, 0), 0)") == left
    for name, durations in oracle.durations.items():
        kept = one.run("Array.from(page.calls.function).map((f, i) => [f, page.calls.end[i] - page.calls.begin[i]]).filter(one => "
                       f"page.functions[one[0]].name === '{name}').map(one => one[1]).sort((a, b) => b - a).slice(0, 10)")
        assert kept == durations[::-1][:10], name
    assert f"{left:,} calls shorter than " in one.run("document.getElementById('notes').textContent")
    one.run("page.chooseThread(page.threads[0])")
    assert {name: row["count"] for name, row in table_of(one).items()} == \
        {name: numbers["calls"] // 2 for name, numbers in oracle.numbers.items()}


def test_open(dyntrace, scratch, program_path):
    """Makes TRACE.html beside the trace and gives it to xdg-open; without a screen, prints where it is."""
    trace = record(dyntrace, "-e", *CALLS, "--", program_path("calls"), 2, 1)
    plain = {key: value for key, value in os.environ.items() if key not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
    assert dyntrace("open", trace, env=plain).stdout == f"{os.path.realpath(trace)}.html\n"
    with open(f"{trace}.html") as file:
        text = file.read()
    assert text.startswith("<!doctype html>") and text.endswith("</html>\n")
    assert dyntrace("report", trace, "--html", "-").stdout == text
    os.mkdir(os.path.join(scratch, "bin"))
    with open(os.path.join(scratch, "bin", "xdg-open"), "w") as file:
        file.write(f'#!/bin/sh\nprintf %s "$1" > {scratch}/opened\n')
    os.chmod(file.name, 0o755)
    result = dyntrace("open", os.path.basename(trace), cwd=os.path.dirname(trace),
                      env={**plain, "DISPLAY": ":0", "PATH": f"{scratch}/bin:{os.environ['PATH']}"})
    with open(os.path.join(scratch, "opened")) as file:
        assert file.read() == f"{os.path.realpath(trace)}.html"
    assert not result.stdout and result.stderr == f"dyntrace: opened {os.path.realpath(trace)}.html\n"


def test_wrong_words(dyntrace, scratch, program_path):
    trace = record(dyntrace, "-e", *CALLS, "--", program_path("calls"), 2, 1)
    assert dyntrace.fails("report", trace, "--html", "x", "--tree", status=2).startswith("report: --html: ")
    assert dyntrace.fails("report", trace, "--html", "/no/such/file").startswith("cannot write '/no/such/file': ")
    assert dyntrace.fails("report", "/no/such/trace", "--html", os.path.join(scratch, "x")).startswith("cannot open the trace ")
    assert not os.path.exists(os.path.join(scratch, "x")) and not [name for name in os.listdir(scratch) if name.startswith("x.")]
    assert dyntrace.fails("open", "/no/such/trace").startswith("cannot open the trace ")
