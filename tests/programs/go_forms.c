/*
 * go_forms.c - machine code as Go 1.21 and later write it, made by hand: a function's frame is left
 * by `add; pop %rbp; ret`. A "goroutine" is a stack of our own, which moves while calls are inside:
 * the frames are copied, the distance to the stack's upper end stays.
 *
 *	go_forms DEPTH	calls main.down(DEPTH), which calls itself; prints its result
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK 65536u

/* The first words of Go's struct g. */
struct g {
	uint64_t low, high, guard;
};

extern uint64_t go_call(struct g *g, uint64_t argument);
uint64_t move_stack(struct g *g, uint64_t rsp);

static uint8_t stacks[2][STACK] __attribute__((aligned(16)));

/* Copies the used part of the stack to the other one. Frame pointers aren't used here. */
uint64_t move_stack(struct g *g, uint64_t rsp)
{
	uint8_t *to = g->low == (uint64_t)stacks[0] ? stacks[1] : stacks[0];
	uint64_t used = g->high - rsp;

	memcpy(to + STACK - used, (void *)rsp, used);
	memset((void *)rsp, 0, used);
	*g = (struct g){ (uint64_t)to, (uint64_t)to + STACK, (uint64_t)to + 928 };
	return g->high - used;
}

__asm__("	.section .note.go.buildid, \"a\", @note\n"
	"	.long 4, 4, 4\n"
	"	.asciz \"Go\\0\"\n"
	"	.asciz \"abc\"\n"
	"	.text\n"
	"	.globl go_call\n"
	"	.type go_call, @function\n"
	"go_call:\n" /* on the goroutine's stack */
	"	push %rbx\n push %rbp\n push %r12\n push %r13\n push %r14\n push %r15\n"
	"	mov %rdi, %r14\n"
	"	mov %rsi, %rax\n"
	"	mov %rsp, %r13\n"
	"	mov 8(%r14), %rsp\n"
	"	call main.down\n"
	"	mov %r13, %rsp\n"
	"	pop %r15\n pop %r14\n pop %r13\n pop %r12\n pop %rbp\n pop %rbx\n"
	"	ret\n"
	"	.size go_call, . - go_call\n"
	"	.balign 32, 0xcc\n"
	"	.globl runtime.text\n"
	"	.type runtime.text, @function\n"
	"runtime.text:\n"
	"	.type runtime.main, @function\n"
	"runtime.main:\n"
	"	cmp 0x10(%r14), %rsp\n"
	"	jbe 1f\n"
	"	ret\n"
	"1:	call runtime.morestack_noctxt\n"
	"	jmp runtime.main\n"
	"	.size runtime.main, . - runtime.main\n"
	"	.balign 32, 0xcc\n"
	"	.type runtime.morestack_noctxt, @function\n"
	"runtime.morestack_noctxt:\n"
	"	ud2\n"
	"	.size runtime.morestack_noctxt, . - runtime.morestack_noctxt\n"
	"	.balign 32, 0xcc\n"
	"	.type main.move, @function\n"
	"main.move:\n" /* leaves rax, r13, r14 alone */
	"	push %rax\n"
	"	mov %r14, %rdi\n"
	"	mov %rsp, %rsi\n"
	"	mov %r13, %rsp\n"
	"	and $-16, %rsp\n"
	"	call move_stack\n"
	"	mov %rax, %rsp\n"
	"	pop %rax\n"
	"	ret\n"
	"	.size main.move, . - main.move\n"
	"	.balign 32, 0xcc\n"
	"	.type main.down, @function\n"
	"main.down:\n" /* rax = n; gives 2n + 1 */
	"	cmp 0x10(%r14), %rsp\n"
	"	jbe 3f\n"
	"	push %rbp\n"
	"	mov %rsp, %rbp\n"
	"	sub $16, %rsp\n"
	"	test %rax, %rax\n"
	"	jne 2f\n"
	"	mov $1, %eax\n"
	"	add $16, %rsp\n"
	"	pop %rbp\n"
	"	ret\n"
	"2:	mov %rax, 8(%rsp)\n"
	"	dec %rax\n"
	"	call main.move\n"
	"	call main.down\n"
	"	add $2, %rax\n"
	"	add $16, %rsp\n"
	"	pop %rbp\n"
	"	ret\n"
	"3:	call runtime.morestack_noctxt\n"
	"	jmp main.down\n"
	"	.size main.down, . - main.down\n"
	"	.balign 32, 0xcc\n"
	"	.globl runtime.etext\n"
	"	.type runtime.etext, @function\n"
	"runtime.etext:\n"
	"	ud2\n"
	"	.size runtime.etext, . - runtime.etext\n");

int main(int argc, char **argv)
{
	uint64_t low = (uint64_t)stacks[0];
	struct g g = { low, low + STACK, low + 928 };

	if (argc != 2)
		return 1;
	printf("%lu\n", (unsigned long)go_call(&g, strtoul(argv[1], NULL, 0)));
	return 0;
}
