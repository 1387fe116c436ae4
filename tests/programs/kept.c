/*
 * kept: calls spot with texts of all lengths, and every register at a value that is known. Prints
 * the number of calls, and how often a register was another one afterwards.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LENGTHS 280
#define TURNS 4

struct registers {
	uint64_t xmm[16][2];
	uint64_t general[16]; /* rax, rcx, rdx, rbx, -, rbp, rsi, rdi, r8 ... */
	uint64_t flags;
} __attribute__((aligned(16)));

__attribute__((noipa)) const char *spot(const char *text)
{
	__asm__ volatile("nop; nop; nop; nop; nop");
	return text;
}

/* Loads all registers, calls spot, stores all. */
void through(const struct registers *before, struct registers *after);
__asm__(".globl through\n.type through, @function\nthrough:\n"
	"\tpush %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n"
	"\tpush %rsi\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"\tmovaps 16*\\n(%rdi), %xmm\\n\n.endr\n"
	"\tmov $0x80, %al\n\tadd $0x80, %al\n" /* carry, zero and overflow */
	"\tmov 256(%rdi), %rax\n\tmov 264(%rdi), %rcx\n\tmov 272(%rdi), %rdx\n"
	"\tmov 280(%rdi), %rbx\n\tmov 296(%rdi), %rbp\n\tmov 304(%rdi), %rsi\n"
	".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n\tmov 256+8*\\n(%rdi), %r\\n\n.endr\n"
	"\tmov 312(%rdi), %rdi\n\tcall spot\n"
	"\tmov (%rsp), %rax\n\tmov %rcx, 264(%rax)\n\tpushfq\n\tpop %rcx\n"
	"\tmov %rcx, 384(%rax)\n"
	".irp n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15\n"
	"\tmovaps %xmm\\n, 16*\\n(%rax)\n.endr\n"
	"\tmov %rdx, 272(%rax)\n\tmov %rbx, 280(%rax)\n\tmov %rbp, 296(%rax)\n"
	"\tmov %rsi, 304(%rax)\n\tmov %rdi, 312(%rax)\n"
	".irp n, 8, 9, 10, 11, 12, 13, 14, 15\n\tmov %r\\n, 256+8*\\n(%rax)\n.endr\n"
	"\tadd $8, %rsp\n"
	"\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\tret\n"
	".size through, .-through\n");

#define STATUS 0x8d5u /* carry, parity, adjust, zero, sign, overflow */

static unsigned call_with(const char *text)
{
	struct registers before = { .flags = 0 }, after = { .flags = 0 };
	static unsigned flags;
	unsigned bad = 0;

	for (uint64_t i = 0; i < 16; i++) {
		before.xmm[i][0] = 0x2000 + i;
		before.xmm[i][1] = 0x3000 + i;
		before.general[i] = 0x1000 + i;
	}
	before.general[7] = (uint64_t)text;
	after.general[0] = before.general[0];
	after.general[4] = before.general[4];
	through(&before, &after);
	if (!flags)
		flags = after.flags & STATUS;
	bad += (after.flags & STATUS) != flags;
	bad += memcmp(before.xmm, after.xmm, sizeof(before.xmm)) != 0;
	bad += memcmp(before.general, after.general, sizeof(before.general)) != 0;
	return bad;
}

int main(void)
{
	static char texts[LENGTHS + 32];
	unsigned bad = 0, calls = 0;

	for (unsigned length = 0; length < LENGTHS; length++) {
		for (unsigned turn = 0; turn < TURNS; turn++) {
			char *text = texts + (length * 7 + turn) % 16;

			memset(texts, 0xff, sizeof(texts));
			memset(text, 'a' + (int)(length % 26), length);
			text[length] = 0;
			bad += call_with(text);
			calls++;
		}
	}
	printf("%u calls, %u registers changed\n", calls, bad);
	return 0;
}
