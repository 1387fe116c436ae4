"""Strings in memory whose pages the program brings itself (userfaultfd): a hit reads them as the program would, or says that it can't.
No thread crashes, and one that waits for a page that nobody brings can be left and killed (docs/limits.md)."""
import os
import subprocess

import pytest

from harness import Program, ROOT, Trace, until

PAGES = 16
SERVED, BY_SIGNAL, USER_ONLY, NOBODY = range(4)  # of SOURCE
SOURCE = r"""
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "handshake.h"
#define PAGES 16
#define PAGE 4096UL

enum mode { SERVED, BY_SIGNAL, USER_ONLY, NOBODY };
static int fd;
static volatile long served;

/* Doesn't look at the text. */
__attribute__((noipa)) void take(const char *text) { __asm__ volatile("" : : "r"(text)); }

static void *serve(void *unused)
{
	static char page[PAGE] = "served";
	struct uffd_msg message;

	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (unsigned long)page,
					    .len = PAGE };

		served += message.event == UFFD_EVENT_PAGEFAULT && !ioctl(fd, UFFDIO_COPY, &copy);
	}
	return unused;
}

int main(int argc, char **argv)
{
	long mode = handshake_option(argc, argv, "mode", SERVED);
	struct uffdio_api api = { .api = UFFD_API, .features = mode == BY_SIGNAL ? UFFD_FEATURE_SIGBUS : 0 };
	char *base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register all = { .range = { (unsigned long)base, PAGES * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | (mode == USER_ONLY ? UFFD_USER_MODE_ONLY : 0));
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all))
		return 77;
	if (mode == SERVED || mode == USER_ONLY)
		pthread_create(&thread, NULL, serve, NULL);
	handshake(argc, argv);
	for (int i = 0; i < PAGES; i++)
		take(base + i * PAGE);
	handshake(argc, argv);
	printf("%ld\n", served);
	return 0;
}
"""


@pytest.fixture
def start(scratch, processes):
    """start(mode): the program, ready."""
    path = os.path.join(scratch, "userfaults")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-I", os.path.join(ROOT, "tests", "programs"), "-o", path, "-x", "c", "-"],
                   input=SOURCE, text=True, check=True)
    if subprocess.run([path], stdout=subprocess.DEVNULL).returncode == 77:
        pytest.skip("no userfaultfd here")
    started = []

    def begin(mode):
        started.append(Program(processes, path, ["--mode", mode]))
        return started[-1].wait_ready()
    yield begin
    for one in started:
        one.close()


@pytest.mark.parametrize("mode, served", [(SERVED, PAGES), (BY_SIGNAL, 0), (USER_ONLY, 0)], ids=["served", "by-signal", "user-only"])
def test_pages_that_the_program_brings(dyntrace, start, mode, served):
    """Its handler brings pages for hits, too. Where the kernel answers a system call's fault at once, the text is unreadable."""
    target = start(mode)
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go().wait_ready()
    trace = tracing.stop()
    texts = [event.fields["text"] for event in trace.named("take_entry")]
    assert len(texts) == PAGES and trace.lost == 0
    assert all(text == "served" if served else text.startswith("(unreadable 0x") for text in texts)
    assert target.finish() == f"{served}\n"


def test_a_page_that_nobody_brings(dyntrace, start):
    """The hit waits, as the program's own look would. The end of tracing doesn't, and tells; the program can be killed."""
    target = start(NOBODY)
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go()
    until(lambda: open(f"/proc/{target.pid}/wchan").read() == "handle_userfault", "the hit waits")
    trace = tracing.stop(status=125)
    assert f"the agent stays in process {target.pid}" in tracing.stderr and "(handle_userfault)" in tracing.stderr
    assert (len(trace.events), trace.lost) == (0, 1)
    assert "(handle_userfault); try again later" in dyntrace.fails("detach", target.pid)
    target.process.kill()
    target.process.wait()


SPARSE = r"""
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include "handshake.h"
#define PAGE 4096UL
#define PAGES 32
#define STACK 8

static int fd, arguments;
static char **values;
static volatile long served;
static ucontext_t here, there;

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("" : : "r"(text)); }

static void *serve(void *unused)
{
	static char page[PAGE];
	struct uffd_msg message;

	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (unsigned long)page,
					    .len = PAGE };

		served++;
		ioctl(fd, UFFDIO_COPY, &copy); /* now the other thread goes on */
	}
	return unused;
}

static void on_coroutine(void)
{
	long before = served;

	handshake(arguments, values);
	take("from a coroutine");
	handshake(arguments, values);
	printf("%ld\n", served - before);
}

/* A heap whose pages the program brings, with the stack of a coroutine in it. */
int main(int argc, char **argv)
{
	struct uffdio_api api = { .api = UFFD_API };
	char *base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register all = { .range = { (unsigned long)base, PAGES * PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };
	pthread_t thread;

	arguments = argc, values = argv;
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &all))
		return 77;
	pthread_create(&thread, NULL, serve, NULL);
	for (int i = 0; i < PAGES; i += i < STACK ? 1 : 10)
		base[i * PAGE] = 1;
	getcontext(&there);
	there.uc_stack.ss_sp = base;
	there.uc_stack.ss_size = STACK * PAGE;
	there.uc_link = &here;
	makecontext(&there, on_coroutine, 0);
	swapcontext(&here, &there);
	return 0;
}
"""


def test_a_stack_among_pages_that_are_not_there(dyntrace, processes, scratch):
    """(P10) dyntrace looks through stacks while all threads are held, also the one that would bring the pages."""
    path = os.path.join(scratch, "sparse")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-I", os.path.join(ROOT, "tests", "programs"), "-o", path, "-x", "c", "-"],
                   input=SPARSE, text=True, check=True)
    if subprocess.run([path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 77:
        pytest.skip("no userfaultfd here")
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go().wait_ready()
    trace = tracing.stop()
    assert [event.fields["text"] for event in trace.named("take_entry")] == ["from a coroutine"]
    assert target.finish() == "0\n"


LENGTHS = 40  # of NEIGHBOURS
NEIGHBOURS = r"""
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <signal.h>
#include <string>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <ucontext.h>
#include <unistd.h>
#include "handshake.h"
#define PAGE 4096UL
#define PAIRS 24
#define LENGTHS 40

struct pair { long first; short second; };
static int fd;
static long served;
static char *base;
static ucontext_t here, there;

#define TAKER __attribute__((noipa)) void
TAKER take(const char *text, std::string_view counted, const struct pair *pair)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(&counted), "r"(pair));
}
TAKER wide(const char32_t *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
TAKER match(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }
TAKER view(std::string_view text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(&text)); }

static void serve()
{
	static char page[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg message;

	while (read(fd, &message, sizeof(message)) == sizeof(message)) {
		struct uffdio_copy copy = { .dst = message.arg.pagefault.address & ~(PAGE - 1), .src = (unsigned long)page, .len = PAGE };

		__atomic_fetch_add(&served, message.event == UFFD_EVENT_PAGEFAULT, __ATOMIC_SEQ_CST);
		ioctl(fd, UFFDIO_COPY, &copy); /* now the thread goes on */
	}
}

/* Ends right before the page that isn't there, or some bytes before. */
static void texts(char *end)
{
	for (int length = 0; length < LENGTHS; length++) {
		for (int before = 1; before < 20; before += 6) {
			char *text = end - before - length;

			memset(text, 'a' + length % 26, length);
			if (length > 4 && length % 4 == 0)
				memcpy(text + length - 2, "\xc3\xa4", 2);
			text[length] = 0;
			take(text, { text, (size_t)length }, (struct pair *)(end - sizeof(struct pair)));
			match(text);
			view({ text, (size_t)length });
		}
	}
	char32_t *letters = (char32_t *)end - 3;
	letters[0] = letters[1] = 'w', letters[2] = 0;
	wide(letters);
	struct pair *last = (struct pair *)(end - sizeof(struct pair));
	last->first = 7, last->second = -7;
	take("literal", "literal", last);
}

static void all()
{
	for (int i = 0; i < PAIRS; i++) {
		char *end = base + (2 * i + 1) * PAGE;

		texts(end);
		if (i & 1)
			continue;
		strcpy(end, "next"); /* a page that was known, and has gone again */
		for (int k = 0; k < 3; k++) {
			take(end, end, (struct pair *)end);
			match(end);
			view(end);
		}
		madvise(end, PAGE, MADV_DONTNEED);
		texts(end);
	}
}

/* On a stack behind which no page is there; the frames go up to it. */
static void on_coroutine()
{
	char *end = base + (2 * PAIRS + 9) * PAGE;

	getcontext(&there);
	there.uc_stack.ss_sp = end - 9 * PAGE;
	there.uc_stack.ss_size = 9 * PAGE;
	there.uc_link = &here;
	makecontext(&there, all, 0);
	swapcontext(&here, &there);
}

static void leave_out(char *page)
{
	struct uffdio_register one = { .range = { (unsigned long)page, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING };

	if (ioctl(fd, UFFDIO_REGISTER, &one))
		exit(5);
}

int main(int argc, char **argv)
{
	std::string where = argv[argc - 1];
	struct uffdio_api api = { .api = UFFD_API };
	sigset_t set;

	base = (char *)mmap(NULL, (2 * PAIRS + 10) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (fd < 0 || ioctl(fd, UFFDIO_API, &api))
		return 77;
	for (int i = 0; i < PAIRS; i++)
		leave_out(base + (2 * i + 1) * PAGE);
	leave_out(base + (2 * PAIRS + 9) * PAGE);
	std::thread(serve).detach();
	handshake(argc, argv);
	if (where == "blocked") {
		sigfillset(&set);
		sigprocmask(SIG_BLOCK, &set, NULL);
	}
	where == "coroutine" ? on_coroutine() : all();
	printf("%ld\n", __atomic_load_n(&served, __ATOMIC_SEQ_CST));
	fflush(stdout);
	_exit(0);
}
"""



def texts(rounds=36):
    """The texts of the program's texts(), in turn."""
    for _ in range(rounds):
        for length in range(LENGTHS):
            text = chr(ord("a") + length % 26) * length
            yield from [text[:-2] + "ä" if length > 4 and length % 4 == 0 else text] * 4


@pytest.fixture(name="neighbours")
def neighbours_fixture(scratch):
    """The program's path, and what it prints without a tracer."""
    path = os.path.join(scratch, "neighbours")
    subprocess.run(["g++", "-std=c++20", "-O1", "-g", "-pthread", "-I", os.path.join(ROOT, "tests", "programs"), "-o", path, "-x", "c++", "-"],
                   input=NEIGHBOURS, text=True, check=True)
    without = subprocess.run([path, "own"], stdout=subprocess.PIPE, text=True)
    if without.returncode == 77:
        pytest.skip("no userfaultfd here")
    assert (without.returncode, without.stdout) == (0, "12\n")
    return path, without.stdout


WANTED = {
    "gathered": ["--function", "take", "--deref", 1, "-t", "backtrace", "--function", "wide"],
    "plain": ["--function", "match", "--function", "view"],
    "condition": ["--function", "match", "--filter", 'str(text) == "b*"'],
}


@pytest.mark.parametrize("wanted", WANTED)
@pytest.mark.parametrize("where", ["own", "blocked", "coroutine"])
def test_neighbours(dyntrace, processes, neighbours, where, wanted):
    """(X14) A hit touches no page that its values don't reach: the handler sees the program's own faults, and no others."""
    path, without = neighbours
    target = Program(processes, path, [where]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, *WANTED[wanted]).wait_told()
    assert target.finish() == without
    tracing.process.communicate(timeout=30)
    trace = Trace(tracing.output)
    assert trace.lost == 0
    if wanted == "condition":
        assert [event.fields["text"] for event in trace.events] == [text for text in texts() if text.startswith("b")]
    if wanted == "plain":
        for name in ("match_entry", "view_entry"):
            assert [event.fields["text"] for event in trace.named(name) if event.fields["text"] != "next"] == list(texts())
    if wanted == "gathered":
        taken = [event.fields for event in trace.named("take_entry")]
        assert [fields["text"] for fields in taken if fields["text"] not in ("next", "literal")] == list(texts())
        assert [fields["pair"]["value"] for fields in taken if fields["text"] == "literal"] == [[{"first": 7, "second": -7}]] * 36
        assert all(fields["text"] == fields["counted"] and fields["unreadable"] == "" for fields in taken)
        assert [event.fields["text"] for event in trace.named("wide_entry")] == ["ww"] * 36
