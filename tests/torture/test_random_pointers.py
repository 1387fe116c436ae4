"""100 million random pointers, read as strings by plain loads (H44): the program ends as without a tracer, and each call is one hit.

A third of them are random, a third are near memory that the program has, or had a moment ago, and a third aren't addresses at all.
Meanwhile another thread maps, protects and unmaps memory. DYNTRACE_TORTURE multiplies the number; each run has numbers of its own, and
a failure prints their seed."""
import os
import random
import re
import subprocess

import pytest

COUNT = max(int(100_000_000 * float(os.environ.get("DYNTRACE_TORTURE", "1"))), 1)
SOURCE = r"""
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#define PAGES 64
#define PAGE 4096UL

static char *base;
static volatile int over;

__attribute__((noinline)) unsigned long take(const char *pointer, unsigned long sum)
{
	__asm__ volatile("" : "+r"(sum) : "r"(pointer));
	return sum * 3 + 1;
}

static unsigned long next(unsigned long *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static void *change(void *unused)
{
	unsigned long state = 77;

	while (!over) {
		unsigned long number = next(&state);
		char *page = base + number % PAGES * PAGE;

		if (number >> 32 & 1)
			mprotect(page, PAGE, number >> 33 & 1 ? PROT_NONE : PROT_READ | PROT_WRITE);
		else
			mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	}
	return unused;
}

int main(int argc, char **argv)
{
	unsigned long state = strtoul(argv[2], NULL, 10), sum = 0;
	pthread_t thread;

	base = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_create(&thread, NULL, change, NULL);
	for (long i = atol(argv[1]); i > 0; i--) {
		unsigned long number = next(&state);

		sum = take((char *)(i % 3 == 0 ? number & 0x7fffffffffff : i % 3 == 1 ? (unsigned long)base + number % (PAGES * PAGE) : number), sum);
	}
	over = 1;
	pthread_join(thread, NULL);
	printf("%lu\n", sum);
	return argc != 3;
}
"""


@pytest.mark.limit(3600)
def test_random_pointers(dyntrace, scratch):
    path = os.path.join(scratch, "pointers")
    subprocess.run(["gcc", "-O1", "-pthread", "-o", path, "-x", "c", "-"], input=SOURCE, text=True, check=True)
    seed = str(random.randrange(1, 1 << 63))
    print("seed:", seed)
    expected = subprocess.run([path, str(COUNT), seed], capture_output=True, text=True, check=True).stdout
    result = dyntrace("trace", "-o", dyntrace.new_output(), "--mode", "overwrite", "--buffer-size", "4M", "-t", "string:text:arg0",
                      "--function", "take", "--", path, str(COUNT), seed, seconds=3500)
    assert result.stdout == expected
    events, overwritten = map(int, re.search(r"^(\d+) events, 0 lost, (\d+) overwritten, ", result.stderr, re.M).groups())
    assert events + overwritten == COUNT
