/*
 * chains CHAINS THREADS: calls in random order, through frames of all kinds: small, large and variable ones, frames that are aligned
 * anew, functions 8 KiB apart with frames of different sizes, callbacks of libc, handlers of signals and of exceptions. At the end of
 * each chain it prints its thread and what backtrace() of libc finds, and calls leaf(), where dyntrace must find the same callers.
 */
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEEP extern "C" __attribute__((noinline))
#define FRAMES_MAX 100
#define DEPTH_MAX 24

struct chain {
	unsigned state, depth;
	bool signalled; /* one per chain */
};

static volatile int sink;
static int chains;
static __thread struct chain *interrupted;

KEEP void leaf(int n)
{
	sink += n;
	sink += 2 * n;
}

KEEP void show(struct chain *chain)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX), length;
	char line[FRAMES_MAX * 20];

	length = sprintf(line, "%d:", gettid());
	for (int i = 1; i < count; i++)
		length += sprintf(line + length, " %p", frames[i]);
	puts(line);
	leaf((int)chain->state);
	sink++;
}

static void go_on(struct chain *chain);

template <int SIZE> static __attribute__((noinline)) void step_fixed(struct chain *chain)
{
	char bytes[SIZE];

	__asm__ volatile("" : : "r"(bytes) : "memory");
	go_on(chain);
	sink += bytes[0];
}

static __attribute__((noinline)) void step_variable(struct chain *chain)
{
	char bytes[chain->state % 500 + 1];

	__asm__ volatile("" : : "r"(bytes) : "memory");
	go_on(chain);
	sink += bytes[0];
}

static __attribute__((noinline)) void step_aligned(struct chain *chain)
{
	char bytes[128] __attribute__((aligned(64)));

	__asm__ volatile("" : : "r"(bytes) : "memory");
	go_on(chain);
	sink += bytes[0];
}

static __attribute__((noinline)) void step_registers(struct chain *chain)
{
	/* rbp and others are kept across the call */
	long a = sink, b = a * 3, c = b * 5, d = c * 7, e = d * 9, f = e * 11;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f));
	go_on(chain);
	__asm__ volatile("" : : "r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "r"(f));
	sink += (int)(a + b + c + d + e + f);
}

/* The calls in these two return to addresses with the same lower 13 bits. */
template <int SIZE> static __attribute__((noinline, aligned(8192))) void step_twin(struct chain *chain)
{
	char bytes[SIZE];

	__asm__ volatile("" : : "r"(bytes) : "memory");
	go_on(chain);
	sink += bytes[0];
}

static __thread struct chain *sorting;

static int compare(const void *a, const void *b)
{
	struct chain *chain = sorting;

	sorting = NULL;
	if (chain)
		go_on(chain);
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void step_sort(struct chain *chain)
{
	int numbers[] = { 3, 1, 2 };

	sorting = chain;
	qsort(numbers, 3, sizeof(numbers[0]), compare);
	sink += numbers[0];
}

static __attribute__((noinline)) void fail(unsigned depth)
{
	if (!depth)
		throw 1;
	fail(depth - 1);
	sink++;
}

static __attribute__((noinline)) void step_catch(struct chain *chain)
{
	try {
		fail(chain->state % 5);
	} catch (int number) {
		go_on(chain);
		sink += number;
	}
}

static void on_signal(int)
{
	struct chain *chain = interrupted;

	go_on(chain);
	sink++;
}

static __attribute__((noinline)) void step_signal(struct chain *chain)
{
	interrupted = chain;
	raise(SIGUSR1);
	sink++;
}

static void (*const steps[])(struct chain *) = {
	step_fixed<1>,	step_fixed<40>,	   step_fixed<200>, step_fixed<9000>, step_fixed<20000>, step_variable, step_aligned,
	step_registers, step_twin<300>,	   step_twin<700>,  step_sort,	      step_catch,	 step_signal,
};

static void go_on(struct chain *chain)
{
	unsigned which;

	if (!chain->depth--) {
		show(chain);
		return;
	}
	do {
		chain->state = chain->state * 1103515245 + 12345;
		which = chain->state >> 16 & 0xff;
		which %= sizeof(steps) / sizeof(steps[0]);
	} while (steps[which] == step_signal && chain->signalled);
	chain->signalled |= steps[which] == step_signal;
	steps[which](chain);
	sink++;
}

static void *run(void *seed)
{
	struct chain chain = { (unsigned)(size_t)seed, 0, false };

	for (int i = 0; i < chains; i++) {
		chain.state += (unsigned)i;
		chain.depth = chain.state >> 8 & 0xff;
		chain.depth %= DEPTH_MAX;
		chain.signalled = false;
		go_on(&chain);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[2]) : 0;
	pthread_t others[8];

	chains = argc > 1 ? atoi(argv[1]) : 1;
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < threads && i < 8; i++)
		pthread_create(&others[i], NULL, run, (void *)(size_t)(i + 7));
	run((void *)1);
	for (int i = 0; i < threads && i < 8; i++)
		pthread_join(others[i], NULL);
	return 0;
}
