#!/usr/bin/python3
"""bench/behind.py COUNT NUMBER COMMAND...: runs the command behind that many seccomp filters, which answer EPERM to one system call.

Each filter has as many instructions as Podman's default profile: it compares with numbers that no call has."""

import ctypes
import os
import struct
import sys

LENGTH = 402
SET_NO_NEW_PRIVS, SET_SECCOMP, MODE_FILTER = 38, 22, 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, EPERM = 0x7fff0000, 0x50001


def program(number):
    idle = [(EQUAL, 0, 0, 0x40000000 + i) for i in range(LENGTH - 4)]
    code = [(LOAD, 0, 0, 0), *idle, (EQUAL, 0, 1, number), (RETURN, 0, 0, EPERM), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("HBBI", *one) for one in code), len(code)


def main():
    count, number, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    code, length = program(number)
    room = ctypes.create_string_buffer(code)
    given = struct.pack("HxxxxxxP", length, ctypes.addressof(room))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SET_NO_NEW_PRIVS, 1, 0, 0, 0) or any(libc.prctl(SET_SECCOMP, MODE_FILTER, given) for _ in range(count)):
        sys.exit(f"behind.py: prctl: {os.strerror(ctypes.get_errno())}")
    os.execvp(command[0], command)


main()
