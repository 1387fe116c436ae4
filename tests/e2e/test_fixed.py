"""Programs linked for one address: a branch target may be a number in an instruction, without a relocation."""
import os
import subprocess

import pytest

SOURCE = """
#include <stdio.h>
int by_register(int), by_memory(int), by_sum(int);
__asm__(".macro function name\\n .globl \\\\name\\n .type \\\\name, @function\\n \\\\name: .cfi_startproc\\n xor %eax, %eax\\n .endm\\n"
        ".macro rest name\\n 1: inc %eax\\n inc %eax\\n \\\\name\\\\()_label: inc %eax\\n inc %eax\\n inc %eax\\n ret\\n"
        ".cfi_endproc\\n .size \\\\name, . - \\\\name\\n .endm\\n"
        "function by_register\\n mov $by_register_label, %edx\\n test $1, %dil\\n je 1f\\n jmp *%rdx\\n rest by_register\\n"
        "function by_memory\\n movq $by_memory_label, -8(%rsp)\\n test $1, %dil\\n je 1f\\n jmp *-8(%rsp)\\n rest by_memory\\n"
        "function by_sum\\n and $1, %edi\\n lea by_sum_label(, %rdi, 2), %edx\\n test %edi, %edi\\n je 1f\\n jmp *%rdx\\n"
        "rest by_sum\\n");

int main(void)
{
        int sum = 0;

        for (int i = 0; i < 10; i++)
                sum = sum * 3 + by_register(i) + by_memory(i) + by_sum(i);
        printf("%d\\n", sum);
        return 0;
}
"""
# how often each instruction runs
FUNCTIONS = {"by_register": [10] * 4 + [5] * 3 + [10] * 4, "by_memory": [10] * 4 + [5] * 3 + [10] * 4,
             "by_sum": [10] * 5 + [5] * 4 + [10] * 3}


@pytest.fixture
def fixed(scratch):
    path = os.path.join(scratch, "fixed")
    subprocess.run(["cc", "-O1", "-no-pie", "-fno-pie", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    return path


def instructions(dyntrace, path, function):
    lines = dyntrace("coverage", "--list", path).stdout.splitlines()
    return [line.split()[0] for line in lines if line.split()[2] == function]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_instruction_alone(dyntrace, fixed, function):
    plain = subprocess.run([fixed], capture_output=True, text=True, check=True).stdout
    addresses = instructions(dyntrace, fixed, function)
    assert len(addresses) == len(FUNCTIONS[function])
    for address, hits in zip(addresses, FUNCTIONS[function]):
        result, trace = dyntrace.trace("--probe", address, "--", fixed)
        assert result.stdout == plain, address
        assert trace.names() == {address: hits}


def test_all_at_once(dyntrace, fixed):
    plain = subprocess.run([fixed], capture_output=True, text=True, check=True).stdout
    expected = {address: hits for function in FUNCTIONS
                for address, hits in zip(instructions(dyntrace, fixed, function), FUNCTIONS[function])}
    words = [word for address in expected for word in ("--probe", address)]
    result, trace = dyntrace.trace(*words, "--", fixed)
    assert result.stdout == plain and trace.names() == expected
