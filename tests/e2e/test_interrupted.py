"""Ctrl-C: every long phase of every command ends soon after it, and leaves the target as it was found.

"Soon" is measured in two ways which other programs on the machine don't change. A command that gets SIGINT uses at most LIMIT
seconds of processor time more, wherever it was. And of the time on the clock it sleeps and waits little: what is left after its
waits for a processor (/proc/PID/schedstat) is at most WALL seconds, several times LIMIT, for disks are shared, too. Phases are found by a sweep: the signal comes after each part of the
time that the command needs when nobody interrupts it.
"""
import os
import signal
import subprocess
import time

import pytest

from daemon_harness import alive
from harness import PATIENCE, Program, Snapshot, until

LIMIT = 0.2
WALL = 1.0
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


def queued(pid):
    """Seconds for which a process, also one that has ended, was ready to run and had no processor."""
    with open(f"/proc/{pid}/schedstat") as file:
        return int(file.read().split()[1]) / 1e9


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
    waited, begin = queued(process.pid) + queued("self"), time.monotonic()
    process.send_signal(signal.SIGINT)
    before = used(process.pid) or now[0]  # (we may have waited for a processor since `now`, and the command worked on)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    wall = time.monotonic() - begin - (queued(process.pid) + queued("self") - waited)
    status, total = end(process)
    assert wall <= WALL, f"{wall:.2f} s on the clock after Ctrl-C, without its waits for a processor"
    return status, total - before


def sweep(start, statuses, check=lambda: None, parts=4):
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
    for seconds in (0, 0.1):  # (both take longer)
        status, more = interrupt_after(command(*words), seconds)
        assert (status, more <= LIMIT) == (-signal.SIGINT, True), more


def test_placing_many(command, compiler, scratch):
    """Names, planning, the agent, a thousand trampolines, the patch, and detaching again."""
    before = Snapshot(compiler.pid)
    numbers = iter(range(100))

    def start():
        return command("trace", "-p", str(compiler.pid), "--function", "_ZN4llvm10*@libLLVM-14.so.1", "--for", "0.01",
                       "-o", os.path.join(scratch, f"trace-{next(numbers)}"))

    sweep(start, [-signal.SIGINT, 128 + signal.SIGINT, 0], before.assert_unchanged)


LATE = """
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	char word;
	return read(0, &word, 1) == 1 && dlopen(argv[1], RTLD_NOW) && read(0, &word, 1) == 1;
}
"""


UNDO_LIMIT = 1.5  # seconds of work: what is there of 60,000 tracepoints goes again


@pytest.mark.parametrize("share", [0.05, 0.45])
def test_placing_in_a_library_that_comes(build, processes, scratch, share):
    """The loading thread waits meanwhile; it goes on, with a library that is as in its file. `share`: of four seconds of work."""
    path = os.path.join(scratch, "late")
    with open(path + ".c", "w") as file:
        file.write(LATE)
    subprocess.run(["gcc", "-o", path, path + ".c"], check=True)
    target = processes.start([path, LLVM], stdin=subprocess.PIPE)
    until(lambda: open(f"/proc/{target.pid}/syscall").read().startswith("0 0x0 "), "it to read")
    tracing = processes.start([os.path.join(build, "dyntrace"), "trace", "-p", str(target.pid), "--wait", "--function",
                               "*@libLLVM-14.so.1", "-o", os.path.join(scratch, "trace")], stderr=subprocess.PIPE, text=True)
    assert "Ctrl-C ends it" in tracing.stderr.readline()
    begun = used(tracing.pid)
    target.stdin.write(b"x")
    target.stdin.flush()
    found = interrupt_after(tracing, begun + 4 * share)
    assert found and found[0] == 0 and found[1] <= UNDO_LIMIT, found
    until(lambda: open(f"/proc/{target.pid}/syscall").read().startswith("0 0x0 "), "it to go on")
    with open(f"/proc/{target.pid}/maps") as lines, open(LLVM, "rb") as file, open(f"/proc/{target.pid}/mem", "rb", buffering=0) as mem:
        rest = lines.read()
        assert "memfd:dyntrace" not in rest
        line = next(line.split() for line in rest.splitlines() if "libLLVM" in line and "r-x" in line)
        start, stop = (int(word, 16) for word in line[0].split("-"))
        mem.seek(start)
        file.seek(int(line[2], 16))
        assert mem.read(stop - start) == file.read(stop - start)
    target.stdin.write(b"x")
    target.stdin.close()
    target.stdin = None
    assert target.wait(60) == 1


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


def tracer_of(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("TracerPid"))


def test_waiting_for_a_thread_that_does_not_stop(build, processes, scratch, program_path):
    """A thread in vfork can't be stopped: dyntrace waits 2 s for it, but not after Ctrl-C. The others run on."""
    one = Program(processes, program_path("sharer"), ["--vfork", 1])
    one.wait_ready()
    threads = sorted(map(int, os.listdir(f"/proc/{one.pid}/task")))
    before = Snapshot(one.pid)
    until(lambda: " (" in (text := open(f"/proc/{one.pid}/task/{threads[1]}/stat").read()) and text.rpartition(")")[2].split()[0] == "D", "vfork")
    output = os.path.join(scratch, "trace")
    process = processes.start([os.path.join(build, "dyntrace"), "trace", "-p", str(one.pid), "--function", "main", "-o", output],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until(lambda: tracer_of(one.pid, threads[1]) == process.pid or process.poll() is not None, "dyntrace to hold the thread")
    process.send_signal(signal.SIGINT)
    errors = process.stderr.read()
    assert (end(process)[0], errors) == (128 + signal.SIGINT, "")  # not "can't be stopped", as after 2 s
    assert not os.path.exists(output)
    assert tracer_of(one.pid, threads[0]) == 0
    one.go()
    one.wait_ready()
    before.assert_unchanged()
    one.go()
    assert one.process.wait(60) == 0
    one.close()


# What each command does for long, and where a test interrupts it. A command without handlers for SIGINT is ended by the
# kernel, wherever it is: the last test finds the handlers.
#
#   trace    waits for a command to begin        test_before_the_command_runs
#            names, DWARF, planning, code        test_placing_many, in four parts
#            waits for threads to stop           test_waiting_for_a_thread_that_does_not_stop, unit test_stop
#            records, prints, --for              tests of trace, which end by Ctrl-C
#            removes, reads the rest             test_placing_many; it is done to its end, which the target needs
#            debug files, their CRC, debuginfod  test_damaged (huge debug files)
#            a log that nobody reads             test_log
#   view     reads, prints                       test_reading_a_trace
#   list-symbols, list-markers, coverage         test_reading_files
#   commands of the daemon                       test_waiting_for_the_daemon
def test_only_trace_catches_the_signal():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    found = set()
    for folder in ("cli", "client", "control", "options"):
        for place, _, names in os.walk(os.path.join(root, "src", folder)):
            for name in names:
                with open(os.path.join(place, name), errors="replace") as file:
                    if "SIGINT" in file.read():
                        found.add(name)
    # view: the reader, a child, and whoever waits for a pager ignore it
    assert found == {"cmd_trace.c", "view_reader.c", "view_pager.c"}, found


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
        until(lambda: not alive(child), "the reader's end")


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
