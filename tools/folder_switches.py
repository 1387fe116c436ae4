#!/usr/bin/python3
"""How far one command walks through the tree: distinct functions, files, and changes of folder.

Traces `dyntrace trace -p PID --function foo -e` with dyntrace itself, takes each function at its first call, in that order,
and counts how often the folder of its source file changes. Prints one line. For docs/architecture.md.

usage: tools/folder_switches.py BUILD [TRACED_DYNTRACE]
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

build = pathlib.Path(sys.argv[1]).resolve()
traced = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else build / "dyntrace").resolve()


def sources_of(program):
    """{function: source file}, by the symbols' addresses and the line table."""
    symbols = subprocess.run(["nm", "--defined-only", program], capture_output=True, text=True, check=True).stdout
    functions = [(address, name) for address, kind, name in (line.split() for line in symbols.splitlines()) if kind in "tT"]
    lines = subprocess.run(["addr2line", "-e", program], input="\n".join(address for address, _ in functions),
                           capture_output=True, text=True, check=True).stdout.splitlines()
    return {name: line.rsplit(":", 1)[0] for (_, name), line in zip(functions, lines) if "/src/" in line}


def calls_of(scratch):
    """Names of functions in the order of their calls, by the first thread that calls."""
    target = subprocess.Popen(["sleep", "60"])
    try:
        command = [build / "dyntrace", "trace", "-q", "--function", "*", "-o", f"{scratch}/outer", "--buffer-size", "256M", "--",
                   traced, "trace", "-q", "-p", str(target.pid), "--function", "nanosleep", "-e", "--for", "1", "-o", f"{scratch}/inner"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    finally:
        target.send_signal(signal.SIGKILL)
        target.wait()
    text = subprocess.Popen(["babeltrace2", "--no-delta", f"{scratch}/outer"], stdout=subprocess.PIPE, text=True)
    for line in text.stdout:
        if found := re.search(r" (\w+)_entry:", line):
            yield found[1]


with tempfile.TemporaryDirectory() as scratch:
    files = sources_of(traced)
    seen, order = set(), []
    for name in calls_of(scratch):
        if name in files and name not in seen:
            seen.add(name)
            order.append(files[name])


def switches(places):
    return sum(a != b for a, b in zip(places, places[1:]))


folders = [os.path.dirname(path) for path in order]
# values/where and values/shape are one subject: the folder directly below src/control.
subjects = [re.sub(r"(/src/control/\w+)/.*", r"\1", folder) for folder in folders]
print(f"{len(order)} functions in {len(set(order))} files; changes of folder: {switches(folders)} ({len(set(folders))} folders); "
      f"of subject: {switches(subjects)} ({len(set(subjects))} subjects)")
