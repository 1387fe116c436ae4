"""Libraries that are loaded several times (H37: dlmopen, LD_AUDIT): all copies are meant, and each can be told apart."""
import json
import os
import re
import signal
import subprocess

import pytest

from harness import Snapshot, hits


@pytest.fixture
def plugin(program_path):
    return program_path("plugin.so")


def bases(pid, name):
    """Where the file is loaded, by address."""
    with open(f"/proc/{pid}/maps") as file:
        lines = [line.split() for line in file]
    return sorted(int(words[0].split("-")[0], 16) for words in lines if len(words) > 5 and os.path.basename(words[5]) == name
                  and words[2] == "00000000")


def per_tracepoint(trace, name):
    """Hits of NAME, NAME-2, ..., smallest first."""
    return sorted(count for event, count in trace.names().items() if re.fullmatch(rf"{name}(-\d+)?(_entry)?", event))


def steps(*factors, own=0):
    return sorted(factor * 10 + own for factor in factors)


@pytest.mark.parametrize("what, factor", [("getppid", 7), ("getppid@libc.so.6", 7), ("getppid@libc", 7), ("plugin_step@plugin.so", 10),
                                          ("plugin_ste[p]@plugin.so", 10), ("plugin.c:11@plugin.so", 10)])
def test_all_copies_are_traced(dyntrace, program, plugin, what, factor):
    """By name, with a module's name or the start of it, by a glob, by a line: each call of each copy, once."""
    target = program("copies", "--copies", 3, plugin).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--probe" if ":" in what else "--function", what)
    target.go().wait_ready()
    trace = tracing.stop()
    before.assert_unchanged()
    target.finish()
    assert trace.lost == 0
    assert sorted(trace.names().values()) == [factor, 2 * factor, 3 * factor], trace.names()


def test_summary_tells_copies_apart(dyntrace, program, plugin):
    target = program("copies", plugin).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "-e")
    target.go().wait_ready()
    trace = tracing.stop()
    expected = bases(target.pid, "plugin.so")
    said = target.finish().splitlines()
    assert len(expected) == 3
    shown = dict(re.findall(r"^(\S+): in the copy of \S+/plugin.so at (0x[0-9a-f]+)$", tracing.stderr, re.M))
    assert sorted(int(at, 16) for at in shown.values()) == expected
    calls = {line.split()[0]: int(line.split()[1]) for line in said}
    assert {shown[name]: count for name, count in hits(tracing.stderr).items()} == calls
    exits = {name: count for name, count in trace.names().items() if name.endswith("_exit")}
    assert sorted(exits.values()) == steps(1, 2, 3)


def test_one_copy_by_its_address(dyntrace, program, plugin):
    target = program("copies", plugin).wait_ready()
    for at in bases(target.pid, "plugin.so"):
        dyntrace("trace", "-p", target.pid, "-o", dyntrace.new_output(), "--for", "0.01", "--function", f"plugin_step@{at:#x}")
    at = bases(target.pid, "plugin.so")[1]
    tracing = dyntrace.start_trace(target.pid, "--function", f"plugin_step@{at:#x}")
    target.go().wait_ready()
    trace = tracing.stop()
    calls = {int(line.split()[0], 16): int(line.split()[1]) for line in target.finish().splitlines()}
    assert trace.names() == {"plugin_step_entry": calls[at]}


def test_no_module_at_that_address(dyntrace, program, plugin):
    target = program("copies", plugin).wait_ready()
    assert "no module '0x10'" in dyntrace.fails("trace", "-p", target.pid, "--function", "plugin_step@0x10", status=125)


@pytest.mark.parametrize("words", [[], ["-e"]])
def test_later_copies_with_wait(dyntrace, program, plugin, words):
    """Copies that come later are traced from before their constructors (3 calls, and 1 of the destructor), when they go their
    tracepoints wait, and when others come they are traced again: never a call twice or none."""
    target = program("copies", "--copies", 1, "--late", 2, plugin).wait_ready()
    before = Snapshot(target.pid)
    tracing = dyntrace.start_trace(target.pid, "--function", "plugin_step@plugin.so", "--wait", *words)
    for _ in range(3):
        target.go().wait_ready()
    trace = tracing.stop()
    before.assert_unchanged(busy=True)
    target.finish()
    assert trace.lost == 0
    # the copies of the second round are traced under the names of the first, which waited
    assert sum(per_tracepoint(trace, "plugin_step")) == 10 + 20 + 30 + 40 + 50 + 4 * 4, trace.names()
    assert len(per_tracepoint(trace, "plugin_step")) == 3, trace.names()
    if words:
        entries, exits = (sum(n for name, n in trace.names().items() if name.endswith(end)) for end in ("_entry", "_exit"))
        assert entries == exits


def test_counted(dyntrace, program, plugin, processes):
    target = program("copies", plugin).wait_ready()
    tracing = processes.start([dyntrace.path, "trace", "-p", target.pid, "--tracer", "count", "--function", "getppid", "-e"],
                              stderr=subprocess.PIPE, text=True)
    assert "3 tracepoints placed" in tracing.stderr.readline()
    target.go().wait_ready()
    tracing.send_signal(signal.SIGINT)
    text = tracing.communicate(timeout=30)[1]
    target.finish()
    assert sorted(count for name, count in hits(text).items() if re.fullmatch(r"getppid(-\d)?", name)) == [7, 14, 21]


def test_daemon(new_daemon, program, plugin):
    """add names all, list-tracepoints shows which is where, rm takes one, list-symbols has each."""
    daemon = new_daemon().start()
    target = program("copies", plugin).wait_ready()
    daemon("attach", target.pid)
    assert daemon("add", f"{target.pid}:plugin_step@plugin.so", "count").stdout.split() == \
        ["plugin_step", "plugin_step-2", "plugin_step-3"]
    expected = bases(target.pid, "plugin.so")
    rows = json.loads(daemon("list-tracepoints", "--json", target.pid).stdout)
    assert sorted(row["module_address"] for row in rows) == expected
    table = daemon("list-tracepoints", target.pid).stdout
    assert sorted(int(at, 16) for at in re.findall(r"plugin_step@plugin.so \(copy at (0x[0-9a-f]+)\)", table)) == expected
    symbols = json.loads(daemon("list-symbols", "--json", target.pid, "plugin_step").stdout)
    assert sorted(row["address"] for row in rows) == sorted(symbol["address"] for symbol in symbols)
    daemon("rm", f"{target.pid}:plugin_step-2")
    target.go().wait_ready()
    hits = {row["module_address"]: row["hits"] for row in json.loads(daemon("list-tracepoints", "--json", target.pid).stdout)}
    calls = {int(line.split()[0], 16): int(line.split()[1]) for line in
             (daemon("detach", target.pid), target.finish())[1].splitlines()}
    removed = next(row["module_address"] for row in rows if row["name"] == "plugin_step-2")
    assert hits == {at: count for at, count in calls.items() if at != removed}


AUDIT = """
#include <link.h>
unsigned la_version(unsigned version) { return version; }
"""


def test_audit_library(dyntrace, program, plugin, scratch, monkeypatch):
    """A library of LD_AUDIT has a libc of its own: the program's is traced, too."""
    source, library = os.path.join(scratch, "audit.c"), os.path.join(scratch, "audit.so")
    with open(source, "w") as file:
        file.write(AUDIT)
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,--no-as-needed", "-o", library, source, "-lc"], check=True)
    with monkeypatch.context() as patch:
        patch.setenv("LD_AUDIT", library)
        target = program("copies", "--copies", 1, plugin).wait_ready()
    assert len(bases(target.pid, "libc.so.6")) == 2
    tracing = dyntrace.start_trace(target.pid, "--function", "getppid")
    target.go().wait_ready()
    trace = tracing.stop()
    target.finish()
    assert list(trace.names().values()) == [7]


PIECES = r"""
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
__attribute__((noinline)) int step(int n) { __asm__ volatile("" : "+r"(n)); return n + 1; }
int main(void)
{
	/* the page of the text that holds step(), from the file, once more: as node does with all of its text */
	char line[512];
	unsigned long start, end, offset, at = (unsigned long)step;
	FILE *maps = fopen("/proc/self/maps", "r");
	int fd = open("/proc/self/exe", O_RDONLY), n = 0;
	while (fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &offset) == 3 && at >= start && at < end)
			break;
	fclose(maps);
	/* other memory where the file's start would be */
	char *around = mmap((void *)WHERE, 16 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *piece = mmap(around + (8 << 20), 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd,
			   (off_t)(offset + (at - start) / 4096 * 4096));
	if (around == MAP_FAILED || piece == MAP_FAILED)
		return 1;
	puts("ready");
	fflush(stdout);
	getchar();
	for (int i = 0; i < 1000; i++)
		n = step(n);
	printf("%d\n", n);
	fflush(stdout);
	getchar();
	return 0;
}
"""


@pytest.mark.parametrize("where", ["0x10000000", "0"])
def test_a_piece_of_a_file_is_no_copy(dyntrace, processes, scratch, where):
    """A program that maps part of its own text again, below or above itself, has its functions once."""
    path = os.path.join(scratch, "pieces")
    subprocess.run(["gcc", "-O1", f"-DWHERE={where}", "-x", "c", "-", "-o", path], input=PIECES, text=True, check=True)
    target = processes.start([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    tracing = dyntrace.start_trace(target.pid, "--function", "step", "-e")
    target.stdin.write("\n")
    target.stdin.flush()
    assert target.stdout.readline() == "1000\n"
    assert tracing.stop().names() == {"step_entry": 1000, "step_exit": 1000}
    target.stdin.close()
    assert target.wait() == 0
