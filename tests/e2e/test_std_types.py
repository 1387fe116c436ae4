"""C++: containers, optional values and pointers by their contents, as gdb's pretty printers show them; broken containers say so."""
import json
import os
import re
import subprocess

import pytest

from harness import compile_once
from test_count_keys import by_key

PROGRAMS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "programs")
FUNCTIONS = ["rows", "nested", "trees", "hashes", "maybes", "owned", "plain", "wide", "choices", "wide_texts", "several"]

# Every argument of every call, by gdb's own printers.
GDB = """
import gdb, json
def convert(value):
    kind = value.type.strip_typedefs()
    if kind.code in (gdb.TYPE_CODE_REF, gdb.TYPE_CODE_RVALUE_REF):
        value = value.referenced_value()
        kind = value.type.strip_typedefs()
    printer = gdb.default_visualizer(value)
    if printer:
        hint = getattr(printer, "display_hint", lambda: None)()
        if hint == "string":
            text = printer.to_string()
            if getattr(text, "length", 1) == 0:
                return ""
            return text.string() if isinstance(text, gdb.Value) else text.value().string(length=text.length) if hasattr(text, "length") else str(text)
        children = [convert(child) if isinstance(child, gdb.Value) else child for _, child in printer.children()]
        return [list(pair) for pair in zip(children[::2], children[1::2])] if hint == "map" else children
    if kind.code == gdb.TYPE_CODE_STRUCT:
        return {field.name: convert(value[field]) for field in kind.fields()}
    if kind.code == gdb.TYPE_CODE_ARRAY:
        low, high = kind.range()
        return [convert(value[i]) for i in range(low, high + 1)]
    if kind.code == gdb.TYPE_CODE_FLT:
        return float(value)
    if kind.code == gdb.TYPE_CODE_PTR:
        return "pointer"
    return str(value) if kind.sizeof == 16 else int(value)
class Look(gdb.Breakpoint):
    def stop(self):
        frame = gdb.selected_frame()
        found = [convert(frame.read_var(symbol)) for symbol in frame.block() if symbol.is_argument]
        print("LOOK " + json.dumps([self.location, found]))
        return False
gdb.execute("set confirm off")
gdb.execute("set print elements 0")
for name in %r:
    Look(name)
gdb.execute("run")
"""


@pytest.fixture(name="program")
def compile_program(scratch):
    return compile_once(["g++", "-g", "-O0", "-std=c++17", "-pthread", os.path.join(PROGRAMS, "std_types.cc")],
                        os.path.join(scratch, "program"))


def ask_gdb(program, scratch):
    script = os.path.join(scratch, "look.py")
    with open(script, "w") as file:
        file.write(GDB % FUNCTIONS)
    text = subprocess.run(["gdb", "-q", "-batch", "-x", script, program], check=True, capture_output=True, text=True).stdout
    calls = {name: [] for name in FUNCTIONS}
    for line in text.splitlines():
        if line.startswith("LOOK "):
            name, arguments = json.loads(line.removeprefix("LOOK "))
            calls[name].append(arguments)
    return calls


def bare(value):
    """The fields without lengths of lists."""
    if isinstance(value, dict):
        return {key: bare(member) for key, member in value.items() if not key.endswith("__length")}
    return [bare(element) for element in value] if isinstance(value, list) else value


def as_gdb(value):
    """A value of the trace, as gdb's printers see it: containers are lists."""
    if isinstance(value, list):
        return [as_gdb(element) for element in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"size", "elements"}:
        return as_gdb(value["elements"])
    if "value" in value and set(value) <= {"has_value", "value", "address", "use_count"}:
        return as_gdb(value["value"])
    if {"index", "value_0"} <= set(value):
        held = [as_gdb(one) for key, ones in value.items() if key != "index" for one in ones]
        return held[0] if held and isinstance(held[0], list) else held  # a container's elements are the variant's
    if set(value) == {str(i) for i in range(len(value))}:  # a tuple
        return [as_gdb(value[str(i)]) for i in range(len(value))]
    if set(value) == {"first", "second"}:
        return [as_gdb(value["first"]), as_gdb(value["second"])]
    return {key: as_gdb(member) for key, member in value.items()}


def is_equal(ours, theirs):
    """Lists of ours have 16 elements at most. A pointer of gdb's is what a smart pointer has in it, or an address."""
    if theirs == "pointer" or theirs == ["pointer"] or (theirs == [] and ours == []):
        return isinstance(ours, (int, list))
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == min(len(theirs), 16) and all(map(is_equal, ours, theirs))
    if isinstance(theirs, dict) and isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(is_equal(ours[key], theirs[key]) for key in ours)
    return ours == theirs or isinstance(theirs, float) and abs(ours - theirs) < 1e-6


def elements(*values):
    return {"size": len(values), "elements": list(values)}


def test_as_gdb_shows_them(dyntrace, scratch, program):
    """Vectors, also of bits, of texts, of vectors; maps, sets, lists, deques; optional values, pointers, wide numbers, registers."""
    words = [word for name in FUNCTIONS + ["result"] for word in ("--function", name)]
    _, trace = dyntrace.trace("-e", *words, "--", program)
    calls = ask_gdb(program, scratch)
    assert sum(map(len, calls.values())) == 17
    for name in FUNCTIONS:
        events = [{key: value for key, value in bare(event.fields).items() if key != "unreadable"}
                  for event in trace.named(name + "_entry")]
        assert len(events) == len(calls[name]), name
        for event, call in zip(events, calls[name]):
            for (argument, ours), theirs in zip(event.items(), call):
                if name == "rows" and argument == "texts" and len(theirs) == 16:
                    continue  # below
                assert is_equal(as_gdb(ours), theirs), (name, argument, ours, theirs)
    assert trace.lost == 0 and not any(event.fields.get("unreadable") for event in trace.events)
    # and what gdb doesn't tell so
    rows = [bare(event.fields) for event in trace.named("rows_entry")]
    assert rows[1]["ints"] == {"size": 100, "elements": [i * i for i in range(16)]}
    assert rows[2]["texts"]["size"] == 16 and 8 < len(rows[2]["texts"]["elements"]) < 16
    assert set(rows[2]["texts"]["elements"]) == {"x" * 64 + "..."}
    owned, = [bare(event.fields) for event in trace.named("owned_entry")]
    assert owned["shared"]["use_count"] == 2 and owned["unique"]["value"] == [{"x": 8, "y": 9}] and owned["number"]["value"] == [42]
    assert owned["empty"] == {"address": 0, "use_count": 0, "value": []}
    assert owned["shared"]["value"][0]["numbers"] == elements(4, 5)
    assert [bare(event.fields)["ret"] for event in trace.named("result_exit")] == [elements(7, 7, 7)]


def test_variants(dyntrace, program):
    """Each alternative is a list with one value or none; without a value the index is -1; an index that none has is said (Y8)."""
    _, trace = dyntrace.trace("--function", "choices", "--function", "valueless", "--", program)
    first, second, last = [bare(event.fields) for event in trace.events]
    assert first["other"] == {"index": 1, "value_0": [], "value_1": ["text"], "value_2": [], "value_3": []}
    assert second["one"]["value_2"] == [elements(8, 9)] and second["other"]["value_3"] == [{"x": 1, "y": -1}]
    assert [one["index"] for one in first["row"]["elements"]] == [0, 1, 2, 3]
    assert last["choice"] == {"index": -1, "value_0": [], "value_1": []}
    assert not any(event.fields.get("unreadable") for event in trace.events)
    _, trace = dyntrace.trace("--function", "odd", "--", program, "x")
    assert bare(trace.events[0].fields) == {"choice": {"index": 77, **{f"value_{i}": [] for i in range(4)}}, "unreadable": "choice"}


def without_addresses(value):
    """Addresses differ from run to run."""
    if isinstance(value, dict):
        return {key: without_addresses(member) for key, member in value.items() if key not in ("address", "next", "pointer")}
    return [without_addresses(element) for element in value] if isinstance(value, list) else value


@pytest.mark.skipif(not os.path.exists("/usr/lib/llvm-14/include/c++/v1/vector"), reason="no libc++-14-dev")
def test_libcxx(dyntrace, scratch, program):
    """The same program with LLVM's library has the same values."""
    other = compile_once(["clang++-14", "-w", "-stdlib=libc++", "-fstandalone-debug", "-g", "-O0", "-std=c++17", "-pthread",
                          os.path.join(PROGRAMS, "std_types.cc")], os.path.join(scratch, "libcxx"))
    functions = [name for name in FUNCTIONS if name != "wide"]
    words = [word for name in functions + ["result"] for word in ("--function", name)]
    traces = [dyntrace.trace("-e", *words, "--", path)[1] for path in (program, other)]
    told, found = [[(event.name, without_addresses(bare(event.fields))) for event in trace.events
                    if event.name.endswith("_entry") or event.name == "result_exit"] for trace in traces]
    assert len(found) == len(told) == 17 and not any(fields.get("unreadable") for _, fields in found)
    for (name, ours), (same, theirs) in zip(found, told):
        for fields in (ours, theirs):
            fields.pop("duration", None)
            if "array" in fields:
                fields["array"] = list(fields["array"].values())  # whose member has another name
            if "texts" in fields and fields["texts"]["size"] == 16:
                del fields["texts"]["elements"]  # as many as there is room for beside the others
        assert (name, ours) == (same, theirs)
    result, trace = dyntrace.trace("--deref", "1", "--function", "broken", "--function", "lost", "--function", "watched", "--", other, "x")
    assert result.returncode == 0 and trace.lost == 0
    for call in trace.named("broken_entry"):
        assert bare(call.fields)["numbers"] == elements() and bare(call.fields)["list"]["elements"] == []
        assert call.fields["unreadable"] == "numbers, list"
    lost, = trace.named("lost_entry")
    assert lost.fields["unreadable"] == "maybe, shared, object, pointer, deque"


def test_as_keys(dyntrace, program):
    """Containers as keys of counts: one row for each of their contents, written as in a line."""
    def rows(*words):
        return by_key(json.loads(dyntrace("trace", "--json", "--tracer", "count", *words, "--", program).stdout))
    assert rows("--function", "rows", "--by", "ints") == {
        "{ size = 3, elements = [ 1, -2, 3 ] }": 1, "{ size = 0, elements = [] }": 1,
        "{ size = 100, elements = [ %s ] }" % ", ".join(str(i * i) for i in range(16)): 1}
    assert rows("--function", "trees", "--by", "map,map._M_t._M_impl._M_node_count") == {
        ('{ size = 3, elements = [ { first = "a", second = 1 }, { first = "b", second = 2 }, { first = "c", second = 3 } ] }', 3): 1}
    assert rows("-e", "--function", "result", "--by", "ret") == {"{ size = 3, elements = [ 7, 7, 7 ] }": 1}
    assert rows("--function", "maybes", "--by", "number") == {"{ has_value = true (1), value = [ 5 ] }": 1}


def told(lines, name):
    """The lines of an event, without what differs from run to run."""
    return [re.sub(r"0x[0-9a-f]+", "0x", line.partition(f" {name}_entry ")[2]) for line in lines.splitlines() if f" {name}_entry " in line]


def test_lines_at_the_hit(dyntrace, program):
    """log --sync writes containers as log does, in each other and empty ones, too; what doesn't fit into a line is cut."""
    words = [word for name in FUNCTIONS for word in ("--function", name)]
    plain, sync = [dyntrace("trace", "-q", "--tracer", "log", *mode, *words, "--", program).stdout for mode in ([], ["--sync"])]
    for name in FUNCTIONS:
        assert told(plain, name) and told(plain, name) == told(sync, name)
    assert "nested_entry { rows = { size = 3, elements = [ { size = 2, elements = [ 1, 2 ] }, { size = 0, elements = [] }, " in sync
    broken = dyntrace("trace", "-q", "--tracer", "log", "--sync", "--function", "broken", "--function", "watched", "--", program, "x").stdout
    assert len([line for line in told(broken, "broken") if 'unreadable = "numbers' in line]) == 5 and broken.count("watched_entry { numbers = { size = ") == 2000


def test_what_other_tracers_have_not(dyntrace, program, scratch):
    """Functions of the user's get members: said once."""
    library = os.path.join(scratch, "probes.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-I", os.path.join(PROGRAMS, "..", "..", "include"), "-x", "c", "-", "-o", library], check=True,
                   text=True, input="#include <dyntrace/probe.h>\nDYNTRACE_PROBE(on_hit) { (void)hit; }\n")
    result = dyntrace("trace", "-q", "--tracer", f"call:{library}:on_hit", "--function", "rows", "--", program)
    assert result.stderr == "dyntrace: tracer call: of a vector only the members are there, not the elements (all other tracers record them)\n"


def test_lines(dyntrace, program):
    """As text and as JSON, of a trace and of a log."""
    output = dyntrace.new_output()
    dyntrace.trace("--function", "plain", "--function", "maybes", "--function", "trees", "--", program, output=output)
    text = dyntrace("view", output).stdout
    assert "letter = 'x' (120), object = { x = 5, y = 6 }, pointer = 0x" in text and "letter = '\\n' (10)" in text
    assert "maybes_entry { number = { has_value = true (1), value = [ 5 ] }, text = { has_value = true (1), value = [ \"text\" ] }, " \
        "none = { has_value = false (0), value = [] } }" in text
    trees, = [json.loads(line)["fields"] for line in dyntrace("view", "--json", output).stdout.splitlines() if "trees_entry" in line]
    assert trees["map"] == elements(*({"first": name, "second": i + 1} for i, name in enumerate("abc")))
    log = dyntrace("trace", "-q", "--tracer", "log", "--function", "trees", "--", program).stdout
    assert "map = { size = 3, elements = [ { first = \"a\", second = 1 }, { first = \"b\", second = 2 }, " in log
    judge = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    assert """letter = ( "\\'x\\'" : container = 120 )""" in judge


def test_deref(dyntrace, program):
    """Pointers to structs, as many levels as wanted; null pointers have nothing behind them."""
    for levels in range(4):
        _, trace = dyntrace.trace("--deref", levels, "--function", "plain", "--", program)
        first = bare(trace.events[0].fields)
        pointer = first["pointer"]
        for level in range(levels):
            if level == 2:
                assert pointer == {"address": 0, "value": []}
                break
            assert pointer["address"] and pointer["value"][0]["id"] == level + 1
            assert pointer["value"][0]["name"] == ["first", "second"][level]
            pointer = pointer["value"][0]["next"]
        else:
            assert isinstance(pointer, int)
        assert first["none"] == ({"address": 0, "value": []} if levels else 0) and not first["unreadable"]
    assert dyntrace.fails("trace", "--deref", "4", "--function", "plain", "--", program, status=2) == "trace: --deref: from 0 to 3"


def test_deref_beside_a_bad_pointer(dyntrace, scratch):
    """A struct that can be read stays, whatever a pointer in it leads to (a union's other member, say); the argument is listed."""
    source = """#include <vector>
struct leaf { int a; };
struct node { int kind; union { leaf *below; long number; }; std::vector<leaf *> row; int after; };
__attribute__((noinline)) void take(node *one, const std::vector<node> &many) { __asm__ volatile("" : : "r"(one), "r"(&many) : "memory"); }
int main()
{
	leaf good{ 4 };
	std::vector<node> many(2);
	many[0] = { 1, { &good }, { &good, (leaf *)4096, &good }, 7 };
	many[1].number = 5;
	many[1].after = 8;
	take(&many[0], many);
	take(&many[1], many);
}"""
    path = os.path.join(scratch, "union")
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-o", path, "-x", "c++", "-"], input=source, text=True, check=True)
    _, trace = dyntrace.trace("--function", "take", "--deref", "2", "--", path)
    first, second = [bare(event.fields) for event in trace.events]
    assert [(one["kind"], one["below"]["value"], one["after"]) for one in first["one"]["value"]] == [(1, [{"a": 4}], 7)]
    assert [(one["kind"], one["below"], one["after"]) for one in second["one"]["value"]] == [(0, {"address": 5, "value": []}, 8)]
    for call in (first, second):
        assert [(one["below"]["value"], one["after"]) for one in call["many"]["elements"]] == [([{"a": 4}], 7), ([], 8)]
        assert [one["value"] for one in call["many"]["elements"][0]["row"]["elements"]] == [[{"a": 4}], [], [{"a": 4}]]
    assert (first["unreadable"], second["unreadable"]) == ("one, many", "one, many")


def test_wrong_sizes(dyntrace, program):
    """(Y7) A list and a tree whose size is more than their nodes: the head is no element. (Y6) A vector that ends behind its memory."""
    _, trace = dyntrace.trace("--function", "too_short", "--function", "too_long", "--", program, "x")
    call, long_one = [bare(event.fields) for event in trace.events]
    assert long_one == {"numbers": elements(), "unreadable": "numbers"}
    assert call["list"]["elements"][:2] == [1, 2] and call["map"]["elements"][:2] == [{"first": 1, "second": 2}, {"first": 3, "second": 4}]
    assert call["unreadable"] == "list, map" and len(call["list"]["elements"]) == len(call["map"]["elements"]) == 2


def test_broken_containers(dyntrace, program):
    """What makes no sense (Y5, Y6, Y8), or can't be read, has no elements and is listed; the program doesn't notice."""
    result, trace = dyntrace.trace("--deref", "1", "--function", "broken", "--function", "lost", "--function", "watched", "--", program, "x")
    assert result.returncode == 0 and trace.lost == 0
    broken = [bare(event.fields) for event in trace.named("broken_entry")]
    # a circle of one node: the first element is right, and that there are three of them is not
    assert [call["unreadable"] for call in broken] == ["numbers, map, list", "numbers, list", "numbers", "numbers", "numbers"]
    for call in broken:
        assert call["numbers"]["elements"] == [] and call["map"]["size"] == 3
    assert [call["numbers"]["size"] for call in broken] == [4, 0, 0, 0, 0]
    assert broken[0]["map"]["elements"] == broken[0]["list"]["elements"] == broken[1]["list"]["elements"] == []
    lost, = [bare(event.fields) for event in trace.named("lost_entry")]
    assert lost["unreadable"] == "maybe, shared, object, pointer, deque"
    assert lost["maybe"]["value"] == lost["shared"]["value"] == lost["pointer"]["value"] == lost["deque"]["elements"] == []
    assert (lost["shared"]["address"], lost["pointer"]["address"]) == (0x50, 0x80)
    watched = [bare(event.fields) for event in trace.named("watched_entry")]
    assert len(watched) == 2000 and all(len(call["numbers"]["elements"]) <= 16 for call in watched)


INSIDE = """
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
struct node { int id; std::string label; std::unique_ptr<node> next; std::shared_ptr<node> other; };
#define SEE(one) __asm__ volatile("" : : "r"(&one) : "memory")
#define TAKE extern "C" __attribute__((noinline)) void
TAKE own(std::unique_ptr<node> one, const std::shared_ptr<node> &two, node *three, std::unique_ptr<int[]> four, std::vector<std::unique_ptr<node>> *five)
{ SEE(one); SEE(two); SEE(*three); SEE(four); SEE(*five); }
TAKE may(std::optional<int> number, const std::optional<node> &maybe) { SEE(number); SEE(maybe); }
TAKE hold(const std::vector<std::string> &texts, const std::map<int, int> &map, std::string *text, const std::vector<int> &none)
{ SEE(texts); SEE(map); SEE(*text); SEE(none); }
static std::unique_ptr<node> make(int id, const char *label) { return std::unique_ptr<node>(new node{ id, label, nullptr, nullptr }); }
int main()
{
	auto two = std::make_shared<node>();
	std::vector<std::unique_ptr<node>> row;
	std::map<int, int> map{ { 1, 2 }, { 3, 4 } };
	std::vector<std::string> texts{ "one", "two, on the heap, since it is long", "three" };
	node first{ 1, "first", make(2, "second"), two };
	two->label = "shared";
	two->id = 3;
	row.push_back(make(4, "in a row"));
	own(make(5, "own"), two, &first, std::unique_ptr<int[]>(new int[2]{ 6, 7 }), &row);
	own(nullptr, nullptr, &first, nullptr, &row);
	may(8, node{ 9, "maybe", nullptr, nullptr });
	may(0, {});
	may({}, {});
	hold(texts, map, &texts[1], {});
}"""


@pytest.mark.parametrize("compiler", [["g++"], ["clang++-14"], ["clang++-14", "-stdlib=libc++"]])
def test_expressions(dyntrace, scratch, compiler):
    """Smart pointers and optional values are followed as in C++, elements have numbers, and a container has a size, by its name in events."""
    if "-stdlib=libc++" in compiler and not os.path.exists("/usr/lib/llvm-14/include/c++/v1/vector"):
        pytest.skip("no libc++-14-dev")
    path = os.path.join(scratch, "inside")
    subprocess.run([*compiler, "-g", "-O1", "-std=c++17", "-o", path, "-x", "c++", "-"], input=INSIDE, text=True, check=True)

    def values(function, *names):
        _, trace = dyntrace.trace("--function", function, *[word for name in names for word in ("-t", "var:" + name)], "--", path)
        return [list(bare(event.fields).values())[-len(names) - 1:-1] + [event.fields["unreadable"]] for event in trace.events]
    own = values("own", "one->id", "two->label", "three->next->label", "three.other.id", "four[1]", "(*five)[0]->id", "five->size")
    assert own == [[5, "shared", "second", 3, 7, 4, 1, ""], [0, "(unreadable)", "second", 3, 0, 4, 1, "one->id, four[1]"]]
    assert values("may", "*number", "number.value", "number.has_value", "maybe->label") == [
        [8, 8, 1, "maybe", ""], [0, 0, 1, "(unreadable)", ""], [0, 0, 0, "(unreadable)", "*number, number.value"]]
    assert values("hold", "texts[1]", "texts[3]", "texts.size", "map.size", "text->size", "none.size", "none[0]") == [
        ["two, on the heap, since it is long", "(unreadable)", 3, 2, 34, 0, 0, "none[0]"]]

    def calls(function, condition):
        return len(dyntrace.trace("--function", function, "--filter", condition, "--", path)[1].events)
    assert [calls("own", condition) for condition in ("one", "!one", "one == NULL", "two && two->id == 3", 'one->label == "own"')] == [1] * 5
    assert calls("may", "*number == 0") == 2 and calls("may", "number.has_value && *number == 0") == 1
    assert calls("may", "*number == 8 || maybe->id == 9") == 1 and calls("may", 'maybe->label != "maybe"') == 2
    assert calls("hold", 'texts.size == 3 && texts[2] == "t*"') == 1 and calls("hold", "texts.size < 3") == 0
    error = dyntrace("trace", "--function", "hold", "-t", "var:map[1]", "--", path, status=2).stderr
    assert error == "dyntrace: trace: hold: -t var: not a pointer, and no elements in a row\n  map[1]\n     ^\n"


@pytest.mark.skipif(not os.path.exists("/usr/lib/llvm-14/include/c++/v1/vector"), reason="no libc++-14-dev")
def test_shared_ptr_of_a_declared_type(dyntrace, scratch):
    """By default clang leaves out what the library itself describes: the owners of a shared_ptr are counted all the same."""
    path = os.path.join(scratch, "inside")
    subprocess.run(["clang++-14", "-stdlib=libc++", "-g", "-O1", "-std=c++17", "-o", path, "-x", "c++", "-"], input=INSIDE, text=True, check=True)
    _, trace = dyntrace.trace("--function", "own", "--", path)
    shared = [bare(event.fields)["two"] for event in trace.events]
    assert [(two["use_count"], [one["label"] for one in two["value"]]) for two in shared] == [(2, ["shared"]), (0, [])]


@pytest.mark.parametrize("slow", [False, True])
def test_text_that_is_not_there(dyntrace, scratch, slow):
    """A std::string or a view whose own words can't be read isn't an empty one; where SIGBUS is ignored, nothing is read by plain loads."""
    source = """#include <csignal>
#include <string>
#include <string_view>
struct node { long id; std::string name; std::u16string wide; std::string_view part; };
extern "C" __attribute__((noinline, noclone)) void visit(struct node *node) { __asm__ volatile("" : : "r"(node) : "memory"); }
int main(int argc, char **)
{
	struct node empty, full = { 1, "full", u"wide", "part" };
	if (argc > 1) signal(SIGBUS, SIG_IGN);
	for (int i = 0; i < 3; i++) { visit(NULL); visit((struct node *)4096); visit(&empty); visit(&full); }
}"""
    path = os.path.join(scratch, "absent")
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-o", path, "-x", "c++", "-"], input=source, text=True, check=True)
    members = [word for name in ("name", "wide", "part") for word in ("-t", f"node->{name}")]
    _, trace = dyntrace.trace("--function", "visit", *members, "--", path, *(["slow"] if slow else []))
    bad = "(unreadable)"  # no address: nobody knows where the text would be
    assert [list(event.fields.values())[1:4] for event in trace.events] == [[bad] * 3, [bad] * 3, [""] * 3, ["full", "wide", "part"]] * 3


def test_half_a_pair(dyntrace, scratch):
    """Half a pair of surrogates stays where it is: before a NUL, at the end, and before memory that can't be read."""
    source = """#include <cstring>
#include <string>
#include <sys/mman.h>
__attribute__((noinline)) void take(const std::u16string &text, const char16_t *open) { __asm__ volatile("" : : "r"(&text), "r"(open) : "memory"); }
int main()
{
	char *pages = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	static const char16_t end[] = { 'a', 0xd83d };
	munmap(pages + 4096, 4096);
	char16_t *open = (char16_t *)memcpy(pages + 4096 - sizeof(end), end, sizeof(end));
	take({ 'a', 0xd83d, 0, 'b' }, open);
	take({ 0xd83d, 0, 0xde00 }, open + 1);
	take({ 0, 0xd83d }, u"");
}"""
    path = os.path.join(scratch, "halves")
    subprocess.run(["g++", "-std=c++17", "-g", "-O1", "-o", path, "-x", "c++", "-"], input=source, text=True, check=True)
    _, trace = dyntrace.trace("--function", "take", "--", path)
    assert [tuple(event.fields.values()) for event in trace.events] == [
        (r"a\xd83d\x00b", r"a\xd83d(unreadable)"), (r"\xd83d\x00\xde00", r"\xd83d(unreadable)"), (r"\x00\xd83d", "")]
