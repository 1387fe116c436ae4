"""--only-inside and --depth: of a full trace, exactly the calls inside of a function, and at most so deep (V5)."""
import pytest

from harness import summary_rows
from test_slow_calls import FUNCTIONS, WHAT, slow  # noqa: F401


def calls(trace):
    """Per thread a list of calls, each [name, level of nesting, names of the calls around it], in order of entries; an exit
    ends the calls inside of its own. And the events that belong to calls without an exit."""
    threads = {}
    for event in trace.events:
        found, stack = threads.setdefault((event.pid, event.tid), ([], []))
        name, part = event.name.rsplit("_", 1)
        if part == "entry":
            found.append((name, tuple(stack)))
            stack.append(name)
        else:
            assert name in stack, "an exit without its entry"
            while stack.pop() != name:
                pass
    return [found for found, _ in threads.values()]


def chosen(full, function, depth):
    """What --only-inside and --depth should leave of each thread's calls."""
    kept = []
    for thread in full:
        ours = []
        for name, around in thread:
            line = (*around, name)
            if function and function not in line:
                continue
            base = line.index(function) if function else 0
            if len(line) - 1 - base <= depth:
                ours.append((name, line[base:-1]))
        kept.append(ours)
    return sorted(filter(None, kept))


@pytest.mark.parametrize("function, depth", [("nested", None), ("around", None), ("around", 0), ("rounds", 1), (None, 0), (None, 2),
                                             ("work", None)])
def test_of_a_full_trace(dyntrace, slow, function, depth):
    """With recursion, exceptions, longjmp, threads and a forked child."""
    plain, full = dyntrace.trace("-e", *WHAT, "--", slow)
    words = (["--only-inside", function] if function else []) + (["--depth", depth] if depth is not None else [])
    result, trace = dyntrace.trace("-e", *words, *WHAT, "--", slow)
    assert result.stdout == plain.stdout and trace.lost == full.lost == 0
    expected = chosen(calls(full), function, 10**6 if depth is None else depth)
    assert expected and sorted(calls(trace)) == expected
    left_out = len(full.events) - len(trace.events)
    assert (f", {left_out} left out (--only-inside, --depth)" in result.stderr) == (left_out > 0)
    names = [name for thread in expected for name, _ in thread]
    rows = summary_rows(result.stderr)
    assert {name: int(rows[name]["hits"]) for name in set(names)} == {name: names.count(name) for name in set(names)}


def test_without_exits_of_others(dyntrace, slow):
    """The function has its exits without -e: the others are entries inside of it."""
    _, full = dyntrace.trace("-e", *WHAT, "--", slow)
    _, trace = dyntrace.trace("--only-inside", "around", "--function", "work", "--", slow)
    inside = [name for thread in chosen(calls(full), "around", 10**6) for name, _ in thread]
    counts = {}
    for event in trace.events:
        counts[event.name] = counts.get(event.name, 0) + 1
    assert set(counts) <= {"around_entry", "around_exit", "work_entry"}
    assert counts["around_entry"] == inside.count("around") and counts.get("work_entry", 0) == inside.count("work")


def test_redis(dyntrace, redis):
    """One request of a real server: all functions, only while a command is processed, and not what is deeper than two calls."""
    tracing = dyntrace.start_trace(redis.pid, "-e", "--only-inside", "processCommand", "--depth", 2, "--function", "*@redis-check-rdb")
    before = redis.commands_processed()
    for number in range(5):
        redis.cli("set", f"key{number}", number)
    after = redis.commands_processed()
    trace = tracing.stop()
    tracing.before.assert_unchanged(busy=True)
    found = [call for thread in calls(trace) for call in thread]
    commands = [call for call in found if call[0] == "processCommand"]
    assert after - before == 6 and len(commands) == 7  # the questions, too: the last one's own call isn't counted there
    assert all(around[:1] == ("processCommand",) and len(around) <= 2 for name, around in found if name != "processCommand")
    assert any(name == "call" for name, _ in found)


@pytest.mark.parametrize("words, why", [
    (["--depth", "x", "-e"], "--depth: 'x' is not a number from 0 to 65535"),
    (["--depth", "2"], "--depth: needs -e or --only-inside LOC"),
    (["--only-inside", "foo", "--tracer", "count"], "--only-inside: not with tracer 'count' (only with ctf)"),
    (["--only-inside", "foo", "--min-duration", "1ms", "-e"],
     "--only-inside: not with --filter and --min-duration (it must see every call to know what is inside)"),
    (["--depth", "1", "-e", "--overhead", "5%"],
     "--depth: not with --overhead (it must see every call to know what is inside)"),
])
def test_refusals(dyntrace, program_path, words, why):
    assert dyntrace.fails("trace", *words, "--function", "foo", "--", program_path("hello"), status=2).startswith(f"trace: {why}")


def test_no_such_function(dyntrace, program_path):
    assert "no_such" in dyntrace.fails("trace", "--only-inside", "no_such", "--function", "foo", "--", program_path("hello"),
                                       status=125)


@pytest.mark.parametrize("option", ["--only-inside", "--depth"])
def test_not_with_the_daemon(dyntrace, option):
    """Its trace is that of several users: what one leaves out isn't there for the others."""
    assert dyntrace.fails("add", option, "1", "app:foo", status=2) == \
        f"add: '{option}' is for 'dyntrace trace' alone (the reader of one trace of one's own does it)"
