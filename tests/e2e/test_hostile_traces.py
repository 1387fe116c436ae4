"""dyntrace view of damaged and hostile traces: its reader dies alone, and one sentence says so."""
import concurrent.futures
import os
import resource
import signal
import struct
import subprocess

import handmade
import mutations
import pytest
from daemon_harness import alive
from handmade import Packet
from harness import until
from test_values import compile_program

MUTATIONS = 320
BACKTRACES = 32  # mutations of a trace with these: finding names takes ten times as long
MEMORY = 160 << 20  # for most of them: what fills it takes no time
SECONDS = 600  # many times the usual: 10 s of processor time are allowed without an event
RSS_MAX = 400 << 20
GREEDY = handmade.METADATA + '''event { id = 4; stream_id = 0; name = "greedy"; fields := struct {
        uint32_t count; uint64_t values[count]; }; };
'''


def view(dyntrace, path, *words, memory=MEMORY):
    """Gives the exit status, what was printed, the errors and the memory that it took."""
    process = subprocess.Popen([dyntrace.path, "view", *words, path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (memory, memory)))
    try:
        printed, errors = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return process.returncode, printed, errors.decode(errors="replace")


def judge(status, errors, what):
    """A trace is read, or one line says why not."""
    assert status in (0, 1), (what, status, errors)
    if status == 0:
        assert errors == "", (what, errors)
    else:
        assert errors.startswith("dyntrace: ") and errors.count("\n") == 1 and errors.endswith("\n"), (what, errors)


def look_at_all(dyntrace, trace, scratch, numbers, workers=2):
    """Views that many damaged copies; gives how many were read, refused, and ended their reader."""
    def look(worker):
        seen = {"read": 0, "refused": 0, "ended": 0}
        folder = os.path.join(scratch, f"damaged-{worker}")
        for number in numbers[worker::workers]:
            kind = mutations.damage(trace, folder, number)
            status, _, errors = view(dyntrace, folder, *(["--json"] if number % 3 == 0 else []))
            judge(status, errors, (number, kind))
            seen["ended" if "is damaged: its reader" in errors else "refused" if status else "read"] += 1
        return seen
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(look, range(workers)))
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < RSS_MAX
    return {key: sum(result[key] for result in results) for key in results[0]}


def record(dyntrace, scratch, *contexts):
    """Gives a real trace: structures, strings, enumerations, modules."""
    path = compile_program(scratch, "types.c", "-O1", name="types")
    output = dyntrace.new_output()
    dyntrace("trace", "-e", "-o", output, "--function", "*@types", *contexts, "--", path)
    return output


@pytest.mark.parametrize("contexts, numbers", [(["-t", "comm"], range(MUTATIONS)), (["-t", "backtrace"], range(BACKTRACES))],
                         ids=["plain", "backtraces"])
def test_mutations(dyntrace, scratch, contexts, numbers):
    seen = look_at_all(dyntrace, record(dyntrace, scratch, *contexts), scratch, numbers)
    assert sum(seen.values()) == len(numbers)
    assert all(seen.values()), seen  # the damage is of every kind


@pytest.fixture(name="greedy")
def greedy_trace(scratch):
    """A hundred events, and one that claims 4 billion numbers."""
    packet = Packet(0, 900)
    for stamp in range(100):
        packet.add(0, stamp)
    path = handmade.write(os.path.join(scratch, "greedy"), [packet.add(4, 400, struct.pack("<I", 0xffffffff))])
    with open(os.path.join(path, "metadata"), "w") as metadata:
        metadata.write(GREEDY)
    return path


def claim(greedy, count):
    with open(os.path.join(greedy, "stream_0"), "r+b") as stream:
        stream.seek(-4, os.SEEK_END)
        stream.write(struct.pack("<I", count))


@pytest.mark.parametrize("words", [[], ["--json"], ["--filter", "$tid == 77"]], ids=["text", "json", "filter"])
@pytest.mark.parametrize("count, why", [(0xffffffff, "stumbled"), (0x7ffffff0, "needed more than 160 MiB of memory")])
def test_events_before_the_damage_are_printed(dyntrace, greedy, words, count, why):
    claim(greedy, count)
    status, printed, errors = view(dyntrace, greedy, *words)
    events = printed.count(b"bare")
    assert events == printed.count(b"\n") and events > 100 - 20  # libbabeltrace2 reads up to 15 events at once
    assert (status, errors) == (1, f"dyntrace: the trace '{greedy}' is damaged: its reader {why} after {events} events "
                                "(all that it could read is printed; the rest needs another copy of the trace)\n")


def test_memory_is_bounded_by_default(dyntrace, greedy):
    """Without a limit from outside: the fields of the elements, one after another, up to the limit."""
    claim(greedy, 60_000_000)
    status, printed, errors = view(dyntrace, greedy, memory=resource.RLIM_INFINITY)
    assert status == 1 and printed.count(b"\n") > 100 - 20
    assert "its reader needed more than 1024 MiB of memory" in errors
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 1200 << 10  # KiB


def children_of(pid):
    """/proc/PID/task/TID/children needs an option of the kernel that not all have."""
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit() and parent_of(entry) == pid]


def parent_of(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            return int(stat.read().rpartition(b")")[2].split()[1])
    except OSError:
        return None


def is_waiting(pid):
    """Without rights, and asleep; not so the first reader, which finds that the trace isn't dyntrace's and ends."""
    try:
        with open(f"/proc/{pid}/status") as status:
            text = status.read()
            return "Seccomp:\t2" in text and "State:\tS" in text
    except OSError:
        return False


@pytest.fixture(name="waiting")
def waiting_view(dyntrace, scratch):
    """A reader whose output nobody reads."""
    packet = Packet(0, 20000)
    for stamp in range(20000):
        packet.add(0, stamp)
    path = handmade.write(os.path.join(scratch, "waiting"), [packet])
    with subprocess.Popen([dyntrace.path, "view", path], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          start_new_session=True) as process:
        reader = until(lambda: [pid for pid in children_of(process.pid) if is_waiting(pid)], "a reader that waits")[0]
        yield process, reader
        process.kill()


def test_interrupt(waiting):
    """Ctrl-C, which a terminal sends to both."""
    process, reader = waiting
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(SECONDS) == -signal.SIGINT
    assert process.stderr.read() == b""
    until(lambda: not alive(reader), "the reader's end")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_reader_does_not_outlive_the_command(waiting, number):
    process, reader = waiting
    process.send_signal(number)
    assert process.wait(SECONDS) == -number
    until(lambda: not alive(reader), "the reader's end")


def test_the_reader_alone_is_killed(waiting):
    process, reader = waiting
    os.kill(reader, signal.SIGKILL)
    until(lambda: process.poll() is not None, "the command's end")
    assert process.returncode == 1
    assert b"its reader was ended by SIGKILL after " in process.stderr.read()
