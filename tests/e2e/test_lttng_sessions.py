"""dyntrace lttng as one's own tool: events in LTTng's sessions, and who they are; judged by lttng and babeltrace2."""
import os
import re
import subprocess
import tempfile

import pytest

from daemon_harness import Daemon
from lttng import parse
from test_lttng import Target, lttng, names, needs_lttng, program, target  # noqa: F401 (fixtures)

pytestmark = needs_lttng


class Both:
    """dyntrace beside a session daemon and a dyntraced; both("lttng", "create") runs a command to its end."""

    def __init__(self, lttng, daemon):
        self.lttng, self.daemon = lttng, daemon

    def run(self, *words, check=True, cwd=None):
        command = self.lttng.inside(os.path.join(self.daemon.build, "dyntrace"), *words)
        if cwd:  # nsenter leaves it
            command = self.lttng.inside("env", "-C", cwd, os.path.join(self.daemon.build, "dyntrace"), *words)
        result = subprocess.run(command, env={**self.lttng.env, "DYNTRACE_SOCKET": self.daemon.socket}, text=True,
                                stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
        assert result.returncode == 0 or not check, result.stdout + result.stderr
        return result

    def __call__(self, *words):
        return self.run(*words).stdout

    def note(self, *words):
        """Of a command that works, and says something else."""
        return self.run(*words).stderr

    def fails(self, *words):
        result = self.run(*words, check=False)
        assert result.returncode and result.stderr.count("\n") == 1, result.stderr
        return result.stderr.removeprefix("dyntrace: ").strip()


@pytest.fixture
def both(lttng, processes, build):
    """In a folder with a short name, for sockets; LTTng's commands have a /dev/shm of their own."""
    with tempfile.TemporaryDirectory(prefix="dt-") as folder:
        daemon = Daemon(build, processes, folder).start()
        yield Both(lttng, daemon)
        daemon.close()


def test_a_session_of_ones_own(both, lttng, target):
    """Create, enable, start, stop, view: typed events in the current session, by one command for all."""
    both.daemon.targets.add(str(target.pid))
    at = ["-u", "--pid", target.pid]
    assert both.fails("lttng", "enable-event", "call", *at, "--function", "foo") == \
        "no session of LTTng to record dyntrace:call_entry (create one: dyntrace lttng create)"
    assert both.daemon.json("list-processes") == []
    both("lttng", "create", "one", "--output=/dev/shm/one")
    said = both("lttng", "enable-event", "call", *at, "--function", "foo", "-e")
    assert said.splitlines() == [f"ust event dyntrace:call_{end} created in channel channel0" for end in ("entry", "exit")]
    both("lttng", "enable-event", "outer", *at, "--probe", "outer", "--filter", "1", "-t", "tid")
    target.do(3)
    both("lttng", "start")
    target.do(2)
    both("lttng", "stop")
    target.do(3)
    seen = parse("\n".join(re.sub(r" \(\+[?.\d]+\)", "", re.sub(r"\[[\d:]+", "[0", line))
                           for line in both("lttng", "view").splitlines() if line.startswith("[")))
    assert names(seen) == {"dyntrace:call_entry": 5, "dyntrace:call_exit": 5, "dyntrace:outer": 1}
    assert sorted((f["a"], f["s"]) for name, f in seen if name == "dyntrace:call_entry") == \
        sorted([("0", '"text 0"'), ("1", '"text 1"')] * 2 + [("1000", '"outer"')])
    assert next(f["tid"] for name, f in seen if name == "dyntrace:outer") == str(target.pid)
    assert {one["name"]: one["tracer"] for one in both.daemon.json("list-tracepoints", target.pid)} == \
        {"call": "lttng", "outer": "lttng"}


def test_provider_level_and_fields_for_filters(both, lttng, target):
    """PROVIDER:NAME, --loglevel, --nowrite, -s and -c: as `lttng list`, session rules and babeltrace2 see them."""
    both.daemon.targets.add(str(target.pid))
    for session in ("first", "second", "other"):
        both("lttng", "create", session, f"--output=/dev/shm/{session}")
    at = ["-u", "--pid", target.pid, "--function", "foo"]
    said = both("lttng", "enable-event", "shop:call", *at, "-s", "first", "-c", "mine", "--loglevel", "info",
                "--nowrite", "d", "--nowrite", "s")
    assert said == "ust event shop:call_entry created in channel mine\n"
    lttng("enable-event", "-u", "-s", "second", "shop:*", "--loglevel=TRACE_INFO", "--filter", 'd > 0.5 && s == "text*"')
    lttng("enable-event", "-u", "-s", "other", "shop:*", "--loglevel=NOTICE")  # more severe only
    assert re.search(r"shop:call_entry \(loglevel: TRACE_INFO \(6\)\) \(type: tracepoint\)", lttng("list", "-u"))
    assert re.search(r"mine: \[enabled\].*shop:call_entry \(loglevel <= TRACE_INFO \(6\)\)", lttng("list", "first"), re.DOTALL)
    for session in ("first", "second", "other"):
        lttng("start", session)
    target.do(5)
    seen = {session: lttng.stop(session) for session in ("first", "second", "other")}
    shown = lttng.run("babeltrace2", "--fields=loglevel", "/dev/shm/first").stdout
    assert len(re.findall(r"TRACE_INFO \(6\) shop:call_entry: \{ cpu_id = \d+ \}, \{ address = \w+, a = \d+, b = \d+ \}", shown)) == 11
    assert [set(fields) for _, fields in seen["first"]] == [{"cpu_id", "address", "a", "b"}] * 11
    assert sorted(int(fields["a"]) for _, fields in seen["second"]) == [3, 3, 4, 4]
    assert seen["other"] == []


def test_typed_events_of_a_glob(lttng, both, processes, build, scratch, target):
    """--typed names events after their functions. Says at once that nobody records them, and says nothing else."""
    where = f"{target.pid}:*o*e*@typed"
    both.daemon.targets.add(str(target.pid))
    first, told = (result := both.run("add", "-f", where, "lttng", "--typed")).stdout.split(), result.stderr
    assert "outer" in first and "foo" not in first
    assert told == "dyntrace: no started session of LTTng records dyntrace:* yet " \
                   "(lttng enable-event --userspace 'dyntrace:*'; lttng start)\n"
    assert "records dyntrace:foo_* yet (lttng enable-event --userspace 'dyntrace:foo_*'; " in \
        both.note("add", "-e", f"{target.pid}:foo", "lttng", "--typed")
    assert "'dyntrace_lttng:function_entry'" in both.note("add", "-f", f"{target.pid}:shapes", "lttng")
    lttng.create("dyntrace:*")
    assert both.note("add", "-e", "-n", "again", f"{target.pid}:foo", "lttng") == ""
    target.do(2)
    seen = lttng.stop()
    assert names(seen) == {"dyntrace:outer_entry": 1, "dyntrace:foo_entry": 5, "dyntrace:foo_exit": 5, "dyntrace:again_entry": 5,
                           "dyntrace:again_exit": 5, **{f"dyntrace:{name}_entry": 1 for name in first if name in ("round_of",)}}
    assert {fields["s"] for name, fields in seen if name == "dyntrace:foo_entry"} == {'"text 0"', '"text 1"', '"outer"'}


def test_trace_in_the_current_session(both, lttng, program, tmp_path):
    """lttng trace -c COMMAND: typed events of the current session; without one, a trace of dyntrace's own, and that is said."""
    def trace(*words):
        result = both.run("lttng", "trace", "-c", f"{program} 0", "--function", "foo", *words, cwd=tmp_path, check=False)
        assert result.returncode == 3, result.stderr
        return result
    alone = trace()
    assert alone.stderr.startswith("dyntrace: no session of LTTng to record dyntrace:* (create one: dyntrace lttng create): "
                                   "dyntrace writes a trace of its own\n") and "trace: ./typed-" in alone.stderr
    assert len(os.listdir(tmp_path)) == 1
    both("lttng", "create", "one", "--output=/dev/shm/one")
    said = trace()
    assert said.stdout.startswith("ust event dyntrace:* created in channel channel0\n") and "writes" not in said.stderr
    assert "no started session of LTTng records dyntrace:foo_entry yet" in said.stderr
    both("lttng", "start")
    said = trace()
    assert not said.stdout.startswith("ust event") and "dyntrace:" not in said.stderr and len(os.listdir(tmp_path)) == 1
    trace("-o", "own")
    assert sorted(os.listdir(tmp_path))[0] == "own"
    seen = lttng.stop("one")
    assert names(seen) == {"dyntrace:foo_entry": 1} and seen[0][1]["s"] == '"outer"'


@pytest.mark.parametrize("words, said", [
    (["--loglevel", "loud"], "--loglevel: unknown log level 'loud' (available: emerg, alert, "),
    (["--nowrite", "zz"], "nowrite: call has no field 'zz'"),
    (["-s", "nosuch"], "LTTng has no session 'nosuch' to record dyntrace:call_entry ('lttng list' shows sessions)"),
    (["--tracer", "ctf", "-c", "x"], "-c: only with the tracer lttng"),
    (["--tracer", "lttng:what"], "unknown word 'what'"),
])
def test_refusals_leave_nothing_on(both, lttng, target, words, said):
    """A rule of the session that was made for nothing is switched off again."""
    both.daemon.targets.add(str(target.pid))
    both("lttng", "create", "one", "--output=/dev/shm/one")
    assert said in both.fails("lttng", "enable-event", "call", "-u", "--pid", target.pid, "--function", "foo", *words)
    assert "[enabled]" not in "".join(re.findall(r"dyntrace:.*", lttng("list", "one")))
    assert both.daemon.json("list-tracepoints", target.pid) == [] if both.daemon.json("list-processes") else True
