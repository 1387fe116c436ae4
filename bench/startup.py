#!/usr/bin/python3
"""The agent's cost at a program's start: linked and preloaded, without a daemon.

    bench/startup.py [BUILD]

A program that does nothing is started again and again, in turns: as it is, linked with the agent, with the agent
preloaded, and, for comparison, linked with a library that does nothing. Prints the median and the minimum of each, and ratios to
the first.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 600


def started(path, environment):
    """Seconds from posix_spawn to its end."""
    begin = time.perf_counter()
    pid = os.posix_spawn(path, [path], environment)
    assert os.waitpid(pid, 0)[1] == 0
    return time.perf_counter() - begin


def main():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(root, "build"))
    agent = os.path.join(build, "libdyntrace-agent.so")
    with tempfile.TemporaryDirectory() as folder:
        source, empty = os.path.join(folder, "nothing.c"), os.path.join(folder, "libempty.so")
        with open(source, "w") as file:
            file.write("int main(void) { return 0; }\n")
        subprocess.run(["gcc", "-shared", "-nostdlib", "-o", empty, "-x", "c", os.devnull], check=True)

        def compile_with(name, *arguments):
            path = os.path.join(folder, name)
            subprocess.run(["gcc", "-O2", "-o", path, source, *arguments], check=True)
            return path
        plain = compile_with("plain")
        environment = {"PATH": "/usr/bin", "DYNTRACE_SOCKET": os.path.join(folder, "no-daemon")}
        cases = {
            "plain": (plain, environment),
            "linked with an empty library": (compile_with("with-empty", "-Wl,--no-as-needed", empty), environment),
            "linked with the agent": (compile_with("with-agent", "-Wl,--no-as-needed", agent, f"-Wl,-rpath,{build}"), environment),
            "agent preloaded": (plain, {**environment, "LD_PRELOAD": agent}),
        }
        times = {name: [] for name in cases}
        for _ in range(ROUNDS):
            for name, case in cases.items():
                times[name].append(started(*case))
    first = times["plain"]
    print(f"{'case':30} {'median us':>10} {'x':>6} {'minimum us':>11} {'x':>6}")
    for name, seconds in times.items():
        print(f"{name:30} {statistics.median(seconds) * 1e6:10.0f} {statistics.median(seconds) / statistics.median(first):6.2f} "
              f"{min(seconds) * 1e6:11.0f} {min(seconds) / min(first):6.2f}")


main()
