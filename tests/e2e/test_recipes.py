"""docs/recipes.md: each command runs, and its numbers are the program's own."""
import json
import os
import re
import shlex
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

SOURCE = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <time.h>
volatile int sink;
__attribute__((noinline)) void zebra(int n) { sink += n; }
__attribute__((noinline)) void zero(int n) { sink -= n; }
__attribute__((noinline)) int work(int size)
{
	struct timespec nap = { 0, 2000000 };
	if (size == 3) nanosleep(&nap, NULL);
	sink += size;
	return size & 1;
}
__attribute__((noinline)) int open_file(const char *path) { int fd = open(path, O_RDONLY); sink++; return fd; }
int main(void)
{
	char buffer[256];
	for (int i = 0; i < 7; i++) zebra(i);
	for (int i = 0; i < 5; i++) zero(i);
	for (int i = 0; i < 40; i++) work(i % 4);
	for (int i = 0; i < 6; i++) { int fd = open_file(i % 3 ? "/etc/passwd" : "/dev/zero"); if (read(fd, buffer, 10u * i) < 0) return 1; close(fd); }
	for (int i = 0; i < 9; i++) { void *volatile p = malloc(1000u + i); free(p); }
	if (!fork()) { for (volatile int i = 0; i < 4; i++) work(1); _exit(0); }
	wait(NULL);
	return 0;
}
"""


def commands():
    text = open(os.path.join(ROOT, "docs", "recipes.md"), encoding="utf-8").read()
    return [shlex.split(command) for command in re.findall(r"\| `dyntrace ([^`]*)` \|", text)]


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "app.c").write_text(SOURCE)
    subprocess.run(["gcc", "-O1", "-g", "-o", folder / "app", folder / "app.c"], check=True)
    return str(folder / "app")


def pairs(rows, column):
    return {tuple(row["key"].values()): row[column] for row in rows}


def sums(rows):
    return [(row["calls"], row["total"]) for row in rows]


OURS = 44  # calls of work, the child's included

CHECKS = {
    "--by size": lambda rows: pairs(rows, "hits") == {(0,): 10, (1,): 14, (2,): 10, (3,): 10},
    "--of duration": lambda rows: [row["calls"] for row in rows] == [OURS] and rows[0]["total_ns"] >= 20e6,
    "--of arg0": lambda rows: rows[0]["calls"] >= 9 and rows[0]["total"] >= sum(range(1000, 1009)),
    "--of ret": lambda rows: sums(rows)[0] == (6, sum(10 * i for i in range(6))),
    "--by ret": lambda rows: pairs(rows, "calls") == {(0,): 20, (1,): 24},
    "--by str(arg0)": lambda rows: pairs(rows, "hits") == {("/etc/passwd",): 4, ("/dev/zero",): 2},
    "--by path": lambda rows: pairs(rows, "calls") == {("/etc/passwd",): 4, ("/dev/zero",): 2},
    "--by backtrace": lambda rows: sorted(row["hits"] for row in rows) == [4, 40] and all("main" in row["key"]["backtrace"] for row in rows),
    "--by caller": lambda rows: pairs(rows, "hits") == {("main",): OURS},
    "--by $pid,$comm": lambda rows: sorted(row["hits"] for row in rows) == [4, 40] and {row["key"]["$comm"] for row in rows} == {"app"},
}


def run(build, cwd, app, words, *more):
    words = [word for word in words if word not in ("-p", "app")]
    return subprocess.run([os.path.join(build, "dyntrace"), *words, *more, "--", app], cwd=cwd, capture_output=True, text=True, timeout=60)


def answers(text):
    """The rows of all answers: with --each there is another one for each second that the program takes, and --reset begins anew."""
    decoder, rows, text = json.JSONDecoder(), {}, text.strip()
    while text:
        answer, end = decoder.raw_decode(text)
        text = text[end:].lstrip()
        for row in answer:
            same = rows.setdefault(json.dumps(row.get("key")), row)
            if same is not row:
                same["hits"] += row["hits"]
    return list(rows.values())


def asks(words):
    return "--by" in words or "--of" in words


@pytest.mark.parametrize("words", [words for words in commands() if asks(words)], ids=lambda words: " ".join(words[-3:]))
def test_question(build, scratch, app, words):
    done = run(build, scratch, app, words, "--json")
    assert done.returncode == 0, done.stderr
    at = next(i for i, word in enumerate(words) if word in ("--by", "--of"))
    rows = answers(done.stdout)
    assert CHECKS[" ".join(words[at:at + 2])](rows), rows
    text = run(build, scratch, app, words)
    assert text.returncode == 0 and "traced for" in text.stderr, text.stderr


def test_funccount(build, scratch, app):
    words = next(words for words in commands() if "ze*" in words)
    lines = [line.split() for line in run(build, scratch, app, words).stderr.splitlines()]
    found = {line[0]: line[1] for line in lines if len(line) > 2} | {line[-1]: line[0] for line in lines if len(line) > 2}
    assert found["zebra"] == "7" and found["zero"] == "5"


def test_funcslower(build, scratch, app):
    words = next(words for words in commands() if "duration > 1ms" in words)
    done = run(build, scratch, app, words, "--print", "--no-follow-fork")
    slow = [line for line in done.stdout.splitlines() if " work_exit " in line]
    assert len(slow) >= 10 and done.returncode == 0, done.stderr


def test_each_is_tested():
    """A recipe without a test isn't one."""
    assert len(commands()) == 13
