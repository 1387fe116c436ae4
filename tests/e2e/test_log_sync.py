"""log --sync: the hit's own thread writes its line, between the program's own lines, and the program notices nothing."""
import collections
import fcntl
import os
import pty
import re
import select
import signal
import socket
import subprocess

import pytest

from harness import summary_rows, until
from test_fenced import OURS, table

SOURCE = r"""
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
struct pair { int x; double y; };
enum colour { RED, GREEN = -3 };
volatile int sink, pipes;
__attribute__((noinline)) int foo(int a, const char *s) { sink = a; return a * 2; }
__attribute__((noinline)) int bar(struct pair pair, double d, float f, enum colour c, const char *s, unsigned char b)
{ sink = b; return s[0]; }
static void on_signal(int n) { foo(n, "handler"); }
static void on_pipe(int n) { pipes++; }
static void *run(void *name) { for (int i = 0; i < 500; i++) foo(i, name); return NULL; }
static void say(const char *text) { if (write(1, text, strlen(text)) < 0) abort(); }
static void report(void) { dprintf(2, "pipes %d errno %d\n", pipes, errno); }
int main(int argc, char **argv)
{
	const char *mode = argv[1];
	int n = argc > 2 ? atoi(argv[2]) : 3;
	errno = 77;
	if (!strcmp(mode, "order")) {
		for (int i = 0; i < n; i++) { say("before\n"); foo(i, "x"); say("after\n"); }
	} else if (!strcmp(mode, "values")) {
		static const char *const texts[] = { "", "plain", "\"q\\\n\t\x01\x7f", "\xc3\xa9\xff\xe2\x80\xae", "\xf0\x9f\x98\x80" };
		double numbers[] = { 0, -0.0, 1, 0.1, 1.0 / 3, 1e15, 1e16, 1e17, 123456789.125, 5e-324, 1.7976931348623157e308,
				     2.2250738585072014e-308, 1e-5, 1e-40, 1e-310, 0.0001, -1e22, 1.0 / 0.0, -1.0 / 0.0, 9007199254740993.0, 1e23 };
		for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
			bar((struct pair){ -(int)i, numbers[i] / 7 }, numbers[i], (float)numbers[i],
			    i % 3 == 2 ? 9 : i % 3 ? GREEN : RED, texts[i % 5], (unsigned char)(i * 50));
	} else if (!strcmp(mode, "threads")) {
		pthread_t t[3];
		signal(SIGUSR1, on_signal);
		pthread_create(&t[0], NULL, run, "one"); pthread_create(&t[1], NULL, run, "two"); pthread_create(&t[2], NULL, run, "three");
		for (int i = 0; i < 3; i++) pthread_join(t[i], NULL);
		for (int i = 0; i < 20; i++) raise(SIGUSR1);
	} else if (!strcmp(mode, "many")) {
		signal(SIGPIPE, on_pipe);
		for (int i = 0; i < n; i++) foo(i, "many");
		report();
	} else if (!strcmp(mode, "default")) { /* SIGPIPE would kill */
		for (int i = 0; i < n; i++) foo(i, "default");
		report();
	} else if (!strcmp(mode, "pending")) { /* its own SIGPIPE is pending, and stays so */
		sigset_t set;
		sigemptyset(&set); sigaddset(&set, SIGPIPE); sigprocmask(SIG_BLOCK, &set, NULL);
		if (n) raise(SIGPIPE);
		errno = 77;
		for (int i = 0; i < 5; i++) foo(i, "pending");
		int number = errno;
		sigpending(&set);
		dprintf(2, "pending %d errno %d\n", sigismember(&set, SIGPIPE), number);
	} else if (!strcmp(mode, "reuse")) {
		foo(0, "first");
		close(1);
		foo(1, "closed");
		if (open(argv[3], O_RDWR) != 1) abort();
		foo(2, "reused");
	} else if (!strcmp(mode, "limit")) {
		struct rlimit limit = { 4096, 4096 };
		setrlimit(RLIMIT_FSIZE, &limit);
		errno = 77;
		for (int i = 0; i < n; i++) foo(i, "limit");
		report();
	} else if (!strcmp(mode, "fork")) {
		foo(1, "parent");
		if (!fork()) { foo(2, "child"); _exit(0); }
		wait(NULL);
		foo(3, "parent");
	} else if (!strcmp(mode, "memory")) {
		for (int i = 0; i < n; i++) { void *volatile kept = malloc(100 + i); free(kept); }
	} else if (!strcmp(mode, "long")) {
		static char text[3000];
		memset(text, 7, sizeof(text) - 1); /* \x07: four characters per byte */
		bar((struct pair){ 1, 2 }, 1, 2, RED, text, 3);
	} else if (!strcmp(mode, "wait")) {
		char line[64];
		say("ready\n");
		while (read(0, line, sizeof(line)) > 0) { foo(atoi(line), "asked"); say("done\n"); }
	}
	return 5;
}
"""
LINE = re.compile(r'(\d\d:\d\d:\d\d\.\d{9}) \([+-][\d?.]+\) (\S+) tid (\d+) (\S+?)(?: \{ (.*) \})?$')


@pytest.fixture(scope="module")
def synced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sync")
    (folder / "synced.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-o", folder / "synced", folder / "synced.c"], check=True)
    return folder / "synced"


def words(build, synced, *words, function="foo", more=(), tracer="log", sync=True):
    return [os.path.join(build, "dyntrace"), "trace", "--wide", "--tracer", tracer, *(["--sync"] if sync else []),
            "--function", function, *more, "--", str(synced), *map(str, words)]


def trace(build, synced, *mode, timeout=60, **options):
    named = {name: options.pop(name) for name in ("function", "more", "tracer", "sync") if name in options}
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | options
    return subprocess.run(words(build, synced, *mode, **named), timeout=timeout, **options)


def row(result, name="foo"):
    found = summary_rows(result.stderr)[name]
    return found["hits"], found["lost"]


def values(result):
    found = [LINE.match(line) for line in result.stdout.splitlines()]
    assert all(found), result.stdout[:2000]
    return [(m[4], m[5]) for m in found]


def test_lines_stand_where_they_happened(build, synced):
    result = trace(build, synced, "order", 50, more=["-e"])
    assert result.returncode == 5, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 200
    for i in range(50):
        before, entry, leave, after = lines[4 * i:4 * i + 4]
        assert (before, after) == ("before", "after")
        assert LINE.match(entry)[5] == f'a = {i}, s = "x"'
        assert re.fullmatch(rf"ret = {2 * i}, duration = \d+", LINE.match(leave)[5])
    assert row(result) == ("50", "0")


def test_the_same_text_as_without(build, synced):
    """Numbers, floats, strings, structs and names, as dyntrace itself writes them."""
    synced, later = (trace(build, synced, "values", function="bar", sync=sync) for sync in (True, False))
    assert len(values(synced)) == 21
    assert values(synced) == values(later)
    assert "c = GREEN (-3)" in synced.stdout and "5e-324" in synced.stdout


@pytest.mark.parametrize("kind", ["pipe", "file", "socket", "terminal"])
def test_threads_and_handlers(build, synced, tmp_path, kind):
    """Each line is whole, and each hit has one, wherever the output leads."""
    result, text = into(kind, tmp_path, lambda out: trace(build, synced, "threads", stdout=out))
    assert result.returncode == 5 and row(result) == ("1520", "0"), result.stderr
    found = [LINE.match(line) for line in text.splitlines()]
    assert all(found), [line for line, match in zip(text.splitlines(), found) if not match][:3]
    expected = collections.Counter(f'a = {i}, s = "{name}"' for name in ("one", "two", "three") for i in range(500))
    expected['a = 10, s = "handler"'] = 20
    assert collections.Counter(m[5] for m in found) == expected
    assert len({m[3] for m in found}) == 4


def into(kind, folder, run):
    """The result of run(descriptor), and all that was written to the descriptor."""
    if kind == "file":
        with open(folder / "output", "w+b") as file:
            result = run(file)
            file.seek(0)
            return result, file.read().decode()
    pairs = {"pipe": os.pipe, "terminal": pty.openpty, "socket": lambda: tuple(s.detach() for s in socket.socketpair())}
    reader, writer = pairs[kind]()
    command = f"exec cat >{folder}/{kind}"
    cat = subprocess.Popen(["sh", "-c", command], stdin=reader, pass_fds=())
    try:
        result = run(writer)
    finally:
        os.close(writer)
        os.close(reader)
        cat.wait(timeout=30)  # a terminal ends it with an error
    return result, (folder / kind).read_text().replace("\r\n", "\n")


@pytest.mark.parametrize("mode", ["many", "default"])
def test_a_closed_pipe_does_no_harm(build, synced, mode):
    """(I11, I14) No SIGPIPE, no changed errno; what wasn't written is counted and said."""
    reader, writer = os.pipe()
    os.close(reader)
    result = trace(build, synced, mode, 100, stdout=writer)
    os.close(writer)
    assert result.returncode == 5, result.stderr
    assert "pipes 0 errno 77\n" in result.stderr
    assert row(result) == ("0", "100")
    assert "100 lines not written: nobody reads its output any more" in result.stderr


@pytest.mark.parametrize("own", [0, 1])
def test_a_pending_signal_of_its_own_stays(build, synced, own):
    reader, writer = os.pipe()
    os.close(reader)
    result = trace(build, synced, "pending", own, stdout=writer)
    os.close(writer)
    assert result.returncode == 5 and f"pending {own} errno 77\n" in result.stderr, result.stderr


@pytest.mark.parametrize("nonblocking", [False, True])
def test_a_reader_that_stands_still(build, synced, nonblocking):
    """(I13) One bounded wait; the program ends by itself, and lines plus lines left out are all hits."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, not nonblocking)
    result = trace(build, synced, "many", 2000, stdout=writer)
    assert os.get_blocking(writer) == (not nonblocking)
    os.close(writer)
    assert result.returncode == 5 and "pipes 0 errno 77\n" in result.stderr, result.stderr
    text = os.read(reader, 1 << 20).decode()
    os.close(reader)
    assert all(LINE.match(line) for line in text.splitlines()) and text.endswith("\n")
    count = text.count("\n")
    assert 0 < count < 2000
    assert row(result) == (str(count), str(2000 - count))
    assert f"{2000 - count} lines not written: the output was not read in time" in result.stderr


def test_goes_on_when_read_again(build, synced, processes):
    """After a stall, lines come again, whole."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    run = processes.start(words(build, synced, "many", 200000), stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    until(lambda: select.select([reader], [], [], 0)[0], "the first line")
    with open(reader, "rb") as lines:
        text = lines.read().decode()
    error = run.communicate(timeout=60)[1].decode()
    assert run.returncode == 5
    assert all(LINE.match(line) for line in text.splitlines())
    assert sum(map(int, (summary_rows(error)["foo"][key] for key in ("hits", "lost")))) == 200000
    assert text.count("\n") == int(summary_rows(error)["foo"]["hits"])


def test_another_file_under_the_number_is_left_alone(build, synced, tmp_path):
    """(I12)"""
    other = tmp_path / "database"
    other.write_text("precious")
    result = trace(build, synced, "reuse", 0, other)
    assert result.returncode == 5 and other.read_text() == "precious"
    assert [fields for _, fields in values(result)] == ['a = 0, s = "first"']
    assert row(result) == ("1", "2")
    assert "2 lines not written: the program closed its descriptor, or it leads elsewhere since tracing began" in result.stderr


def test_a_limited_file(build, synced, tmp_path):
    """RLIMIT_FSIZE: no SIGXFSZ for a line."""
    with open(tmp_path / "output", "wb") as file:
        result = trace(build, synced, "limit", 200, stdout=file)
    assert result.returncode == 5 and "errno 77\n" in result.stderr, result.stderr
    hits, lost = map(int, row(result))
    assert (tmp_path / "output").read_bytes().count(b"\n") == hits and hits + lost == 200 and lost
    assert f"{lost} lines not written: File too large" in result.stderr


@pytest.mark.parametrize("follow", [True, False])
def test_forked_children(build, synced, follow):
    result = trace(build, synced, "fork", more=[] if follow else ["--no-follow-fork"])
    expected = ['a = 1, s = "parent"', 'a = 2, s = "child"', 'a = 3, s = "parent"']
    assert [fields for _, fields in values(result)] == expected[::1 if follow else 2]


def test_inside_of_malloc(build, synced):
    """No lock of the program's is taken: hits in malloc itself have lines."""
    result = trace(build, synced, "memory", 300, function="malloc@libc.so.6")
    assert result.returncode == 5
    assert len(values(result)) == int(row(result, "malloc")[0]) >= 300


def test_a_long_line_is_cut(build, synced):
    result = trace(build, synced, "long", function="bar", more=["--string-max", "1024"])
    assert len(result.stdout) <= 4096 and result.stdout.endswith("...\n") and "\\x07" in result.stdout  # where depends on the length of the pid
    assert len(result.stdout) > 4060


def test_a_static_program(build, synced, tmp_path):
    """Nothing is loaded, so no libc is needed."""
    subprocess.run(["gcc", "-O1", "-g", "-static", "-pthread", "-o", tmp_path / "static", synced.parent / "synced.c"],
                   check=True)
    result = trace(build, tmp_path / "static", "order", 3)
    assert [line[:6] for line in result.stdout.splitlines()[::3]] == ["before"] * 3
    assert row(result) == ("3", "0")


LINES = {"write": 1, "fstat": 5, "poll": 7, "sendto": 44, "rt_sigpending": 127, "rt_sigtimedwait": 128, "pwritev2": 328}


def follow_lines(dyntrace, fenced):
    """Traces a round of calls; all lines of the program's output."""
    tracing = dyntrace.processes.start([dyntrace.path, "trace", "-p", fenced.pid, "--tracer", "log", "--sync", "--function", "foo"],
                                       stderr=subprocess.PIPE, text=True)
    assert "Ctrl-C ends it" in tracing.stderr.readline()
    fenced.go().wait_ready()
    tracing.send_signal(signal.SIGINT)
    assert "seccomp" not in tracing.communicate(timeout=60)[1] and tracing.returncode == 0
    return [line for line in fenced.finish().splitlines() if LINE.match(line)]


def test_the_table_has_every_call_that_a_line_makes(dyntrace, program):
    """A filter that kills for all other calls, but those of test_fenced (H26)."""
    fenced = program("fenced", "--only", ",".join(map(str, [*OURS.values(), *LINES.values(), 219])), "--calls", 50)
    assert len(follow_lines(dyntrace, fenced.wait_ready())) == 100


def test_every_call_of_the_table_is_forbidden_once():
    """Here, or in test_fenced (H26)."""
    assert table() == set(OURS) | set(LINES)


@pytest.mark.parametrize("name", LINES.keys() - {"write"})
def test_a_filter_that_forbids_it(dyntrace, program, name):
    """Nothing is placed, and the program lives; without --sync there are lines."""
    fenced = program("fenced", "--deny", LINES[name], "--calls", 5).wait_ready()
    error = dyntrace.fails("trace", "-p", fenced.pid, "--tracer", "log", "--sync", "--function", "foo", status=125)
    assert error.endswith(f"log --sync: its filter of system calls (seccomp) forbids to write a line at the hit: it kills for {name} "
                          "(leave --sync out: then dyntrace writes the lines)"), error
    fenced.finish()


def test_usage(build, synced):
    def fails(*more, tracer="log"):
        result = trace(build, synced, "order", more=more, tracer=tracer)
        assert result.returncode == 2
        return result.stderr.strip()
    assert fails(tracer="count").endswith("--sync: only with tracer log, not 'count'")
    result = trace(build, synced, "order", preexec_fn=lambda: os.close(1), stdout=None)
    assert "has no standard output (its descriptor 1 is closed)" in result.stderr


def ask(target, number):
    """Lets a target of mode `wait` hit once; gives the fields of the lines before its own."""
    target.stdin.write(f"{number}\n")
    target.stdin.flush()
    lines = [target.stdout.readline()]
    while lines[-1] != "done\n":
        lines.append(target.stdout.readline())
    return [LINE.match(line)[5] for line in lines[:-1]]


def test_killed_dyntrace(build, synced, processes):
    """The target writes no more lines for nobody; the next dyntrace takes over."""
    target = processes.start([synced, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    for number, sent in ((1, signal.SIGKILL), (2, signal.SIGINT)):
        tracing = processes.start([os.path.join(build, "dyntrace"), "trace", "-p", target.pid, "--tracer", "log", "--sync",
                                   "--function", "foo"], stderr=subprocess.PIPE, text=True)
        assert any("Ctrl-C ends it" in line for line in tracing.stderr)
        assert ask(target, number) == [f'a = {number}, s = "asked"']
        tracing.send_signal(sent)
        tracing.communicate(timeout=60)
        assert ask(target, number) == []
    assert "dyntrace" not in open(f"/proc/{target.pid}/maps").read()
    target.stdin.close()
    assert target.wait(timeout=30) == 5


def test_with_the_daemon(daemon, synced, processes):
    """add log --sync, list-tracepoints, disable, enable, rm; the target runs on."""
    target = processes.start([synced, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert target.stdout.readline() == "ready\n"
    daemon.attach(target.pid)
    assert daemon.add(f"{target.pid}:foo", "-f", "log", "--sync") == "foo"
    assert ask(target, 1) == ['a = 1, s = "asked"']
    daemon("disable", f"{target.pid}:foo")
    assert ask(target, 2) == []
    daemon("enable", f"{target.pid}:foo")
    assert ask(target, 3) == ['a = 3, s = "asked"']
    assert daemon.hits(target.pid) == {"foo": 2}
    daemon("rm", f"{target.pid}:foo")
    assert ask(target, 4) == []
    daemon("detach", target.pid)
    assert "dyntrace" not in open(f"/proc/{target.pid}/maps").read()
    target.stdin.close()
    assert target.wait(timeout=30) == 5


SHELL = 'exec 7>>"$1"; echo ready; while read number; do echo before $number >&7; cd /; echo after $number >&7; echo done; done'


@pytest.fixture(name="shell")
def start_shell(processes, tmp_path):
    """A shell that writes to a file of its own, around each chdir()."""
    shell = processes.start(["sh", "-c", SHELL, "sh", tmp_path / "own"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert shell.stdout.readline() == "ready\n"

    def go(number):
        shell.stdin.write(f"{number}\n")
        shell.stdin.flush()
        assert shell.stdout.readline() == "done\n"
    shell.go = go
    return shell


def own_lines(tmp_path):
    return ["chdir" if LINE.match(line) else line for line in (tmp_path / "own").read_text().splitlines()]


def test_a_file_that_the_program_has_open(build, shell, processes, tmp_path):
    """Its lines stand between the program's own there, and no descriptor is opened for them."""
    before = os.listdir(f"/proc/{shell.pid}/fd")
    tracing = processes.start([os.path.join(build, "dyntrace"), "trace", "-p", shell.pid, "--tracer", "log:own", "--sync", "--function",
                               "chdir@libc.so.6"], stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert any("Ctrl-C ends it" in line for line in tracing.stderr)
    shell.go(1)
    shell.go(2)
    assert os.listdir(f"/proc/{shell.pid}/fd") == before
    tracing.send_signal(signal.SIGINT)
    assert re.search(r"^ +2  chdir$", tracing.communicate(timeout=60)[1], re.M)
    shell.go(3)
    assert own_lines(tmp_path) == ["before 1", "chdir", "after 1", "before 2", "chdir", "after 2", "before 3", "after 3"]


def test_a_file_that_the_program_does_not_write(dyntrace, shell, tmp_path):
    """Whether it is there isn't told."""
    (tmp_path / "other").write_text("precious")
    for name in ("other", "missing"):
        error = dyntrace.fails("trace", "-p", shell.pid, "--tracer", f"log:{tmp_path / name}", "--sync", "--function", "chdir@libc.so.6",
                               status=125)
        assert error.endswith(f"process {shell.pid} doesn't have '{tmp_path / name}' open for writing: with --sync, lines go only where the "
                              "program itself writes (leave --sync out: then dyntrace writes to the file)"), error
    assert (tmp_path / "other").read_text() == "precious" and not (tmp_path / "missing").exists()


def test_a_file_with_the_daemon(daemon, shell, tmp_path):
    assert daemon.add(f"{shell.pid}:chdir@libc.so.6", "-n", "chdir", "log", tmp_path / "own", "--sync") == "chdir"
    shell.go(1)
    daemon("detach", shell.pid)
    shell.go(2)
    assert own_lines(tmp_path) == ["before 1", "chdir", "after 1", "before 2", "after 2"]
