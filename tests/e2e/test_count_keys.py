"""--tracer count --by KEY --of VALUE: counted in the target by key; every number beside the program's own count."""
import collections
import csv
import json
import os
import signal
import subprocess

import pytest

from calls_oracle import Calls
from harness import die_with_parent, until

SOURCE = r"""
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
struct req { int kind; const char *path; };
volatile long sink;
static jmp_buf back;
__attribute__((noinline)) int work(int size, const char *path, struct req *req)
{
	sink += size;
	if (size == -77) longjmp(back, 1);
	return size % 7 - 3;
}
__attribute__((noinline)) void nothing(int n) { sink += n; }
__attribute__((noinline)) int deep(int n) { return n > 0 ? deep(n - 1) + (int)(sink & 1) : (int)usleep(20000); }
__attribute__((noinline)) int same(int n, int key) { return n > 0 ? same(n - 1, key) + (int)(sink & 1) : (int)usleep(20000); }
__attribute__((noinline)) void caller_a(int n) { for (int i = 0; i < n; i++) work(1, "a", NULL); sink++; }
__attribute__((noinline)) void caller_b(int n) { for (int i = 0; i < n; i++) work(2, "b", NULL); sink++; }
static void *thread(void *n)
{
	char name[16];
	snprintf(name, sizeof(name), "runs-%ld", (long)n);
	prctl(PR_SET_NAME, name);
	for (int i = 0; i < 20000; i++) work(i % 11, NULL, NULL);
	return NULL;
}
static void *changes(void *bytes) { for (;;) for (int i = 0; i < 31; i++) ((volatile char *)bytes)[i] ^= 1; return NULL; }
static void on_signal(int number) { work(1000 + number, NULL, NULL); }
static int is(const char *mode, const char *word) { return !strcmp(mode, word); }
int main(int argc, char **argv)
{
	const char *mode = argv[1];
	if (is(mode, "threads")) {
		pthread_t t[4];
		signal(SIGUSR1, on_signal);
		for (long i = 0; i < 4; i++) pthread_create(&t[i], NULL, thread, (void *)i);
		for (int i = 0; i < 300; i++) raise(SIGUSR1);
		for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
		for (int i = 0; i < 3; i++)
			if (!fork()) { for (int j = 0; j < 500; j++) work(i - 1, NULL, NULL); _exit(0); }
		while (wait(NULL) > 0) ;
	}
	if (is(mode, "many"))
		for (int round = 0; round < 3; round++)
			for (int i = 0; i < 5000; i++) work(i, NULL, NULL);
	if (is(mode, "strings")) {
		char long_one[400], *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		mprotect(page + 4096, 4096, PROT_NONE);
		memset(page + 4090, 'e', 6);
		memset(long_one, 'x', sizeof(long_one));
		long_one[399] = 0;
		struct req req = { 1, "/in/a/struct" };
		for (int i = 0; i < 600; i++) {
			char path[64];
			snprintf(path, sizeof(path), "/tmp/file-%d", i % 6);
			work(i, path, &req);
		}
		for (int i = 0; i < 40; i++) work(0, long_one, &req);
		for (int i = 0; i < 30; i++) work(0, page + 4090, &req);
		for (int i = 0; i < 20; i++) work(0, (const char *)8, &req);
		for (int i = 0; i < 10; i++) work(0, NULL, (struct req *)16);
		for (int i = 0; i < 5; i++) work(0, "\"quoted\",\tand \x1b[31m\xff", &req);
		for (int i = 0; i < 4; i++) work(0, "", &req);
	}
	if (is(mode, "callers")) { caller_a(30); caller_b(70); }
	if (is(mode, "jumps"))
		for (volatile int i = 0; i < 50; i++)
			if (!setjmp(back)) work(i % 5 == 0 ? -77 : i, NULL, NULL);
	if (is(mode, "recursion")) { deep(4); same(4, 1); }
	if (is(mode, "nothing")) for (int i = 0; i < 10; i++) nothing(i);
	if (is(mode, "changes")) {
		static char buffer[64] = "0000000000000000000000000000000";
		pthread_t t, changer;
		pthread_create(&t, NULL, thread, 0);
		pthread_create(&changer, NULL, changes, buffer);
		for (int i = 0; i < 20000; i++) { memset(buffer, '0' + i % 2, 31); work(1, buffer, NULL); }
		pthread_join(t, NULL);
	}
	if (is(mode, "waits")) {
		for (int i = 0; i < 1000; i++) work(i % 4, NULL, NULL);
		puts("ready"), fflush(stdout);
		while (getchar() != EOF) { for (int i = 0; i < 1000; i++) work(i % 4, NULL, NULL); puts("done"), fflush(stdout); }
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    (folder / "keyed.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-pthread", "-o", folder / "keyed", folder / "keyed.c"], check=True)
    return folder / "keyed"


def trace(build, cwd, *words):
    return subprocess.run([os.path.join(build, "dyntrace"), "trace", "--tracer", "count", *map(str, words)], cwd=cwd,
                          capture_output=True, text=True, timeout=60)


def ask(build, cwd, program, mode, *words, function="work"):
    """The rows of --json."""
    done = trace(build, cwd, "--function", function, "--json", *words, "--", program, mode)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def by_key(rows, column="hits"):
    """{key: number}; several keys as a tuple."""
    return {key[0] if len(key) == 1 else key: row[column] for row in rows for key in [tuple(row["key"].values())]}


THREADS = collections.Counter(i % 11 for i in range(20000))
THREADS = collections.Counter({key: 4 * n for key, n in THREADS.items()})
THREADS[1000 + signal.SIGUSR1] += 300
for child in (-1, 0, 1):
    THREADS[child] += 500


@pytest.mark.parametrize("words", [(), ("-e",), ("-e", "--filter", "size != 12345"), ("--filter", "req == 0 || req->kind == 1")])
def test_numbers_with_threads_forks_and_signals(build, scratch, program, words):
    """Threads, children and signal handlers add the same keys at once (A2, A3)."""
    rows = ask(build, scratch, program, "threads", "--by", "size", *words)
    assert by_key(rows) == dict(THREADS)
    if "-e" in words:
        assert by_key(rows, "calls") == dict(THREADS)


@pytest.mark.parametrize("words", [(), ("-e",)])
def test_more_keys_than_room(build, scratch, program, words):
    """Sums are exact: what doesn't fit is one row (A4)."""
    rows = ask(build, scratch, program, "many", "--by", "size", "--keys", "4096", *words)
    found = by_key(rows)
    other = found.pop("(other keys)")
    assert len(found) == 4096 and set(found.values()) == {3} and other == 3 * (5000 - 4096)
    assert rows[-1]["key"] == {"size": "(other keys)"}
    if words:
        assert sum(row["calls"] for row in rows) == 15000


def test_one_key_fits(build, scratch, program):
    assert by_key(ask(build, scratch, program, "many", "--by", "size", "--keys", "1")) == {0: 3, "(other keys)": 14997}


def test_strings(build, scratch, program):
    """Compared whole; NULL, unreadable, cut and empty ones have rows of their own."""
    rows = by_key(ask(build, scratch, program, "strings", "--by", "path"))
    expected = {f"/tmp/file-{i}": 100 for i in range(6)}
    expected.update({"(null)": 10, "(unreadable 0x8)": 20, "eeeeee(unreadable)": 30, "": 4})
    cut = [key for key in rows if key.startswith("xxx")]
    assert len(cut) == 1 and cut[0].endswith("...") and rows.pop(cut[0]) == 40
    quoted = [key for key in rows if key.startswith('"quoted"')]
    assert len(quoted) == 1 and rows.pop(quoted[0]) == 5
    assert rows == expected


def test_members_behind_pointers(build, scratch, program):
    rows = by_key(ask(build, scratch, program, "strings", "--by", "req->path"))
    assert rows == {"/in/a/struct": 699, "(unreadable)": 10}
    rows = by_key(ask(build, scratch, program, "strings", "--by", "req->kind,path", "--filter", "size < 3"))
    assert rows[1, "/tmp/file-0"] == 1 and rows[1, "/tmp/file-2"] == 1
    assert rows["(unreadable)", "(null)"] == 10


def test_strings_that_change_while_they_are_read(build, scratch, program):
    done = trace(build, scratch, "--function", "work", "--by", "path", "--json", "--", program, "changes")
    rows = by_key(json.loads(done.stdout))
    assert sum(rows.values()) == 40000 and rows["(null)"] == 20000


def test_results(build, scratch, program):
    expected = collections.Counter()
    for i in range(5000):
        expected[i % 7 - 3] += 3
    assert by_key(ask(build, scratch, program, "many", "-e", "--by", "ret"), "calls") == dict(expected)


def test_threads_and_processes(build, scratch, program):
    rows = by_key(ask(build, scratch, program, "threads", "--by", "$comm"))
    assert rows == {**{f"runs-{i}": 20000 for i in range(4)}, "keyed": 1800}
    rows = by_key(ask(build, scratch, program, "threads", "--by", "$tid"))
    assert sorted(rows.values()) == [300, 500, 500, 500, 20000, 20000, 20000, 20000]
    rows = by_key(ask(build, scratch, program, "threads", "--by", "$pid"))
    assert sorted(rows.values()) == [500, 500, 500, 80300]
    rows = by_key(ask(build, scratch, program, "threads", "--by", "$cpu"))
    assert sum(rows.values()) == 81800 and all(0 <= cpu < os.cpu_count() for cpu in rows)


def test_callers(build, scratch, program):
    rows = by_key(ask(build, scratch, program, "callers", "--by", "caller"))
    assert rows == {"caller_a": 30, "caller_b": 70}
    rows = by_key(ask(build, scratch, program, "callers", "--by", "backtrace:3", "-e"))
    assert {tuple(frame.split("+")[0] for frame in key.split(" < ")): n for key, n in rows.items()} == {
        ("work", "caller_a", "main"): 30, ("work", "caller_b", "main"): 70}


@pytest.mark.parametrize("keys", ["caller", "size", "path"])
def test_filter_at_exit(build, scratch, program, keys):
    """A key of which no call passes the filter of the exit has no row: work(2) returns -1."""
    rows = by_key(ask(build, scratch, program, "callers", "-e", "--by", keys, "--filter", "ret == -2"), "calls")
    assert rows == {{"caller": "caller_a", "size": 1, "path": "a"}[keys]: 30}


@pytest.mark.parametrize("mode", ["strings", "callers"])
def test_same_as_report(build, scratch, program, mode):
    """The same words give the same rows from a recorded trace."""
    subprocess.run([os.path.join(build, "dyntrace"), "trace", "-e", "--function", "work", "-t", "backtrace", "-q", "-o", "trace", "--", program, mode],
                   cwd=scratch, check=True, timeout=60)
    for keys in ("path", "ret", "size,path", *(["caller", "backtrace:2"] if mode == "callers" else [])):
        counted = ask(build, scratch, program, mode, "-e", "--by", keys)
        done = subprocess.run([os.path.join(build, "dyntrace"), "report", "trace", "--by", keys, "--json"], cwd=scratch, capture_output=True,
                              text=True, timeout=60, check=True)
        assert by_key(counted, "calls") == by_key(json.loads(done.stdout)["rows"], "calls"), keys
    calls = Calls(os.path.join(scratch, "trace")).calls
    for key, event in (("size", "entry"), ("ret", "exit")):
        judged = collections.Counter(call[event]["fields"][key] for call in calls)
        assert by_key(ask(build, scratch, program, mode, "-e", "--by", key), "calls") == dict(judged), key


@pytest.mark.parametrize("words", [(), ("-e",)])
@pytest.mark.parametrize("key", ["size & 7", "(size ^ 85) >> 3", "-size * 3", "size > 100", "size % 10", "size / 7"])
def test_expressions(build, scratch, program, words, key):
    """In the trampoline (all but the last two), or in the agent."""
    python = key.replace("/", "//")
    expected = collections.Counter(int(eval(python, {"size": size})) for size in range(5000) for _ in range(3))
    rows = by_key(ask(build, scratch, program, "many", "--by", key, "--keys", "8000", *words))
    assert {int(name): n for name, n in rows.items()} == expected


def test_functions(build, scratch, program):
    """One row per key over all functions, unless the function is a key."""
    rows = by_key(ask(build, scratch, program, "callers", "--function", "caller_*", "--by", "function"))
    assert rows == {"caller_a": 1, "caller_b": 1, "work": 100}
    rows = by_key(ask(build, scratch, program, "callers", "--function", "caller_*", "--by", "arg0"))
    assert rows == {1: 30, 2: 70, 30: 1, 70: 1}


def test_calls_that_never_return(build, scratch, program):
    rows = ask(build, scratch, program, "jumps", "-e", "--by", "size")
    assert by_key(rows)[-77] == 10 and by_key(rows, "calls")[-77] == 0
    assert sum(by_key(rows, "calls").values()) == 40


def test_recursion(build, scratch, program):
    """A row's total is the time with a call of that row on the stack."""
    rows = ask(build, scratch, program, "recursion", "-e", "--by", "n", function="deep")
    assert len(rows) == 5 and all(20e6 <= row["total_ns"] for row in rows)
    one = ask(build, scratch, program, "recursion", "-e", "--by", "key", function="same")[0]
    assert one["calls"] == 5 and 20e6 <= one["total_ns"] <= one["max_ns"] * 1.01 and one["mean_ns"] >= 19e6


def test_values(build, scratch, program):
    """Sums are exact, also of negative values; without a key there is one row per function."""
    row, = ask(build, scratch, program, "many", "--of", "size")
    assert row["key"] == {"function": "work"} and row["calls"] == 15000 and row["total"] == 3 * sum(range(5000)) and row["max"] == 4999
    row, = ask(build, scratch, program, "many", "-e", "--of", "ret")
    assert row["total"] == 3 * sum(i % 7 - 3 for i in range(5000)) and row["max"] == 3
    rows = ask(build, scratch, program, "many", "-e", "--of", "size", "--by", "ret")
    expected = collections.Counter()
    for i in range(5000):
        expected[i % 7 - 3] += 3 * i
    assert by_key(rows, "total") == dict(expected)
    rows = ask(build, scratch, program, "recursion", "-e", "--of", "self", "--by", "n", function="deep")
    assert len(rows) == 5 and [row["total_ns"] >= 19e6 for row in rows if row["key"]["n"] == 0] == [True]


def test_text(build, scratch, program):
    done = trace(build, scratch, "--function", "work", "--by", "size", "--top", "2", "--sort", "name", "--", program, "many")
    lines = done.stderr.splitlines()
    assert lines[0].split() == ["size", "hits"]
    assert lines[1].split() == ["0", "3"] and lines[2].split() == ["1", "3"]
    assert lines[3].split() == ["(other", "keys:", "over", "4094)", "14994"]
    done = trace(build, scratch, "--function", "work", "--of", "size", "--hist", "--", program, "many")
    bars = [line.split() for line in done.stderr.splitlines() if "|" in line]
    assert sum(int(words[3]) for words in bars) == 15000
    done = trace(build, scratch, "--function", "work", "--by", "size", "--csv", "--", program, "callers")
    assert [(row["size"], row["hits"]) for row in csv.DictReader(done.stdout.splitlines())] == [("2", "70"), ("1", "30")]


@pytest.mark.parametrize("words", [(), ("-e",)])
def test_each_and_reset(build, scratch, program, words):
    """With --reset each answer has only its own hits; none is lost or in two answers."""
    for reset in (False, True):
        tracer = subprocess.Popen([os.path.join(build, "dyntrace"), "trace", "--tracer", "count", "--function", "work", "--by", "size", *words,
                                   "--each", "100ms", *(["--reset"] if reset else []), "--json", "-c", f"{program} threads"], cwd=scratch,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
        out, err = tracer.communicate(timeout=60)
        assert tracer.returncode == 0, err
        decoder, answers = json.JSONDecoder(), []
        while out.strip():
            rows, end = decoder.raw_decode(out.lstrip())
            out = out.lstrip()[end:]
            answers.append(collections.Counter(by_key(rows, "calls" if words else "hits")))
        total = sum(answers, collections.Counter()) if reset else answers[-1]
        assert total == THREADS


def test_killed_target(build, scratch, program):
    """What was counted is there, whatever ends the program."""
    target = subprocess.Popen([program, "waits"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    assert target.stdout.readline() == "ready\n"
    tracer = subprocess.Popen([os.path.join(build, "dyntrace"), "trace", "--tracer", "count", "-e", "--by", "size", "--json", "--function", "work",
                               "-p", str(target.pid)], cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent)
    assert "placed" in tracer.stderr.readline()
    target.stdin.write("x")
    target.stdin.flush()
    assert target.stdout.readline() == "done\n"
    target.kill()
    out, _ = tracer.communicate(timeout=30)
    target.wait()
    assert by_key(json.loads(out), "calls") == {i: 250 for i in range(4)}


def test_as_it_was(build, scratch, program):
    """The program goes on without us."""
    target = subprocess.Popen([program, "waits"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    assert target.stdout.readline() == "ready\n"
    maps = len(open(f"/proc/{target.pid}/maps").read().splitlines())
    tracer = subprocess.Popen([os.path.join(build, "dyntrace"), "trace", "--tracer", "count", "-e", "--by", "size,$tid", "--function", "work",
                               "-p", str(target.pid)], cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              preexec_fn=die_with_parent)
    assert "placed" in tracer.stderr.readline()
    tracer.send_signal(signal.SIGINT)
    tracer.communicate(timeout=30)
    until(lambda: len(open(f"/proc/{target.pid}/maps").read().splitlines()) == maps, "the maps as they were")
    target.stdin.write("x")
    target.stdin.close()
    assert target.stdout.readline() == "done\n" and target.wait(timeout=30) == 0


@pytest.mark.parametrize("words, said", [
    (["--by", "ret"], "add -e"),
    (["--by", "ret % 3"], "just ret alone is a key"),
    (["-e", "--by", "size,str(ret)"], "just ret alone is a key"),
    (["--of", "duration"], "add -e"),
    (["--by", "nowhere"], "nowhere"),
    (["--by", "size ? 1 : 2"], "--by"),
    (["--by", ""], "--by"),
    (["--of", "path"], "not an integer"),
    (["--by", "size", "--keys", "0"], "--keys"),
    (["--by", "size", "--keys", "99999999"], "--keys"),
    (["-e", "--by", "path", "--keys", "1000000"], "lower --keys"),
    (["--reset", "--by", "size"], "--each"),
    (["--top", "3"], "need --by KEY"),
    (["--by", "size", "--json", "--csv"], "choose one"),
    (["--by", "size", "--tracer", "ctf"], "--tracer count"),
])
def test_refusals(build, scratch, program, words, said):
    status = 125 if said == "lower --keys" else 2
    done = trace(build, scratch, "--function", "work", *words, "--", program, "callers")
    assert done.returncode == status and said in done.stderr and len(done.stderr.splitlines()) <= 3, done.stderr


def test_function_that_returns_nothing(build, scratch, program):
    for words in (["--by", "ret"], ["--of", "ret"]):
        done = trace(build, scratch, "-e", "--function", "nothing", *words, "--", program, "nothing")
        assert done.returncode == 2 and "returns nothing" in done.stderr, done.stderr
