"""Tracepoints beside others: in any order of adding, each is placed, and every hit is recorded."""
import itertools
import os
import subprocess

import pytest
from harness import until

CALLS = 100  # per function and round

# `second` loops to its second instruction, three times a call. From `hop` a jump can lead to one place only.
# In `take` it waits.
SOURCE = """
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

int second(int);
void hop(void);
long take(int, char *);
__asm__(".globl take\\n .type take, @function\\n take: .cfi_startproc\\n push %rbx\\n .cfi_def_cfa_offset 16\\n mov $1, %edx\\n"
        "xor %eax, %eax\\n syscall\\n inc %ecx\\n dec %r11\\n pop %rbx\\n .cfi_def_cfa_offset 8\\n ret\\n .cfi_endproc\\n"
        ".size take, . - take\\n .balign 16\\n");
__asm__(".globl second\\n .type second, @function\\n second: .cfi_startproc\\n xor %eax, %eax\\n"
        "1: inc %eax\\n dec %dil\\n jg 1b\\n ret\\n .cfi_endproc\\n .size second, . - second\\n .balign 16\\n"
        ".globl hop\\n .type hop, @function\\n hop: .cfi_startproc\\n ret\\n .cfi_endproc\\n .size hop, . - hop\\n"
        ".globl behind\\n .type behind, @function\\n behind: .cfi_startproc\\n mov $0x40, %al\\n .byte 0x48, 0xb9\\n"
        ".quad 0x4948474645444342\\n jmp behind\\n .cfi_endproc\\n .size behind, . - behind\\n .fill 200, 1, 0xf4\\n");

static void round_of(void)
{
        for (int i = 0; i < 100; i++) {
                if (second(3) != 3)
                        _exit(3);
                hop();
        }
}

int main(void)
{
        pid_t child = 0;
        char order;

        while (take(0, &order) == 1) {
                if (order == 'f' && !(child = fork()))
                        for (;;)
                                pause();
                if (order == 'k' && (kill(child, SIGKILL) || waitpid(child, NULL, 0) != child))
                        return 4;
                if (order == 'r')
                        round_of();
                if (write(1, &order, 1) != 1)
                        return 5;
        }
        return 0;
}
"""
PLACES = {"second": 1, "second+2": 3, "second+4": 3, "second+7": 3, "second+9": 1}  # hits per call


class Target:
    def __init__(self, process):
        self.process, self.pid = process, process.pid

    def tell(self, order):
        """Sends a command to the program; returns when it is done."""
        os.write(self.process.stdin.fileno(), order.encode())
        assert os.read(self.process.stdout.fileno(), 1) == order.encode()
        until(self.waits, "the next order to be waited for")

    def waits(self):
        with open(f"/proc/{self.pid}/syscall") as file:
            return file.read().split()[:2] == ["0", "0x0"]  # read, of descriptor 0


@pytest.fixture
def target(scratch, processes):
    path = os.path.join(scratch, "second")
    subprocess.run(["cc", "-O1", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    one = Target(processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE))
    until(one.waits, "the first order to be waited for")
    return one


def test_orders(daemon, target):
    """(P7) Added one by one in many orders, with a round after each; all counts are exact."""
    expected = {}
    for order in itertools.islice(itertools.permutations(PLACES), 6, None, 13):
        placed = {}
        for place in order:
            placed[daemon.add(f"{target.pid}:{place}", "-n", f"at{len(expected)}", "ctf")] = place
            target.tell("r")
            for name, where in placed.items():
                expected[name] = expected.get(name, 0) + CALLS * PLACES[where]
        daemon("rm", f"{target.pid}:*")
    trace = daemon.finish(target.pid)
    assert trace.names() == expected and trace.lost == 0


ORDER = ["second", "second+0x4", "second+0x2", "second+0x7"]  # the last one needs bytes to which a neighbour's trampoline returns


def test_not_while_a_forked_child_runs_the_old_code(daemon, target):
    names = [daemon.add(f"{target.pid}:{place}") for place in ORDER[:-1]]
    target.tell("f")
    assert daemon.fails("add", f"{target.pid}:{ORDER[-1]}") == \
        f"cannot probe '{ORDER[-1]}': a forked process still runs the code of a tracepoint that is too near (remove that one first)"
    target.tell("r")
    target.tell("k")
    names.append(daemon.add(f"{target.pid}:{ORDER[-1]}"))
    target.tell("r")
    trace = daemon.finish(target.pid)
    assert trace.names() == {names[0]: 2 * CALLS, names[1]: 6 * CALLS, names[2]: 6 * CALLS, names[3]: 3 * CALLS}


@pytest.mark.parametrize("forked, placed", [(False, "jump"), (True, "trap")])
def test_a_trap_while_a_forked_child_runs_the_old_code(daemon, target, forked, placed):
    """(L6) Where trampolines of neighbours would have to be redirected: a jump if that is possible, and only else a trap."""
    places = ["second+4", "second+2", "second+9"]
    names = [daemon.add(f"{target.pid}:{place}") for place in places[:-1]]
    if forked:
        target.tell("f")
    added = daemon("add", f"{target.pid}:{places[-1]}", status=None)
    assert added.returncode == 0 and ("is placed by a trap" in added.stderr) == forked, added
    names.append(added.stdout.split()[-1])
    assert daemon.json("list-tracepoints", target.pid, "-a")[-1]["placed"] == placed
    target.tell("r")
    if forked:
        target.tell("k")
    trace = daemon.finish(target.pid)
    assert trace.names() == {name: CALLS * PLACES[place] for name, place in zip(names, places)} and trace.lost == 0


def test_several_where_one_way_leads(daemon, target):
    """A second and a third tracepoint where a jump can lead to one place only; removed and added again at once."""
    expected = {}
    for _ in range(3):
        names = []
        for _ in range(3):
            names.append(daemon.add(f"{target.pid}:hop", "-n", f"hop{len(expected)}"))
            expected[names[-1]] = 0
            target.tell("r")
            for name in names:
                expected[name] += CALLS
        assert {one["placed"] for one in daemon.json("list-tracepoints", target.pid, "-a")} == {"pun"}
        daemon("rm", f"{target.pid}:{names.pop(0)}")
        target.tell("r")
        for name in names:
            expected[name] += CALLS
        daemon("rm", f"{target.pid}:*")
    assert daemon.finish(target.pid).names() == expected


WAITING = ["take", "take+1", "take+6", "take+8", "take+0xa", "take+0xc", "take+0xf", "take+0x10"]  # the fourth is the system call


@pytest.mark.parametrize("step", [1, 3, 5, 7])
def test_under_a_thread_that_waits_inside(daemon, target, step):
    """(P8) The thread is in a moved system call, in a trampoline that is exchanged: it comes out in the code that is there then."""
    for start in range(len(WAITING)):
        names = [daemon.add(f"{target.pid}:{WAITING[(start + i * step) % len(WAITING)]}") for i in range(len(WAITING))]
        for _ in range(2):
            before = daemon.hits(target.pid)
            target.tell("r")
            target.tell("r")
            after = daemon.hits(target.pid)
        # in the last round it has come the whole way: from behind the system call to it again, twice
        assert {name: after[name] - before[name] for name in names} == dict.fromkeys(names, 2)
        daemon("rm", f"{target.pid}:*")
    daemon("detach", target.pid)
    target.tell("r")
