"""Memory that looks as if it stayed, and goes away (X13): what a program has mapped of its own file once more (V8 does so for each of its
threads), a second libc or one of a static program's that is unloaded, and guard pages in stacks. With the agent's handler in front, and
without."""
import os
import subprocess

import pytest

from harness import Program, Trace

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "handshake.h"

#define SIZE 8192UL
#define ROOM (4 * SIZE)
#define CALLS 100

static const char *what;
static char *place;
static void *library;

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }

/* Code without an unwind table, whose callers are found by rbp: take(place), with rbp = place. */
void walk(const char *place);
__asm__("	.text\n"
	"	.type	walk, @function\n"
	"walk:	push	%rbp\n"
	"	mov	%rdi, %rbp\n"
	"	call	take\n"
	"	pop	%rbp\n"
	"	ret\n"
	"	.size	walk, . - walk\n");

static void calls(int count)
{
	for (int i = 0; i < count; i++)
		(strcmp(what, "above") ? take : walk)(place);
}

static void ignore(int number) { }

static void come(char *room)
{
	if (!strcmp(what, "file")) {
		int file = open("/proc/self/exe", O_RDONLY);

		place = mmap(NULL, SIZE, PROT_READ, MAP_PRIVATE, file, 0);
		close(file);
	} else if (!strcmp(what, "libc")) {
		library = STATIC ? dlopen("libc.so.6", RTLD_NOW) : dlmopen(LM_ID_NEWLM, "libc.so.6", RTLD_NOW);
		place = dlsym(library, "in6addr_loopback");
	} else {
		memset(room, 0, ROOM);
		place = (char *)(((unsigned long)room + SIZE) & -4096UL);
		strcpy(place, "a text"); /* before a return address of 0 */
	}
	if (!strcmp(what, "guarded"))
		mprotect(place - 4096, 4096, PROT_NONE);
}

static void go(void)
{
	if (!strcmp(what, "file"))
		munmap(place, SIZE);
	else if (!strcmp(what, "libc"))
		dlclose(library);
	else
		mprotect(place, 4096, PROT_NONE);
}

static int count_arguments;
static char **arguments;

__attribute__((noipa)) static void *run(void *unused)
{
	char room[ROOM];

	come(room);
	handshake(count_arguments, arguments);
	calls(CALLS);
	go();
	calls(CALLS);
	if (place > room && place < room + ROOM)
		mprotect(room + (-(unsigned long)room & 4095), 2 * SIZE, PROT_READ | PROT_WRITE);
	return unused;
}

int main(int argc, char **argv)
{
	struct sigaction closed = { .sa_handler = ignore };
	pthread_t thread;

	count_arguments = argc - 3;
	arguments = argv;
	what = argv[argc - 3];
	sigfillset(&closed.sa_mask); /* no loads that a handler mends */
	if (!strcmp(argv[argc - 2], "closed"))
		sigaction(SIGUSR1, &closed, NULL);
	if (strcmp(argv[argc - 1], "thread"))
		run(NULL);
	else if (!pthread_create(&thread, NULL, run, NULL))
		pthread_join(thread, NULL);
	return 0;
}
"""
CALLS = 100
UNKNOWN = 2 ** 64 - 1


def build(path, *options):
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-I", programs, *options, "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


@pytest.fixture(name="path", scope="module")
def path_fixture(tmp_path_factory):
    return build(str(tmp_path_factory.mktemp("stable") / "stable"), "-DSTATIC=0")


def record(dyntrace, processes, path, words, *options):
    target = Program(processes, path, words).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take", *options).wait_told()
    target.finish()
    tracing.process.communicate(timeout=30)
    events = Trace(tracing.output).events
    assert len(events) == 2 * CALLS
    return events


def check_texts(dyntrace, processes, path, *words):
    texts = [event.fields["text"] for event in record(dyntrace, processes, path, words)]
    assert not any("unreadable" in text for text in texts[:CALLS])
    assert all(text.startswith("(unreadable 0x") for text in texts[CALLS:])


@pytest.mark.parametrize("what, handlers, where", [(what, handlers, "first") for what in ("file", "libc", "guarded") for handlers in ("open", "closed")] +
                         [("stack", "open", where) for where in ("first", "thread")])
def test_memory_that_only_looks_stable(dyntrace, processes, path, what, handlers, where):
    """What was text a moment ago is unreadable, and the program goes on."""
    check_texts(dyntrace, processes, path, what, handlers, where)


@pytest.mark.parametrize("handlers", ["open", "closed"])
def test_libc_of_a_static_program(dyntrace, processes, tmp_path, handlers):
    """A static program loads its libc itself, and unloads it."""
    check_texts(dyntrace, processes, build(str(tmp_path / "static"), "-DSTATIC=1", "-static"), "libc", handlers, "first")


@pytest.mark.parametrize("where", ["first", "thread"])
def test_frames_on_a_page_that_goes_away(dyntrace, processes, path, where):
    """A backtrace by frame pointers ends where the program has put a guard page."""
    walks = [event.fields["backtrace"] for event in record(dyntrace, processes, path, ["above", "open", where], "-t", "backtrace")]
    assert {(len(walk), walk[-1] == UNKNOWN) for walk in walks[:CALLS]} == {(2, False)}
    assert {(len(walk), walk[-1] == UNKNOWN) for walk in walks[CALLS:]} == {(3, True)}
