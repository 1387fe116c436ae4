"""dyntrace trace --explain LOC: the planned site, or the reasons against each tactic."""
import re
import subprocess


def test_a_function(dyntrace, program_path):
    text = dyntrace("trace", "--explain", "main", "-c", program_path("hello")).stdout
    assert re.match(r"main at 0x[0-9a-f]+, in hello\n\ntactic: jump \(", text)
    before = re.search(r"before:\n(.*?)after:\n", text, re.S)[1]
    after = re.search(r"after:\n(.*?)\n\n", text, re.S)[1]
    trampoline = text.split("trampoline, ")[1].splitlines()[1:]
    assert re.match(r" +[0-9a-f]+  e9 .* jmp 0x", after)
    code = [line for line in trampoline if "(data)" not in line]
    assert all(" ; " in line for line in code)
    assert any("; back to the code after the site" in line for line in code)
    # the moved instructions are the original ones
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
    """One byte before a jump target whose bytes would make a jump into this very code. The program is static: it has no libc
    whose calls could be guarded for SIGTRAP."""
    source = f"{scratch}/tight.s"
    with open(source, "w") as file:
        file.write(".globl main\n.type main, @function\nmain: xor %eax, %eax\n ret\n.size main, . - main\n"
                   ".fill 200, 1, 0xf4\n.globl lone\n.type lone, @function\nlone: ret\n.size lone, . - lone\n"
                   ".globl behind\n.type behind, @function\nbehind: .byte 5, 0, 0, 0, 0\n ret\n.size behind, . - behind\n"
                   ".fill 200, 1, 0xf4\n.section .note.GNU-stack\n")
    subprocess.run(["cc", "-static", "-no-pie", "-o", f"{scratch}/tight", source], check=True)
    text = dyntrace("trace", "--explain", "lone", "-c", f"{scratch}/tight").stdout
    assert text.split("refused:\n")[1] == (
        "  jump       the function ends after 1 bytes, a jump needs 5\n"
        "  short-jump the function ends after 1 bytes, a jump needs 2\n"
        "  pun        the bytes after it must stay, and the only jump they allow leads to memory in use\n"
        "  trap       no libc whose signal masks could be watched\n")


def test_not_the_start_of_an_instruction(dyntrace, program_path):
    text = dyntrace("trace", "--explain", "behind+2", "-c", program_path("traps")).stdout
    assert text.count("not the start of an instruction (the nearest are behind and behind+0x5)\n") == 4


def test_a_glob_is_not_one_place(dyntrace, program_path):
    assert "--explain: takes one place" in dyntrace.fails("trace", "--explain", "*", "-c", program_path("hello"), status=2)
