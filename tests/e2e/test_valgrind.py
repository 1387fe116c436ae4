"""Programs that Valgrind executes in translation die of a changed byte in code that it reads later: they are refused, and unharmed."""
import os
import shutil
import subprocess

import pytest
from harness import Snapshot, in_call, until

# as a tool of Valgrind's begins, and what its text has of all programs alone
TOOL = """.type _start, @function
.globl _start
_start: mov $34, %eax
 syscall
 jmp _start
 ud2
 mov $15, %rax
 syscall
 ud2
 mov $96, %rax
 syscall
 ret
 mov $201, %rax
 syscall
 ret
"""
LATE = r"""#include <stdio.h>
#include <unistd.h>
__attribute__((noipa)) int late(int n) { return n + 1; }
int main(void)
{
	char byte;
	puts("ready");
	fflush(stdout);
	while (read(0, &byte, 1) == 1)
		printf("%d\n", late(byte));
	return 0;
}
"""


def build(scratch, name, text, *words):
    """Makes a program of that text, and gives its path."""
    source = os.path.join(scratch, name)
    with open(source, "w") as file:
        file.write(text)
    path = os.path.splitext(source)[0]
    subprocess.run(["gcc", "-g", *words, "-o", path, source], check=True)
    return path


def start(processes, path):
    """Returns when the program waits, and the kernel maps nothing of it any more."""
    process = processes.start([path])
    until(lambda: in_call(process.pid, "pause"), "the program to wait")
    return process


@pytest.mark.parametrize("address", ["0x58000000", "0x38000000"])
def test_a_tool_is_recognised(dyntrace, processes, scratch, address):
    path = build(scratch, "tool.s", TOOL, "-static", "-nostdlib", f"-Wl,-Ttext-segment={address}")
    process = start(processes, path)
    before = Snapshot(process.pid)
    for words in (["-p", process.pid, "--function", "_start"], ["--function", "_start", "--", path]):
        assert "run by Valgrind" in dyntrace.fails("trace", *words, status=125)
    before.assert_unchanged()


@pytest.mark.parametrize("text,address", [(TOOL, "0x400000"), (TOOL.replace("$201", "$202"), "0x58000000")], ids=["address", "text"])
def test_others_are_traced(dyntrace, processes, scratch, text, address):
    """A program with such code elsewhere, and one with other code there."""
    path = build(scratch, "other.s", text, "-static", "-nostdlib", f"-Wl,-Ttext-segment={address}")
    process = start(processes, path)
    dyntrace("trace", "-p", process.pid, "--probe", "_start", "--for", "50ms", "-o", dyntrace.new_output())
    assert process.poll() is None


def test_under_valgrind(dyntrace, processes, scratch):
    """The function is called for the first time after somebody tried to trace it."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind isn't installed")
    path = build(scratch, "late.c", LATE)
    process = processes.start(["valgrind", "-q", path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    visit = dyntrace.processes.start([dyntrace.path, "trace", "-p", process.pid, "--function", "late", "-o", dyntrace.new_output()],
                                     stderr=subprocess.PIPE, text=True)
    said = visit.stderr.readline()  # that it traces, or not
    output, errors = process.communicate("aa", timeout=120)
    assert (output, errors, process.returncode) == ("98\n98\n", "", 0)
    assert "run by Valgrind" in said and visit.wait(timeout=60) == 125
    visit.stderr.close()


def test_programs_begun_by_valgrind(dyntrace, scratch):
    """Valgrind's launcher, whose shell script executes it, is traced; the tool that it executes runs untraced."""
    if not shutil.which("valgrind"):
        pytest.skip("valgrind isn't installed")
    path = build(scratch, "late.c", LATE)
    result = dyntrace("trace", "--follow-exec", "--function", "main", "-o", dyntrace.new_output(), "--", "valgrind", "-q", path)
    assert "run by Valgrind" in result.stderr and result.stdout == "ready\n"
