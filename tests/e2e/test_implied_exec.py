"""A program whose personality makes all that it maps executable (READ_IMPLIES_EXEC: GCL, programs without a mark of their stack): dyntrace's own
memory, which becomes executable, too, is found again at the end. Otherwise the program's handlers wouldn't be given back."""
import os
import subprocess

import pytest

from harness import Program, Trace

SOURCE = r"""
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include "handshake.h"

static sigjmp_buf back;

static void on_fault(int number) { siglongjmp(back, number); }

__attribute__((noipa)) void take(const char *text) { __asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text)); }

int main(int argc, char **argv)
{
	char *page;

	personality(READ_IMPLIES_EXEC);
	signal(SIGSEGV, on_fault);
	signal(SIGTRAP, on_fault);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	strcpy(page, "a text");
	handshake(argc, argv);
	for (int i = 0; i < 10; i++)
		take(page);
	munmap(page, 4096);
	take(page);
	handshake(argc, argv);
	if (sigsetjmp(back, 1))
		return 7;
	*(volatile char *)page = 1;
	return 8;
}
"""


@pytest.mark.parametrize("what", [["--function", "take"], ["-e", "--function", "take"], ["--function", "take", "--probe", "take+1"]],
                         ids=["entry", "exit", "probe"])
def test_handlers_are_given_back(dyntrace, processes, scratch, what):
    path = os.path.join(scratch, "implied")
    programs = os.path.join(os.path.dirname(__file__), "..", "programs")
    subprocess.run(["gcc", "-O1", "-g", "-I", programs, "-x", "c", "-", "-o", path], input=SOURCE, text=True, check=True)
    target = Program(processes, path, []).wait_ready()
    tracing = dyntrace.start_trace(target.pid, *what).wait_told()
    target.go().wait_ready()
    tracing.stop()  # compares mappings, too
    texts = [event.fields["text"] for event in Trace(tracing.output).named("take_entry")]
    assert texts[:10] == ["a text"] * 10 and texts[10].startswith("(unreadable 0x")
    target.finish(7)
