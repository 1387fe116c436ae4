"""Recording: modes, and everything that can happen to a target and to dyntrace. Counts are exact."""
import glob
import os
import re
import signal
import subprocess
import time

import pytest

from kills import STEPS, change_words, count_calls, kill_at, second_instruction, trace_words
from harness import Snapshot, Trace, counts, count_events, status, text, threads, until

FATES = {"return": 0, "exit": 1, "_exit": 2, "exit_group by a thread": 3, "abort": 4, "fault": 5, "kill": 6, "vfork": 7,
         "posix_spawn": 8, "exec": 9, "no descriptors": 10, "another user": 11, "not dumpable": 12,
         "another root": 13, "without its leader": 14, "scribbling": 15}


def fate(name, calls=1000):
    return ["--fate", FATES[name], "--calls", calls]


def kill(tracing):
    """kill -9 of the controller."""
    tracing.process.kill()
    tracing.process.communicate()


def summary(errors):
    """The numbers of the last line but one: events, lost, overwritten."""
    line = next(line for line in errors.splitlines() if " events, " in line)
    found = {word: int(number) for number, word in re.findall(r"(\d+) (events|lost|overwritten)", line)}
    return found["events"], found["lost"], found.get("overwritten", 0)


# ---- ends of targets -------------------------------------------------------------------------------

@pytest.mark.parametrize("name, times, exit_status", [
    ("return", 1, 0), ("exit", 1, 3), ("_exit", 1, 4), ("exit_group by a thread", 2, 5), ("abort", 1, 128 + 6),
    ("fault", 1, 128 + 11), ("kill", 1, 128 + 9), ("vfork", 3, 0), ("posix_spawn", 2, 0), ("exec", 1, 0),
    ("no descriptors", 2, 0), ("another user", 2, 0), ("not dumpable", 2, 0), ("another root", 2, 0),
    ("without its leader", 2, 6)])
def test_fates(dyntrace, program_path, name, times, exit_status):
    if name in ("another user", "another root") and os.getuid() != 0:
        pytest.skip("needs root")
    result, trace = dyntrace.trace("--probe", "foo", "--", program_path("fates"), *fate(name), status=exit_status)
    assert trace.names() == {"foo": times * 1000}
    assert trace.lost == 0
    assert summary(result.stderr) == (times * 1000, 0, 0)


@pytest.mark.parametrize("name", ["another user", "not dumpable", "no descriptors"])
def test_detach_after(dyntrace, program, name):
    """The target has changed its user since the attach: it is left clean all the same."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    target = program("fates", *fate(name)).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.finish()
    tracing.process.wait(timeout=20)
    assert Trace(tracing.output).names() == {"foo": 2000}


def test_vfork_child_counts_under_its_parent(dyntrace, program_path):
    _, trace = dyntrace.trace("--probe", "foo", "--", program_path("fates"), *fate("vfork"))
    assert len({event.tid for event in trace.events}) == 1


def test_forks_keep_their_own_ids(dyntrace, program_path):
    result, trace = dyntrace.trace("--probe", "foo", "--", program_path("forker"), "--children", 20, "--calls", 300)
    assert trace.per_tid("foo") == dict(counts(result.stdout))


def test_forks_not_followed(dyntrace, program):
    """The child isn't traced, but its text is restored."""
    target = program("forker", "--children", 3, "--calls", 300).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--no-follow-fork")
    target.go().wait_ready()
    trace = tracing.stop()
    assert trace.per_tid("foo") == {target.pid: 600}
    tracing.before.assert_unchanged()
    target.finish()


def test_stopped_and_continued(dyntrace, program):
    """SIGSTOP while recording: earlier events are in the trace while the target is stopped."""
    target = program("spin", "--threads", 2, "--calls", 500, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    os.kill(target.pid, signal.SIGSTOP)
    until(lambda: status(target.pid, "State").startswith("T"), "the stop")
    until(lambda: count_events(tracing.output) == (1000, 0), "the events on disk")
    os.kill(target.pid, signal.SIGCONT)
    target.go().wait_ready()
    assert tracing.stop().names() == {"foo": 2000}
    tracing.before.assert_unchanged()
    target.finish()


# ---- modes --------------------------------------------------------------------------------------------

def test_block_loses_nothing(dyntrace, program_path):
    result, trace = dyntrace.trace("--mode", "block", "--buffer-size", "1M", "--probe", "foo", "--",
                                   program_path("spin"), "--threads", 3, "--calls", 60_000)
    assert summary(result.stderr) == (180_000, 0, 0)
    assert trace.per_tid("foo") == dict(counts(result.stdout))
    assert trace.lost == 0


def test_block_ends_cleanly_while_threads_wait(dyntrace, program):
    """Ctrl-C at full speed: the threads that wait for room get it, and nothing is lost."""
    target = program("spin", "--threads", 3, "--calls", 3_000_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block", "--buffer-size", "1M")
    target.go()
    until(lambda: os.path.exists(tracing.output + "/stream_0") and
          os.path.getsize(tracing.output + "/stream_0") > 200_000, "some events")
    tracing.process.send_signal(signal.SIGINT)
    _, errors = tracing.process.communicate(timeout=30)
    events, lost, _ = summary(errors)
    assert (lost, tracing.process.returncode) == (0, 0), errors
    assert events > 0 and count_events(tracing.output) == (events, 0)
    tracing.before.assert_unchanged()
    target.finish()


def test_block_survives_the_controller(dyntrace, program):
    """The controller is killed: the target runs to its end, and doesn't wait for it again and again."""
    target = program("spin", "--threads", 2, "--calls", 1_000_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block", "--buffer-size", "1M")
    kill(tracing)
    output = target.finish()
    assert [calls for _, calls in counts(output)] == [1_000_000, 1_000_000]


def test_block_with_a_stopped_controller(dyntrace, program):
    """The target waits its 10 s once; later losses are counted."""
    target = program("spin", "--threads", 2, "--calls", 1_000_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block", "--buffer-size", "1M").wait_told()
    tracing.process.send_signal(signal.SIGSTOP)
    target.finish()
    tracing.process.send_signal(signal.SIGCONT)
    _, errors = tracing.process.communicate(timeout=30)
    events, lost, _ = summary(errors)
    assert events + lost == 2_000_000 and lost > 0
    assert count_events(tracing.output) == (events, lost)


def test_overwrite_keeps_the_last(dyntrace, program_path):
    """The last events of each thread, without a gap, and every other one is counted as overwritten."""
    result, trace = dyntrace.trace("--mode", "overwrite", "--buffer-size", "2M", "--function", "foo", "--",
                                   program_path("spin"), "--threads", 1, "--calls", 300_000)
    events, lost, overwritten = summary(result.stderr)
    assert (events + overwritten, lost) == (300_000, 0)
    assert events == len(trace.events) > 10_000
    numbers = [event.fields["number"] for event in trace.events]
    small = next((i for i in range(1, len(numbers)) if numbers[i] != numbers[i - 1] + 1), 0)
    assert numbers[:small] == list(range(small))  # no other thread uses a thread's first, small chunk
    assert numbers[small:] == list(range(300_000 - len(numbers) + small, 300_000))


def test_overwrite_many_threads(dyntrace, program_path):
    result, trace = dyntrace.trace("--mode", "overwrite", "--buffer-size", "1M", "--probe", "foo", "--",
                                   program_path("churn"), "--threads", 8, "--rounds", 100, "--calls", 2000)
    events, lost, overwritten = summary(result.stderr)
    assert events + overwritten + lost == 1_600_000
    assert (len(trace.events), lost) == (events, 0)


def test_snapshots(dyntrace, program):
    """Snapshots while the target goes on: each can be read, and the next has later events."""
    target = program("spin", "--threads", 2, "--calls", 100_000, "--rounds", 3).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "overwrite", "--buffer-size", "1M")
    ends = []
    for number in (1, 2):
        target.go().wait_ready()
        tracing.process.send_signal(signal.SIGUSR1)
        path = f"{tracing.output}.snapshot-{number}"
        assert f"in {path}" in tracing.process.stderr.readline() + tracing.process.stderr.readline() if number == 1 \
            else f"in {path}" in tracing.process.stderr.readline()
        trace = Trace(path)
        assert len(trace.events) > 10_000 and trace.lost == 0
        ends.append(max(event.ns for event in trace.events))
    assert ends[0] < ends[1]
    target.go()
    tracing.process.send_signal(signal.SIGUSR1)  # at full speed
    tracing.process.stderr.readline()
    assert count_events(f"{tracing.output}.snapshot-3")[0] > 10_000
    target.wait_ready()
    tracing.process.send_signal(signal.SIGINT)
    _, errors = tracing.process.communicate(timeout=30)
    events, lost, overwritten = summary(errors)
    assert (events + overwritten, lost) == (600_000, 0)
    assert count_events(tracing.output) == (events, 0)
    tracing.before.assert_unchanged()
    target.finish()


def test_snapshot_signals_from_the_start(dyntrace, program, processes):
    """A thousand SIGUSR1, from before the target is touched: none ends anything, and one snapshot serves many."""
    target = program("spin", "--threads", 2, "--calls", 50_000, "--rounds", 1).wait_ready()
    before = Snapshot(target.pid)
    output = dyntrace.new_output()
    tracing = processes.start([dyntrace.path, "trace", "-p", target.pid, "-o", output, "--mode", "overwrite", "--buffer-size",
                               "256M", "--probe", "foo"], stderr=subprocess.PIPE, text=True)
    until(lambda: int(status(tracing.pid, "SigCgt"), 16) >> (signal.SIGUSR1 - 1) & 1, "its handler")
    for _ in range(1000):
        tracing.send_signal(signal.SIGUSR1)
        time.sleep(0.0003)
    lines = [tracing.stderr.readline(), tracing.stderr.readline()]
    assert "tracing spin" in lines[0] and "in " + output + ".snapshot-1" in lines[1]
    target.go().wait_ready()
    tracing.send_signal(signal.SIGINT)
    errors = tracing.communicate(timeout=30)[1]
    assert (tracing.returncode, summary(errors)) == (0, (100_000, 0, 0))
    assert len(glob.glob(output + ".snapshot-*")) < 1000
    before.assert_unchanged()
    target.finish()


def test_snapshot_signal_in_another_mode(dyntrace, program):
    """dyntrace reports it, and nothing else happens."""
    target = program("spin", "--calls", 100, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    tracing.process.send_signal(signal.SIGUSR1)
    assert "tracing spin" in tracing.process.stderr.readline()
    assert "SIGUSR1 works with --mode overwrite only" in tracing.process.stderr.readline()
    target.go().wait_ready()
    assert tracing.stop().names() == {"foo": 100}
    tracing.before.assert_unchanged()
    target.finish()


# ---- threads --------------------------------------------------------------------------------------------

def test_five_thousand_threads(dyntrace, program_path):
    """One hit each: none is lost, no chunk leaks (the pool has 4,864)."""
    result, trace = dyntrace.trace("--probe", "foo", "--", program_path("churn"), "--threads", 50,
                                   "--rounds", 100, "--calls", 1)
    assert trace.names() == {"foo": 5000}
    assert trace.lost == 0
    expected = {}
    for tid, calls in counts(result.stdout):
        expected[tid] = expected.get(tid, 0) + calls
    assert trace.per_tid("foo") == expected


def test_two_thousand_threads_at_once(dyntrace, program):
    """They fit the default pool, and a trace that babeltrace2 opens with few descriptors."""
    target = program("spin", "--threads", 2000, "--calls", 20, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    trace = tracing.stop()
    assert (len(trace.events), trace.lost) == (40_000, 0)
    assert trace.per_tid("foo") == dict(counts(target.finish()))
    assert len(glob.glob(tracing.output + "/stream_*")) < 1000
    judge = subprocess.run(["prlimit", "--nofile=1024", "babeltrace2", tracing.output], capture_output=True, text=True)
    assert (judge.returncode, judge.stdout.count("\n"), judge.stderr) == (0, 40_000, "")


# ---- the controller -------------------------------------------------------------------------------------

def test_killed_controller_is_cleaned_up(dyntrace, program):
    """Unwritten events of the killed controller are saved in its trace; the target is as before."""
    target = program("spin", "--threads", 3, "--calls", 4000, "--rounds", 3).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    kill(tracing)
    target.go().wait_ready()  # it runs on, with its probes
    assert text(target.pid) != tracing.before.text
    Trace(tracing.output)  # readable as it is
    result = dyntrace("detach", target.pid)
    assert "3 probes" not in result.stderr and "removed 1 probe of a dyntrace that was killed" in result.stderr
    tracing.before.assert_unchanged()
    trace = Trace(tracing.output)
    assert (trace.names(), trace.lost) == ({"foo": 2 * 3 * 4000}, 0)
    assert "is not traced" in dyntrace.fails("detach", target.pid)
    output = target.finish()
    assert trace.per_tid("foo") == {tid: calls // 3 * 2 for tid, calls in counts(output)}


def test_next_trace_cleans_up_first(dyntrace, program):
    target = program("spin", "--threads", 2, "--calls", 100, "--rounds", 3).wait_ready()
    before = Snapshot(target.pid)
    first = dyntrace.start_trace(target.pid, "--function", "foo", "--function", "foo_many")
    target.go().wait_ready()
    kill(first)
    output = dyntrace.new_output()
    second = dyntrace.processes.start([dyntrace.path, "trace", "-p", target.pid, "-o", output, "--function", "foo"],
                                      stderr=subprocess.PIPE, text=True)
    lines = [second.stderr.readline() for _ in range(2)]
    assert "removed 2 probes of a dyntrace that was killed" in lines[0]
    assert f"saved in {first.output}" in lines[0]
    assert "tracing spin" in lines[1]
    target.go().wait_ready()
    second.send_signal(signal.SIGINT)
    second.communicate(timeout=30)
    assert Trace(first.output).names() == {"foo_entry": 200, "foo_many_entry": 2}
    assert Trace(output).names() == {"foo_entry": 200}
    before.assert_unchanged()
    target.finish()


def test_killed_controller_with_exits_and_children(dyntrace, program):
    """Return stubs and forked children are cleaned up too."""
    target = program("forker", "--children", 5, "--calls", 200).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "-e")
    target.go().wait_ready()
    kill(tracing)
    dyntrace("detach", target.pid)
    tracing.before.assert_unchanged()
    trace = Trace(tracing.output)
    assert (trace.names(), trace.lost) == ({"foo_entry": 7 * 200, "foo_exit": 7 * 200}, 0)
    target.finish()


def test_killed_controller_losses_are_counted_once(dyntrace, program):
    """A full pool: losses that the killed controller had reported aren't counted again."""
    target = program("spin", "--threads", 2, "--calls", 700_000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--buffer-size", "1M")
    target.go().wait_ready()
    kill(tracing)
    target.go().wait_ready()
    dyntrace("detach", target.pid)
    events, lost = count_events(tracing.output)
    assert events + lost == 2 * 2 * 700_000
    tracing.before.assert_unchanged()
    target.finish()


def test_both_killed(dyntrace, program):
    target = program("spin", "--threads", 2, "--calls", 1000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    target.go().wait_ready()
    until(lambda: count_events(tracing.output) == (2000, 0), "the events on disk")
    kill(tracing)
    target.process.kill()
    assert Trace(tracing.output).names() == {"foo": 2000}


def test_killed_at_any_step(dyntrace, program):
    """A sample of all steps, from the first look at the target to the last (the long tests take all)."""
    def make(pid):
        return trace_words(dyntrace, pid, ["--function", "foo", "-e"])

    calls = count_calls(dyntrace, program, make)
    assert calls > 130
    # (there may be some calls more or less each time: the last is perhaps never made)
    assert all([kill_at(dyntrace, program, number, make) for number in range(7, calls, calls // 8)][:-1])


@pytest.mark.parametrize("call", STEPS)
def test_killed_in_an_exchange(dyntrace, program, program_path, call):
    """(P7) A tracepoint is added in the middle of another one's site: a sample of all steps, as above."""
    second = second_instruction(dyntrace, program_path("spin"), "foo")

    def make(pid):
        return change_words(dyntrace, pid, second)

    calls = count_calls(dyntrace, program, make, call)
    assert calls > 20
    assert all([kill_at(dyntrace, program, number, make, call) for number in range(3, calls, calls // 5)][:-1])


def test_two_at_once_are_refused(dyntrace, program):
    target = program("spin", "--threads", 1, "--calls", 10, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block")
    message = dyntrace.fails("trace", "-p", target.pid, "--probe", "foo", status=125)
    assert "is being traced already" in message and str(tracing.process.pid) in message
    assert str(tracing.process.pid) in dyntrace.fails("detach", target.pid)
    target.go().wait_ready()
    assert tracing.stop().names() == {"foo": 10}
    target.finish()


def test_saved_only_where_it_belongs(dyntrace, program):
    """The killed controller's trace is gone: the target is cleaned up, and dyntrace says so."""
    target = program("spin", "--threads", 1, "--calls", 10, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    kill(tracing)
    os.rename(tracing.output, tracing.output + ".moved")
    target.go().wait_ready()
    result = dyntrace("detach", target.pid)
    assert "could not be saved" in result.stderr and tracing.output in result.stderr
    tracing.before.assert_unchanged()
    target.finish()


# ---- hostility -----------------------------------------------------------------------------------------

def test_writes_nowhere_else(dyntrace, program_path):
    """Whatever a target does to the shared memory: all that dyntrace makes or changes is in the output directory."""
    output, log = dyntrace.new_output(), os.path.join(dyntrace.scratch, "strace")
    subprocess.run(["strace", "-y", "-qq", "-o", log, "-e", "trace=file", dyntrace.path, "trace", "-q", "-o", output,
                    "--follow-exec", "--probe", "foo", "--", program_path("fates"), *map(str, fate("scribbling"))],
                   timeout=50, stderr=subprocess.DEVNULL)
    changed = []
    with open(log) as file:
        for line in file:
            call = line.split("(")[0]
            writes = call in ("mkdir", "mkdirat", "rename", "renameat", "renameat2", "unlink", "unlinkat", "link", "linkat",
                              "symlink", "symlinkat", "creat", "truncate") or "O_WRONLY" in line or "O_RDWR" in line
            if writes and not re.search(r'"/proc/\d+(/task/\d+)?/mem"|"/dev/', line):
                changed.append(line.strip())
    assert changed
    assert not [line for line in changed if f"<{output}>" not in line and f'"{output}"' not in line], changed
    Trace(output)


@pytest.mark.parametrize("mode", ["discard", "overwrite"])
def test_target_scribbles_over_the_pool(dyntrace, program_path, mode):
    """The target can spoil its own events, and nothing else; it can't write code and switches."""
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--mode", mode, "--buffer-size", "1M", "--probe", "foo", "--",
                      program_path("fates"), *fate("scribbling"), status=None)
    assert result.returncode in (0, 139, 134), result.stderr
    judge = subprocess.run(["babeltrace2", output], capture_output=True, text=True)
    assert judge.returncode == 0, judge.stderr[-2000:]
    assert sorted(os.listdir(dyntrace.scratch)) == [os.path.basename(output)]


# ---- disks ----------------------------------------------------------------------------------------------

@pytest.fixture
def small_disk(scratch):
    if os.getuid() != 0:
        pytest.skip("needs root to mount a disk")
    path = os.path.join(scratch, "disk")
    os.mkdir(path)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1M", "none", path]).returncode:
        pytest.skip("no mounts here")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def test_full_disk(dyntrace, program, small_disk):
    """One clear message; the target runs on, clean; the written part can be read."""
    target = program("spin", "--threads", 2, "--calls", 500_000, "--rounds", 1).wait_ready()
    before = Snapshot(target.pid)
    output = os.path.join(small_disk, "trace")
    tracer = dyntrace.processes.start([dyntrace.path, "trace", "-p", target.pid, "-o", output, "--probe", "foo"],
                                      stderr=subprocess.PIPE, text=True)
    until(lambda: any(before.text.get(at) != code for at, code in text(target.pid).items()), "the probe")
    target.go()
    _, errors = tracer.communicate(timeout=30)
    assert tracer.returncode == 125
    assert len(re.findall(rf"^dyntrace: only \d+ KiB are left on the file system of '{output}': recording stopped ", errors, re.M)) == 1, errors
    events, lost = count_events(output)
    assert 0 < events < 1_000_000
    target.wait_ready()
    before.assert_unchanged()
    assert [calls for _, calls in counts(target.finish())] == [500_000, 500_000]


def test_output_directory_vanishes(dyntrace, program, scratch):
    """Open files still exist for dyntrace; its last message says that the directory is gone."""
    target = program("spin", "--threads", 1, "--calls", 1000, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    subprocess.run(["rm", "-r", tracing.output], check=True)
    target.go().wait_ready()
    tracing.process.send_signal(signal.SIGINT)
    _, errors = tracing.process.communicate(timeout=30)
    assert tracing.process.returncode == 125, errors
    assert tracing.output in errors.splitlines()[-1]
    tracing.before.assert_unchanged()
    target.finish()


# ---- while it is recorded -------------------------------------------------------------------------------

def test_print_shows_events_at_once(dyntrace, program):
    target = program("spin", "--threads", 1, "--calls", 3, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "--print")
    target.go().wait_ready()
    lines = [tracing.process.stdout.readline() for _ in range(3)]  # while it goes on
    for number, line in enumerate(lines):
        assert re.fullmatch(rf"\d\d:\d\d:\d\d\.\d{{9}} \(\+[\d?.]+\) spin tid {target.pid} foo_entry "
                            rf"{{ number = {number}, factor = {number * 1000}, text = \"dyntrace\" }}\n", line), line
    target.go().wait_ready()
    trace = tracing.stop()
    assert tracing.stdout.count("\n") == 3
    assert trace.names() == {"foo_entry": 6}
    target.finish()


def queued(pid):
    """Seconds for which the threads of a process were ready to run, and had no processor."""
    return sum(int(open(f"/proc/{pid}/task/{tid}/schedstat").read().split()[1]) for tid in threads(pid)) / 1e9


def test_print_is_prompt(dyntrace, program):
    """From the time of a hit to its line: half of them within 200 ms, without the times in which dyntrace and we wait for a processor."""
    rounds = 15
    target = program("spin", "--threads", 1, "--calls", 1, "--rounds", rounds).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--print")
    delays = []
    for _ in range(rounds):
        waited = queued(tracing.process.pid) + queued("self")
        target.go().wait_ready()
        line = tracing.process.stdout.readline()
        now = time.time()
        hours, minutes, seconds = line.split()[0].split(":")
        today = time.localtime(now)
        of_day = today.tm_hour * 3600 + today.tm_min * 60 + today.tm_sec + now % 1
        waited = queued(tracing.process.pid) + queued("self") - waited
        delays.append((of_day - int(hours) * 3600 - int(minutes) * 60 - float(seconds)) % 86400 - waited)
    assert sorted(delays)[rounds // 2] < 0.2, delays
    assert len(tracing.stop().events) == rounds
    target.finish()


def test_print_doesnt_wait_for_its_reader(dyntrace, program):
    """Nobody reads stdout: the trace has every event."""
    target = program("spin", "--threads", 1, "--calls", 30_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "foo", "--print")
    target.go().wait_ready()
    until(lambda: count_events(tracing.output) == (30_000, 0), "the events on disk")
    trace = tracing.stop()
    assert len(trace.events) == 30_000 == tracing.stdout.count("\n")
    target.finish()


def test_readable_all_the_time(dyntrace, program):
    target = program("spin", "--threads", 2, "--calls", 150_000, "--rounds", 1).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo", "--mode", "block", "--buffer-size", "1M")
    target.go()
    seen = [count_events(tracing.output)[0] for _ in range(4)]
    assert seen == sorted(seen)
    target.wait_ready()
    assert count_events(tracing.output)[1] == 0
    tracing.process.send_signal(signal.SIGINT)
    tracing.process.communicate(timeout=50)
    assert count_events(tracing.output) == (300_000, 0)
    target.finish()


def test_times_are_the_wall_clocks(dyntrace, program):
    """Within a millisecond of CLOCK_REALTIME, at both ends."""
    target = program("spin", "--threads", 1, "--calls", 1, "--rounds", 2).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    bounds = []
    for _ in range(2):
        start = time.time_ns()
        target.go().wait_ready()
        bounds.append((start, time.time_ns()))
    trace = tracing.stop()
    assert len(trace.events) == 2
    for event, (start, end) in zip(trace.events, bounds):
        assert start - 1_000_000 <= event.ns <= end + 1_000_000
    target.finish()


def test_clock_that_the_kernel_doesnt_trust(dyntrace, scratch):
    """Another list of clocks, in a mount namespace of its own: refused, with what to do, and that works."""
    if os.getuid() != 0:
        pytest.skip("needs root")
    sources = os.path.join(scratch, "available_clocksource")
    with open(sources, "w") as file:
        file.write("hpet acpi_pm \n")
    script = f"""mount --bind {sources} /sys/devices/system/clocksource/clocksource0/available_clocksource || exit 77
{dyntrace.path} trace -o {scratch}/a --function main -- true
echo $?
DYNTRACE_TRUST_TSC=1 {dyntrace.path} trace -q -o {scratch}/b --function main -- true
echo $?"""
    result = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    if result.returncode == 77:
        pytest.skip("no mount namespaces here")
    assert result.stdout == "125\n0\n", result.stderr
    assert result.stderr.count("\n") == 1 and "set DYNTRACE_TRUST_TSC=1" in result.stderr
    assert not os.path.exists(os.path.join(scratch, "a"))
    assert Trace(os.path.join(scratch, "b")).names() == {"main_entry": 1}


def test_block_with_values_behind_pointers(dyntrace, program_path):
    """The agent itself writes these events: it waits for room, too, and every thread lives."""
    result, trace = dyntrace.trace("--mode", "block", "--buffer-size", "1M", "--function", "foo", "--filter", "$hits > 0", "--",
                                   program_path("spin"), "--threads", 30, "--calls", 2000)
    assert [calls for _, calls in counts(result.stdout)] == [2000] * 30
    assert (trace.names(), trace.lost) == ({"foo_entry": 60000}, 0)
    assert {event.fields["text"] for event in trace.events} == {"dyntrace"}
