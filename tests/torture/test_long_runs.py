"""Long runs, in which rare things happen. DYNTRACE_TORTURE multiplies the length (1 is some minutes)."""
import os
import random
import signal
import time

import pytest
from harness import Snapshot, count_events, counts

FACTOR = float(os.environ.get("DYNTRACE_TORTURE", "1"))


def times(number):
    return max(int(number * FACTOR), 1)


def test_coming_and_going_threads(dyntrace, program_path):
    """Tids and thread blocks are reused; every call is recorded or counted as lost."""
    rounds, threads, calls = times(3000), 8, 40
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "foo", "--", program_path("churn"), "--rounds", rounds,
                      "--threads", threads, "--calls", calls, seconds=3000)
    made = sum(count for _, count in counts(result.stdout))
    assert made == rounds * threads * calls
    events, lost = count_events(output)
    assert events + lost == made


@pytest.mark.limit(2 * 3600)
def test_an_hour(dyntrace, program):
    """Of one trace, with a hit every now and then: each has the wall clock's time, to a millisecond, from the first to the last."""
    seconds, rounds = 3600 * FACTOR, 60
    target = program("spin", "--threads", 1, "--calls", 1, "--rounds", rounds).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--probe", "foo")
    bounds = []
    for _ in range(rounds):
        start = time.time_ns()
        target.go().wait_ready()
        bounds.append((start, time.time_ns()))
        time.sleep(seconds / rounds)
    trace = tracing.stop()
    assert len(trace.events) == rounds and trace.lost == 0
    for event, (start, end) in zip(trace.events, bounds):
        assert start - 1_000_000 <= event.ns <= end + 1_000_000
    target.finish()


def test_many_forks(dyntrace, program_path):
    children, calls = times(2000), 30
    output = dyntrace.new_output()
    result = dyntrace("trace", "-o", output, "--function", "foo", "--", program_path("forker"), "--children", children,
                      "--calls", calls, seconds=3000)
    made = sum(count for _, count in counts(result.stdout))
    assert made == (children + 2) * calls
    events, lost = count_events(output)
    assert events + lost == made


@pytest.mark.parametrize("size", ["1M", "64M"])
def test_flood(dyntrace, program_path, size):
    """More than any disk takes: recorded + lost = made."""
    threads, calls = 4, times(5_000_000)
    output = dyntrace.new_output()
    dyntrace("trace", "-o", output, "--buffer-size", size, "--function", "foo", "--", program_path("spin"),
             "--threads", threads, "--calls", calls, seconds=3000)
    events, lost = count_events(output)
    assert events + lost == threads * calls


def test_attach_and_detach_under_load(dyntrace, redis):
    """Never the same functions, ended in every way; redis is as it was after each."""
    program = os.path.basename(os.readlink(f"/proc/{redis.pid}/exe"))
    names = sorted({line.split()[3] for line in dyntrace("list-symbols", redis.pid, "*Command").stdout.splitlines()
                    if line.split()[2] == program})
    choose = random.Random(1)
    load = redis.load(clients=4)
    before = Snapshot(redis.pid)
    for _ in range(times(200)):
        chosen = {"processCommand", "call", *choose.sample(names, 5)}
        tracing = dyntrace.start_trace(redis.pid, *(word for name in sorted(chosen) for word in ("--function", name)))
        tracing.stop(choose.choice([signal.SIGINT, signal.SIGTERM]))
        assert redis.process.poll() is None and load.poll() is None
        before.assert_unchanged(busy=True)
    assert redis.cli("ping") == "PONG"
