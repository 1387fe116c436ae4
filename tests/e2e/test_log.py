"""--tracer log: one line of text per hit, to the target's own standard output or to a file."""
import collections
import os
import re
import subprocess

import pytest

from harness import Snapshot, summary_rows, until

SOURCE = r"""
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile int sink;
__attribute__((noinline)) int foo(int a, const char *s) { sink = a; return a * 2; }
static void on_signal(int n) { foo(n, "from a signal handler"); }
static void *run(void *name) { for (int i = 0; i < 2000; i++) foo(i, name); return NULL; }
int main(int argc, char **argv)
{
	pthread_t t[3];
	char line[32];
	signal(SIGUSR1, on_signal);
	if (argc > 2) close(1);
	if (argc > 1) { puts(argv[1]); fflush(stdout); while (fgets(line, sizeof(line), stdin)) { foo(atoi(line), "asked"); } }
	pthread_create(&t[0], NULL, run, "one"); pthread_create(&t[1], NULL, run, "two"); pthread_create(&t[2], NULL, run, "three");
	for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
	for (int i = 0; i < 20; i++) raise(SIGUSR1);
	return 5;
}
"""
LINE = re.compile(r'(\d\d:\d\d:\d\d\.\d{9}) \(\+[\d?.]+\) (\S+) tid (\d+) (\S+?)(?: \{ (.*) \})?$')


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("log")
    (folder / "logged.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O2", "-g", "-pthread", "-o", folder / "logged", folder / "logged.c"], check=True)
    return folder / "logged"


def trace(build, scratch, *words, **options):
    return subprocess.run([os.path.join(build, "dyntrace"), "trace", "--wide", "--tracer", *map(str, words)], cwd=scratch,
                          capture_output=True, text=True, timeout=60, **options)


def check(lines, exits=False):
    """Checks that each line is whole and names its hit, and that all are in order."""
    found = [LINE.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found) if not match][:3]
    assert [m[1] for m in found] == sorted(m[1] for m in found)
    entries = collections.Counter(m[5] for m in found if m[4] == "foo_entry")
    expected = collections.Counter(f'a = {i}, s = "{name}"' for name in ("one", "two", "three") for i in range(2000))
    expected['a = 10, s = "from a signal handler"'] = 20
    assert entries == expected
    assert len(found) == 6020 * (1 + exits)
    by_tid = collections.defaultdict(list)
    for m in found:
        if m[4] == "foo_entry":
            by_tid[m[3]].append(m[5])
    assert len(by_tid) == 4
    for values in by_tid.values():
        numbers = [int(re.search(r"a = (\d+)", value)[1]) for value in values]
        assert numbers == sorted(numbers)
    return found


@pytest.mark.parametrize("exits", [False, True])
def test_to_its_own_output(build, scratch, program, exits):
    result = trace(build, scratch, "log", "--function", "foo", *(["-e"] if exits else []), "--", program)
    assert result.returncode == 5
    found = check(result.stdout.splitlines(), exits)
    if exits:
        assert any(re.fullmatch(r"ret = 3998, duration = \d+", m[5]) for m in found if m[4] == "foo_exit")
    assert os.listdir(scratch) == []  # no trace
    assert (summary_rows(result.stderr)["foo"]["hits"], summary_rows(result.stderr)["foo"]["lost"]) == ("6020", "0")


def test_to_a_file(build, scratch, program):
    """Appended to; contexts are in the line."""
    path = os.path.join(scratch, "lines")
    with open(path, "w") as file:
        file.write("what was there\n")
    result = trace(build, scratch, f"log:{path}", "--function", "foo", "--", program)
    assert result.stdout == "" and result.returncode == 5
    lines = open(path).read().splitlines()
    assert lines[0] == "what was there"
    check(lines[1:])
    trace(build, scratch, f"log:{path}", "--probe", "foo", "-t", "reg:rdi", "--filter", "$rdi == 1234", "--", program)
    more = open(path).read().splitlines()[len(lines):]
    assert [LINE.match(line)[4] for line in more] == ["foo"] * 3
    assert all("0x4d2" in line for line in more)


def test_at_once(build, scratch, program, processes):
    """A line is there while the program waits for its next input; afterwards the program is as before."""
    target = processes.start([program, "ready"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    before = Snapshot(target.pid)
    tracer = processes.start([os.path.join(build, "dyntrace"), "trace", "--wide", "-p", target.pid, "--tracer", "log", "--function", "foo"],
                             cwd=scratch, stderr=subprocess.PIPE, text=True)
    assert "Ctrl-C ends it" in tracer.stderr.readline()
    for number in (7, 8, 9):
        target.stdin.write(f"{number}\n")
        target.stdin.flush()
        assert f'foo_entry {{ a = {number}, s = "asked" }}' in target.stdout.readline()
    tracer.send_signal(2)
    assert summary_rows(tracer.communicate(timeout=20)[1])["foo"] == {"hits": "3", "lost": "0"}
    before.assert_unchanged()


def test_nobody_reads(build, scratch, program, processes):
    """The reader of the pipe goes away: the program and dyntrace go on."""
    target = processes.start([program, "ready"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    tracer = processes.start([os.path.join(build, "dyntrace"), "trace", "--wide", "-p", target.pid, "--tracer", "log", "--function", "foo"],
                             cwd=scratch, stderr=subprocess.PIPE, text=True)
    assert "Ctrl-C ends it" in tracer.stderr.readline()
    target.stdout.close()
    target.stdout = None
    target.stdin.close()
    target.stdin = None
    assert target.wait(timeout=20) == 5
    errors = tracer.communicate(timeout=20)[1]
    assert (summary_rows(errors)["foo"]["hits"], summary_rows(errors)["foo"]["lost"]) == ("0", "6020")
    assert "6020 lines not written: the output was not read in time" in errors


def test_a_full_disk(build, scratch, program):
    """The program goes on, and dyntrace reports the reason."""
    result = trace(build, scratch, "log:/dev/full", "--function", "foo", "--", program)
    assert result.returncode == 5
    assert "6020 lines not written: No space left on device" in result.stderr


def test_a_named_pipe(build, scratch, program):
    """A pipe without a reader is refused at once; a reader that stops delays nobody, and unread lines are counted."""
    path = os.path.join(scratch, "pipe")
    os.mkfifo(path)
    result = trace(build, scratch, f"log:{path}", "--function", "foo", "--", program)
    assert result.returncode == 125
    assert result.stderr == f"dyntrace: tracer 'log': cannot write to {path}: nobody reads it (start its reader first)\n"
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        result = trace(build, scratch, f"log:{path}", "--function", "foo", "--", program)
        taken = os.read(reader, 1 << 20).decode()
    finally:
        os.close(reader)
    lines = taken.splitlines()
    assert result.returncode == 5 and lines and all(LINE.match(line) for line in lines)
    left, = re.findall(r"(\d+) lines not written: the output was not read in time", result.stderr)
    assert len(lines) + int(left) == 6020
    row = summary_rows(result.stderr)["foo"]
    assert (row["hits"], row["lost"]) == (str(len(lines)), left)


@pytest.mark.parametrize("tracer, said", [
    ("log:/no/such/folder/file", "cannot write to /no/such/folder/file: No such file or directory"),
    ("log:", "FILE is empty"),
])
def test_refusals(build, scratch, program, tracer, said):
    result = trace(build, scratch, tracer, "--function", "foo", "--", program)
    assert said in result.stderr
    assert result.returncode in (2, 125)


def test_closed_output(build, scratch, program, processes):
    target = processes.start([program, "ready", "close"], stdin=subprocess.PIPE, text=True)
    until(lambda: "1" not in os.listdir(f"/proc/{target.pid}/fd"), "it to close its output")
    result = trace(build, scratch, "log", "-p", target.pid, "--function", "foo")
    assert "has no standard output (its descriptor 1 is closed)" in result.stderr
    assert result.returncode == 125


LONG = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
volatile int sink;
char text[1100];
__attribute__((noinline)) int bar(const char *a, const char *b) { return sink = a[0] + b[0]; }
int main(void)
{
	char word[32];
	memset(text, 1, sizeof(text) - 1); /* four bytes per byte in a line */
	if (write(1, "ready\n", 6) != 6) return 1;
	while (fgets(word, sizeof(word), stdin)) {
		for (int i = 0; i < atoi(word); i++) bar(text, text);
		if (write(2, "done\n", 5) != 5) return 1;
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def long_lines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.c").write_text(LONG)
    subprocess.run(["gcc", "-O2", "-g", "-o", folder / "long", folder / "long.c"], check=True)
    return folder / "long"


def whole_lines(fd):
    """The lines that a pipe holds, without the last one that isn't whole."""
    os.set_blocking(fd, False)
    taken = b""
    while True:
        try:
            piece = os.read(fd, 1 << 20)
        except BlockingIOError:
            break
        if not piece:
            break
        taken += piece
    return taken.count(b"\n")


@pytest.mark.parametrize("tracer", [["--tracer", "log"], ["--print", "-o", "trace"]])
def test_long_lines_nobody_reads(build, scratch, long_lines, processes, tracer):
    """Lines longer than a pipe takes at once, to a pipe that nobody reads: dyntrace goes on, ends with Ctrl-C, and
    counts the lines. The reader of stdout is the test, which doesn't read."""
    target = processes.start([long_lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert target.stdout.readline() == b"ready\n"
    ours, theirs = os.pipe()
    tracer = processes.start([os.path.join(build, "dyntrace"), "trace", "--wide", "-p", target.pid, *tracer, "--function", "bar",
                              "--string-max", "1000"], cwd=scratch, stdout=theirs, stderr=subprocess.PIPE, text=True)
    os.close(theirs)
    assert "Ctrl-C ends it" in tracer.stderr.readline()
    target.stdin.write(b"40\n")
    target.stdin.flush()
    assert target.stderr.readline() == b"done\n"
    tracer.send_signal(2)
    errors = tracer.communicate(timeout=60)[1]
    left, = re.findall(r"(\d+) lines not (?:written|printed): ", errors)
    lost = 0 if "printed" in errors else int(left)  # the trace has what wasn't printed
    row = summary_rows(errors)["bar"]
    assert (row["hits"], row["lost"]) == (str(40 - lost), str(lost))
    # a --print that is given up ends in the middle of a line
    lines = whole_lines(ours) + whole_lines(target.stdout.fileno())
    assert lines and lines + int(left) == 40
    os.close(ours)


def test_list_tracepoints_shows_lines_left_out(daemon, long_lines, processes, scratch):
    """A reader that stops, and comes back: every line was read or is in the list as lost."""
    path = os.path.join(scratch, "pipe")
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    target = processes.start([long_lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert target.stdout.readline() == b"ready\n"
    daemon.attach(target.pid)
    daemon.add(f"{target.pid}:bar", "-f", "--string-max", "1000", "log", path)

    def counted():
        row, = daemon.json("list-tracepoints", target.pid)
        return row["hits"], row["lost"]
    target.stdin.write(b"20000\n")  # 40 MB of events, of which the worker keeps 16 MiB
    target.stdin.flush()
    assert target.stderr.readline() == b"done\n"
    until(lambda: sum(counted()) == 20000, "all hits in the list")
    hits, lost = counted()
    assert lost > 1000
    lines = 0

    def read_on():
        nonlocal lines
        lines += whole_lines(reader)
        return lines >= hits
    until(read_on, "a line per hit in the list")
    assert counted() == (hits, lost) and lines + lost == 20000
    os.close(reader)


def test_the_daemon_counts_lines(daemon, long_lines, processes, scratch):
    """The same in a worker: it answers, and detach and watch say how many lines are missing."""
    target = processes.start([long_lines], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert target.stdout.readline() == b"ready\n"
    daemon.attach(target.pid)
    daemon.add(f"{target.pid}:bar", "-e", "--string-max", "1000", "log")  # two lines per hit
    target.stdin.write(b"40\n")
    target.stdin.flush()
    assert target.stderr.readline() == b"done\n"
    until(lambda: daemon.hits(target.pid) == {"bar": 40}, "40 hits")
    said = daemon("detach", target.pid, status=None).stderr
    left, = re.findall(r"(\d+) lines not written: the output was not read in time", said)
    assert whole_lines(target.stdout.fileno()) + int(left) == 80
