/*
 * faults.cpp - signals at any instruction, and unwinding from there. Built by the tests, in several ways, with
 * -fnon-call-exceptions.
 *
 *	faults throw N		N times, instructions that fault, at the start and in the middle of functions; the handler throws, and the
 *				exception is caught there or in a caller
 *	faults sample N		N times a handler that looks at its frames with backtrace(): they must go up to main
 *	faults step N		between two lines (or the end) of standard input, N rounds with the trap flag set: the same handler at every
 *				instruction, in tail calls too
 *	faults cancel N		N threads that are cancelled asynchronously while they compute; destructors are counted
 */
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

static int alive, destroyed;
static volatile long sink;

struct Guard {
	Guard() { alive++; }
	~Guard() { alive--; destroyed++; }
};

/* ---- faults ------------------------------------------------------------------------------------- */

struct Fault {
	int number;
};

static void on_fault(int number)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, number);
	sigprocmask(SIG_UNBLOCK, &set, nullptr);
	throw Fault{ number };
}

/* The first instruction faults. */
extern "C" NOINLINE int load_first(int *from)
{
	return *from;
}

extern "C" NOINLINE int load_middle(int *from)
{
	Guard guard;
	sink = sink + 1;
	int value = *from;
	sink = sink + value;
	return value;
}

extern "C" NOINLINE int load_caught(int *from)
{
	Guard guard;
	try {
		Guard another;
		sink = sink + 1;
		return *from;
	} catch (const Fault &fault) {
		return -fault.number;
	}
}

extern "C" NOINLINE int divide(int by)
{
	Guard guard;
	return 100 / by;
}

extern "C" NOINLINE int call_through(int *from, int by, int which)
{
	Guard guard;
	long before = sink;
	int result = which == 0 ? load_first(from) : which == 1 ? load_middle(from) : which == 2 ? load_caught(from) : divide(by);
	sink = before;
	return result + 1;
}

extern "C" NOINLINE int attempt(int *from, int by, int which)
{
	Guard guard;
	try {
		return call_through(from, by, which);
	} catch (const Fault &fault) {
		return -100 - fault.number;
	}
}

static int throw_all(int count)
{
	long total = 0;
	int good = 7;

	signal(SIGSEGV, on_fault);
	signal(SIGFPE, on_fault);
	for (int i = 0; i < count; i++) {
		for (int which = 0; which < 4; which++)
			total = total * 31 % 1000003 + attempt(i % 2 ? &good : nullptr, i % 2, which);
	}
	printf("total %ld alive %d destroyed %d\n", total, alive, destroyed);
	return alive != 0;
}

/* ---- samples ------------------------------------------------------------------------------------ */

extern "C" NOINLINE long leaf(long n)
{
	sink = sink + n;
	return n ^ 5;
}

extern "C" NOINLINE long branch(long n)
{
	long sum = 0;
	for (int i = 0; i < 10; i++)
		sum += leaf(n + i);
	return sum;
}

extern "C" NOINLINE long work(long n)
{
	return branch(n) + branch(n + 1) + 1;
}


static volatile long samples, broken;
static void *tail[16]; /* what called main */
static int tail_count;

static void on_sample(int)
{
	void *frames[64];
	int count = backtrace(frames, 64);

	samples = samples + 1;
	if (count <= tail_count || memcmp(frames + count - tail_count, tail, tail_count * sizeof(*tail)) != 0) {
		broken = broken + 1;
		if (broken == 1)
			backtrace_symbols_fd(frames, count, 2);
	}
}

extern "C" NOINLINE long last(long n)
{
	sink = sink + leaf(n);
	return n ^ 9;
}

/* Jumps to last(), where the compiler optimises. */
extern "C" NOINLINE long sibling(long n)
{
	return last(n + 1);
}

NOINLINE static long step_round(long n)
{
	return work(n) + sibling(n);
}

static volatile bool stepping;

/* The trap flag is set and cleared in the context, where unwind tables hold at every instruction. */
static void on_step(int, siginfo_t *, void *context)
{
	greg_t *flags = &((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL];

	on_sample(0);
	*flags = stepping ? *flags | 0x100 : *flags & ~0x100;
}

static int step(long count)
{
	struct sigaction action = {};

	fputs("ready\n", stderr);
	getchar();
	for (long i = 0; i < 200; i++)
		sink = sink + step_round(i);
	action.sa_sigaction = on_step;
	action.sa_flags = SA_SIGINFO;
	sigaction(SIGTRAP, &action, nullptr);
	for (long i = 0; i < count; i++) {
		stepping = true;
		raise(SIGTRAP);
		sink = sink + step_round(i);
		stepping = false;
	}
	printf("broken %ld of %s\n", broken, samples > 300 ? "many" : "few");
	fflush(stdout);
	getchar();
	return broken != 0;
}

static int sample(long count)
{
	struct itimerval timer = { { 0, 250 }, { 0, 250 } };

	fputs("ready\n", stderr);
	signal(SIGPROF, on_sample);
	setitimer(ITIMER_PROF, &timer, nullptr);
	while (samples < count) {
		for (int i = 0; i < 200; i++)
			sink = sink + work(i);
	}
	signal(SIGPROF, SIG_IGN);
	printf("broken %ld\n", broken);
	return broken != 0;
}

/* ---- cancellation ------------------------------------------------------------------------------- */

static int threads_alive, threads_done;
static volatile bool started;

struct Counted {
	Counted() { __atomic_add_fetch(&threads_alive, 1, __ATOMIC_SEQ_CST); }
	~Counted() { __atomic_sub_fetch(&threads_alive, 1, __ATOMIC_SEQ_CST); __atomic_add_fetch(&threads_done, 1, __ATOMIC_SEQ_CST); }
};

extern "C" NOINLINE void compute(unsigned n)
{
	unsigned long x = n;
	started = true;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, nullptr);
	for (;;)
		x = (unsigned long)work((long)x & 0xff);
}

static void *cancelled(void *n)
{
	Counted counted;
	compute((unsigned)(unsigned long)n);
	return nullptr;
}

static int cancel_all(int count)
{
	for (int i = 0; i < count; i++) {
		pthread_t thread;
		void *result;
		started = false;
		pthread_create(&thread, nullptr, cancelled, (void *)(unsigned long)i);
		while (!started)
			sched_yield();
		for (int j = 0; j < i % 7; j++)
			sched_yield();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			return 2;
	}
	printf("cancelled %d alive %d\n", threads_done, threads_alive);
	return threads_alive != 0;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	void *frames[16];
	tail_count = backtrace(frames, 16) - 1;
	memcpy(tail, frames + 1, tail_count * sizeof(*tail));
	if (!strcmp(argv[1], "sample"))
		return sample(atol(argv[2]));
	if (!strcmp(argv[1], "step"))
		return step(atol(argv[2]));
	if (!strcmp(argv[1], "throw"))
		return throw_all(atoi(argv[2]));
	if (!strcmp(argv[1], "cancel"))
		return cancel_all(atoi(argv[2]));
	return 2;
}
