"""Rust: structs, enumerations with values in them and text, by value and as results, though its ABI is written nowhere."""
import json
import os
import re
import shutil
import subprocess

import pytest

from test_names import right_or_gone

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

def elements(*values):
    return {"size": len(values), "elements": list(values)}


ANN = {"name": "ann", "age": 30}
THREE = {"a": 2, "b": 3, "c": 4}
# name: [(arguments, result)]; None: not looked at
EXPECTED = {
    "three": [({"z": 1, "t": THREE, "y": 5}, 9)],
    "threef": [({"z": 1, "t": {"a": 2.5, "b": 3.5, "c": 4.5}, "y": 5}, 10.5)],
    "fourb": [({"z": 1, "t": {"a": 2, "b": 3, "c": 4, "d": 6}, "y": 5}, 11)],
    "mixed": [({"z": 1, "t": {"a": 2, "b": 3, "c": 4.5}, "y": 5}, 9)],
    "big": [({"z": 1, "t": THREE, "y": 5}, {"a": 3, "b": 3, "c": 4})],
    "shape": [({"s": {"variant": "Circle", "Circle": {"__0": 1.5}, "Rect": {"w": 0, "h": 0}}, "y": 1}, 1.5),
              ({"s": {"variant": "Rect", "Circle": {"__0": 0}, "Rect": {"w": 2, "h": 3}}, "y": 2}, 6),
              ({"s": {"variant": "Empty", "Circle": {"__0": 0}, "Rect": {"w": 0, "h": 0}}, "y": 3}, 0)],
    "niche": [({"a": {"variant": "Nothing", "Code": {"__0": 0}, "Named": {"name": "(null)", "n": 0}}, "b": {"variant": "Sure", "Sure": {"__0": 1}},
                "c": {"variant": "High"}, "y": 1}, 2001),
              ({"a": {"variant": "Code", "Code": {"__0": 7}, "Named": {"name": "(null)", "n": 0}}, "b": {"variant": "Never", "Sure": {"__0": 0}},
                "c": {"variant": "Low"}, "y": 2}, 1107),
              ({"a": {"variant": "Named", "Code": {"__0": 0}, "Named": {"name": "ann", "n": -5}}, "b": {"variant": "Unknown", "Sure": {"__0": 0}},
                "c": {"variant": "Text", "Text": {"__0": {"value": [8]}, "__1": 1}}, "y": 3}, 207)],
    "color": [({"c": 0, "y": 1}, 0), ({"c": 200, "y": 2}, 200), ({"c": 201, "y": 3}, 201)],
    "opts": [({"a": "opt", "b": {"variant": "Some", "Some": {"__0": 7}}, "y": 1}, {"variant": "Some", "Some": {"__0": 19}}),
             ({"a": "(null)", "b": {"variant": "None", "Some": {"__0": 0}}, "c": {"variant": "None", "Some": {"__0": {"address": 0, "value": []}}}, "y": 2},
              {"variant": "None", "Some": {"__0": 0}})],
    "vecs": [({"a": "AB", "b": elements(1, 2, 3), "c": elements(4, 5), "d": "C", "e": "\x01\x02", "y": 1}, "AB\x08")],
    "strs": [({"a": "owned", "b": "byref", "c": "mutable", "d": "slice", "y": 1}, "ownedbyrefmutablesliceboxed")],
    "prims": [({"a": str((5 << 64) + 3), "b": 228, "c": 1, "d": 1.5, "e": -3, "f": 99, "g": [1, 2, 3, 4], "h": {"__0": 11, "__1": 12}, "y": 1},
               {"__0": 239, "__1": 114})],
    "refs": [({"p": ANN, "q": {"value": [{"name": "bob", "age": 1}]}, "r": {"value": [{"value": {"name": "cy", "age": 2}}]}, "y": 1}, {"variant": "Ok", "Ok": {"__0": 34}, "Err": {"__0": "(null)"}}),
             ({"y": 0}, {"variant": "Err", "Ok": {"__0": 0}, "Err": {"__0": "ann"}})],
    "unit": [({"y": 1}, {"variant": "Err", "Err": {"__0": 1}}), ({"y": 9}, {"variant": "Ok", "Err": {"__0": 0}})],
    "maps": [({"a": {"size": 2, "elements": None}, "b": {"size": 3, "elements": None}, "y": 1}, 5)],
    "rthree": [({"z": 5}, {"a": 5, "b": 6, "c": 7})],
    "rarray": [({"z": 6}, [6] * 12)],
    "rsmall": [({"z": 7}, [7] * 5)],
}


VARIANT = re.compile(r'\bvariant = \( "([^"]+)" : container = ')


def name_variants(fields, names):
    """Puts the names of variants where their numbers are, which depend on the compiler's layout."""
    for key, value in fields.items():
        if key == "variant":
            fields[key] = next(names)
        elif isinstance(value, dict):
            name_variants(value, names)


def put_names(trace, path):
    """Names all variants of a trace, as babeltrace2 prints them."""
    shown = subprocess.run(["babeltrace2", path], check=True, capture_output=True, text=True).stdout
    names = iter(VARIANT.findall(shown))
    for event in trace.events:
        name_variants(event.fields, names)
    assert not list(names)


def fits(found, expected, may_be_gone):
    if expected is None:
        return True
    if isinstance(expected, dict) and isinstance(found, dict):
        return all(fits(found[key], value, may_be_gone) for key, value in expected.items() if key in found or not may_be_gone)
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return all(fits(one, value, may_be_gone) for one, value in zip(found, expected))
    return right_or_gone(found, expected) if may_be_gone else found == expected


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_types(dyntrace, scratch, flags):
    """Optimised-away values are marked: no number is made up."""
    path = os.path.join(scratch, "rust_types")
    subprocess.run(["rustc", "-g", *flags, "-A", "warnings", "-o", path, os.path.join(ROOT, "tests", "programs", "rust_types.rs")],
                   check=True, capture_output=True)
    output = dyntrace.new_output()
    _, trace = dyntrace.trace("-e", *[word for name in EXPECTED for word in ("--function", "rust_types::" + name)], "--", path, output=output)
    put_names(trace, output)
    for name, calls in EXPECTED.items():
        entries = [event.fields for event in trace.named(f"rust_types::{name}_entry")]
        exits = [event.fields for event in trace.named(f"rust_types::{name}_exit")]
        assert len(entries) == len(exits) == len(calls), name
        for entry, leave, (arguments, result) in zip(entries, exits, calls):
            assert fits(entry, arguments, bool(flags)), (name, entry)
            assert fits(leave["ret"], result, bool(flags)), (name, leave)


# Every argument of every call, by the printers that come with the compiler, for gdb.
GDB = """
import gdb, json, sys
sys.path.insert(0, %r)
gdb.current_objfile = lambda: gdb.objfiles()[0]  # they register themselves for the one that is loaded
import gdb_load_rust_pretty_printers
def text_of(text):
    return text.string() if isinstance(text, gdb.Value) else text.value().string(length=text.length) if hasattr(text, "length") else str(text)
def convert(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR and kind.target().code == gdb.TYPE_CODE_STRUCT and not gdb.default_visualizer(value):
        value = value.dereference()
        kind = value.type.strip_typedefs()
    printer = gdb.default_visualizer(value)
    if printer:
        if printer.display_hint() == "string" if hasattr(printer, "display_hint") else False:
            return text_of(printer.to_string())
        return [convert(child) if isinstance(child, gdb.Value) else child for _, child in printer.children()]
    if kind.code == gdb.TYPE_CODE_STRUCT:
        return {field.name: convert(value[field]) for field in kind.fields() if field.name}
    if kind.code == gdb.TYPE_CODE_PTR:
        return None
    return float(value) if kind.code == gdb.TYPE_CODE_FLT else int(value)
class Look(gdb.Breakpoint):
    def stop(self):
        found = {}
        for symbol in gdb.selected_frame().block():
            if symbol.is_argument:
                try:
                    found[symbol.name] = convert(gdb.selected_frame().read_var(symbol))
                except gdb.error:
                    pass  # what gdb can't tell
        print("LOOK " + json.dumps([self.location, found]))
        return False
gdb.execute("set confirm off")
for name in %r:
    Look("rust_types::" + name)
gdb.execute("run")
"""
LOOKED_AT = ["shape", "niche", "opts", "vecs", "strs", "refs"]


def is_as_gdb_shows(ours, theirs):
    """None: an address, or nothing that gdb tells."""
    if theirs is None or isinstance(theirs, dict) and {"data_ptr", "pointer"} & set(theirs):
        return True
    if isinstance(theirs, dict) and isinstance(ours, str):  # an optional text
        return theirs == ({"None": {}} if ours == "(null)" else {"Some": {"__0": ours}})
    if isinstance(theirs, dict) and "variant" in ours:
        return all(name == ours["variant"] and is_as_gdb_shows(ours.get(name, {}), value) for name, value in theirs.items())
    if isinstance(theirs, dict) and "address" in ours:  # a box
        return is_as_gdb_shows(ours["value"][0], theirs)
    if isinstance(theirs, dict):
        return all(is_as_gdb_shows(ours[name], value) for name, value in theirs.items())
    if isinstance(theirs, list) and isinstance(ours, str):  # bytes
        return list(ours.encode()) == theirs
    if isinstance(theirs, list) and "address" in ours:  # a counted box: its value, and how many share it
        held = ours["value"][0]
        return is_as_gdb_shows(held["value"], theirs[0]) and held["strong"]["value"]["value"] == theirs[1]
    if isinstance(theirs, list):
        return len(ours["elements"]) == len(theirs) and all(map(is_as_gdb_shows, ours["elements"], theirs))
    return ours == theirs


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
def test_as_gdb_shows_them(dyntrace, scratch):
    """Texts, vectors, slices, optional values, enumerations with values, boxes: by the compiler's own printers."""
    path, script, output = os.path.join(scratch, "rust_types"), os.path.join(scratch, "look.py"), dyntrace.new_output()
    subprocess.run(["rustc", "-g", "-A", "warnings", "-o", path, os.path.join(ROOT, "tests", "programs", "rust_types.rs")],
                   check=True, capture_output=True)
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    with open(script, "w") as file:
        file.write(GDB % (os.path.join(sysroot, "lib", "rustlib", "etc"), LOOKED_AT))
    shown = subprocess.run(["gdb", "-q", "-batch", "-x", script, path], capture_output=True, text=True)
    calls = [json.loads(line.removeprefix("LOOK ")) for line in shown.stdout.splitlines() if line.startswith("LOOK ")]
    assert len(calls) == 12 and sum(len(found) for _, found in calls) >= 44, shown.stdout + shown.stderr
    _, trace = dyntrace.trace(*[word for name in LOOKED_AT for word in ("--function", "rust_types::" + name)], "--", path, output=output)
    put_names(trace, output)
    assert [event.name for event in trace.events] == [name + "_entry" for name, _ in calls]
    for event, (name, found) in zip(trace.events, calls):
        for argument, theirs in found.items():
            assert is_as_gdb_shows(event.fields[argument], theirs), (name, argument, event.fields[argument], theirs)


# The arguments of one call, in a process that is there already: tables have another order in each.
GDB_ATTACHED = """
import gdb, json, sys
sys.path.insert(0, %r)
gdb.current_objfile = lambda: gdb.objfiles()[0]
import gdb_load_rust_pretty_printers
def convert(value):
    kind = value.type.strip_typedefs()
    if kind.code == gdb.TYPE_CODE_PTR and not gdb.default_visualizer(value):
        value = value.dereference()
        kind = value.type.strip_typedefs()
    printer = gdb.default_visualizer(value)
    if printer and getattr(printer, "display_hint", lambda: None)() == "string":
        text = printer.to_string()
        return text.string() if isinstance(text, gdb.Value) else text.value().string(length=text.length)
    if printer and printer.display_hint() == "map":
        children = [convert(child) for _, child in printer.children()]
        return [{"key": key, "value": value} for key, value in zip(children[::2], children[1::2])]
    if printer and printer.display_hint() == "array":
        return [convert(child) for _, child in printer.children()]
    if kind.code == gdb.TYPE_CODE_STRUCT:
        return {field.name: convert(value[field]) for field in kind.fields() if field.name}
    if kind.code == gdb.TYPE_CODE_ARRAY:
        return [convert(value[i]) for i in range(kind.range()[1] + 1)]
    return float(value) if kind.code == gdb.TYPE_CODE_FLT else int(value)
gdb.execute("set confirm off")
for name in %r:
    gdb.execute("break rust_maps::" + name)
print("ATTACHED", flush=True)
for name in %r:
    gdb.execute("continue", to_string=True)
    found = {symbol.name: convert(gdb.selected_frame().read_var(symbol)) for symbol in gdb.selected_frame().block() if symbol.is_argument}
    print("LOOK " + json.dumps([name, found]), flush=True)
"""
MAPS = ["hashes", "trees", "rings", "nested"]
RUSTCS = sorted({path for path in (shutil.which("rustc"), "/usr/bin/rustc") if path and os.path.exists(path)})


@pytest.fixture(name="maps_of", scope="module")
def compile_maps(tmp_path_factory):
    """Builds the program of maps with a compiler: Debian's own (1.63), and a newer one if there is one."""
    folder, built = tmp_path_factory.mktemp("maps"), {}

    def build_with(rustc):
        if rustc not in built:
            built[rustc] = str(folder / str(len(built)) / "rust_maps")
            os.makedirs(os.path.dirname(built[rustc]))
            subprocess.run([rustc, "-g", "-A", "warnings", "-o", built[rustc], os.path.join(ROOT, "tests", "programs", "rust_maps.rs")],
                           check=True, capture_output=True)
        return built[rustc]
    return build_with


def contents(value):
    """What is in a container, without its size; at most 16 elements."""
    if isinstance(value, dict) and "elements" in value:
        assert len(value["elements"]) == min(value["size"], 16)
        return [contents(element) for element in value["elements"]]
    if isinstance(value, dict):
        return {name: contents(member) for name, member in value.items() if not name.endswith("__length")}
    return [contents(element) for element in value] if isinstance(value, list) else value


def first_ones(value):
    """The same of what gdb shows."""
    if isinstance(value, list):
        return [first_ones(element) for element in value[:16]]
    return {name: first_ones(member) for name, member in value.items()} if isinstance(value, dict) else value


def call_once(process):
    process.stdin.write("\n")
    process.stdin.flush()


@pytest.mark.skipif(not RUSTCS, reason="no Rust compiler")
@pytest.mark.parametrize("rustc", RUSTCS)
def test_maps_as_gdb_shows_them_in_the_same_process(dyntrace, processes, scratch, maps_of, rustc):
    """Hash tables (in their own order), B-trees of several levels, rings, each in each other: dyntrace first, then gdb."""
    path = maps_of(rustc)
    process = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(process.pid, *[word for name in MAPS for word in ("--function", "rust_maps::" + name)])
    call_once(process)
    sum_of_sizes = process.stdout.readline()
    trace = tracing.stop()
    sysroot = subprocess.run([rustc, "--print", "sysroot"], check=True, capture_output=True, text=True).stdout.strip()
    script = os.path.join(scratch, "look.py")
    with open(script, "w") as file:
        file.write(GDB_ATTACHED % (os.path.join(sysroot, "lib", "rustlib", "etc"), MAPS, MAPS))
    gdb = processes.start(["gdb", "-q", "-batch", "-p", process.pid, "-x", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=subprocess.DEVNULL, text=True)
    lines = iter(gdb.stdout.readline, "")
    assert any(line == "ATTACHED\n" for line in lines)
    call_once(process)
    told = list(lines)
    calls = [json.loads(line.removeprefix("LOOK ")) for line in told if line.startswith("LOOK ")]
    assert [name for name, _ in calls] == MAPS, told
    assert process.stdout.readline() == sum_of_sizes
    assert [event.name for event in trace.events] == [f"rust_maps::{name}_entry" for name in MAPS] and trace.lost == 0
    for event, (name, theirs) in zip(trace.events, calls):
        ours = dict(event.fields)
        assert not ours.pop("unreadable"), (name, event.fields)
        assert contents(ours) == first_ones(theirs), name
    assert trace.events[0].fields["holes"]["size"] == 10 and trace.events[1].fields["texts"]["size"] == 300


@pytest.mark.skipif(not RUSTCS, reason="no Rust compiler")
@pytest.mark.parametrize("rustc", RUSTCS)
def test_broken_maps(dyntrace, maps_of, rustc):
    """(Y5, Y9, Y10) What no map has ends the list and is listed; a map that another thread changes is read without harm."""
    result, trace = dyntrace.trace("--function", "rust_maps::broken_table", "--function", "rust_maps::broken_tree",
                                   "--function", "rust_maps::watched", "--function", "rust_maps::too_short", "--", maps_of(rustc), "x")
    assert result.returncode == 0 and trace.lost == 0
    broken = [event.fields for event in trace.events if event.name.startswith("rust_maps::broken")]
    assert len(broken) == 6 * (4 + 3) and len(trace.events) == len(broken) + 1 + 1000
    for fields in broken:
        found = fields["map"]["elements"]
        assert len(found) <= 16 and (fields["unreadable"] == "map" or len(found) == min(fields["map"]["size"], 16))
        assert fields["unreadable"] in ("", "map")
    # a pointer into nowhere, and a size beyond all memory
    assert sum(fields["unreadable"] == "map" for fields in broken) >= 20
    [call] = [event.fields for event in trace.named("rust_maps::too_short_entry")]
    assert {element["key"]: element["value"] for element in call["map"]["elements"]} == {1: 10, 2: 20} and call["unreadable"] == "map, tree"
    assert call["tree"]["elements"] == [{"key": 3, "value": 30}, {"key": 4, "value": 40}]
    for event in trace.named("rust_maps::watched_entry"):
        assert len(event.fields["map"]["elements"]) <= 16 and len(event.fields["tree"]["elements"]) <= 16


DROPPED = """
volatile int sink;
static __attribute__((noinline)) int f(int a, int b) { sink += a; return b + 7; }
static __attribute__((noinline)) int g(int a) { sink += a; return a + 7; }
int main(void) { f(sink, 2); f(sink + 1, 2); g(sink) == 3 && sink++; return 0; }
"""


def test_a_result_that_clang_drops(dyntrace, scratch):
    path = os.path.join(scratch, "dropped")
    subprocess.run(["clang", "-O2", "-g", "-x", "c", "-", "-o", path], check=True, input=DROPPED, text=True)
    output = dyntrace.new_output()
    _, trace = dyntrace.trace("-e", "--function", "f", "--function", "g", "--", path, output=output)
    assert [event.fields["ret"] for event in trace.named("g_exit")] == [event.fields["a"] + 7 for event in trace.named("g_entry")] == [8]
    text = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    assert text.count('ret = ( "<optimised out>" : container = 0 )') == 2


DEEP = """
pub enum A { X(u64), Y(u32, u8), Z }
pub enum B { X(A), Y(A, A), Z(A, u64) }
pub enum C { X(B), Y(B, B), Z(B, u64) }
pub enum D { X(C), Y(C, C), Z(C, u64) }
#[inline(never)]
pub fn deep(n: u64) -> D { D::Z(C::Z(B::Z(A::X(n), 2), 3), 4) }
#[inline(never)]
pub fn shallow(n: u64) -> u64 { n + 1 }
fn main() { if let D::Z(_, n) = deep(std::env::args().count() as u64) { println!("{}", shallow(n)); } }
"""


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
def test_values_that_are_too_many_for_an_event(dyntrace, scratch):
    """The deepest levels are left out, and the rest is recorded; such a function doesn't keep a glob from its others."""
    path = os.path.join(scratch, "deep")
    with open(path + ".rs", "w") as file:
        file.write(DEEP)
    subprocess.run(["rustc", "-g", "-A", "warnings", "-o", path, path + ".rs"], check=True, capture_output=True)
    _, trace = dyntrace.trace("-e", "--function", "deep::*", "--", path)
    [result] = trace.named("deep::deep_exit")
    assert result.fields["ret"]["Z"]["__1"] == 4 and result.fields["ret"]["Z"]["__0"]["Z"]["__1"] == 3
    assert result.fields["ret"]["Z"]["__0"]["Z"]["__0"] == 0  # <not recorded>
    assert [event.fields["ret"] for event in trace.named("deep::shallow_exit")] == [5]


INSIDE = """
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::{hint::black_box, rc::Rc, sync::Arc};
#[derive(Clone, Copy)]
pub enum E { A(u32), B(u32), C { x: u32, y: u32 }, D }
pub struct Inner { pub x: i32, pub s: String }
pub struct Outer { pub b: Box<Inner>, pub o: Option<Box<Inner>>, pub r: Rc<Inner>, pub a: Arc<Inner>, pub v: Vec<Inner> }
#[inline(never)] #[no_mangle]
pub fn choose(e: &E, o: Option<u32>, r: &Result<String, u64>, t: &Option<String>) { black_box((e, o, r, t)); }
#[inline(never)] #[no_mangle]
pub fn follow(o: &Outer, s: &[i32]) { black_box((o, s)); }
#[inline(never)] #[no_mangle]
pub fn hold(m: &HashMap<u32, u32>, n: &HashSet<u32>, b: &BTreeMap<u32, u32>, d: &VecDeque<u32>) { black_box((m, n, b, d)); }
fn inner(x: i32) -> Inner { Inner { x, s: format!("in{}", x) } }
fn main() {
    for n in 0..1000u32 {
        let e = [E::A(n % 7), E::B(n % 7), E::C { x: n % 7, y: 5 }, E::D][n as usize % 4];
        let t = if n % 5 < 3 { Some("five".to_string()) } else { None };
        let r = if n % 6 == 0 { Err(5) } else { Ok("fine".to_string()) };
        choose(&e, if n % 2 == 0 { Some(5) } else { None }, &r, &t);
    }
    let mut o = Outer { b: Box::new(inner(1)), o: Some(Box::new(inner(2))), r: Rc::new(inner(3)), a: Arc::new(inner(4)), v: vec![inner(5), inner(6)] };
    follow(&o, &[7, 8]);
    o.o = None;
    follow(&o, &[]);
    hold(&[(1, 2)].into(), &[1, 2].into(), &[(1, 2), (3, 4), (5, 6)].into(), &[1, 2, 3, 4].into());
}
"""


@pytest.mark.skipif(not shutil.which("rustc"), reason="no Rust compiler")
@pytest.mark.parametrize("flags", [[], ["-O"]])
def test_expressions(dyntrace, scratch, flags):
    """A filter sees a variant's values only where the value is that variant: others have other values at the same place.
    Boxes, Rc and Arc are followed by ->, and by . as in Rust; containers have a size, and rows have elements by number."""
    path = os.path.join(scratch, "inside")
    with open(path + ".rs", "w") as file:
        file.write(INSIDE)
    subprocess.run(["rustc", "-g", *flags, "-o", path, path + ".rs"], check=True, capture_output=True)

    def hits(condition):
        return len(dyntrace.trace("--function", "choose", "--filter", condition, "--", path)[1].events)
    rows = [(n % 4, n % 7, n % 2 == 0, n % 6 == 0, n % 5 < 3) for n in range(1000)]
    for condition, holds in {
            "e->A.__0 == 5": lambda e, n, *_: e == 0 and n == 5,
            "e.B.__0 == 5 || e.C.x == 5": lambda e, n, *_: e in (1, 2) and n == 5,
            "e.C.y == 5": lambda e, *_: e == 2,
            'e.variant == "D" && o.Some.__0 == 5': lambda e, _, o, *__: e == 3 and o,
            'e.variant != "A" && o.variant != "None"': lambda e, _, o, *__: e != 0 and o,
            "r.Err.__0 == 5": lambda _, __, ___, r, ____: r,
            'r.Ok.__0 == "fine"': lambda _, __, ___, r, ____: not r,
            't.Some.__0 == "five"': lambda *row: row[4],
            't.Some.__0 != "five"': lambda *row: not row[4],
            't.variant == "None"': lambda *row: not row[4]}.items():
        assert hits(condition) == sum(holds(*row) for row in rows), condition

    def values(function, *names):
        _, trace = dyntrace.trace("--function", function, *[word for name in names for word in ("-t", "var:" + name)], "--", path)
        return [[value for key, value in event.fields.items() if not key.endswith("__length")][-len(names) - 1:] for event in trace.events]
    assert values("follow", "o->b->x", "o.b.s", "o.r.x", "o->r->s", "o.a.x", "o.v[1].s", "o.v.size", "s[1]", "s.size", "o.o.Some.__0.x") == [
        [1, "in1", 3, "in3", 4, "in6", 2, 8, 2, 2, ""], [1, "in1", 3, "in3", 4, "in6", 2, 0, 0, 0, "s[1], o.o.Some.__0.x"]]
    assert values("hold", "m.size", "n.size", "b.size", "d.size") == [[1, 2, 3, 4, ""]]
    error = dyntrace("trace", "--function", "choose", "--filter", 'e.variant == "F"', "--", path, status=2).stderr
    assert error == 'dyntrace: trace: choose: --filter: no variant \'F\'\n  e.variant == "F"\n            ^\n'
    error = dyntrace("trace", "--function", "choose", "--filter", "e.variant == 1", "--", path, status=2).stderr
    assert error.startswith('dyntrace: trace: choose: --filter: a variant is compared with its name (== "Some")\n')
