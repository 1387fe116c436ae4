"""Traces that are bounded (--max-size, --max-files, --rotate), and disks that don't get full: the oldest events go
first, and what is there can be read at every moment."""
import os
import re
import signal
import subprocess
import time

import pytest
from harness import count_events, hits, small_file_system, until

MIB = 1 << 20
CALLS = 60000


def files(folder):
    """(name, status) of each file of a folder; files come and go meanwhile."""
    for name in os.listdir(folder):
        try:
            yield name, os.stat(os.path.join(folder, name))
        except FileNotFoundError:
            pass


def space(folder):
    """Bytes on disk of a folder's files."""
    return sum(status.st_blocks * 512 for _, status in files(folder))


def streams(folder):
    """{file: size}"""
    return {name: status.st_size for name, status in files(folder) if name.startswith("stream_")}


def kept_and_removed(errors):
    return tuple(map(int, re.search(r"^(\d+) events, 0 lost, (\d+) removed, the oldest first, ", errors, re.M).groups()))


def test_a_trace_within_its_size_has_the_last_events(dyntrace, program_path, processes):
    """At every moment within its size; events in the trace and removed ones are all that were recorded."""
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "--wide", "-o", output, "--mode", "block", "--max-size", "1M",
                               "--function", "foo", "--", program_path("spin"), "--calls", CALLS],
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    most = 0
    while tracing.poll() is None:
        time.sleep(0.005)
        most = max(most, space(output) if os.path.isdir(output) else 0)
    errors = tracing.stderr.read()
    assert tracing.returncode == 0, errors
    kept, removed = kept_and_removed(errors)
    assert kept + removed == CALLS == hits(errors, "foo")
    assert MIB // 2 < space(output) <= MIB and most <= MIB
    lines = subprocess.run(["babeltrace2", output], check=True, capture_output=True, text=True).stdout
    numbers = [int(number) for number in re.findall(r"\{ number = (\d+), ", lines)]
    assert numbers == list(range(removed, CALLS)), (numbers[:2], numbers[-2:], removed)
    assert dyntrace("report", output).stdout.splitlines()[1].startswith(f"{kept}  ")
    assert [name for name in os.listdir(output) if name.startswith(".")] == []


def test_removed_calls_that_a_filter_kept_at_their_exit_are_counted(dyntrace, program_path):
    """(R10) Entry and exit of such a call are written together, beside the thread's other events; they are removed like others."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--mode", "block", "--max-size", "1M", "--function", "foo", "-e", "--filter", "duration >= 0",
                      "--", program_path("spin"), "--calls", CALLS)
    kept, removed = kept_and_removed(result.stderr)
    assert kept + removed == 2 * CALLS and removed > 0
    assert count_events(output) == (kept, 0)


def test_rotated_files_are_complete_and_the_last_are_kept(dyntrace, spin):
    """Each stretch of time has a file of its own. What is there can be read while files are recorded."""
    one = spin(rounds=3000)
    running = dyntrace.start_trace(one.pid, "--probe", "foo", "--rotate", "100ms", "--max-files", 3)
    seen, rounds = set(), 0
    while len(seen) < 6 and rounds < 2900:
        one.round()
        rounds += 1
        new = set(streams(running.output)) - seen
        seen |= new
        if new:
            subprocess.run(["babeltrace2", "-o", "dummy", running.output], capture_output=True)  # a file may be gone
        time.sleep(0.01)  # a stretch of time has some rounds
    assert len(seen) >= 6 and len(streams(running.output)) <= 4  # one may be about to go
    running.process.send_signal(signal.SIGINT)
    _, errors = running.process.communicate(timeout=60)
    kept, removed = kept_and_removed(errors)
    assert kept + removed == rounds * 1000 == hits(errors, "foo")
    assert count_events(running.output) == (kept, 0) and len(streams(running.output)) <= 3
    one.finish()


@pytest.fixture
def small_disk(scratch):
    """A file system of 2 MiB."""
    with small_file_system(scratch, "2M") as path:
        yield path


def test_recording_stops_before_the_disk_is_full(dyntrace, processes, program_path, small_disk):
    """The command goes on, and its exit status is dyntrace's; each call, also of programs that begin later, is in the trace or lost;
    space is left."""
    output = os.path.join(small_disk, "trace")
    script = '"$0" --calls 300000 > /dev/null && read word && "$0" --calls 50000 > /dev/null && exit 7'
    tracing = processes.start([dyntrace.path, "trace", "-o", output, "--mode", "block", "--probe", "foo", "--follow-exec", "--", "sh", "-c", script,
                               program_path("spin")], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    told = ""
    while "recording stopped" not in told:
        line = tracing.stderr.readline()
        assert line, told
        told += line
    told += tracing.communicate("\n", timeout=60)[1]
    assert tracing.returncode == 7
    said = rf"^dyntrace: only \d+ KiB are left on the file system of '{output}': recording stopped \(make room, or bound traces with --max-size\)$"
    assert len(re.findall(said, told, re.M)) == 1, told
    events, lost = count_events(output)
    assert re.search(rf"^{events} events, {lost} lost, ", told, re.M), told
    assert 0 < events < 300000 and events + lost == 350000
    assert os.statvfs(small_disk).f_bavail * 4096 > MIB // 16


def test_a_bounded_trace_goes_on_where_an_unbounded_one_would_stop(dyntrace, program_path, small_disk):
    output = os.path.join(small_disk, "trace")
    result = dyntrace("trace", "-o", output, "--mode", "block", "--max-size", "1M", "--probe", "foo", "--",
                      program_path("spin"), "--calls", 400000)
    kept, removed = kept_and_removed(result.stderr)
    assert kept + removed == 400000 and count_events(output) == (kept, 0)


def test_a_slow_disk_costs_events_that_are_counted(dyntrace, program):
    """Each write takes 2 ms: what the buffer has no room for meanwhile is lost, and the rest is within the size."""
    one = program("spin", "--calls", 200000).wait_ready()
    slow = ("strace", "-qq", "-o", "/dev/null", "-e", "trace=pwritev", "-e", "inject=pwritev:delay_exit=2000")
    running = dyntrace.start_trace(one.pid, "--probe", "foo", "--buffer-size", "1M", "--max-size", "1M", prefix=slow)
    one.go().wait_ready()
    one.finish()
    _, errors = running.process.communicate(timeout=60)
    found = re.search(r"^(\d+) events, (\d+) lost(?:, (\d+) removed, the oldest first)?, ", errors, re.M)
    kept, lost, removed = (int(number or 0) for number in found.groups())
    assert kept + lost + removed == 200000
    assert count_events(running.output)[0] == kept and space(running.output) <= MIB


@pytest.mark.parametrize("calls", [300000, 2000], ids=["more-than-the-size", "less"])
def test_a_dead_worker_s_buffers_are_saved_within_the_size(new_daemon, program, calls):
    """Of what is more than the trace may be the last events stay, and no hit has to come for that. The next worker goes on
    within the same size, and removes the dead one's files first."""
    daemon = new_daemon("--max-size", "1M", "--buffer-size", "8M").start()
    one = program("spin", "--calls", calls, "--rounds", 3).wait_ready()
    daemon.add(f"{one.pid}:foo", "ctf")
    folder = daemon.trace_of(one.pid)
    worker = daemon.workers(one.pid)[0]
    os.kill(worker, signal.SIGSTOP)  # nobody empties them
    one.go().wait_ready()
    os.kill(worker, signal.SIGKILL)
    most = 0

    def is_saved():
        nonlocal most
        most = max(most, space(folder))
        return re.search(r"its worker died: .*: settled", daemon.log_text(), re.S)

    until(is_saved, "the next worker to have saved them")
    assert max(most, space(folder)) <= MIB
    events, _ = count_events(folder)
    assert events == calls if calls < 10000 else MIB // 2 // 8 < events < calls
    assert all(re.fullmatch(r"stream_\d+", name) for name in streams(folder))
    one.go().wait_ready()
    daemon("flush", one.pid)
    assert space(folder) <= MIB
    daemon("detach", one.pid)
    later, _ = count_events(folder)
    if calls < 10000:
        assert later == 2 * calls
    else:
        assert MIB // 2 // 8 < later < calls and all(name.startswith("stream_1_") for name in streams(folder))
    assert space(folder) <= MIB
    one.finish()


@pytest.mark.parametrize("words, why", [
    (["--max-size", "100K"], "--max-size: from 1M on"),
    (["--max-files", 3], "--max-files: needs --rotate TIME or --max-size SIZE"),
    (["--rotate", "1m", "--max-files", 1], "--max-files: from 2 to 10000"),
    (["--max-size", "1M", "--max-files", 9], "--max-files: at most 8 with this --max-size"),
    (["--max-size", "1M", "--mode", "overwrite"], "--max-size: not with --mode overwrite, whose trace --buffer-size bounds"),
    (["--rotate", "1m", "--tracer", "count"], "--rotate: tracer 'count' writes no trace"),
])
def test_what_makes_no_sense_is_refused(dyntrace, words, why):
    assert dyntrace.fails("trace", *words, "--function", "main", "--", "true", status=2) == f"trace: {why}"
