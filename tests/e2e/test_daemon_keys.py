"""`add ... count --by KEY` through the daemon: rows of list-tracepoints, reset, and what stays when a worker is killed."""
import os
import signal
import subprocess

import pytest

from harness import die_with_parent, until
from test_count_keys import by_key

SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
volatile long sink;
__attribute__((noinline)) int work(int size, const char *path) { sink += size + (path != 0); return size % 3 - 1; }
/* The first thread brings all keys: two threads that bring the same one at once use up room for two. */
static volatile int has_all_keys;
static void *calls(void *is_second)
{
	char path[32];
	while (is_second && !has_all_keys)
		;
	for (int i = 0; i < 600; i++) {
		snprintf(path, sizeof(path), "/tmp/file-%d", i % 5);
		work(i % 20, path);
		has_all_keys |= i == 20;
	}
	return is_second;
}
int main(void)
{
	pthread_t other;
	puts("ready"), fflush(stdout);
	while (getchar() != EOF) {
		pthread_create(&other, NULL, calls, &other);
		calls(NULL);
		pthread_join(other, NULL);
		puts("done"), fflush(stdout);
	}
	return 0;
}
"""
CALLS = 1200  # of work, per round
SIZES = {size: CALLS // 20 for size in range(20)}
PATHS = {f"/tmp/file-{i}": CALLS // 5 for i in range(5)}


class Target:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        self.pid = self.process.pid
        assert self.process.stdout.readline() == "ready\n"

    def round(self):
        self.process.stdin.write("x")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=30) == 0
        self.process.stdout.close()


def compile_asked(folder, source):
    (folder / "asked.c").write_text(source)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", folder / "asked", folder / "asked.c"], check=True)
    return folder / "asked"


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    return compile_asked(tmp_path_factory.mktemp("asked"), SOURCE)


@pytest.fixture
def target(asked):
    one = Target(asked)
    yield one
    one.close()


def rows(daemon, pid, *words):
    """{name: rows} of its tracepoints."""
    return {one["name"]: one["rows"] for one in daemon.json("list-tracepoints", pid, *words)}


def times(counts, n):
    return {key: n * count for key, count in counts.items()}


def test_rows_of_a_list(daemon, target):
    where = f"{target.pid}:work"
    daemon.add(where, "-e", "-n", "sizes", "count", "--by", "size", "--keys", "100")
    daemon.add(where, "-f", "-n", "paths", "count", "--by", "path")
    daemon.add(where, "-f", "-n", "sums", "count", "--of", "size")
    daemon.add(where, "-e", "-n", "results", "count", "--by", "ret,$comm")
    daemon.add(where, "-f", "-n", "callers", "count", "--by", "caller")
    daemon.add(where, "-f", "-n", "few", "count", "--by", "size", "--keys", "3")
    target.round()
    listed = {one["name"]: one for one in daemon.json("list-tracepoints", target.pid)}
    found = {name: one["rows"] for name, one in listed.items()}
    assert listed["sizes"]["by"] == "size" and listed["sizes"]["hits"] == CALLS
    assert by_key(found["sizes"], "calls") == SIZES
    assert by_key(found["paths"]) == PATHS
    only, = found["sums"]
    assert (only["calls"], only["total"], only["max"]) == (CALLS, CALLS // 20 * sum(range(20)), 19)
    assert sum(by_key(found["results"], "calls").values()) == CALLS
    assert by_key(found["callers"]) == {"calls": CALLS}
    few = by_key(found["few"])
    assert len(few) == 4 and sum(few.values()) == CALLS and "(other keys)" in few
    text = daemon("list-tracepoints", target.pid, "--top", "2", "--hist").stdout
    assert "\npaths by path:\n" in text and "\nsums of size:\n" in text and "(other keys: 3)" in text and "|" in text
    daemon("detach", target.pid)


def test_reset_begins_at_zero(daemon, target):
    daemon.add(f"{target.pid}:work", "-e", "-n", "sizes", "count", "--by", "size")
    target.round()
    assert by_key(rows(daemon, target.pid, "--reset")["sizes"], "calls") == SIZES
    assert rows(daemon, target.pid) == {"sizes": []}
    target.round()
    target.round()
    assert by_key(rows(daemon, target.pid)["sizes"], "calls") == times(SIZES, 2)
    daemon("detach", target.pid)


@pytest.mark.parametrize("who", ["worker", "both"])
def test_counts_stay_when_a_worker_is_killed(daemon, target, who):
    """The next worker adds the dead one's keys to its own, wherever their place in the table is now."""
    daemon.add(f"{target.pid}:work", "-e", "-n", "sizes", "count", "--by", "size")
    daemon.add(f"{target.pid}:work", "-f", "-n", "paths", "count", "--by", "path")
    daemon.add(f"{target.pid}:work", "-e", "-n", "values", "count", "--by", "ret", "--of", "size")
    daemon.add(f"{target.pid}:work", "-f", "-n", "few", "count", "--by", "size", "--keys", "3")
    target.round()
    before = rows(daemon, target.pid)
    old, = daemon.workers(target.pid)
    if who == "both":
        daemon.kill()
    os.kill(old, signal.SIGKILL)
    if who == "both":
        daemon.start()
    until(lambda: [pid for pid in daemon.workers(target.pid) if pid != old], "another worker")
    until(lambda: [one["state"] for one in daemon.json("list-tracepoints", target.pid)] == ["enabled"] * 4, "the tracepoints")
    columns = {"sizes": ("hits", "calls", "total_ns", "max_ns"), "paths": ("hits",), "values": ("hits", "calls", "total", "max"), "few": ("hits",)}
    now = rows(daemon, target.pid)
    for name, wanted in columns.items():
        for column in wanted:
            expected = by_key(before[name], column)
            if column.endswith("_ns"):  # the same cycles; each worker estimates the clock's frequency anew
                expected = pytest.approx(expected, rel=1e-3, abs=1)
            assert by_key(now[name], column) == expected, (name, column)
    target.round()
    now = rows(daemon, target.pid)
    assert by_key(now["sizes"], "calls") == times(SIZES, 2)
    assert by_key(now["paths"]) == times(PATHS, 2)
    assert by_key(now["values"], "total") == {ret: 2 * CALLS // 20 * sum(size for size in range(20) if size % 3 - 1 == ret) for ret in (-1, 0, 1)}
    few = by_key(now["few"])
    assert sum(few.values()) == 2 * CALLS and len(few) == 4
    daemon("detach", target.pid)


def test_what_is_refused(daemon, target):
    where = f"{target.pid}:work"
    assert "--by: needs the tracer count" in daemon.fails("add", where, "-f", "--by", "size", status=2)
    assert "--keys: needs --by" in daemon.fails("add", where, "count", "--keys", "3", status=2)
    assert "'duration' is no key" in daemon.fails("add", where, "count", "--by", "duration", status=2)
    assert "--keys: at most 65536" in daemon.fails("add", where, "-f", "count", "--by", "size", "--keys", "100000", status=2)
    assert "work: --by: unknown variable 'nonsense' (available: size, path)" in daemon(
        "add", where, "-f", "count", "--by", "nonsense", status=2).stderr
