"""A debugger or strace that is attached while values behind bad pointers are read: the program and the trace are as without it."""
import os
import re
import subprocess

import pytest

from harness import status, until
from test_plain_loads import alone, expected, found, has_handlers

FAULT = re.compile(r"--- SIG(?:SEGV|BUS) ")
SETTINGS = {"passes": "handle SIGSEGV SIGBUS nostop noprint pass", "stops": "handle SIGSEGV SIGBUS stop print pass"}


def attached(tool, pid):
    """Waits until the tool, and nobody else, has the process."""
    until(lambda: tool.poll() is not None or status(pid, "TracerPid") == str(tool.pid), "the tool is attached")
    assert tool.poll() is None, "it ended"
    return tool


def await_handlers(pid):
    """Waits until the agent handles the signals, and dyntrace has let go of the process: nobody else gets it before."""
    until(lambda: has_handlers(pid) and status(pid, "TracerPid") == "0", "handlers in front")


def watch_strace(processes, pid, path):
    """strace, attached to all threads."""
    strace = processes.start(["strace", "-f", "-qq", "-e", "trace=none", "-e", "signal=SIGSEGV,SIGBUS", "-o", path, "-p", str(pid)],
                             stderr=subprocess.DEVNULL)
    return attached(strace, pid)


def faults(path):
    with open(path) as file:
        return len(FAULT.findall(file.read()))


def test_strace(dyntrace, program, program_path, processes, scratch):
    """strace shows the program's own faults, and those of loads that failed, which the program never sees."""
    without = alone(program_path("gone"))
    own, all_of_them = os.path.join(scratch, "own"), os.path.join(scratch, "all")
    target = program("gone").wait_ready()
    strace = watch_strace(processes, target.pid, own)
    target.go().wait_ready()
    assert target.finish(without[1]) == without[0]
    strace.wait()
    target = program("gone").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    await_handlers(target.pid)
    strace = watch_strace(processes, target.pid, all_of_them)
    target.go().wait_ready()
    output = target.finish(without[1])
    strace.wait()
    trace = tracing.stop()
    assert output == without[0] and trace.lost == 0
    assert found(trace) == expected(output, 0)
    assert faults(all_of_them) > faults(own)


@pytest.mark.parametrize("how", SETTINGS)
def test_gdb(dyntrace, program, program_path, processes, scratch, how):
    """gdb stops at a load that failed as at any SIGSEGV; `continue` passes it on, and the hit goes on."""
    without = alone(program_path("gone"))
    target = program("gone").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    await_handlers(target.pid)
    script = os.path.join(scratch, "script")
    with open(script, "w") as file:
        file.write("\n".join([SETTINGS[how], "while $_isvoid($_exitcode) && $_isvoid($_exitsignal)", "continue", "end", ""]))
    gdb = processes.start(["gdb", "-nx", "-q", "-batch", "-p", str(target.pid), "-x", script], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    attached(gdb, target.pid)
    target.go().wait_ready()
    output = target.finish(without[1])
    said = gdb.stdout.read()
    gdb.wait()
    trace = tracing.stop()
    assert output == without[0] and trace.lost == 0
    assert found(trace) == expected(output, 0)
    assert ("received signal SIGSEGV" in said) == (how == "stops"), said
    assert "exited" in said


@pytest.mark.parametrize("tool", ["gdb", "strace"])
def test_attached_before(dyntrace, program, processes, scratch, tool):
    """Who is attached first keeps the process: dyntrace says who it is, and nothing is changed."""
    target = program("gone").wait_ready()
    if tool == "strace":
        one = watch_strace(processes, target.pid, os.path.join(scratch, "strace"))
    else:
        one = processes.start(["gdb", "-nx", "-q", "-p", str(target.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        attached(one, target.pid)
    words = ["trace", "-p", target.pid, "--function", "take", "-o", dyntrace.new_output()]
    assert f"already traced by pid {one.pid} ({tool})" in dyntrace.fails(*words, status=125)
    assert not has_handlers(target.pid)
    one.terminate() if tool == "strace" else one.stdin.close()
    one.wait()
    target.go().wait_ready()
    target.finish()
