"""Metrics for Prometheus: `dyntrace status --metrics` and `dyntraced --metrics FILE`; Debian's promtool is the judge of the text."""
import os
import re
import subprocess

import pytest
from daemon_harness import CALLS
from harness import until


def judged(text):
    """{sample: value}, if promtool finds nothing wrong."""
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert (result.returncode, result.stdout + result.stderr) == (0, ""), f"{result.stdout}{result.stderr}\n{text}"
    assert text.endswith("# EOF\n")
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))}


def test_hits_losses_durations_and_keys(daemon, spin):
    one = spin()
    daemon.add(f"{one.pid}:foo", "ctf")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "timed", "count")
    daemon.add(f"{one.pid}:foo", "-e", "-n", "keyed", "count", "--by", "number % 2", "--of", "duration")
    one.round()
    one.round()
    samples = judged(daemon("status", "--metrics").stdout)
    def labels(name, tracer):
        return f'pid="{one.pid}",program="spin",tracepoint="{name}",tracer="{tracer}"'
    assert samples["dyntrace_targets"] == samples["dyntrace_recording"] == 1
    assert samples[f'dyntrace_tracepoints{{pid="{one.pid}",program="spin"}}'] == 3
    for name, tracer in (("foo", "ctf"), ("timed", "count"), ("keyed", "count")):
        assert samples[f"dyntrace_hits_total{{{labels(name, tracer)}}}"] == 2 * CALLS
        assert samples[f"dyntrace_lost_total{{{labels(name, tracer)}}}"] == 0
    timed = labels("timed", "count")
    assert samples[f"dyntrace_call_duration_seconds_count{{{timed}}}"] == 2 * CALLS
    assert 0 < samples[f'dyntrace_call_duration_seconds{{{timed},quantile="0.5"}}'] \
        <= samples[f'dyntrace_call_duration_seconds{{{timed},quantile="1"}}'] <= samples[f"dyntrace_call_duration_seconds_sum{{{timed}}}"]
    for key in (0, 1):
        keyed = f'{labels("keyed", "count")},by="number % 2",key="{key}"'
        assert samples[f"dyntrace_key_hits_total{{{keyed}}}"] == CALLS
        assert samples[f'dyntrace_key_duration_seconds_bucket{{{keyed},le="+Inf"}}'] == CALLS == samples[f"dyntrace_key_duration_seconds_count{{{keyed}}}"]
        counts = [value for name, value in samples.items() if name.startswith(f"dyntrace_key_duration_seconds_bucket{{{keyed},")]
        assert len(counts) == 18 and counts == sorted(counts)
    one.finish()


def test_names_of_any_bytes_are_labels(daemon, spin):
    """Names that end a label, or are no UTF-8."""
    one = spin(name='a"b\\c\nd')
    daemon.add(f"{one.pid}:foo", "-n", "x", "count")
    one.round()
    samples = judged(daemon("status", "--metrics").stdout)
    assert [value for name, value in samples.items() if name.startswith("dyntrace_hits_total{") and 'tracepoint="x"' in name] == [CALLS]
    one.finish()


def test_the_file_is_replaced_while_the_daemon_runs_and_goes_with_it(new_daemon, spin, scratch):
    path = os.path.join(scratch, "dyntrace.prom")
    daemon = new_daemon("--metrics", path).start()
    until(lambda: os.path.exists(path), "the file")
    assert judged(open(path).read())["dyntrace_targets"] == 0
    assert os.stat(path).st_mode & 0o777 == 0o644 & ~os.umask(os.umask(0o22) or 0o22)
    one = spin()
    daemon.add(f"{one.pid}:foo", "count")
    one.round()
    until(lambda: f" {CALLS}\n" in open(path).read(), "the hits in the file")
    assert "status" not in daemon.log_text()  # its own questions aren't logged
    daemon.stop()
    assert os.listdir(scratch).count("dyntrace.prom") == 0
    one.finish()


@pytest.mark.parametrize("words, why", [(["--json"], "--json"), ([os.getpid()], "a TARGET")])
def test_metrics_alone(daemon, words, why):
    assert daemon.fails("status", "--metrics", *words, status=2) == f"status: --metrics: not with {why}"
