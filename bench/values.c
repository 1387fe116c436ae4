/*
 * values NAME CALLS: calls a function that often, and prints the ns per call: the best of several
 * rounds.
 * "rdtsc" reads the clock instead; "backtrace:N" and "libunwind:N" have libc and libunwind find the callers of N calls in each
 * other. Without such a library it says so, and ends with 77.
 * "shut-NAME" has a handler that blocks all signals; "far-NAME" calls from a stack of its own, as coroutines do;
 * "alternate-NAME", too, in a thread that has an alternate stack, for a handler of faults.
 */
#include <dlfcn.h>
#include <execinfo.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <x86intrin.h>

#define KEEP __attribute__((noipa))
#define ROUNDS 15

static volatile long sink;
static int (*find_callers)(void **frames, int most); /* NULL: nobody */

KEEP void ints(int a, int b, int c)
{
	__asm__ volatile("nop; nop; nop; nop; nop");
}

KEEP void real(double d)
{
	__asm__ volatile("nop; nop; nop; nop; nop");
}

KEEP void text(const char *s)
{
	__asm__ volatile("nop; nop; nop; nop; nop");
}

KEEP void texts(const char *a, const char *b, const char *c)
{
	__asm__ volatile("nop; nop; nop; nop; nop");
}

KEEP void leaf(int how)
{
	void *frames[128];

	if (how)
		sink += find_callers(frames, 128);
	__asm__ volatile("nop; nop; nop; nop; nop");
}

KEEP void deep(int n, int how, long calls)
{
	if (n > 0)
		deep(n - 1, how, calls);
	else
		for (long i = 0; i < calls; i++)
			leaf(how);
	sink++;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void run(const char *name, long calls)
{
	int depth = strchr(name, ':') ? atoi(strchr(name, ':') + 1) : 0;

	if (!strcmp(name, "rdtsc"))
		for (long i = 0; i < calls; i++)
			sink += (long)__rdtsc();
	else if (!strcmp(name, "ints"))
		for (long i = 0; i < calls; i++)
			ints((int)i, 2, 3);
	else if (!strcmp(name, "real"))
		for (long i = 0; i < calls; i++)
			real(0.5);
	else if (!strcmp(name, "text"))
		for (long i = 0; i < calls; i++)
			text("twenty bytes of text");
	else if (!strcmp(name, "heap")) {
		char *copy = strdup("twenty bytes of text");

		for (long i = 0; i < calls; i++)
			text(copy);
		free(copy);
	} else if (!strcmp(name, "heap3")) {
		char *copies[3];

		for (int i = 0; i < 3; i++) {
			copies[i] = malloc(4000);
			strcpy(copies[i], "twenty bytes of text");
		}
		for (long i = 0; i < calls; i++)
			texts(copies[0], copies[1], copies[2]);
		for (int i = 0; i < 3; i++)
			free(copies[i]);
	} else {
		deep(depth, find_callers != NULL, calls);
	}
}

static void measure(const char *name, long calls)
{
	double best = 1e18;

	for (int i = 0; i < ROUNDS; i++) {
		double start = now();

		run(name, calls);
		double took = (now() - start) / (double)calls;
		best = took < best ? took : best;
	}
	printf("%.2f\n", best);
}

static const char *far_name;
static long far_calls;

static void measure_far(void)
{
	measure(far_name, far_calls);
}

static void go_far(const char *name, long calls)
{
	static char stack[1 << 18];
	static ucontext_t here, there;

	far_name = name;
	far_calls = calls;
	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	there.uc_link = &here;
	makecontext(&there, measure_far, 0);
	swapcontext(&here, &there);
}

static void give_up(int signal)
{
	(void)signal;
	_exit(1);
}

static void set_alternate_stack(void)
{
	static char memory[1 << 17]; /* its lower half parts it from the other stack */
	stack_t alternate = { .ss_sp = memory + (1 << 16), .ss_size = 1 << 16 };
	struct sigaction action = { .sa_handler = give_up, .sa_flags = SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
}

static void ignore(int signal)
{
	sink += signal;
}

static void block_in_handler(void)
{
	struct sigaction action = { .sa_handler = ignore };

	sigfillset(&action.sa_mask);
	sigaction(SIGUSR2, &action, NULL);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";
	long calls = argc > 2 ? atol(argv[2]) : 100000;

	if (!strncmp(name, "backtrace", 9))
		find_callers = backtrace;
#ifndef ALONE
	if (!strncmp(name, "libunwind", 9)) {
		void *library = dlopen("libunwind.so.8", RTLD_NOW);

		*(void **)&find_callers = library ? dlsym(library, "unw_backtrace") : NULL;
		if (!find_callers) {
			fprintf(stderr, "values: there is no libunwind.so.8\n");
			return 77;
		}
	}
#endif
	if (!strncmp(name, "shut-", 5)) {
		block_in_handler();
		name += 5;
	}
	if (!strncmp(name, "alternate-", 10)) {
		set_alternate_stack();
		go_far(name + 10, calls);
	} else if (!strncmp(name, "far-", 4))
		go_far(name + 4, calls);
	else if (*name)
		measure(name, calls);
	return 0;
}
