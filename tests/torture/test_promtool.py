"""Prometheus's own judge of the metrics, of Debian's package `prometheus` (96 MB: too large for every run)."""
import http.server
import json
import os
import socket
import subprocess
import threading
import urllib.parse
import urllib.request

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


class Exporter(http.server.BaseHTTPRequestHandler):
    """Serves the metrics of server.daemon."""

    def do_GET(self):
        text = self.server.daemon("status", "--metrics").stdout.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words):
        pass


def ask(port, query):
    """{labels of a sample: value}, by Prometheus's own language."""
    words = urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{words}", timeout=20) as answer:
        result = json.load(answer)["data"]["result"]
    return {one["metric"].get("tracepoint", ""): float(one["value"][1]) for one in result}


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def test_prometheus_scrapes_and_answers(daemon, spin, processes, scratch):
    """A real Prometheus reads the metrics over HTTP, and its answers are the numbers of list-tracepoints."""
    one = spin()
    daemon.add(f"{one.pid}:foo", "-e", "-n", "timed", "count")
    daemon.add(f"{one.pid}:foo", "-n", "plain", "ctf")
    one.round()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Exporter)
    server.daemon = daemon
    threading.Thread(target=server.serve_forever, daemon=True).start()
    port = free_port()
    config = os.path.join(scratch, "prometheus.yml")
    with open(config, "w") as file:
        file.write(f"global:\n  scrape_interval: 1s\nscrape_configs:\n- job_name: dyntrace\n  static_configs:\n"
                   f"  - targets: ['127.0.0.1:{server.server_address[1]}']\n")
    processes.start(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={scratch}/tsdb", f"--web.listen-address=127.0.0.1:{port}"],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def hits(expected):
        try:
            return ask(port, "dyntrace_hits_total") == expected
        except OSError:
            return False
    until(lambda: hits({"timed": CALLS, "plain": CALLS}), "Prometheus to have the hits")
    one.round()
    until(lambda: hits({"timed": 2 * CALLS, "plain": 2 * CALLS}), "Prometheus to have the second round")
    listed = {each["name"]: each for each in daemon.json("list-tracepoints", one.pid)}
    assert ask(port, "dyntrace_call_duration_seconds_count") == {"timed": 2 * CALLS}
    median = ask(port, "histogram_quantile(0.5, dyntrace_call_duration_seconds_bucket)")["timed"]
    bounds = [0, 1e-7, 3e-7, 1e-6, 3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3]
    p50 = listed["timed"]["p50_ns"] / 1e9
    low, high = next((low, high) for low, high in zip(bounds, bounds[1:]) if p50 <= high)
    assert low * 0.98 <= median <= high * 1.02, (median, p50)
    server.shutdown()
    one.finish()
