/*
 * mill - threads that run through functions of many shapes all the time; it ends at the first wrong
 * result. Its arguments are descriptors: READY (see mill.h), and INSIDE and OUTSIDE of mill_hold.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "mill.h"

#define THREADS 8
#define ARGUMENTS 16
#define CALLS_AT_ONCE 64

#define SHAPE(n, body)                                                             \
	uint64_t mill_##n(uint64_t);                                             \
	__attribute__((noinline, used)) uint64_t mill_##n(uint64_t x)            \
	{                                                                          \
		uint64_t y = x * (2 * n + 1) + n;                                  \
		body;                                                              \
		return y;                                                          \
	}

SHAPE(1, for (int i = 0; i < (int)(x & 7); i++) y ^= y << 3)
SHAPE(2, if (x & 1) y += 77; else y -= x)
SHAPE(3, switch (x % 9) { case 0: y += 1; break; case 1: y ^= 5; break; case 2: y *= 3; break;
	 case 3: y -= 9; break; case 4: y = ~y; break; case 5: y += x; break;
	 case 6: y >>= 2; break; default: y <<= 1; })
SHAPE(4, y = mill_1(y) + mill_2(x))
SHAPE(5, uint8_t b[32]; memset(b, (int)x, sizeof(b));
	 for (int i = 0; i < 32; i++) y = y * 31 + b[i])
SHAPE(6, double d = (double)(x & 255) / 3; y += (uint64_t)(d * d))
SHAPE(7, y = x < 3 ? y : mill_7(x / 2) + y)
SHAPE(8, while (x > 5) { x -= x / 3 + 1; y += x & 3; })

/* Shapes that compilers don't write often: one byte; two bytes and the next function at once; a
 * loop to the first instruction; a jump into the second; rcx as a counter; data in the red zone;
 * the caller's address popped. */
uint64_t mill_lone(uint64_t), mill_tight(uint64_t), mill_after(uint64_t), mill_first(uint64_t),
	mill_second(uint64_t), mill_count(uint64_t), mill_red(uint64_t), mill_pop(uint64_t);
__asm__(".text\n"
	".macro function name\n .globl \\name\n .type \\name, @function\n \\name: .cfi_startproc\n"
	" .endm\n"
	".macro done name\n .cfi_endproc\n .size \\name, . - \\name\n .balign 16\n .endm\n"
	".balign 16\n function mill_lone\n mov %rdi, %rax\n jmp 1f\n 1: ret\n done mill_lone\n"
	"function mill_tight\n push %rdi\n pop %rax\n ret\n .cfi_endproc\n"
	" .size mill_tight, . - mill_tight\n"
	"function mill_after\n lea 5(%rdi), %rax\n ret\n done mill_after\n"
	"function mill_first\n shr %rdi\n adc $0, %eax\n test %rdi, %rdi\n jne mill_first\n"
	" movzx %al, %eax\n"
	"mov $7, %eax\n ret\n done mill_first\n"
	"function mill_second\n xor %eax, %eax\n 1: inc %eax\n dec %dil\n jg 1b\n ret\n"
	" done mill_second\n"
	"function mill_count\n mov %rdi, %rcx\n and $15, %ecx\n xor %eax, %eax\n jrcxz 2f\n"
	" 1: add %rdi, %rax\n loop 1b\n"
	"2: ret\n int3\n done mill_count\n"
	"function mill_red\n mov %rdi, -8(%rsp)\n mov %edi, -64(%rsp)\n mov $3, %eax\n"
	" add -8(%rsp), %rax\n"
	"sub -64(%rsp), %eax\n ret\n done mill_red\n"
	"function mill_pop\n call 1f\n 1: pop %rax\n lea 1b(%rip), %rdx\n sub %rdx, %rax\n"
	" add %rdi, %rax\n ret\n"
	"done mill_pop\n");

static uint64_t (*const shapes[])(uint64_t) = {
	mill_1, mill_2, mill_3, mill_4, mill_5, mill_6, mill_7, mill_8,
	mill_lone, mill_tight, mill_after, mill_first, mill_second, mill_count, mill_red, mill_pop,
};
static const char *const names[] = {
	"mill_1", "mill_2", "mill_3", "mill_4", "mill_5", "mill_6", "mill_7", "mill_8",
	"mill_lone", "mill_tight", "mill_after", "mill_first", "mill_second", "mill_count",
	"mill_red", "mill_pop",
};
static uint64_t expected[MILL_SHAPES][ARGUMENTS];

/* A call that stays inside until it is told to return: it says so, and waits for a byte. */
static int inside, outside;

uint64_t mill_hold(uint64_t x);
__attribute__((noinline, used)) uint64_t mill_hold(uint64_t x)
{
	char byte;

	if (write(inside, "", 1) != 1 || read(outside, &byte, 1) != 1)
		abort();
	return x + 100;
}

static void *run_hold(void *unused)
{
	for (uint64_t i = 0;; i++) {
		if (mill_hold(i) != i + 100)
			abort();
	}
	return NULL;
}

static uint64_t argument(size_t i)
{
	return i * i * 0x9e3779b1u % 1000;
}

static void *run_shapes(void *seed)
{
	uint64_t random = (uintptr_t)seed * 2654435761u + 1;

	for (unsigned calls = 0;; calls++) {
		if (calls % CALLS_AT_ONCE == 0) /* or the trace is gigabytes */
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t shape = (random >> 33) % MILL_SHAPES, a = (random >> 50) % ARGUMENTS;

		if (shapes[shape](argument(a)) != expected[shape][a]) {
			fprintf(stderr, "%s(%zu) is wrong\n", names[shape], a);
			abort();
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	struct mill_shape told[MILL_SHAPES];
	pthread_t thread;

	if (argc != 4)
		return 2;
	inside = atoi(argv[2]);
	outside = atoi(argv[3]);
	for (size_t i = 0; i < MILL_SHAPES; i++) {
		told[i] = (struct mill_shape){ (uintptr_t)shapes[i], shapes[i] == mill_tight };
		for (size_t j = 0; j < ARGUMENTS; j++)
			expected[i][j] = shapes[i](argument(j));
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, run_shapes, (void *)i);
	pthread_create(&thread, NULL, run_hold, NULL);
	if (write(atoi(argv[1]), told, sizeof(told)) != sizeof(told))
		return 3;
	pause();
	return 0;
}
