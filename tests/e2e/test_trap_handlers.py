"""Plain loads in and behind a program's handler of SIGTRAP while there are traps: dt_trap begins that handler, and sets its mask, so the
kernel's list of actions doesn't tell of it (X6, X17, X19)."""
import os

import pytest

from harness import ROOT, compile_once

SOURCE = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "call_on.h"
#include "lone.h"
#define ROUNDS 20

static char *page, alternate[1 << 16] __attribute__((aligned(4096)));
static int handled;
static const char *how;

__attribute__((noipa)) void text(const char *s)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(s) : "memory");
}

static char *map(size_t size)
{
	return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Its page is known, and goes away before the last hit. */
static void rounds(void)
{
	for (int i = 0; i < ROUNDS; i++) {
		strcpy(page, "a page");
		for (int j = 0; j < 3; j++)
			text(page);
		mprotect(page, 4096, PROT_NONE);
		text(page);
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
	}
}

static void on_fault(int number) {}

static void on_trap(int number)
{
	sigset_t faults;

	handled++;
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	if (!strcmp(how, "opens"))
		sigprocmask(SIG_UNBLOCK, &faults, NULL);
	if (!strcmp(how, "aside"))
		call_on(map(1 << 16) + (1 << 16) - 64, rounds);
	else
		rounds();
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	sigset_t faults;

	how = argv[1];
	page = map(4096);
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	if (!strcmp(how, "aside")) {
		sigaltstack(&stack, NULL);
		sigaction(SIGSEGV, &action, NULL);
		call_on(map(1 << 16) + (1 << 16) - 64, rounds);
	}
	action = (struct sigaction){ .sa_handler = on_trap };
	if (!strcmp(how, "blocks"))
		sigfillset(&action.sa_mask);
	sigaction(SIGTRAP, &action, NULL);
	lone();
	rounds();
	if (!strcmp(how, "opens"))
		sigprocmask(SIG_BLOCK, &faults, NULL);
	for (int i = 0; i < 2; i++) {
		if (i)
			__asm__ volatile("int3");
		else
			raise(SIGTRAP);
		rounds();
	}
	return handled == 2 ? 0 : 9;
}
"""
ROUNDS = 20


@pytest.mark.parametrize("how", ["blocks", "opens", "aside"])
def test_page_goes_away(dyntrace, scratch, how):
    """In the handler and behind it: which blocks SIGSEGV, opens it in a thread that has it blocked, or works on another stack."""
    source = os.path.join(scratch, "handler.c")
    with open(source, "w") as file:
        file.write(SOURCE)
    path = compile_once(["gcc", "-g", "-O2", "-I", os.path.join(ROOT, "tests", "programs"), source], os.path.join(scratch, "handler"))
    result, trace = dyntrace.trace("--probe", "lone", "--function", "text", "--", path, how)
    assert result.returncode == 0, result
    texts = [event.fields["s"] for event in trace.named("text_entry")]
    assert len(texts) == (6 if how == "aside" else 5) * ROUNDS * 4
    assert all(text == "a page" if i % 4 < 3 else text.startswith("(unreadable 0x") for i, text in enumerate(texts))
    assert trace.lost == 0
    assert len(trace.named("lone")) == 1
