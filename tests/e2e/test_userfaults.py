"""Strings in memory whose pages the program brings itself (userfaultfd): a hit reads them as the program would, or says that it can't.
No thread crashes, and one that waits for a page that nobody brings can be left and killed (docs/limits.md)."""
import os
import subprocess

import pytest

from harness import Program, ROOT, until

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
