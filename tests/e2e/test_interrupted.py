"""Ctrl-C: every long phase of every command ends soon after it, and leaves the target as it was found.

"Soon" is measured in processor time, which other programs on the machine don't change: a command that gets SIGINT uses
at most LIMIT seconds more, wherever it was. Phases are found by a sweep: the signal comes after each tenth of the
time that the command needs when nobody interrupts it.
"""
import os
import signal
import subprocess
import time

import pytest

from daemon_harness import alive
from harness import PATIENCE, Snapshot, until

LIMIT = 0.2
LLVM = "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"  # clang's: 60,000 functions
TICKS = os.sysconf("SC_CLK_TCK")


def used(pid):
    """Processor time of a process, with its children that have ended; None: it has ended itself."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else sum(map(int, fields[11:15])) / TICKS


def end(process):
    """Waits for the process; gives its status and all the processor time that it used."""
    deadline = time.monotonic() + 60 * PATIENCE
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, usage.ru_utime + usage.ru_stime
        assert time.monotonic() < deadline, "it doesn't end"
        time.sleep(0.002)


def interrupt_after(process, seconds):
    """Sends SIGINT once the command has used that much processor time; gives its status and what it used after it.
    None: it was done before."""
    now = until(lambda: (now := used(process.pid)) is None or now >= seconds and (now,), "the command to get on")
    if now is True:
        end(process)
        return None
    process.send_signal(signal.SIGINT)
    status, total = end(process)
    return status, total - now[0]


def sweep(start, statuses, check=lambda: None, parts=6):
    """Interrupts the command in each part of its way."""
    _, whole = end(start())
    assert whole > LIMIT, f"not long enough to be interrupted: {whole} s"
    check()
    seen = 0
    for part in range(parts):
        found = interrupt_after(start(), whole * part / parts)
        check()
        if found:
            seen += 1
            status, more = found
            assert status in statuses, status
            assert more <= LIMIT, f"{more:.2f} s of processor time after Ctrl-C at {part}/{parts} of {whole:.2f} s"
    assert seen >= parts / 2


@pytest.fixture
def command(build, processes, scratch):
    def start(*words, **options):
        return processes.start([os.path.join(build, "dyntrace"), *words], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, cwd=scratch, **options)
    return start


@pytest.fixture
def compiler(processes):
    """A clang that waits for its input: 100 MB of code."""
    process = processes.start(["clang", "-x", "c", "-fsyntax-only", "-"], stdin=subprocess.PIPE)
    until(lambda: open(f"/proc/{process.pid}/syscall").read().startswith("0 0x0 "), "it to read")
    yield process
    process.stdin.close()
    assert process.wait(60) == 0
    process.stdin = None


@pytest.mark.parametrize("words", [["list-symbols", "-a", LLVM], ["coverage", LLVM]])
def test_reading_files(command, words):
    sweep(lambda: command(*words), [-signal.SIGINT], parts=2)


def test_placing_many(command, compiler, scratch):
    """Names, planning, the agent, a thousand trampolines, the patch, and detaching again."""
    before = Snapshot(compiler.pid)
    numbers = iter(range(100))

    def start():
        return command("trace", "-p", str(compiler.pid), "--function", "_ZN4llvm10*@libLLVM-14.so.1", "--for", "0.01",
                       "-o", os.path.join(scratch, f"trace-{next(numbers)}"))

    sweep(start, [-signal.SIGINT, 128 + signal.SIGINT, 0], before.assert_unchanged)


def test_before_the_command_runs(command, scratch):
    """The command never runs, and doesn't stay."""
    numbers = iter(range(100))
    mark = os.path.join(scratch, "mark")

    def start():
        return command("trace", "--function", "_ZN4llvm1*@libLLVM-14.so.1", "-o", os.path.join(scratch, f"trace-{next(numbers)}"),
                       "--", "clang", "-x", "c", "-fsyntax-only", "/dev/null", "-o", mark)

    process = start()
    until(lambda: (now := used(process.pid)) is None or now > 0.2, "the planning")
    child = int(open(f"/proc/{process.pid}/task/{process.pid}/children").read())
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == -signal.SIGINT
    until(lambda: not alive(child), "its end")
    assert os.listdir(scratch) == []


def test_reading_a_trace(build, command, processes, scratch, program_path):
    """view of a million events: its reader ends with it."""
    trace = os.path.join(scratch, "trace")
    subprocess.run([os.path.join(build, "dyntrace"), "trace", "-q", "--function", "foo", "-o", trace, "--mode", "block",
                    "--", program_path("spin"), "--calls", "1000000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=300)
    process = command("view", trace)
    until(lambda: (now := used(process.pid)) is None or open(f"/proc/{process.pid}/task/{process.pid}/children").read(), "its reader")
    children = list(map(int, open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()))
    process.send_signal(signal.SIGINT)
    assert end(process)[0] == -signal.SIGINT
    for child in children:
        until(lambda: not alive(child), "the reader's end", seconds=5)


def test_waiting_for_the_daemon(daemon, build, processes, compiler):
    """A client that waits for events, or whose request takes long, ends at once; the daemon goes on."""
    env = {**os.environ, "DYNTRACE_SOCKET": daemon.socket}
    daemon.targets.add(str(compiler.pid))
    daemon.attach(compiler.pid)
    for words in (["watch"], ["add", f"{compiler.pid}:_ZN4llvm1*@libLLVM-14.so.1"]):
        process = processes.start([os.path.join(build, "dyntrace"), *words], stdout=subprocess.DEVNULL, env=env)
        until(lambda: open(f"/proc/{process.pid}/syscall").read().split()[0] in ("0", "7", "45", "47", "271"),
              "it to wait: read, poll, recvfrom, recvmsg, ppoll")
        process.send_signal(signal.SIGINT)
        assert end(process)[0] == -signal.SIGINT
    daemon("detach", compiler.pid, seconds=250)
