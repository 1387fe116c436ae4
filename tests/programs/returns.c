/*
 * returns.c - every way to come back from a function, or not to. Each case prints its
 * results, which must not depend on being traced. `returns --case N` runs one case; without it, all
 * cases that end normally run.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "handshake.h"

#define NOINLINE __attribute__((noinline, noclone))
static volatile long sink;

/* ---- values ---------------------------------------------------------------------------------- */

struct big {
	long words[9];
};
struct two {
	long a, b;
};
struct pair {
	double a, b;
};

NOINLINE struct big give_big(long n)
{
	struct big big;

	for (int i = 0; i < 9; i++)
		big.words[i] = n * i;
	return big;
}

NOINLINE struct two give_two(long n)
{
	sink = sink + n;
	return (struct two){ n + 1, n * 3 };
}

NOINLINE struct pair give_pair(double x)
{
	sink = sink + 1;
	return (struct pair){ x * 1.5, x / 4 };
}

NOINLINE long double give_x87(long double x)
{
	sink = sink + 1;
	return x * x + 0.5L;
}

NOINLINE double add_variadic(int count, ...)
{
	va_list args;
	double total = 0;

	va_start(args, count);
	for (int i = 0; i < count; i++)
		total += i % 2 ? va_arg(args, double) : (double)va_arg(args, int);
	va_end(args);
	return total;
}

NOINLINE long add_twenty(long a, long b, long c, long d, long e, long f, long g, long h, long i,
			 long j, long k, long l, long m, long n, long o, long p, long q, long r,
			 long s, long t)
{
	sink = sink + 1;
	return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j + 11 * k +
	       12 * l + 13 * m + 14 * n + 15 * o + 16 * p + 17 * q + 18 * r + 19 * s + 20 * t;
}

static void case_values(void)
{
	struct big big = give_big(7);
	struct two two = give_two(10);
	struct pair pair = give_pair(3);

	printf("big %ld %ld\n", big.words[1], big.words[8]);
	printf("two %ld %ld\n", two.a, two.b);
	printf("pair %g %g\n", pair.a, pair.b);
	printf("x87 %Lg\n", give_x87(12.25L));
	printf("variadic %g\n", add_variadic(6, 1, 2.5, 3, 4.25, 5, 6.0));
	printf("twenty %ld\n",
	       add_twenty(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20));
}

/* ---- calls ----------------------------------------------------------------------------------- */

NOINLINE long recurse(long n)
{
	long below = n ? recurse(n - 1) : 0;

	sink = sink + 1; /* behind the call: or the compiler makes a loop of it */
	return n + below;
}

NOINLINE long is_odd(long n);

NOINLINE long is_even(long n)
{
	sink = sink + 1;
	return n ? is_odd(n - 1) : 1; /* a tail call */
}

NOINLINE long is_odd(long n)
{
	sink = sink + 2;
	return n ? is_even(n - 1) : 0;
}

static void case_calls(void)
{
	printf("deep %ld\n", recurse(5000));
	printf("even %ld\n", is_even(200) + 2 * is_even(33));
}

/* ---- jumps ----------------------------------------------------------------------------------- */

static jmp_buf back;
static sigjmp_buf signal_back;

NOINLINE void leap(int depth)
{
	sink = sink + 1;
	if (!depth)
		longjmp(back, 3);
	leap(depth - 1);
	sink = sink + 1;
}

NOINLINE void handler(int number)
{
	sink = sink + number;
	siglongjmp(signal_back, 1);
}

NOINLINE void fault(void)
{
	sink = sink + 1;
	raise(SIGUSR1);
	sink = sink + 1;
}

static void case_jumps(void)
{
	volatile int jumps = 0;

	for (volatile int i = 0; i < 300; i++) {
		if (setjmp(back))
			jumps++;
		else
			leap(i % 5);
	}
	signal(SIGUSR1, handler);
	for (volatile int i = 0; i < 50; i++) {
		if (sigsetjmp(signal_back, 1))
			jumps++;
		else
			fault();
	}
	printf("jumps %d\n", jumps);
}

/* ---- stacks ---------------------------------------------------------------------------------- */

static ucontext_t home, fibers[4];
static long fiber_total;

NOINLINE long fiber_step(int which, int round)
{
	sink = sink + 1;
	swapcontext(&fibers[which], &home);
	return which * 100 + round;
}

NOINLINE void fiber_main(int which)
{
	for (int round = 0; round < 20; round++)
		fiber_total += fiber_step(which, round);
}

static void case_contexts(void)
{
	static char stacks[4][65536];

	for (int i = 0; i < 4; i++) {
		getcontext(&fibers[i]);
		fibers[i].uc_stack.ss_sp = stacks[i];
		fibers[i].uc_stack.ss_size = sizeof(stacks[i]);
		fibers[i].uc_link = &home;
		makecontext(&fibers[i], (void (*)(void))fiber_main, 1, i);
	}
	for (int round = 0; round < 21; round++) {
		for (int i = 0; i < 4; i++)
			swapcontext(&home, &fibers[(i * 3) % 4]);
	}
	printf("fibers %ld\n", fiber_total);
}

/* A coroutine that begins on one thread and is resumed on another. Stacks are switched by hand. */
void switch_stacks(void **save, void *to);
__asm__(".text\n.globl switch_stacks\n.type switch_stacks, @function\n"
	"switch_stacks:\n"
	"	push %rbp\n push %rbx\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbx\n pop %rbp\n"
	"	ret\n"
	".size switch_stacks, . - switch_stacks\n");

static void *caller_stack, *coroutine_stack;
static long coroutine_result;

NOINLINE long coroutine_inner(long n)
{
	sink = sink + 1;
	switch_stacks(&coroutine_stack, caller_stack);
	return n * 2;
}

NOINLINE long coroutine_outer(long n)
{
	return coroutine_inner(n) + 1;
}

static void coroutine_main(void)
{
	for (long n = 1;; n++)
		coroutine_result += coroutine_outer(n);
}

NOINLINE void *resume(void *unused)
{
	switch_stacks(&caller_stack, coroutine_stack);
	return NULL;
}

static void case_coroutine(void)
{
	static char stack[65536] __attribute__((aligned(64)));
	uint64_t *top = (uint64_t *)(stack + sizeof(stack)) - 2;
	pthread_t thread;

	*top = (uint64_t)coroutine_main;
	coroutine_stack = top - 6;
	for (int i = 0; i < 30; i++) {
		pthread_create(&thread, NULL, resume, NULL);
		pthread_join(thread, NULL);
		resume(NULL);
	}
	printf("coroutine %ld\n", coroutine_result);
}

/* ---- threads --------------------------------------------------------------------------------- */

static int cleaned;

NOINLINE void clean(void *unused)
{
	__atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

NOINLINE void leave(int depth)
{
	sink = sink + 1;
	if (!depth)
		pthread_exit((void *)7);
	leave(depth - 1);
	sink = sink + 1;
}

NOINLINE void *leaving_thread(void *unused)
{
	pthread_cleanup_push(clean, NULL);
	leave(4);
	pthread_cleanup_pop(0);
	return NULL;
}

NOINLINE void wait_forever(int fd)
{
	char byte;

	while (read(fd, &byte, 1) >= 0)
		;
}

NOINLINE void *waiting_thread(void *fds)
{
	pthread_cleanup_push(clean, NULL);
	wait_forever(*(int *)fds);
	pthread_cleanup_pop(0);
	return NULL;
}

static void case_threads(void)
{
	long results = 0;
	int fds[2];

	if (pipe(fds))
		exit(3);
	for (int i = 0; i < 20; i++) {
		pthread_t a, b;
		void *result;

		pthread_create(&a, NULL, leaving_thread, NULL);
		pthread_create(&b, NULL, waiting_thread, fds);
		pthread_join(a, &result);
		results += (long)result;
		pthread_cancel(b);
		pthread_join(b, &result);
		results += result == PTHREAD_CANCELED;
	}
	printf("threads %ld cleaned %d\n", results, cleaned);
}

/* Frames on a stack that is unmapped, and another one at the same place. */
NOINLINE void abandon(int depth)
{
	sink = sink + 1;
	if (!depth)
		switch_stacks(&coroutine_stack, caller_stack);
	abandon(depth - 1);
	sink = sink + 1;
}

static void abandoned_main(void)
{
	abandon(3);
	abort();
}

static void case_unmapped(void)
{
	void *where = NULL;
	long total = 0;

	for (int i = 0; i < 50; i++) {
		char *stack = mmap(where, 65536, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | (where ? MAP_FIXED : 0), -1, 0);
		uint64_t *top = (uint64_t *)(stack + 65536) - 2;

		where = stack;
		*top = (uint64_t)abandoned_main;
		switch_stacks(&caller_stack, top - 6);
		munmap(stack, 65536);
		total += recurse(10);
	}
	printf("unmapped %ld\n", total);
}

/* ---- processes ------------------------------------------------------------------------------- */

NOINLINE int spawn(const char *word)
{
	pid_t child = vfork();

	if (!child) {
		execl("/bin/true", "true", word, (char *)NULL);
		_exit(9);
	}
	int status;
	waitpid(child, &status, 0);
	return status;
}

NOINLINE long fork_inside(int depth)
{
	if (depth) {
		long below = fork_inside(depth - 1);

		sink = sink + 1;
		return below + 1;
	}
	fflush(stdout);
	pid_t child = fork();
	if (child) {
		int status;

		waitpid(child, &status, 0);
		return WEXITSTATUS(status) * 1000;
	}
	return 5;
}

static void case_processes(void)
{
	pid_t self = getpid();
	int bad = 0;

	for (int i = 0; i < 10; i++)
		bad += spawn("x") != 0;
	long result = fork_inside(3);
	if (getpid() != self)
		_exit((int)result); /* the child: 8 */
	printf("spawned %d forked %ld\n", bad, result);
}

/* ---- calls that stay inside ------------------------------------------------------------------ */

static int saved_argc;
static char **saved_argv;

NOINLINE long hold(long depth)
{
	long below = 100;

	if (depth)
		below = hold(depth - 1);
	else
		handshake(saved_argc, saved_argv);
	sink = sink + 1;
	return below + depth;
}

NOINLINE long hold_by_jump(long depth)
{
	sink = sink + 1;
	return hold(depth); /* a tail call */
}

/* ---- ends ------------------------------------------------------------------------------------ */

NOINLINE void replace(char **argv)
{
	sink = sink + 1;
	execl("/bin/echo", "echo", "replaced", (char *)NULL);
	sink = sink + 1;
}

NOINLINE void finish(int status)
{
	sink = sink + 1;
	exit(status);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
	{ "values", case_values },     { "calls", case_calls },		{ "jumps", case_jumps },
	{ "contexts", case_contexts }, { "coroutine", case_coroutine }, { "threads", case_threads },
	{ "unmapped", case_unmapped }, { "processes", case_processes },
};

int main(int argc, char **argv)
{
	long wanted = handshake_option(argc, argv, "case", -1);
	long rounds = handshake_option(argc, argv, "rounds", 1);

	saved_argc = argc;
	saved_argv = argv;
	handshake(argc, argv);
	if (handshake_option(argc, argv, "hold", 0))
		printf("held %ld\n", hold_by_jump(3));
	for (long round = 0; round < rounds; round++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			if (wanted < 0 || wanted == (long)i)
				cases[i].run();
		}
	}
	fflush(stdout);
	if (handshake_option(argc, argv, "exec", 0))
		replace(argv);
	finish((int)handshake_option(argc, argv, "status", 0));
}
