"""Programs that change their signal masks, handlers, alternate stacks, stacks, threads and processes at random (tests/programs/states.c):
they print the same with a tracer, and each hit has its value (H44, X3 to X6, X12 to X16). The long run is in tests/torture."""
import collections
import re
import subprocess

import pytest

from harness import Program, Trace

STEPS = 100
WANTED = {
    "text": ["--function", "take"],
    "exits": ["--function", "take", "-e", "--min-duration", "1ns"],
    "backtraces": ["--function", "take", "-t", "backtrace", "-t", "comm"],
    "condition": ["--function", "take", "--filter", "text[0] == 'h' && text[1] == 'e'"],
    "match": ["--function", "take", "--filter", 'str(text) == "*e*"'],
}
CHOSEN = {"condition": lambda text: text.startswith("he"), "match": lambda text: "e" in text}


def alone(path, seed, steps):
    words = [path, "--seed", str(seed), "--steps", str(steps)]
    result = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60)
    assert result.returncode == 0, words
    return result.stdout


def expected(output, wanted):
    """The (number, text) of each call; "-": no text."""
    calls = [line.split(" ", 2)[1:] for line in output.splitlines() if line.startswith("E ")]
    return sorted((int(number), text) for number, text in calls if CHOSEN.get(wanted, str)(text))


def found(trace):
    texts = [(event.fields["number"], event.fields["text"]) for event in trace.named("take_entry")]
    return sorted((number, "-" if text.startswith("(unreadable") else text) for number, text in texts)


def check(dyntrace, processes, path, seed, wanted, begun, steps=STEPS):
    """One run; `begun`: the program has begun before it is traced."""
    without = alone(path, seed, steps)
    words = ["--seed", seed, "--steps", steps]
    if begun:
        target = Program(processes, path, words).wait_ready()
        tracing = dyntrace.start_trace(target.pid, *WANTED[wanted]).wait_told()
        assert target.finish() == without, seed
        tracing.process.communicate(timeout=60)
        trace = Trace(tracing.output)
    else:
        result, trace = dyntrace.trace(*WANTED[wanted], "--", path, *words)
        assert result.stdout == without, seed
    assert trace.lost == 0 and found(trace) == expected(without, wanted), seed


def check_counts(dyntrace, path, seed, steps=STEPS):
    without = alone(path, seed, steps)
    words = ["--tracer", "count", "--by", "text", "--function", "take", "--all-rows"]
    result = dyntrace("trace", *words, "--", path, "--seed", seed, "--steps", steps)
    assert result.stdout.startswith(without), seed
    rows = re.findall(r"^(\S.*?) +([0-9]+)$", result.stderr, re.MULTILINE)
    counts = collections.Counter()
    for text, hits in rows:
        counts["-" if text.startswith("(unreadable") else text] += int(hits)
    assert counts == collections.Counter(text for _, text in expected(without, None)), seed


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("wanted", WANTED)
def test_states(dyntrace, processes, program_path, wanted, begun):
    for seed in range(3):
        check(dyntrace, processes, program_path("states"), 10 * list(WANTED).index(wanted) + seed + 1, wanted, begun)


def test_counts(dyntrace, program_path):
    for seed in range(3):
        check_counts(dyntrace, program_path("states"), 100 + seed)
