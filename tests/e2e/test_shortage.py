"""The summary tells how large the buffer must be (V6)."""

import os
import re
import signal

import pytest

from harness import count_events

HITS = 160000
NEEDED = re.compile(r"events were lost because the buffer was full: --buffer-size (\d+)M would have held them")


def record(dyntrace, program, size, threads, words, hits=HITS):
    """(events, lost, output): all hits come while nobody reads the buffer."""
    one = program("spin", "--calls", hits // threads, "--threads", threads).wait_ready()
    running = dyntrace.start_trace(one.pid, *words, "--buffer-size", size).wait_told()
    os.kill(running.process.pid, signal.SIGSTOP)
    one.go().wait_ready()
    os.kill(running.process.pid, signal.SIGCONT)
    running.process.send_signal(signal.SIGINT)
    _, errors = running.process.communicate()
    one.finish()
    found = re.search(r"^(\d+) events, (\d+) lost, ", errors, re.M)
    events, lost = int(found[1]), int(found[2])
    assert count_events(running.output) == (events, lost)
    return events, lost, errors


@pytest.mark.parametrize("threads, hits, words", [
    (1, HITS, ["--probe", "foo"]), (4, HITS, ["--function", "foo"]), (400, 400, ["--probe", "foo"]), (800, HITS, ["--function", "foo"])],
    ids=["bare", "fields", "threads", "threads-fields"])
def test_a_buffer_of_that_size_loses_nothing(dyntrace, program, threads, hits, words):
    events, lost, output = record(dyntrace, program, "1M", threads, words, hits)
    assert events + lost == hits and lost
    size = NEEDED.search(output)[1]
    events, lost, output = record(dyntrace, program, f"{size}M", threads, words, hits)
    assert (events, lost) == (hits, 0)
    assert "buffer" not in output


def test_each_thread_has_a_chunk(dyntrace, program):
    """A thread keeps its chunk: 5,000 that record now and then need as many, and the default buffer has them."""
    one = program("spin", "--calls", 20, "--threads", 5000).wait_ready()
    running = dyntrace.start_trace(one.pid, "--probe", "foo").wait_told()
    one.go().wait_ready()
    trace = running.stop()
    one.finish()
    assert (len(trace.named("foo")), trace.lost) == (100000, 0)
