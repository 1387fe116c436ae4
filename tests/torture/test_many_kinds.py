"""More kinds of events than 16 bits can tell apart, with exits."""
import os
import subprocess

import pytest

COUNT = 40000


@pytest.mark.limit(300)
def test_exits_of_forty_thousand_functions(dyntrace, scratch):
    """Each of them is called once: an entry and an exit, with the function's own result."""
    source, path = os.path.join(scratch, "many.s"), os.path.join(scratch, "many")
    with open(source, "w") as file:
        file.write(".text\n")
        for n in range(COUNT):
            file.write(f".globl f{n}\n.type f{n}, @function\nf{n}:\n.cfi_startproc\nlea {n}(%rdi), %rax\nret\n.cfi_endproc\n"
                       f".size f{n}, .-f{n}\n")
        file.write(".globl main\n.type main, @function\nmain:\n.cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\n")
        for n in range(COUNT):
            file.write(f"call f{n}\n")
        file.write("xor %eax, %eax\npop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n.size main, .-main\n"
                   ".section .note.GNU-stack, \"\", @progbits\n")
    subprocess.run(["gcc", source, "-o", path], check=True)
    _, trace = dyntrace.trace("-e", "--function", "f*", "--", path, seconds=200)
    names = trace.names()
    for n in range(COUNT):
        assert names[f"f{n}_entry"] == names[f"f{n}_exit"] == 1
