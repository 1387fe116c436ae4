"""Instructions and functions that are hard to move (tests/programs/forms_code.S): each counts exactly, and the program
computes the same as untraced. Single moved instructions are tested in tests/unit/test_relocate_shapes.c."""
import re
import subprocess

import pytest
from harness import Snapshot, Trace, threads, until

CALLS = 12  # a multiple of four: each entry of the jump table as often
FUNCTIONS = {"packed_1": 1, "packed_2": 1, "packed_3": 2, "packed_4": 1, "padded_1": 1, "padded_3": 1, "pops_pc": 1,
             "calls_register": 1, "locked": 1, "strings": 1, "flags": 1, "red_zone": 1, "prefixes": 1, "avx": 1, "avx512": 1,
             # runs per instruction in CALLS calls, where it isn't once per call
             "counted": [12, 12, 60, 60, 12, 0, 12, 36, 36, 36, 12],
             "loops_to_start": [78, 78, 12, 12],  # 1 + 2 + ... + 12
             "table": [12, 12, 12, 12, 12, 12, 12, 6, 6, 3, 6, 6, 3, 3]}


def places(dyntrace, path):
    """The addresses of the functions' instructions; checks that none is refused."""
    found = {}
    for line in dyntrace("coverage", "--list", path).stdout.splitlines():
        address, how, name = line.split(" ", 2)
        if name in FUNCTIONS:
            assert how != "refused", line
            found.setdefault(name, []).append(address)
    return found


def expected(found, ran):
    hits = {}
    for name, addresses in found.items():
        times = FUNCTIONS[name]
        times = times if isinstance(times, list) else [times * CALLS] * len(addresses)
        assert len(times) == len(addresses), name
        hits.update({address: count for address, count in zip(addresses, times) if count and name in ran})
    return hits


@pytest.fixture
def forms(program_path):
    path = program_path("forms")
    plain = subprocess.run([path, "--calls", str(CALLS)], capture_output=True, text=True, check=True).stdout
    return path, plain, [line.split()[0] for line in plain.splitlines()]


def test_every_instruction_at_once(dyntrace, forms):
    path, plain, ran = forms
    found = places(dyntrace, path)
    assert found.keys() == FUNCTIONS.keys()
    words = [word for addresses in found.values() for address in addresses for word in ("--probe", f"{address}@forms")]
    result, trace = dyntrace.trace(*words, "--", path, "--calls", CALLS)
    assert result.stdout == plain
    assert (trace.names(), trace.lost) == (expected(found, ran), 0)


def test_every_entry(dyntrace, forms):
    """Functions of one to four bytes too, with and without padding behind them."""
    path, plain, ran = forms
    words = [word for name in FUNCTIONS for word in ("--probe", name)]
    result, trace = dyntrace.trace(*words, "--", path, "--calls", CALLS)
    assert result.stdout == plain
    first = {name: times[0] if isinstance(times, list) else times * CALLS for name, times in FUNCTIONS.items()}
    assert trace.names() == {name: count for name, count in first.items() if name in ran}


@pytest.mark.parametrize("name", ["packed_1", "packed_2", "packed_3", "pops_pc", "counted", "red_zone"])
def test_one_alone(dyntrace, forms, name):
    """Each instruction alone: other tactics apply than beside neighbours."""
    path, plain, ran = forms
    found = places(dyntrace, path)[name]
    hits = expected({name: found}, ran)
    for address in found:
        result, trace = dyntrace.trace("--probe", f"{address}@forms", "--", path, "--calls", CALLS)
        assert result.stdout == plain
        assert trace.names() == ({address: hits[address]} if address in hits else {})


def test_string_instruction_interrupted(dyntrace, program):
    """Signals interrupt a moved `rep stosb`, which resumes."""
    target = program("forms", "--interrupts", 300).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "fills", "--probe", "fills+0x5")
    output = target.finish()
    calls = int(re.search(r"^fills (\d+)$", output, re.M)[1])
    assert output == f"fills {calls}\nwrong 0\n"
    tracing.process.wait(timeout=20)
    assert Trace(tracing.output).names() == {"fills": calls, "fills+0x5": calls}


def is_own(before, pc):
    """True for an address in the program's own text."""
    ranges = [line.split()[0].split("-") for line in before.maps if "x" in line.split()[1] and line.endswith("/forms_syscalls")]
    assert ranges
    return any(int(begin, 16) <= pc < int(end, 16) for begin, end in ranges)


def reads_at(pid, tid):
    """The address behind the `syscall` of a thread that waits in read; None: it doesn't, or not yet again."""
    with open(f"/proc/{pid}/task/{tid}/syscall") as file:
        words = file.read().split()
    return int(words[-1], 16) if words[0] == "0" else None


def test_removed_while_blocked_in_moved_syscall(dyntrace, program):
    """(P3) A thread blocked in the copy goes on in the original."""
    target = program("forms_syscalls", "--calls", CALLS).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe", "blocks", "--probe", "blocks+0x2", "--probe", "blocks+0x4")
    target.go()
    tid = until(lambda: next((t for t in threads(target.pid) if t != target.pid), None), "the thread")
    pc = until(lambda: reads_at(target.pid, tid), "the thread to read")
    assert not is_own(before, pc), "the system call wasn't moved"
    trace = tracing.stop()
    assert trace.names() == {"blocks": 1, "blocks+0x2": 1}
    assert is_own(before, until(lambda: reads_at(target.pid, tid), "the thread to read on"))
    before.assert_unchanged(busy=True)
    target.go()
    assert target.finish().endswith("asks_kernel 12\nread\n")
