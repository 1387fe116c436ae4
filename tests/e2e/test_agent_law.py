"""Disassembles the built agent: it has nothing that src/target/README.md forbids."""
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXPORTED = {"dt_slow", "dt_gather", "dt_guard", "dt_trap", "dt_trap_return", "dt_call_op", "dt_fault",
            "dt_find", "dt_front", "dt_line_hit", "dt_read_text", "dt_read_bytes", "dt_read_end", "dt_read_key", "dt_read_frames"}  # called by trampolines and the kernel
VERSION = re.search(r"#define DT_LAYOUT_VERSION (\d+)", (ROOT / "src/shared/layout.h").read_text())[1]
EXPORTED |= {f"dt_version_{VERSION}"}  # looked up by the controller
STACK_SIZE = 8192  # DT_STACK_SIZE
AGENT = pathlib.Path(os.environ.get("DYNTRACE_BUILD", ROOT / "build")) / "libdyntrace-agent.so"


def tool(*words):
    return subprocess.run([*words, str(AGENT)], check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def code():
    """Every instruction of the agent."""
    lines = tool("objdump", "-d", "--no-show-raw-insn").splitlines()
    instructions = [line.split("\t", 1)[1] for line in lines if re.match(r"\s+[0-9a-f]+:\t", line)]
    assert len(instructions) > 100
    return instructions


def segments():
    """(type, flags, file size, memory size) of each program header."""
    found = []
    for line in tool("readelf", "-lW").splitlines():
        words = line.split()
        if len(words) >= 7 and words[1].startswith("0x") and words[2].startswith("0x"):
            found.append((words[0], "".join(words[6:-1]), int(words[4], 16), int(words[5], 16)))
    assert any(kind == "LOAD" and "E" in flags for kind, flags, _, _ in found)
    return found


def sections():
    """name: (type, size, flags), without the ones that aren't loaded."""
    found = {}
    for line in tool("readelf", "-SW").splitlines():
        match = re.match(r"\s*\[ *\d+\] (\S+)\s+(\S+)\s+\S+ \S+ (\S+) \S+ +([A-Z]*)", line)
        if match and "A" in match[4]:
            found[match[1]] = (match[2], int(match[3], 16), match[4])
    assert ".text" in found
    return found


def test_needs_nothing():
    dynamic = tool("readelf", "-dW")
    assert "SONAME" in dynamic
    for word in ("NEEDED", "INIT_ARRAY", "FINI", "TEXTREL", "RPATH", "RUNPATH"):
        assert word not in dynamic
    # The function that ld.so calls when it loads the file: an address in the file itself, not a table of pointers.
    init = int(re.search(r"\(INIT\)\s+(0x[0-9a-f]+)", dynamic)[1], 16)
    assert re.search(rf"^0*{init:x} .* register_program$", tool("nm"), re.M)


def test_no_undefined_symbol():
    for option in ("--dyn-syms", "--syms"):
        lines = [line.split() for line in tool("readelf", "-W", option).splitlines()]
        names = [words[7] for words in lines if len(words) > 7 and words[6] == "UND"]
        assert names == []


def test_exports_what_trampolines_call():
    lines = [line.split() for line in tool("readelf", "-W", "--dyn-syms").splitlines()]
    exported = {(words[7], words[3]) for words in lines if len(words) > 7 and words[4] == "GLOBAL" and words[5] != "HIDDEN"}
    assert exported == {(name, "FUNC") for name in EXPORTED}


def test_no_relocation():
    assert "There are no relocations" in tool("readelf", "-rW")


def test_nothing_writable():
    """No data of its own. The dynamic section is for ld.so, and is all that a linker makes writable."""
    writable = {name for name, (_, _, flags) in sections().items() if "W" in flags}
    assert writable <= {".dynamic"}
    for name in (".data", ".bss", ".tdata", ".tbss", ".got", ".got.plt", ".init_array", ".plt"):
        assert name not in sections()
    for kind, flags, file_size, memory_size in segments():
        assert kind != "TLS" and kind != "INTERP"
        assert not ("W" in flags and "E" in flags)
        assert file_size == memory_size
        assert not (kind == "GNU_STACK" and "E" in flags)


def test_no_vector_register():
    """Trampolines save no vector registers, so the agent uses none: xmm, ymm, zmm, mm, st or a mask register. Two routines use
    xmm0 and xmm1, which they save first; test_plain_loads has them compared."""
    forbidden = re.compile(r"%(xmm|ymm|zmm|mm\d|st\b|st\(|k\d|bnd)|^\s*(f(ld|st|add|mul|x)|xsave|emms|vzero)")
    functions, users = [], {}
    for line in tool("objdump", "-d", "--no-show-raw-insn").splitlines():
        functions += re.findall(r"^[0-9a-f]+ <(\w+)>:", line)
        if re.match(r"\s+[0-9a-f]+:\t", line) and forbidden.search(line.split("\t", 1)[1]):
            users.setdefault(functions[-1], []).append(" ".join(line.split("\t", 1)[1].split()))
    assert {name for name in users if not name.startswith("reads_")} == {"dt_read_text", "dt_read_bytes"}
    for name in ("dt_read_text", "dt_read_bytes"):
        assert users[name][:2] == ["movups %xmm0,-0x18(%rsp)", "movups %xmm1,-0x28(%rsp)"]
    assert not re.search(r"%(ymm|zmm|xmm[2-9]|xmm1\d)", str(users))


def test_no_thread_local_storage(code):
    """The agent reads the thread block at an offset in a register, never at a linked one."""
    segment = [line for line in code if re.search(r"%[fg]s:", line)]
    assert segment
    for line in segment:
        assert re.search(r"%fs:\(%r\w+\)", line), line


def test_calls_stay_inside(code):
    """The agent calls nothing through a table that others could fill."""
    indirect = [line for line in code if re.match(r"\s*(notrack )?(call|jmp)\w*\s+\*.*\(", line)]
    assert indirect == []


def functions():
    """name: (bytes of its frame with the return address, names it calls, does it call through a register?)"""
    found, name = {}, None
    for line in tool("objdump", "-d", "--no-show-raw-insn").splitlines():
        if match := re.match(r"[0-9a-f]+ <([^>]+)>:", line):
            name = match[1]
            found[name] = [8, set(), False]
        elif match := re.match(r"\s+[0-9a-f]+:\tpush", line):
            found[name][0] += 8
        elif match := re.match(r"\s+[0-9a-f]+:\t(sub|add)\s+\$0x([0-9a-f]+),%rsp", line):
            number = int(match[2], 16)
            is_negative = number >= 1 << 63  # -0x80 fits into a byte, 0x80 doesn't
            if (match[1] == "add") == is_negative:
                found[name][0] += (1 << 64) - number if is_negative else number
        elif match := re.match(r"\s+[0-9a-f]+:\t(?:call|jmp)\s+[0-9a-f]+ <([^+>]+)>", line):
            found[name][1].add(match[1])
        elif re.match(r"\s+[0-9a-f]+:\tcall\s+\*", line):
            found[name][2] = True
        assert not re.search(r"sub\s+%\w+,%rsp", line)
    return found


def test_stack_is_enough():
    """The deepest path from any function fits the stacks of the slow paths, and nothing recurses."""
    all_functions = functions()
    called = {callee for _, callees, _ in all_functions.values() for callee in callees}
    by_pointer = [name for name in all_functions if name not in called | EXPORTED]

    def depth(name, path):
        assert name not in path, f"{name} recurses"
        frame, callees, indirect = all_functions[name]
        below = [callee for callee in callees if callee != name and callee in all_functions]
        if indirect:
            below += by_pointer
        return frame + max((depth(callee, path | {name}) for callee in below), default=0)

    deepest = {name: depth(name, frozenset()) for name in all_functions}
    assert max(deepest.values()) > 500
    assert max(deepest.values()) <= STACK_SIZE - 64, deepest
    # (H30) dt_slow touches the target's stack as deep as slow_find will; tail calls count a word less
    slow = (ROOT / "src" / "target" / "x86_64" / "slow.S").read_text()
    touched = int(re.search(r"#define SLOW_TOUCHED (\d+)", slow)[1])
    assert deepest["slow_find"] - 16 <= touched <= deepest["slow_find"] + 64
    # (T8) routines of trampolines on a stack that isn't known, where no walk goes on
    reads = (ROOT / "src" / "shared" / "reads.h").read_text()
    most = {name: int(size) for name, size in re.findall(r"#define (DT_READ_\w*STACK) (\d+)", reads)}
    red_zone = 40  # of the two that save vector registers
    assert max(deepest[name] for name in ("dt_read_text", "dt_read_bytes")) + red_zone <= most["DT_READ_STACK"]
    assert max(deepest[name] for name in ("dt_read_end", "dt_read_key")) <= most["DT_READ_STACK"]
    all_functions["dt_read_frames"][1].remove("walk_rest")
    assert depth("dt_read_frames", frozenset()) <= most["DT_READ_FRAMES_STACK"]


def test_routines_bear_any_direction():
    """Trampolines call these with the direction flag as the program has it: nothing that they reach copies or fills by a string
    instruction. A backtrace that they take copies no stack: its walk ends before safe_read."""
    calls = {name: callees for name, (_, callees, _) in functions().items()}
    strings, name = set(), None
    for line in tool("objdump", "-d", "--no-show-raw-insn").splitlines():
        if match := re.match(r"[0-9a-f]+ <([^>]+)>:", line):
            name = match[1]
        elif re.match(r"\s+[0-9a-f]+:\t(rep\w* )?(movs[bwlq]|stos|lods|scas|cmps)\b", line):
            strings.add(name.removesuffix("_at"))  # a label inside of the function
    assert "loads_copy" in strings
    for routine in ("dt_read_key", "dt_read_frames"):
        reached, waiting = {"safe_read"}, [routine]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting += calls.get(name, ())
        assert not reached & (strings | {"memcpy", "memset"})


def test_of_another_version(dyntrace, scratch):
    """An agent of another version (half an installation) isn't injected."""
    name = f"dt_version_{VERSION}".encode()
    other = pathlib.Path(scratch) / "agent.so"
    other.write_bytes(AGENT.read_bytes().replace(name, name[:-1] + b"?"))
    error = dyntrace.fails("trace", "--function", "main", "--", "true", status=125, env={"DYNTRACE_AGENT": str(other)})
    assert error.endswith("agent.so can't be used as the agent: it is of another version (install both together; "
                          "restart dyntraced after an upgrade)")
