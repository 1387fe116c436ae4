/*
 * runtime.c - habits of programs with a compiler of their own (JVM, V8).
 *
 * call_compiled: code made at run time calls `callee`, which says where it will return to: a
 * garbage collector would look that up. constant_first and constant_again: one instruction's
 * immediate operand is data for another.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define NOINLINE __attribute__((noinline, noclone))

static uint8_t *made; /* the code */
static uint64_t *anchor; /* its stack pointer when it calls */
static unsigned long known; /* calls that return into it */

/* As a collector walks: from the last frame of the compiled code on. */
NOINLINE void look(void)
{
	known += anchor && anchor[-1] - (uint64_t)made < 64;
	anchor = NULL;
}

NOINLINE long callee(long n)
{
	look();
	return n + 1;
}

NOINLINE long call_plainly(long n)
{
	return callee(n) * 2;
}

/* sub rsp, 8; movabs r11, &anchor; mov [r11], rsp; movabs rax, callee; call rax; add rsp, 8; ret */
static long (*compile(void))(long)
{
	static const uint8_t code[] = { 0x48, 0x83, 0xec, 0x08, 0x49, 0xbb, 0,	  0,	0,
					0,    0,    0,	  0,	0,    0x49, 0x89, 0x23, 0x48,
					0xb8, 0,    0,	  0,	0,    0,    0,	  0,	0,
					0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3 };
	uint64_t to = (uint64_t)callee, note = (uint64_t)&anchor;

	made = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (made == MAP_FAILED)
		return NULL;
	memcpy(made, code, sizeof(code));
	memcpy(made + 6, &note, sizeof(note));
	memcpy(made + 19, &to, sizeof(to));
	mprotect(made, 4096, PROT_READ | PROT_EXEC);
	return (long (*)(long))(void *)made;
}

uint64_t constant_first(void);
uint64_t constant_again(void);
__asm__(".text\n"
	".globl constant_first, constant_again\n"
	".type constant_first, @function\n"
	".type constant_again, @function\n"
	"constant_first:\n"
	"	movabs $0x1122334455667788, %rax\n"
	"	ret\n"
	".size constant_first, . - constant_first\n"
	"constant_again:\n"
	"	mov constant_first+2(%rip), %rax\n"
	"	ret\n"
	".size constant_again, . - constant_again\n");

int main(void)
{
	long (*compiled)(long) = compile();
	long sum = 0;

	if (!compiled)
		return 2;
	for (long i = 0; i < 100; i++)
		sum += compiled(i) + call_plainly(i);
	printf("%ld %lu %llx\n", sum, known,
	       (unsigned long long)(constant_first() ^ constant_again()));
	return 0;
}
