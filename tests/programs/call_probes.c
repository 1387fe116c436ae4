/* Probe functions: good ones, and ones that break the rules. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <dyntrace/probe.h>

DYNTRACE_EVENT(seen, DYNTRACE_STRING(name), DYNTRACE_INT(number), DYNTRACE_DOUBLE(real),
	       DYNTRACE_STRING(text), DYNTRACE_HEX(address), DYNTRACE_UINT(is_exit),
	       DYNTRACE_FIELD(small, DYNTRACE_TYPE_INT, 2),
	       DYNTRACE_FIELD(single, DYNTRACE_TYPE_FLOAT, 4), DYNTRACE_INT(tid));
DYNTRACE_EVENT(point, DYNTRACE_INT(x), DYNTRACE_INT(y), DYNTRACE_INT(colour),
	       DYNTRACE_INT(nothing));
DYNTRACE_EVENT(result, DYNTRACE_DOUBLE(ret), DYNTRACE_DOUBLE(xmm), DYNTRACE_UINT(took));
DYNTRACE_EVENT(sum, DYNTRACE_INT(value));
DYNTRACE_EVENT(registers, DYNTRACE_HEX(rax), DYNTRACE_HEX(rcx), DYNTRACE_HEX(rdx),
	       DYNTRACE_HEX(rbx), DYNTRACE_HEX(rsp), DYNTRACE_HEX(rbp), DYNTRACE_HEX(rsi),
	       DYNTRACE_HEX(rdi), DYNTRACE_HEX(r8), DYNTRACE_HEX(r10), DYNTRACE_HEX(r15),
	       DYNTRACE_HEX(rip), DYNTRACE_HEX(rflags), DYNTRACE_DOUBLE(xmm7),
	       DYNTRACE_DOUBLE(xmm15));
DYNTRACE_EVENT(texts, DYNTRACE_STRING(cut), DYNTRACE_STRING(missing), DYNTRACE_STRING(bad),
	       DYNTRACE_STRING(lengthy), DYNTRACE_INT(read), DYNTRACE_INT(unread));

static unsigned long constructed;

static __attribute__((constructor)) void construct(void)
{
	void *memory = malloc(100);

	constructed = memory != NULL;
	free(memory);
}

DYNTRACE_PROBE(on_nothing)
{
}

/* By number and by name. */
DYNTRACE_PROBE(on_work)
{
	DYNTRACE_EMIT(hit, seen, hit->tracepoint->name, dyntrace_argument(hit, 0),
		      dyntrace_argument_double(hit, 0), (const char *)dyntrace_argument(hit, 1),
		      hit->tracepoint->address, hit->tracepoint->is_exit,
		      -(int)dyntrace_argument(hit, 0), 0.25f, dyntrace_tid(hit));
}

DYNTRACE_PROBE(on_names)
{
	if (hit->tracepoint->is_exit) {
		DYNTRACE_EMIT(hit, result, dyntrace_double(hit, "ret"),
			      dyntrace_argument_double(hit, 0), dyntrace_integer(hit, "duration"));
		return;
	}
	DYNTRACE_EMIT(hit, seen, "names", dyntrace_integer(hit, "number"),
		      dyntrace_double(hit, "real"), dyntrace_string(hit, "text"),
		      (void *)hit->registers.rip, (int)constructed, 7, 1, 0);
	DYNTRACE_EMIT(hit, point, dyntrace_integer(hit, "point_x"),
		      dyntrace_integer(hit, "point_y"), dyntrace_integer(hit, "colour"),
		      dyntrace_integer(hit, "no_such_name"));
}

DYNTRACE_PROBE(on_many)
{
	long sum = 0;

	for (unsigned i = 0; i < 8; i++)
		sum = 10 * sum + (long)dyntrace_argument(hit, i);
	DYNTRACE_EMIT(hit, sum, sum);
}

DYNTRACE_PROBE(on_registers)
{
	const struct dyntrace_registers *r = &hit->registers;

	DYNTRACE_EMIT(hit, registers, r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi,
		      r->rdi, r->r8, r->r10, r->r15, r->rip, r->rflags,
		      dyntrace_argument_double(hit, 7), dyntrace_argument_double(hit, 15));
}

DYNTRACE_PROBE(on_texts)
{
	char buffer[8], length[400];

	memset(length, 'x', sizeof(length));
	length[399] = 0;
	DYNTRACE_EMIT(hit, texts, dyntrace_text("abcdef", 3), (char *)NULL, (const char *)24,
		      length, dyntrace_read(hit, "abcdef", buffer, 7),
		      dyntrace_read(hit, (void *)24, buffer, 7));
	/* Another number of values than fields: nothing is written. */
	if (DYNTRACE_EMIT(hit, sum, 1, 2) != -1 || DYNTRACE_EMIT(hit, sum, "text") != -1)
		abort();
}

/* A number for each tracepoint, and for each thread that comes by. */
DYNTRACE_PROBE(on_user)
{
	uintptr_t *number = (uintptr_t *)hit->tracepoint->user;

	DYNTRACE_EMIT(hit, sum, __atomic_add_fetch(number, 1, __ATOMIC_RELAXED));
}

/* Changes what a function may change, and what it mayn't. */
DYNTRACE_PROBE(on_mess)
{
	char text[256];
	double a = (double)(uintptr_t)hit;

	snprintf(text, sizeof(text), "%f %p", a, (void *)hit);
	memset(text, 1, sizeof(text));
	fclose(fopen("/dev/null", "r"));
	errno = 77;
	_mm_setcsr(0x1f80);
#ifdef __AVX__
	__asm__ volatile("vpxor %%ymm2, %%ymm2, %%ymm2\n\t"
			 "vpxor %%ymm9, %%ymm9, %%ymm9\n\t"
			 "vpxor %%ymm15, %%ymm15, %%ymm15\n\t"
			 "movq $0, %%r10\n\t"
			 "movq $0, %%r11" ::: "xmm2", "xmm9", "xmm15", "r10", "r11");
#else
	__asm__ volatile("pxor %%xmm2, %%xmm2\n\t"
			 "pxor %%xmm9, %%xmm9\n\t"
			 "pxor %%xmm15, %%xmm15\n\t"
			 "movq $0, %%r10\n\t"
			 "movq $0, %%r11" ::: "xmm2", "xmm9", "xmm15", "r10", "r11");
#endif
}

/* ---- inside of each other -------------------------------------------------------------------- */

extern int inner(int number) __attribute__((weak));

DYNTRACE_PROBE(on_outer)
{
	for (int i = 0; i < 3; i++) {
		if (inner && inner(i) != i + 1)
			abort();
	}
}

/* A handler of the program's runs in the middle of it, and hits the tracepoint again. */
DYNTRACE_PROBE(on_interrupted)
{
	if (dyntrace_argument(hit, 0) == 0)
		raise(SIGUSR1);
}

/* ---- what ends them -------------------------------------------------------------------------- */

DYNTRACE_PROBE(on_segv)
{
	*(volatile int *)16 = 1;
}

DYNTRACE_PROBE(on_jump_to_nowhere)
{
	((void (*)(void))(uintptr_t)32)();
}

DYNTRACE_PROBE(on_fpe)
{
	__asm__ volatile("xorl %%ecx, %%ecx\n\tidivl %%ecx" ::: "eax", "ecx", "edx");
}

DYNTRACE_PROBE(on_ill)
{
	__builtin_trap();
}

DYNTRACE_PROBE(on_abort)
{
	abort();
}

static void *volatile nowhere = (void *)48;

/* In a library that it calls, with a vector register full of what the program doesn't want. */
DYNTRACE_PROBE(on_libc_segv)
{
	memset(nowhere, 1, (size_t)(hit->tracepoint->address & 63) + 100);
}

extern sigjmp_buf jump_out __attribute__((weak));

/* Out of it, to the function that calls the tracepoint's; every second time. */
DYNTRACE_PROBE(on_jump)
{
	uintptr_t *number = (uintptr_t *)hit->tracepoint->user;

	if (++*number % 2)
		siglongjmp(jump_out, 1);
}

/* With the registers that are saved it needs more than half of the room that there is at least. */
DYNTRACE_PROBE(on_deep)
{
	volatile char room[4500];

	for (size_t i = 0; i < sizeof(room); i += 64)
		room[i] = 1;
	DYNTRACE_EMIT(hit, sum, room[64] + getpagesize());
}

/* A leaf, which would be called without a look at the stack if it needed less of it. */
DYNTRACE_PROBE(on_deep_leaf)
{
	volatile char room[4500];

	(void)hit;
	for (size_t i = 0; i < sizeof(room); i += 64)
		room[i] = 1;
}

DYNTRACE_PROBE(on_computing)
{
	struct timespec now = { 0 };
	(void)!write(1, "inside\n", 7);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	for (long begin = now.tv_sec * 1000 + now.tv_nsec / 1000000, ms = begin; ms < begin + 120;
	     ms = now.tv_sec * 1000 + now.tv_nsec / 1000000)
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
}

DYNTRACE_PROBE(on_slow)
{
	nanosleep(&(struct timespec){ .tv_nsec = 300000 }, NULL);
}
