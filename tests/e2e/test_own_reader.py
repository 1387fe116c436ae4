"""Our own reader of our own traces: `view` prints byte for byte what it prints by libbabeltrace2, of all kinds of traces."""
import os
import shutil
import struct
import subprocess

import pytest

import own_reader
from harness import Trace
from test_values import compile_program

HEAD = 104  # bytes of a packet's head (ctf/metadata.h)
CALLS = [word for name in ("leaf", "mid", "rec", "top_") for word in ("--function", name)]


@pytest.fixture(name="compare")
def compare_both(dyntrace, scratch):
    def compare(trace, *choices):
        return own_reader.compare(dyntrace.path, trace, os.path.join(scratch, "copy"), *choices)
    return compare


def record(dyntrace, *words, **options):
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, *words, **options)
    return output


FILTERS = [["--filter", expression] for expression in
           ('$name == "leaf_*"', "n > 2 && n < 7", "ret < 0 || duration > 100", 'text == "in*"', "$tid != $pid", "$vtid == $tid",
            "nosuch == 1", "n >", "$packet_seq_num == 0")]


def test_it_is_used(dyntrace, scratch, program_path):
    trace = record(dyntrace, "-e", *CALLS, "--", program_path("calls"), 2, 1)
    assert own_reader.is_read_by_ourselves(dyntrace.path, trace)
    copy = own_reader.foreign_copy(trace, os.path.join(scratch, "copy"))
    assert not own_reader.is_read_by_ourselves(dyntrace.path, copy)


def test_calls(dyntrace, program_path, compare):
    trace = record(dyntrace, "-e", *CALLS, "--mode", "block", "--", program_path("calls"), 500, 3)
    status, printed, _ = compare(trace, *FILTERS)
    assert status == 0 and len(Trace(trace).events) == 3 * 500 * (1 + 1 + 3) * 2 + 2 * 3 * (125 * (1 + 2 + 3 + 4) + 125 * 6)


@pytest.mark.parametrize("words", [[], ["-e", "-t", "backtrace"], ["-t", "regs", "-t", "comm", "-t", "cpu"]], ids=" ".join)
@pytest.mark.parametrize("source", ["types.c", "results.c"])
def test_values(dyntrace, scratch, compare, source, words):
    path = compile_program(scratch, source, "-O1", name="values")
    compare(record(dyntrace, *words, "--function", "*@values", "--", path), ["--filter", "ret.b == -1 || ret == BLUE"],
            ["--filter", "ret.numbers[2] == 3"], ["--filter", 'ret.name == "a*"'])


EMPTY = """
__attribute__((noipa)) void say(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
int main(void) { for (int i = 0; i < 200; i++) say(i ? "" : "old"); return 0; }
"""


def test_empty_strings(dyntrace, scratch, compare):
    """libbabeltrace2 keeps the text of an earlier event there, and tells its length as 0."""
    path = os.path.join(scratch, "empty")
    subprocess.run(["gcc", "-O1", "-g", "-x", "c", "-", "-o", path], input=EMPTY, text=True, check=True)
    trace = record(dyntrace, "--function", "say", "--", path)
    status, printed, _ = compare(trace, ["--filter", 'text == ""'], ["--filter", 'text == "old"'])
    assert status == 0 and printed.count(b'text = ""') == 199 and printed.count(b'text = "old"') == 1


STATES = """
enum state { CLOSED, OPEN = 5, BROKEN = -1 };
enum other { RED, GREEN };
struct door { int n; struct { enum state state; enum other colours[2]; } at; };
__attribute__((noipa)) void see(struct door *door, enum other top) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(door), "r"(top)); }
int main(void)
{
	for (int i = 0; i < 60; i++) {
		struct door door = { i, { i % 3 == 0 ? OPEN : i % 3 == 1 ? BROKEN : CLOSED, { i & 1, !(i & 1) } } };
		see(&door, i % 5 == 0);
	}
	return 0;
}
"""


def test_enumerations(dyntrace, scratch, compare):
    """Labels of enumerations in structs are known, and can be compared as text; report --by shows them as trace --by does."""
    path = os.path.join(scratch, "states")
    subprocess.run(["gcc", "-O1", "-g", "-x", "c", "-", "-o", path], input=STATES, text=True, check=True)
    trace = record(dyntrace, "--function", "see", "-t", "var:*door", "--", path)
    counts = {"_door.at.state == OPEN": 20, '_door.at.state == "OPEN"': 20, '_door.at.state != "OPEN" && top == GREEN': 8, "_door.at.state == -1": 20,
              '_door.at.state == "*O*E*N"': 40, '"CLOSED" == _door.at.state': 20, 'top == "RED"': 48, "_door.at.state < CLOSED": 20}
    status, _, _ = compare(trace, *[["--filter", expression] for expression in counts])
    assert status == 0
    for expression, count in counts.items():
        assert dyntrace("view", "--filter", expression, trace).stdout.count("\n") == count, expression
    for key, member in (("_door.at.state", "door->at.state"), ("top", "top")):
        tables = [dyntrace("report", trace, "--by", key, "--csv").stdout,
                  dyntrace("trace", "--function", "see", "--tracer", "count", "--by", member, "--csv", "--", path).stdout]
        rows = [sorted(line.split(",")[:2] for line in table.splitlines()[1:]) for table in tables]
        assert rows[0] == rows[1] and len(rows[0]) == {"top": 2}.get(key, 3), rows


def test_a_label_with_two_values(dyntrace, scratch):
    """A name that means different numbers in two fields isn't guessed."""
    path = os.path.join(scratch, "labels")
    source = """
namespace a { enum class state { off, on }; }
namespace b { enum class state { on, off }; }
__attribute__((noipa)) void see(a::state one, b::state two) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(one), "r"(two)); }
int main() { see(a::state::on, b::state::on); see(a::state::on, b::state::off); }
"""
    subprocess.run(["g++", "-O1", "-g", "-x", "c++", "-", "-o", path], input=source, text=True, check=True)
    trace = record(dyntrace, "--function", "see", "--", path)
    for copy in (trace, own_reader.foreign_copy(trace, os.path.join(scratch, "copy"))):
        assert dyntrace("view", "--filter", "two == on", copy, status=2).stderr.startswith("dyntrace: view: --filter: 'on' is a label of several ")
        assert dyntrace("view", "--filter", 'two == "on"', copy).stdout.count("\n") == 1


def test_cpp(dyntrace, scratch, compare):
    path = compile_program(scratch, "throws.cpp", "-O1", compiler="g++", name="throws")
    compare(record(dyntrace, "-e", "--function", "*@throws", "--", path, status=None))


def test_losses(dyntrace, program_path, compare):
    """Threads that write faster than the reader reads, and many lanes."""
    trace = record(dyntrace, "-e", *CALLS, "--buffer-size", "1M", "--", program_path("calls"), 10000, 4)
    status, printed, _ = compare(trace)
    assert status == 0 and b"[lost " in printed


def test_overwritten(dyntrace, program_path, compare):
    compare(record(dyntrace, "-e", *CALLS, "--mode", "overwrite", "--buffer-size", "1M", "--", program_path("calls"), 5000, 3))


def test_forks(dyntrace, program_path, compare):
    compare(record(dyntrace, "--function", "foo", "--", program_path("forker"), "--children", 20, "--calls", 100))


def test_programs(dyntrace, program_path, compare):
    spin = program_path("spin")
    compare(record(dyntrace, "--follow-exec", "--function", "foo", "--", "sh", "-c",
                   f"{spin} --threads 2 --calls 300; {spin} --calls 40; exec {spin} --threads 3 --calls 100"))


def test_many_files(dyntrace, program_path, compare):
    """More threads at once than files are kept open."""
    compare(record(dyntrace, "--probe", "foo", "--", program_path("spin"), "--threads", 300, "--calls", 20))


def test_several_traces(dyntrace, scratch, program_path, compare):
    for name in ("b", "a", "deep/c"):
        os.makedirs(os.path.dirname(os.path.join(scratch, "all", name)), exist_ok=True)
        dyntrace("trace", "-o", os.path.join(scratch, "all", name), *CALLS, "--", program_path("calls"), 20, 2)
    compare(os.path.join(scratch, "all"))
    shutil.copytree(os.path.join(scratch, "all", "a"), os.path.join(scratch, "all", "twice"))
    compare(os.path.join(scratch, "all"))


# ---- damage ------------------------------------------------------------------------------------------

@pytest.fixture(name="plain")
def plain_trace(dyntrace, program_path):
    """Events without fields, of 8 bytes, in one packet."""
    trace = record(dyntrace, "--probe", "leaf", "--", program_path("calls"), 20, 1)
    assert sorted(os.listdir(trace)) == ["metadata", "stream_0"]
    return trace


def change(trace, at, data):
    with open(os.path.join(trace, "stream_0"), "r+b") as file:
        file.seek(at)
        file.write(data)


def test_unknown_event(dyntrace, plain):
    """(Z3) What comes before the damage is printed, and one sentence says that there was some."""
    whole = dyntrace("view", plain).stdout.splitlines()
    change(plain, HEAD + 8, b"\xff\xff\xff")
    status, printed, errors = own_reader.view(dyntrace.path, plain)
    assert (status, printed.decode().splitlines()) == (1, whole[:1])
    assert errors == b"dyntrace: the trace 'TRACE' is damaged: its reader stumbled after 1 event (all that it could read is " \
        b"printed; the rest needs another copy of the trace)\n"


def test_string_without_an_end(dyntrace, program_path):
    """(Z2, Z3) An event that goes on beyond its packet."""
    trace = record(dyntrace, "--function", "leaf", "--", program_path("calls"), 20, 1)
    size = os.path.getsize(os.path.join(trace, "stream_0"))
    change(trace, HEAD + 16, b"x" * (size - HEAD - 16))
    status, printed, errors = own_reader.view(dyntrace.path, trace)
    assert (status, printed) == (1, b"") and b"is damaged: its reader stumbled after 0 events" in errors


@pytest.mark.parametrize("field, is_ours", [("s64 _n[8];", True), ("s64 _n[9000];", False), ("struct {\n} _n[8];", False)],
                         ids=["array", "huge", "empty"])
def test_layouts_beyond_bounds_are_for_libbabeltrace2(dyntrace, program_path, field, is_ours):
    """(Z1, Z2) The smallest event fits, and elements have a size."""
    trace = record(dyntrace, "--function", "leaf", "--", program_path("calls"), 20, 1)
    path = os.path.join(trace, "metadata")
    with open(path) as file:
        text = file.read()
    assert text.count("s64 _n;") == 1
    with open(path, "w") as file:
        file.write(text.replace("s64 _n;", field))
    assert own_reader.is_read_by_ourselves(dyntrace.path, trace) == is_ours


@pytest.mark.parametrize("at, data", [(0, b"\0"), (20, b"\1"), (48, struct.pack("<Q", 1 << 62)), (40, struct.pack("<Q", 8))],
                         ids=["magic", "stream", "size", "content"])
def test_wrong_heads_are_for_libbabeltrace2(dyntrace, plain, compare, at, data):
    change(plain, at, data)
    status, _, _ = compare(plain)
    assert status == 1


def test_cut_short_meanwhile(dyntrace, program_path, scratch):
    """The file ends before its packets do, though it didn't when they were looked for."""
    trace = record(dyntrace, *CALLS, "--mode", "block", "--", program_path("calls"), 20000, 1)
    path = os.path.join(trace, "stream_0")
    reader, writer = os.pipe()
    with subprocess.Popen([dyntrace.path, "view", trace], stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        with open(reader, "rb") as pipe:
            first = pipe.readline()  # it has looked for the packets, and its pipe will be full
            os.truncate(path, os.path.getsize(path) // 2)
            rest = pipe.read()
        errors = process.stderr.read()
    assert process.returncode == 1 and b"is damaged: its reader stumbled after" in errors
    assert first.endswith(b"}\n") and rest.endswith(b"\n")
