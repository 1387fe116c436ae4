"""Addresses that mean something to the program: runtimes that find frames by return address (H29), personality routines that
compute with what the unwinder says of a frame, handlers that look up where a fault happened (H30)."""
import os
import re
import resource
import shutil
import signal
import subprocess

import pytest

from fixtures import ROOT
from harness import status, summary_rows
from test_unwinding import instructions

PROGRAMS = os.path.join(ROOT, "tests", "programs")
HOW = {
    "entries": ["--function", "*"],
    "exits": ["-e", "--function", "*"],
    "counted": ["--tracer", "count", "-e", "--function", "*"],
}
GATHERED = ["-t", "string:first:arg0", "-t", "backtrace:3", "--function", "*"]  # the agent's code needs more stack
WAYS = {**HOW, "gathered": GATHERED, "gathered-exits": ["-e", *GATHERED], "asked": ["--tracer", "count", "--by", "caller", "--keys", "64", *GATHERED[-2:]]}
FEW = ["--mode", "overwrite", "--buffer-size", "2M"]  # of events on disk


def run_both(dyntrace, how, command, *words, **options):
    """Runs the command traced and untraced: output and exit status must be equal. Gives the summary."""
    expected = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    where = [] if how in ("counted", "asked") else ["-o", dyntrace.new_output(), *FEW]
    result = dyntrace("trace", *where, *WAYS[how], *words, "--all-rows", "--", *command, status=expected.returncode,
                      seconds=120, **options)
    assert result.stdout == expected.stdout != ""
    return result.stderr


def table(summary):
    """{function: {column: number}} of the summary, for columns of plain numbers."""
    found = {}
    for name, row in summary_rows(summary).items():
        found[name] = {column: int(cell) for column, cell in row.items() if cell.isdigit()}
        found[name]["timed"] = row["mean"] != "-"
    assert found, summary
    return found


# ---- OCaml -------------------------------------------------------------------------------------------

CALLS = {"build": 20 * (2 ** 13 - 1), "sum": 20 * (2 ** 13 - 1), "find": 20 * 101}  # of busy.ml


@pytest.fixture
def ocaml(scratch):
    """Builds busy.ml."""
    def build(*options, strip=False):
        shutil.copy(os.path.join(PROGRAMS, "busy.ml"), scratch)
        path = os.path.join(scratch, "busy")
        subprocess.run(["ocamlopt", *options, "busy.ml", "-o", path], cwd=scratch, check=True, capture_output=True)
        if strip:
            subprocess.run(["strip", path], check=True)
        return path
    return build


def small_stack():
    resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.getrlimit(resource.RLIMIT_STACK)[1]))


@pytest.mark.parametrize("how", WAYS)
def test_ocaml(dyntrace, ocaml, how):
    """The collector finds each frame of OCaml code by its return address: calls from there get no stub before they return
    (R9). The C functions of the runtime that call each other have exits. A stack overflow becomes an exception only if the fault is in
    OCaml code, near its stack pointer."""
    summary = run_both(dyntrace, how, [ocaml(), "overflow"], preexec_fn=small_stack)  # an eighth of the calls until it overflows
    if "-e" not in WAYS[how]:
        return
    assert re.search(r"^missed: \d+ calls from code that finds its frames by return address \(OCaml in busy\)", summary, re.M)
    if how != "counted":
        return
    found = table(summary)
    for name, calls in CALLS.items():
        row = next(row for key, row in found.items() if key.startswith(f"camlBusy__{name}_"))
        assert row["hits"] == calls and row["missed"] == 0
        assert row["timed"] == (name != "find")  # which never returns
    collect = found["caml_empty_minor_heap"]
    assert collect["timed"] and collect["missed"] == 0


@pytest.mark.parametrize("options", [[], ["-ccopt", "-static"], ["-ccopt", "-no-pie", "-inline", "0"], ["-g", "-unsafe"]],
                         ids=["stripped", "static", "fixed", "debug"])
def test_ocaml_without_names(dyntrace, ocaml, options):
    """Told by its data: the names that tell OCaml are gone, or never were there."""
    path = ocaml(*options, strip=not options)
    if not options:  # -Wl,-E keeps them in the dynamic table, whose strings a zealous packager may empty
        rename_dynamic(path, b"caml_call_gc", b"gone_call_gc")
    summary = run_both(dyntrace, "exits", [path])
    assert re.search(r"^missed: \d+ calls from code that finds its frames by return address", summary, re.M)


def rename_dynamic(path, old, new):
    with open(path, "r+b") as file:
        data = file.read()
        assert data.count(old + b"\0") >= 1
        file.seek(0)
        file.write(data.replace(old + b"\0", new + b"\0"))


def test_ocaml_compiler(dyntrace, ocaml, scratch):
    """ocamlopt.opt compiles a program under trace: the object file is the one that it makes untraced."""
    ocaml()
    command = ["ocamlopt.opt", "-c", "-verbose", "-o", "made.cmx", "busy.ml"]
    subprocess.run(command, cwd=scratch, check=True, capture_output=True)
    with open(os.path.join(scratch, "made.o"), "rb") as file:
        expected = file.read()
    os.remove(os.path.join(scratch, "made.o"))
    dyntrace("trace", "-o", dyntrace.new_output(), *FEW, *HOW["exits"], "--", *command, seconds=120)
    with open(os.path.join(scratch, "made.o"), "rb") as file:
        assert file.read() == expected


# ---- LuaJIT ------------------------------------------------------------------------------------------

LUA = """
local n = 0
for i = 1, 200 do
  local ok, e = pcall(function() error("x" .. i) end)
  if not ok then n = n + #e end
end
print(n, pcall(string.rep))
print(select("#", xpcall(error, debug.traceback, "tb")))
local co = coroutine.wrap(function() local x = nil; return x.y end)
print(pcall(co))
print(pcall(function() local t = setmetatable({}, {__index = function() error("in a metamethod", 0) end}); return t.x end))
"""


@pytest.mark.parametrize("how", HOW)
def test_luajit(dyntrace, scratch, how):
    """LuaJIT's personality routine takes the CFA of a frame for the address of its own state."""
    path = os.path.join(scratch, "errors.lua")
    with open(path, "w") as file:
        file.write(LUA)
    run_both(dyntrace, how, ["luajit", path])


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("static", [False, True], ids=["shared", "static"])
def test_luajit_in_c(dyntrace, scratch, how, static):
    """Errors that pass through frames of C, which have stubs."""
    path = os.path.join(scratch, "luahost")
    library = ["-Wl,-Bstatic", "-lluajit-5.1", "-Wl,-Bdynamic", "-lm", "-ldl", "-rdynamic"] if static else ["-lluajit-5.1"]
    subprocess.run(["gcc", "-O2", "-fexceptions", os.path.join(PROGRAMS, "luahost.c"), "-o", path, *library], check=True)
    more = [] if static else ["--function", "lua*@libluajit-5.1.so.2", "--function", "fn_*@libluajit-5.1.so.2"]
    summary = run_both(dyntrace, how, [path, "50"], *more)
    if how == "counted":
        found = table(summary)
        assert found["raise_one"]["hits"] == 100 and found["pass"]["hits"] == 200
        for name in ("raise_one", "pass"):
            row = found[name]
            returned = 50 if name == "pass" else 0  # where Lua catches the error inside
            assert row["unwound"] + row["inside"] + row["missed"] + returned == row["hits"]
            assert row["timed"] == (returned > 0)


# ---- what the unwinder says ----------------------------------------------------------------------------

UNWINDERS = {
    "libgcc": ["gcc"],
    "static-libgcc": ["gcc", "-static-libgcc"],
    "static": ["gcc", "-static"],
    "llvm": ["clang", "-Wl,--no-as-needed", "-l:libunwind.so.1"],
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("unwinder", UNWINDERS)
def test_personality(dyntrace, scratch, unwinder, how):
    """(R8) _Unwind_GetCFA, _Unwind_GetIP, _Unwind_FindEnclosingFunction and the number of frames are as untraced, for
    exceptions, forced unwinding and backtraces, through calls and tail calls that return through stubs."""
    path = os.path.join(scratch, "personality")
    compiler, *options = UNWINDERS[unwinder]
    subprocess.run([compiler, "-O2", "-fexceptions", os.path.join(PROGRAMS, "personality.c"), *options, "-o", path], check=True)
    # LLVM's libunwind shows a stub as a frame.
    frames = ["0"] if unwinder == "llvm" else []
    assert "wrong 0" in subprocess.run([path, "30"], capture_output=True, text=True, check=True).stdout
    run_both(dyntrace, how, [path, "30", *frames])


# ---- faults (H30) --------------------------------------------------------------------------------------

FAULTY = ["load_first", "load_second", "load_pushed", "store_first", "divide", "illegal", "trap_own", "trap_first", "call_bad", "recurse"]


@pytest.fixture
def lookup(scratch):
    path = os.path.join(scratch, "lookup")
    subprocess.run(["gcc", "-O2", "-g", os.path.join(PROGRAMS, "lookup.c"), "-o", path], check=True)
    return path


@pytest.mark.parametrize("how", WAYS)
def test_handler_looks(dyntrace, lookup, how):
    """Handlers see the program's own address and registers for a fault in a moved instruction, and for a stack that overflows
    in a trampoline, and can skip, repair, or jump out. A breakpoint of the program's own goes on behind itself. Each call is one
    hit."""
    summary = run_both(dyntrace, how, [lookup, "70"])
    if how == "counted":
        found = table(summary)
        for name in FAULTY[:4]:
            assert found[name]["hits"] == 4 * 70
        for name in FAULTY[4:9]:
            assert found[name]["hits"] == 2 * 70
        assert found["on_fault"]["hits"] == (4 * 4 + 2 * 5) * 70
        assert found["on_overflow"]["hits"] == 70


@pytest.mark.parametrize("handler", ["entries", "exits"])
def test_handler_looks_at_every_instruction(dyntrace, lookup, handler):
    """The same with a probe on each instruction of the functions that fault."""
    places = [word for place in instructions(lookup, FAULTY) for word in ("--probe", place)]
    expected = subprocess.run([lookup, "20"], capture_output=True, text=True, check=True)
    more = ["-e"] if handler == "exits" else []
    result = dyntrace("trace", "-o", dyntrace.new_output(), *FEW, *places, *more, "--function", "on_*", "--", lookup, "20")
    assert result.stdout == expected.stdout


def actions(pid, but=0):
    """The signals that it handles (but some), ignores and blocks."""
    handled, *others = [int(status(pid, key), 16) for key in ("SigCgt", "SigIgn", "SigBlk")]
    return handled & ~but, *others


@pytest.mark.parametrize("end", ["detach", "killed", "killed-later"])
def test_handlers_before(dyntrace, processes, lookup, end):
    """A process with handlers when tracing begins: they see its own addresses, and are its own again afterwards, also when
    dyntrace was killed meanwhile."""
    target = processes.start([lookup, "50", "late"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    before = actions(target.pid)
    tracing = dyntrace.start_trace(target.pid, *FEW, "-e", "--function", "*").wait_told()
    loads = 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1  # handled by the agent meanwhile (X4)
    assert actions(target.pid, loads) == (before[0] & ~loads, *before[1:])
    if end == "killed-later":  # the agent goes on alone
        tracing.process.kill()
        tracing.process.wait()
    elif end == "killed":
        tracing.process.kill()
        tracing.process.wait()
        dyntrace("detach", target.pid)
        tracing.before.assert_unchanged()
    else:
        tracing.stop()
        tracing.before.assert_unchanged()
    if end != "killed-later":
        assert actions(target.pid) == before
    output = target.communicate("\n")[0]
    assert target.returncode == 0 and "wrong 0 0 0" in output


# ---- Mono --------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", HOW)
def test_calls_that_a_runtime_looks_at(dyntrace, scratch, how):
    """Mono finds its callee by the bytes of the call before a return address, and the jump that they lead to (H29)."""
    path = os.path.join(scratch, "lookback")
    subprocess.run(["gcc", "-O1", os.path.join(PROGRAMS, "lookback.c"), "-o", path], check=True)
    assert subprocess.run([path], capture_output=True, text=True).stdout == "100\n"
    summary = run_both(dyntrace, how, [path])
    assert "cannot be moved, or other code reads it as data" in summary
    assert summary_rows(summary)["look"]["hits"] == "100"


PROFILED = """
__attribute__((noinline)) int leaf(int n) { __asm__(""); return n * 3; }
__attribute__((noinline)) int middle(int n) { int sum = 0; while (n--) sum += leaf(n); return sum; }
int main(void) { return middle(10) + leaf(1) != 138; }
"""


@pytest.mark.parametrize("words", [["-pg"], ["-pg", "-mfentry"], ["-pg", "-no-pie"], ["-pg", "-static"]], ids=" ".join)
def test_profiled(dyntrace, scratch, words):
    """mcount looks for the caller on the stack of the function that calls it: the call graph is as without a probe."""
    program = os.path.join(scratch, "profiled")
    subprocess.run(["gcc", "-O2", *words, "-x", "c", "-", "-o", program], input=PROFILED, text=True, check=True)

    def call_graph():
        return subprocess.run(["gprof", "-b", "-q", program], cwd=scratch, check=True, capture_output=True, text=True).stdout
    subprocess.run([program], cwd=scratch, check=True)
    expected = call_graph()
    assert "10/11" in expected
    os.remove(os.path.join(scratch, "gmon.out"))
    functions = [word for name in ("leaf", "middle", "main") for word in ("--function", name + "*")]
    result = dyntrace("trace", "-e", "-o", dyntrace.new_output(), *functions, "--", program, cwd=scratch)
    assert call_graph() == expected
    assert "exit not traced: leaf: its profiler (-pg) reads the address of its caller" in result.stderr
