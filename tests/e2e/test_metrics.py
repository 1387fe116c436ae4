"""Metrics for Prometheus: `dyntrace status --metrics` and `dyntraced --metrics FILE`. promtool judges the text in
tests/torture/test_promtool.py."""
import os
import re

import pytest
from daemon_harness import CALLS
from harness import Trace, until


SAMPLE = re.compile(r'([a-z_]+)(?:\{[a-z_]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z_]+="(?:[^"\\\n]|\\[\\"n])*")*\})? ([-+0-9.e]+)')
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "summary": ("", "_sum", "_count"), "histogram": ("_bucket", "_sum", "_count")}


def judged(text):
    """{sample: value}, if the text is well-formed: samples follow the type of their family, and none is there twice."""
    assert text.endswith("\n# EOF\n")
    families, samples, names = set(), {}, ()
    for line in text[:-len("# EOF\n")].splitlines():
        if line.startswith("# HELP "):
            continue
        if line.startswith("# TYPE "):
            name, kind = line.split(" ")[2:]
            assert name not in families, line
            families.add(name)
            names = tuple(name.removesuffix("_total") + suffix for suffix in SUFFIXES[kind])
            continue
        found = SAMPLE.fullmatch(line)
        sample = line.rsplit(" ", 1)[0]
        assert found and found[1] in names and sample not in samples, line
        samples[sample] = float(found[2])
    return samples


def test_hits_losses_durations_and_keys(daemon, spin):
    measure(daemon, spin)


def measure(daemon, spin):
    """Gives the text, too, for tests/torture."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "ctf")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "recorded", "ctf")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "timed", "count")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "keyed", "count", "--by", "number % 2", "--of", "duration")
    one.round()
    one.round()
    text = daemon("status", "--metrics").stdout
    samples = judged(text)

    def labels(name, tracer):
        return f'pid="{one.pid}",program="spin",tracepoint="{name}",tracer="{tracer}"'
    assert samples["dyntrace_targets"] == samples["dyntrace_recording"] == 1
    assert samples[f'dyntrace_tracepoints{{pid="{one.pid}",program="spin"}}'] == 4
    for name, tracer in (("foo", "ctf"), ("recorded", "ctf"), ("timed", "count"), ("keyed", "count")):
        assert samples[f"dyntrace_hits_total{{{labels(name, tracer)}}}"] == 2 * CALLS
        assert samples[f"dyntrace_lost_total{{{labels(name, tracer)}}}"] == 0
    for timed in (labels("timed", "count"), labels("recorded", "ctf")):
        name = "dyntrace_call_duration_seconds"
        assert samples[f"{name}_count{{{timed}}}"] == 2 * CALLS == samples[f'{name}_bucket{{{timed},le="+Inf"}}']
        counts = [value for sample, value in samples.items() if sample.startswith(f"{name}_bucket{{{timed},")]
        assert len(counts) == 18 and counts == sorted(counts) and counts[-2] > 0
        assert 0 < samples[f"dyntrace_call_duration_longest_seconds{{{timed}}}"] <= samples[f"{name}_sum{{{timed}}}"]
    exits = [event.fields["duration"] for event in Trace(daemon.trace_of(one.pid)).named("recorded_exit")]
    recorded = labels("recorded", "ctf")
    bound = 300  # ns; a bucket is known within 1.6%
    at_bound = samples[f'dyntrace_call_duration_seconds_bucket{{{recorded},le="3e-07"}}']
    assert sum(each <= bound * 0.98 for each in exits) <= at_bound <= sum(each <= bound * 1.02 for each in exits)
    for key in (0, 1):
        keyed = f'{labels("keyed", "count")},by="number % 2",key="{key}"'
        assert samples[f"dyntrace_key_hits_total{{{keyed}}}"] == CALLS
        assert samples[f'dyntrace_key_duration_seconds_bucket{{{keyed},le="+Inf"}}'] == CALLS == samples[f"dyntrace_key_duration_seconds_count{{{keyed}}}"]
        counts = [value for name, value in samples.items() if name.startswith(f"dyntrace_key_duration_seconds_bucket{{{keyed},")]
        assert len(counts) == 18 and counts == sorted(counts)
    one.finish()
    return text


def test_names_of_any_bytes_are_labels(daemon, spin):
    """Names that end a label, or are no UTF-8."""
    one = spin(name='a"b\\c\nd')
    daemon.add(f"{one.pid}:foo", "-n", "x", "count")
    one.round()
    samples = judged(daemon("status", "--metrics").stdout)
    assert [value for name, value in samples.items() if name.startswith("dyntrace_hits_total{") and 'tracepoint="x"' in name] == [CALLS]
    one.finish()


def test_the_file_is_there_while_the_daemon_runs(new_daemon, scratch):
    """That it is replaced every 5 s: tests/torture/test_promtool.py."""
    path = os.path.join(scratch, "dyntrace.prom")
    daemon = new_daemon("--metrics", path).start()
    until(lambda: os.path.exists(path), "the file")
    assert judged(open(path).read())["dyntrace_targets"] == 0
    assert os.stat(path).st_mode & 0o777 == 0o644 & ~os.umask(os.umask(0o22) or 0o22)
    assert "status" not in daemon.log_text()  # its own questions aren't logged
    daemon.stop()
    assert [name for name in os.listdir(scratch) if "prom" in name] == []


@pytest.mark.parametrize("words, why", [(["--json"], "--json"), ([os.getpid()], "a TARGET")])
def test_metrics_alone(daemon, words, why):
    assert daemon.fails("status", "--metrics", *words, status=2) == f"status: --metrics: not with {why}"
