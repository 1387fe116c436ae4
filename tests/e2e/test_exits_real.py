"""dyntrace trace -e on every function of real programs: they behave as untraced, and all calls are accounted for."""
import collections
import os
import re
import signal
import subprocess

import pytest

from harness import Trace
from test_exits import Fate, check_fates, fates

SQL = """
create table t(a integer primary key, b text);
with recursive c(x) as (select 1 union all select x+1 from c where x<50) insert into t select x, 'row '||x from c;
select count(*), sum(a), max(b) from t where b like '%1%';
select a%7, count(*) from t group by 1 order by 2 desc;
select nosuch from t;
"""

PYTHON = """
import json, re, collections
data = {str(i): [i, i * i, {'x': i % 7}] for i in range(10)}
text = json.dumps(data)
words = collections.Counter(re.findall(r'[0-9]+', text))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
bad = 0
for i in range(5):
    try: int('x%d' % i)
    except ValueError: bad += 1
print(len(text), words.most_common(3), fib(4), bad, json.loads(text) == data)
"""

def functions_with_exits(output):
    """Functions with exits in the trace's metadata: the summary may have no room for all."""
    with open(os.path.join(output, "metadata"), errors="replace") as file:
        return set(re.findall(r'name = "(.*)_exit";', file.read()))


def check_sum(stderr, output, trace):
    """Entries = exits + unwound + inside + missed, for each function; in each thread no exit without its entry."""
    names, functions = trace.names(), functions_with_exits(output)
    rows = fates(stderr)
    without = collections.Counter()
    for name in functions:
        entries, exits = names.get(name + "_entry", 0), names.get(name + "_exit", 0)
        fate = rows.get(name) or Fate(0, 0, 0, 0, 0)
        assert entries == fate.hits, name
        assert entries == exits + fate.unwound + fate.inside + fate.missed, (name, fate, exits)
        without.update(unwound=fate.unwound, inside=fate.inside, missed=fate.missed)
    found = re.search(r"calls without an exit: (.*)", stderr)
    assert +without == {word: int(count) for count, word in re.findall(r"(\d+) (\w+) \(", found[1] if found else "")}
    assert len(functions) > 10
    check_nesting(trace, functions)
    return {name: names.get(name + "_entry", 0) for name in functions}


def compare(dyntrace, command, *functions, input=None, status=0, cwd=None):
    options = {"input": input, "capture_output": True, "text": True, "cwd": cwd}
    expected = subprocess.run(command, **options)
    assert expected.returncode == status
    words = [word for function in functions for word in ("--function", function)]
    output = dyntrace.new_output()
    result = subprocess.run([dyntrace.path, "trace", "-o", output, "-e", "--all-rows", "--wide", "--buffer-size", "256M", *words, "--", *command],
                            **options)
    assert result.returncode == status, result.stderr[-2000:]
    assert result.stdout == expected.stdout
    trace = Trace(output)
    assert trace.lost == 0
    check_fates(result, trace)
    return check_sum(result.stderr, output, trace), result.stderr


def test_sqlite(dyntrace):
    calls, _ = compare(dyntrace, ["sqlite3", ":memory:"], "*", "*@libsqlite3.so.0", input=SQL, status=1)
    assert calls["sqlite3_step"] > 0


def test_python(dyntrace):
    calls, stderr = compare(dyntrace, ["/usr/bin/python3", "-S", "-I", "-c", PYTHON], "Py[A-L]*")
    assert calls["PyDict_New"] > 50
    assert "calls without an exit" not in stderr


def check_nesting(trace, functions):
    """In each thread an exit belongs to an open call of the same function."""
    calls = collections.Counter()
    for event in trace.events:
        name, _, kind = event.name.rpartition("_")
        if name in functions:
            calls[event.tid, name] += 1 if kind == "entry" else -1
            assert calls[event.tid, name] >= 0, event


@pytest.mark.limit(120)
def test_redis(dyntrace, redis):
    """All functions of a server that works, forks and longjmps (lua), attached and detached several times."""
    tracing = dyntrace.start_trace(redis.pid, "-e", "--function", "*", "--all-rows", "--buffer-size",
                                   "512M")
    redis.benchmark(requests=10, clients=1, tests="set,get,lpush")
    assert redis.cli("eval", "return redis.call('set', 'a', 'b')", 0) == "OK"
    redis.cli("eval", "return nosuch.x", 0)
    redis.cli("bgsave")
    trace = tracing.stop(signal.SIGINT)
    assert redis.cli("get", "a") == "b"
    assert trace.lost == 0
    assert check_sum(tracing.stderr, tracing.output, trace)["processCommand"] >= 33
