"""Bounds of the daemon: what one user asks for, in whatever amount, costs a bounded amount of memory, descriptors and time,
and never changes what root's commands do. Memory and descriptors are measured, not guessed."""
import os
import subprocess

import pytest
from harness import until

MANY = 20000
MOST = 33000  # two times this is more than a process may have


@pytest.fixture(scope="module")
def many_path(tmp_path_factory):
    """A program with functions many_N and most_N, which waits."""
    folder = tmp_path_factory.mktemp("many")
    names = [f"many_{number}" for number in range(MANY)] + [f"most_{number}" for number in range(2 * MOST)]
    body = "".join(f".globl {name}\n.type {name},@function\n{name}: push %rbp\nmov %rsp,%rbp\nmov $1,%eax\npop %rbp\nret\n"
                   f".size {name},.-{name}\n" for name in names)
    (folder / "many.s").write_text(".text\n" + body + '.section .note.GNU-stack,"",@progbits\n')
    (folder / "main.c").write_text("#include <unistd.h>\nint main(void) { for (;;) pause(); }\n")
    subprocess.run(["gcc", "-o", folder / "many", folder / "main.c", folder / "many.s"], check=True)
    return str(folder / "many")


# ---- one command -----------------------------------------------------------------------------------

@pytest.mark.limit(110)
def test_names_of_many_tracepoints_cost_a_search_each(daemon, processes, many_path):
    """MANY tracepoints that want one name took longer than the 120 s after which a worker is replaced."""
    one = processes.start([many_path])
    daemon.targets.add(str(one.pid))
    name = "n" * 249  # with its number 255 bytes, the longest that a command takes
    made = daemon("add", f"{one.pid}:many_*", "-n", name, seconds=100).stdout.splitlines()
    assert made == [name] + [f"{name}-{number}" for number in range(2, MANY + 1)]
    for number in (7, 12000):
        daemon("rm", f"{one.pid}:{name}-{number}")
    again = [daemon("add", f"{one.pid}:many_{number}*", "-n", name).stdout[:-1] for number in (6000, 7000)]
    assert again == [f"{name}-7", f"{name}-12000"]  # the first names that are free


def test_one_add_makes_no_more_tracepoints_than_a_process_may_have(daemon, processes, many_path):
    one = processes.start([many_path])
    daemon.targets.add(str(one.pid))
    why = daemon.fails("add", f"{one.pid}:most_*")
    assert why == f"'most_*' has {2 * MOST} places, and the process 0 tracepoints already (65536 are the limit)"
    assert len(daemon("add", f"{one.pid}:many_1*").stdout.splitlines()) == 11111
    assert len(daemon.json("list-tracepoints", one.pid)) == 11111
