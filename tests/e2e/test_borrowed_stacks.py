"""Room for dyntrace's calls on the first thread's stack. A stack that has overflowed has grown to its limit for good: while the thread is on an
alternate stack, where the memory below its stack pointer may be somebody else's, other threads are borrowed. A program's mprotect divides
its stack into several mappings (GCL)."""
import os
import subprocess

import pytest

from harness import Program, Trace

SOURCE = r"""
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include "handshake.h"

static sigjmp_buf back;
static int count;
static char **words;

__attribute__((noipa)) long deep(volatile char *up)
{
	char room[200];

	room[0] = up[0] + 1;
	return deep(room) + room[up[0] & 127];
}

__attribute__((noipa)) void take(int number) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(number)); }

static void on_overflow(int number) { siglongjmp(back, 1); }

static void on_signal(int number)
{
	handshake(count, words);
	for (int i = 0; i < 10; i++)
		take(i);
	handshake(count, words);
}

static void *rest(void *unused)
{
	pause();
	return unused;
}

/* Makes the page of the stack pointer a mapping of its own, below whose middle the thread waits. */
__attribute__((noipa)) static void divide(void)
{
	volatile char *low = alloca(((unsigned long)__builtin_frame_address(0) - 2000 & 4095) + 1);

	low[0] = 1;
	mprotect((void *)((unsigned long)low & -4096), 4096, PROT_READ | PROT_WRITE | PROT_EXEC);
	on_signal(0);
}

int main(int argc, char **argv)
{
	static char stack[65536];
	stack_t alternate = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction overflow = { .sa_handler = on_overflow, .sa_flags = SA_ONSTACK };
	struct sigaction signal = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	char first = 0;
	pthread_t thread;

	count = argc, words = argv;
	if (handshake_option(argc, argv, "divided", 0)) {
		divide();
		return 0;
	}
	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &overflow, NULL);
	sigaction(SIGUSR1, &signal, NULL);
	if (!sigsetjmp(back, 1))
		deep(&first);
	if (handshake_option(argc, argv, "threads", 0))
		pthread_create(&thread, NULL, rest, NULL);
	raise(SIGUSR1);
	return 0;
}
"""


@pytest.fixture(name="path", scope="module")
def path_fixture(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("overflown") / "overflown")
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-pthread", "-I", programs, "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    return path


@pytest.mark.parametrize("how", ["--threads", "--divided"])
def test_a_thread_is_borrowed(dyntrace, processes, path, how):
    target = Program(processes, path, [how, "1"]).wait_ready()
    tracing = dyntrace.start_trace(target.pid, "--function", "take").wait_told()
    target.go().wait_ready()
    tracing.stop()
    target.finish()
    assert [event.fields["number"] for event in Trace(tracing.output).named("take_entry")] == [*range(10)]


def test_nobody_can_be_borrowed(dyntrace, processes, path):
    """The process is left as it is, and the message says why."""
    target = Program(processes, path, []).wait_ready()
    assert "no held thread of process" in dyntrace.fails("trace", "-p", target.pid, "--function", "take", status=125)
    target.go().wait_ready()
    target.finish()
