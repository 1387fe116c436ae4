"""Values behind pointers are read by plain loads (X3 to X6, H44): a load that fails is mended, and the program sees its own masks,
handlers and faults as without a tracer. tests/programs/gone.c gives pointers to memory that goes away, in every state of its signals."""
import collections
import signal
import subprocess

import pytest

from harness import status, until

LENGTHS = 200  # of gone.c
FAULTS = 1 << signal.SIGSEGV - 1 | 1 << signal.SIGBUS - 1


def has_handlers(pid):
    """Does the agent handle the signals of loads? gone.c itself doesn't, while it waits."""
    return int(status(pid, "SigCgt"), 16) & FAULTS == FAULTS


def alone(path, *arguments):
    """What gone.c prints without a tracer, and its end."""
    result = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, timeout=60)
    return result.stdout, result.returncode


def expected(output, closed):
    """{(where, text): number} of the first process's events; its calls in a loop have no certain text."""
    turns = {1: 2, 2: 1, 3: 1, 4: 6, 5: 3, 6: 1, 7: 1, 8: 2, 9: 1, 10: 1, 11: 4, 12: 8, 13: 2, 14: 1, 15: 2, 16: 1, 17: 4, 18: 3,
             19: 1, 20: 1, **({22: 4, 23: 1} if closed else {})}
    texts = collections.Counter()
    for where, number in turns.items():
        texts[where, "here"] = 8 * number
        texts[-where, "unreadable"] = 2 * number
    for length in range(LENGTHS):
        text = "".join(chr(ord("a") + (i + length) % 26) for i in range(length))
        if length % 3 == 2 and length > 3:
            text = text[:length // 2] + "ä" + text[length // 2 + 2:]
        texts[1000 + length, text] = 2
        texts[2000 + length, text + "z(unreadable)"] = 2
    assert f"hits: {sum(texts.values()) - 40 + 2000}\n" in output  # without those of the forked child
    return texts


def found(trace):
    texts = collections.Counter()
    for event in trace.named("take_entry"):
        text = event.fields["text"]
        texts[event.fields["where"], "unreadable" if text.startswith("(unreadable 0x") else text] += 1
    turns = {text: texts.pop((21, text), 0) for text in ("here", "unreadable", "(unreadable)")}
    assert sum(turns.values()) == 2000
    return texts


@pytest.mark.parametrize("end", [0, 1, 2, 3])
@pytest.mark.parametrize("closed", [0, 1])
def test_memory_that_goes_away(dyntrace, program, program_path, end, closed):
    without = alone(program_path("gone"), "--end", end, "--closed", closed)
    target = program("gone", "--end", end, "--closed", closed).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    target.go().wait_ready()
    output = target.finish(without[1])
    assert output == without[0]
    trace = tracing.stop()
    assert found(trace) == expected(output, closed)
    assert trace.lost == 0


@pytest.mark.parametrize("how", ["ended", "killed"])
def test_nothing_stays(dyntrace, program, how):
    """The handlers are the program's own again; after kill -9, too."""
    target = program("gone").wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take")
    until(lambda: has_handlers(target.pid), "handlers in front")
    if how == "ended":
        tracing.stop()
    else:
        tracing.process.kill()
        tracing.process.wait()
        assert has_handlers(target.pid)
        dyntrace("detach", target.pid)
    assert int(status(target.pid, "SigCgt"), 16) & FAULTS == 0
    target.go().wait_ready()
    target.finish()
