"""Prometheus's own judge of the metrics, of Debian's package `prometheus` (96 MB: too large for every run)."""
import os
import subprocess

from daemon_harness import CALLS
from harness import until
from test_metrics import measure


def judge(text):
    result = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def test_promtool_finds_nothing_wrong(daemon, spin):
    text = measure(daemon, spin)
    assert judge(text) == (0, ""), text
    one = spin(name='a"b\\c\nd')
    daemon.add(f"{one.pid}:foo", "-n", "x", "count")
    one.round()
    text = daemon("status", "--metrics").stdout
    assert 'tracepoint="x"' in text and judge(text) == (0, ""), text
    assert judge(text.replace("{", "{{", 1))[0] != 0
    one.finish()


def test_the_file_is_replaced_while_the_daemon_runs(new_daemon, spin, scratch):
    path = os.path.join(scratch, "dyntrace.prom")
    daemon = new_daemon("--metrics", path).start()
    one = spin()
    daemon.add(f"{one.pid}:foo", "count")
    one.round()
    until(lambda: os.path.exists(path) and f" {CALLS}\n" in open(path).read(), "the hits in the file")
    assert judge(open(path).read()) == (0, "")
    assert "status" not in daemon.log_text()
    daemon.stop()
    one.finish()
