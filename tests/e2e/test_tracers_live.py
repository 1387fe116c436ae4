"""Tracers with the daemon: several at one place, list-tracepoints, and nothing left behind."""
import json
import os
import re
import subprocess

import pytest

from harness import until

SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
volatile int sink;
__attribute__((noinline)) int foo(int a) { sink = a; return a + 1; }
int main(void)
{
	char line[64];
	setvbuf(stdout, NULL, _IONBF, 0);
	puts("ready");
	while (fgets(line, sizeof(line), stdin)) {
		for (int i = 0; i < atoi(line); i++) foo(i);
		puts("done");
	}
	return 0;
}
"""


class Daemon:
    def __init__(self, processes, build, scratch):
        self.build, self.scratch = build, scratch
        self.socket = os.path.join(scratch, "socket")
        self.env = {**os.environ, "DYNTRACE_SOCKET": self.socket}
        self.output = os.path.join(scratch, "traces")
        self.process = processes.start([os.path.join(build, "dyntraced"), "--output", self.output], env=self.env,
                                       stderr=subprocess.DEVNULL)
        until(lambda: self.run("status", check=False).returncode == 0, "dyntraced to answer")

    def run(self, *words, check=True):
        result = subprocess.run([os.path.join(self.build, "dyntrace"), *map(str, words)], env=self.env, cwd=self.scratch,
                                capture_output=True, text=True, timeout=60)
        assert not check or result.returncode == 0, result.stderr
        return result


@pytest.fixture
def daemon(processes, build, scratch):
    return Daemon(processes, build, scratch)


@pytest.fixture
def target(processes, tmp_path):
    (tmp_path / "live.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-o", tmp_path / "live", tmp_path / "live.c"], check=True)
    process = processes.start([tmp_path / "live"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def do(target, calls):
    target.stdin.write(f"{calls}\n")
    target.stdin.flush()
    while (line := target.stdout.readline()) != "done\n":
        assert "foo" in line or "printed" in line


def listed(daemon, pid):
    return {row["name"]: row for row in json.loads(daemon.run("list-tracepoints", pid, "-a", "--json").stdout)}


def test_several_at_one_place(daemon, target, scratch):
    lines = os.path.join(scratch, "lines")
    for words in (["-e", "-n", "counted", "count"], ["-n", "printed", "log", lines], ["-n", "recorded"]):
        name = daemon.run("add", f"{target.pid}:foo", *words).stdout.strip()
        assert name == words[words.index("-n") + 1]
    do(target, 500)
    rows = listed(daemon, target.pid)
    assert {name: row["hits"] for name, row in rows.items()} == {"counted": 500, "printed": 500, "recorded": 500}
    assert rows["counted"]["calls"] == 500
    assert 0 < rows["counted"]["p50_ns"] <= rows["counted"]["p99_ns"] <= rows["counted"]["max_ns"]
    assert rows["counted"]["hits_per_second"] > 0
    text = daemon.run("list-tracepoints", target.pid, "-a").stdout
    assert re.search(r"calls +500: total .*p50 .*p90 .*p99 .*max ", text)
    do(target, 250)
    until(lambda: len(open(lines).read().splitlines()) == 750, "all lines")
    assert listed(daemon, target.pid)["counted"]["hits"] == 750
    daemon.run("rm", f"{target.pid}:counted")
    do(target, 5)
    assert set(listed(daemon, target.pid)) == {"printed", "recorded"}
    daemon.run("detach", target.pid)
    assert "memfd:dyntrace" not in open(f"/proc/{target.pid}/maps").read()
    do(target, 1)
    assert len(open(lines).read().splitlines()) == 755


def test_count_alone_makes_no_trace(daemon, target):
    daemon.run("add", f"{target.pid}:foo", "count")
    do(target, 100)
    assert listed(daemon, target.pid)["foo"]["hits"] == 100
    daemon.run("detach", target.pid)
    assert not os.path.exists(daemon.output) or os.listdir(daemon.output) == []


def test_lttng_beside_others(daemon, target, build):
    """G2: comes and goes while others record; no session daemon is needed for that."""
    if not os.path.exists(os.path.join(build, "libdyntrace-lttng.so")):
        pytest.skip("libdyntrace-lttng.so isn't built")
    daemon.run("add", f"{target.pid}:foo", "-e", "-n", "counted", "count")
    for _ in range(3):
        daemon.run("add", f"{target.pid}:foo", "-e", "-n", "named", "lttng")
        do(target, 100)
        assert listed(daemon, target.pid)["named"]["hits"] == 0  # nobody records it
        daemon.run("rm", f"{target.pid}:named")
    assert listed(daemon, target.pid)["counted"]["hits"] == 300
    daemon.run("detach", target.pid)
    do(target, 1)


def test_refused(daemon, target):
    for words, said in ((["call", "a.so:f"], "a.so: cannot open shared object file"), (["nonsense"], "unknown tracer 'nonsense'"),
                        (["call", "f"], "is not LIBRARY:FUNCTION")):
        result = daemon.run("add", f"{target.pid}:foo", *words, check=False)
        assert result.returncode != 0 and said in result.stderr, result.stderr
    do(target, 1)
