"""Dictionaries, generators, exceptions, deep recursion, threads, a native library: one line per round."""
import ctypes
import gc
import hashlib
import json
import os
import re
import sys
import threading
import zlib


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def endless(n):
    return endless(n + 1) + 1


def caught(n):
    try:
        if n % 3 == 0:
            return n // (n - n)
        return [][n] if n % 3 == 1 else endless(0)
    except (ArithmeticError, LookupError, RecursionError) as error:
        return len(type(error).__name__)


def one_round():
    table = {f"k{i * 31 % 401}": [i, i / 7, {"n": i}] for i in range(2000)}
    text = json.dumps(table, sort_keys=True)
    found = []
    workers = [threading.Thread(target=lambda n=n: found.append(zlib.crc32(text.encode(), n))) for n in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 50)(*(i * 37 % 53 for i in range(50)))
    ctypes.CDLL(None).qsort(numbers, 50, 4, compare(lambda a, b: a[0] - b[0]))
    gc.collect()
    print(sum(found), sum(map(caught, range(1, 31))), hashlib.md5(re.sub("[13579]+", "x", text).encode()).hexdigest(),
          list(numbers)[:5], fib(14), flush=True)


for _ in range(int(sys.argv[1])):
    if os.path.exists("stop"):
        break
    one_round()
