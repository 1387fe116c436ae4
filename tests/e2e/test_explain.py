"""dyntrace trace --explain LOC: what would be placed, and why not."""
import re
import shutil
import subprocess

import pytest


def test_a_function(dyntrace, program_path):
    text = dyntrace("trace", "--explain", "main", "-c", program_path("hello")).stdout
    assert re.match(r"main at 0x[0-9a-f]+, in hello\n\ntactic: jump \(", text)
    before = re.search(r"before:\n(.*?)after:\n", text, re.S)[1]
    after = re.search(r"after:\n(.*?)\n\n", text, re.S)[1]
    trampoline = text.split("trampoline, ")[1].splitlines()[1:]
    assert re.match(r" +[0-9a-f]+  e9 .* jmp 0x", after)
    code = [line for line in trampoline if "(data)" not in line]
    assert all(" ; " in line for line in code)
    assert any("; back to the code behind it" in line for line in code)
    # what was moved is what stood there
    moved = [line for line in code if "; the instruction, moved" in line]
    assert len(moved) >= len(before.splitlines())


def test_a_running_process_is_not_touched(dyntrace, program):
    target = program("steady")
    target.wait_ready()
    maps = open(f"/proc/{target.pid}/maps").read()
    text = dyntrace("trace", "--explain", "main", "-p", target.pid).stdout
    assert "tactic: " in text
    assert open(f"/proc/{target.pid}/maps").read() == maps


def test_each_reason_is_told(dyntrace, scratch):
    """A byte that is jumped to from both sides, in code that leaves no room around."""
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    source = f"{scratch}/tight.s"
    with open(source, "w") as file:
        file.write(".globl main\n.type main, @function\nmain: xor %eax, %eax\n ret\n.size main, . - main\n"
                   ".globl lone\n.type lone, @function\nlone: ret\n"
                   "1: inc %al\n 2: inc %cl\n 3: inc %dl\n 4: jmp 1b\n jmp 2b\n jmp 3b\n jmp 4b\n jmp lone\n"
                   " .rept 40\n 5: jmp 5b\n .endr\n.size lone, . - lone\n.section .note.GNU-stack\n")
    subprocess.run(["cc", "-no-pie", "-o", f"{scratch}/tight", source], check=True)
    text = dyntrace("trace", "--explain", "lone", "-c", f"{scratch}/tight").stdout
    if "refused:" in text:
        assert re.search(r"^  jump +something jumps to the instruction 1 bytes behind it$", text, re.M)
        assert re.search(r"^  evict +something jumps to the instruction 1 bytes behind it$", text, re.M)
        assert re.search(r"^  pun +the bytes behind it must stay", text, re.M)
    else:
        assert "tactic: pun" in text


def test_not_the_start_of_an_instruction(dyntrace, program_path):
    text = dyntrace("trace", "--explain", "main+2", "-c", program_path("hello")).stdout
    assert "refused:" in text and "not the start of an instruction" in text or "tactic:" in text


def test_a_glob_is_not_one_place(dyntrace, program_path):
    assert "--explain takes one place" in dyntrace.fails("trace", "--explain", "*", "-c", program_path("hello"), status=2)
