/* Prints the backtrace() of libc, then calls leaf(), where dyntrace must find the same callers. */
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define KEEP __attribute__((noinline))

static volatile int sink;

KEEP void leaf(int n)
{
	sink += n;
	sink += 2 * n;
}

KEEP void show(int n)
{
	void *frames[64];
	int count = backtrace(frames, 64);

	for (int i = 1; i < count; i++)
		printf("%p%s", frames[i], i + 1 < count ? " " : "\n");
	fflush(stdout);
	leaf(n);
	sink++;
}

KEEP int recurse(int n)
{
	/* No frame is like the other, and the CFA isn't at a fixed distance of rsp. */
	char bytes[n * 24 + 1];

	bytes[0] = (char)n;
	__asm__ volatile("" : : "r"(bytes) : "memory");
	if (n == 0)
		show(1);
	else
		sink += recurse(n - 1);
	return bytes[0];
}

/* A frame that is aligned anew. */
KEEP int aligned(int n)
{
	char bytes[128] __attribute__((aligned(64)));

	bytes[0] = (char)n;
	__asm__ volatile("" : : "r"(bytes) : "memory");
	show(4);
	return bytes[0];
}

static void on_signal(int number)
{
	show(2);
}

static int compare(const void *a, const void *b)
{
	static int calls;

	if (!calls++)
		show(3);
	return *(const int *)a - *(const int *)b;
}

int main(void)
{
	int numbers[] = { 3, 1, 2 };

	recurse(5);
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	sink += aligned(numbers[0]);
	return 0;
}
