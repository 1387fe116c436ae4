"""Goes through a traced process's instructions one by one, by ptrace, to stop it at a certain one."""
import ctypes
import os

from harness import maps

SINGLESTEP, GETREGS, SETREGS, DETACH, SEIZE, INTERRUPT = 9, 12, 13, 17, 0x4206, 0x4207
RAX, RIP, FLAGS, RSP = 10, 16, 18, 19  # in struct user_regs_struct
PUSHF, TRAP_FLAG = b"\x9c", 0x100


class Stepper:
    """Goes through a process's instructions, one by one."""

    def __init__(self, pid):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self.pid = pid
        self.regs = (ctypes.c_ulonglong * 64)()
        self.ours = [[int(end, 16) for end in line.split()[0].split("-")] for line in maps(pid) if "memfd:dyntrace" in line]
        self.memory = open(f"/proc/{pid}/mem", "r+b", buffering=0)
        self.ask(SEIZE)
        self.ask(INTERRUPT)
        os.waitpid(pid, 0)

    def ask(self, request, data=0):
        assert self.libc.ptrace(request, self.pid, None, data) >= 0, (request, ctypes.get_errno())

    def step(self):
        self.ask(GETREGS, ctypes.addressof(self.regs))
        pushes = self.memory.read(1) == PUSHF if self.memory.seek(self.regs[RIP]) else False
        self.ask(SINGLESTEP)
        os.waitpid(self.pid, 0)
        self.ask(GETREGS, ctypes.addressof(self.regs))
        if pushes:  # it has pushed our trap flag: who pops it would step alone
            self.memory.seek(self.regs[RSP])
            flags = int.from_bytes(self.memory.read(8), "little") & ~TRAP_FLAG
            self.memory.seek(self.regs[RSP])
            self.memory.write(flags.to_bytes(8, "little"))

    def end(self):
        self.memory.close()
        self.ask(GETREGS, ctypes.addressof(self.regs))
        self.regs[FLAGS] &= ~TRAP_FLAG  # behind a popf the kernel takes our flag for the program's own
        self.ask(SETREGS, ctypes.addressof(self.regs))
        self.ask(DETACH)

    def is_in_ours(self):
        """Is the next instruction in dyntrace's memory?"""
        return any(start <= self.regs[RIP] < end for start, end in self.ours)

    def is_at_call(self, number):
        """Is it that system call?"""
        self.memory.seek(self.regs[RIP])
        return self.regs[RAX] == number and self.memory.read(2) == b"\x0f\x05"
