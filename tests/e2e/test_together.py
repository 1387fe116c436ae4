"""Clock and counters of `trace` begin and end together, for thousands of tracepoints."""
import re
import subprocess

import pytest

from harness import Trace, hits

FUNCTIONS = 1000


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Calls its functions all the time, one after the other."""
    folder = tmp_path_factory.mktemp("together")
    calls = range(FUNCTIONS)
    (folder / "many.c").write_text("#include <unistd.h>\nvolatile long sink;\n" + "".join(
        f"__attribute__((noinline)) void f_{i}(void) {{ sink += {i}; sink ^= 3; }}\n" for i in calls) +
        "int main(void)\n{\n\twrite(1, \"ready\\n\", 6);\n\tfor (;;) {\n" + "".join(f"f_{i}();" for i in calls) +
        "usleep(20000); }\n}\n")
    subprocess.run(["gcc", "-O1", "-w", "-o", folder / "many", folder / "many.c"], check=True)
    return folder / "many"


def told(errors):
    """The seconds that the summary tells."""
    return float(re.search(r"(?: in|traced for) ([\d.]+) s", errors)[1])


@pytest.mark.parametrize("exits", [[], ["-e"]], ids=["entries", "exits"])
def test_no_event_outside_the_time(dyntrace, many, processes, exits):
    """--for counts from when the last tracepoint is placed, to when the first is about to go."""
    target = processes.start([many], stdout=subprocess.PIPE)
    target.stdout.readline()
    for wanted in (0.3, 3, 30):
        output = dyntrace.new_output()
        result = dyntrace("trace", "-p", target.pid, "--function", "f_*", *exits, "--for", wanted, "-o", output, "--buffer-size", "256M")
        seconds, trace = told(result.stderr), Trace(output)
        times = [event.ns for event in trace.events]
        assert trace.lost == 0 and seconds >= wanted
        assert not times or (max(times) - min(times)) / 1e9 <= seconds + 0.001
        if len(times) > FUNCTIONS:  # else the target hardly had a processor
            break
    entries = [event for event in trace.events if not event.name.endswith("_exit")]
    found = hits(result.stderr)
    assert len(found) == 40 and max(found.values()) <= len(entries) // FUNCTIONS + 2  # no function counts longer than others
    target.kill()


def test_count_tells_its_time(dyntrace, many, processes):
    target = processes.start([many], stdout=subprocess.PIPE)
    target.stdout.readline()
    result = dyntrace("trace", "-p", target.pid, "--function", "f_*", "--tracer", "count", "--for", "0.2")
    assert told(result.stderr) >= 0.2
    target.kill()


def test_a_command_runs_only_when_all_is_placed(dyntrace, program_path):
    """No call is missed, though recording begins after placing."""
    result, trace = dyntrace.trace("--probe", "foo", "--", program_path("spin"), "--calls", "300")
    assert trace.names() == {"foo": 300}
    first, last = trace.events[0].ns, trace.events[-1].ns
    assert (last - first) / 1e9 <= told(result.stderr) + 0.001
