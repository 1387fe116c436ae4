#include "control/remote/call_list.h"

#include <assert.h>
#include <signal.h>
#include <string.h>

/* rbx: the row; rbp: where its result goes; r12: rows left; r13: the mask to unblock */
__asm__(".pushsection .rodata\n"
	"call_list_begin:\n"
	"	mov (%rbx), %rax\n"
	"	mov 8(%rbx), %rdi\n"
	"	mov 16(%rbx), %rsi\n"
	"	mov 24(%rbx), %rdx\n"
	"	mov 32(%rbx), %r10\n"
	"	mov 40(%rbx), %r8\n"
	"	mov 48(%rbx), %r9\n"
	"	mov 56(%rbx), %rcx\n"
	"	test %rcx, %rcx\n"
	"	jz call_list_call\n"
	"	mov (%rcx), %r8\n"
	"call_list_call:\n"
	"	syscall\n"
	"	mov %rax, (%rbp)\n"
	"	add $64, %rbx\n"
	"	add $8, %rbp\n"
	"	cmp $-4096, %rax\n"
	"	ja 1f\n"
	"	dec %r12\n"
	"	jnz call_list_begin\n"
	"1:	mov $14, %eax\n" /* rt_sigprocmask */
	"	mov $1, %edi\n" /* SIG_UNBLOCK */
	"	mov %r13, %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	xor %r8d, %r8d\n"
	"	xor %r9d, %r9d\n"
	"call_list_open:\n"
	"	syscall\n"
	"	ret\n"
	"call_list_end:\n"
	".popsection\n");

extern const uint8_t call_list_begin[], call_list_call[], call_list_open[],
	call_list_end[];

_Static_assert(sizeof(struct call_list_row) == 64, "the code's steps");

size_t call_list_code(uint8_t *to, size_t room)
{
	size_t size = (size_t)(call_list_end - call_list_begin);

	assert(size <= room);
	memcpy(to, call_list_begin, size);
	return size;
}

size_t call_list_syscall(void)
{
	return (size_t)(call_list_call - call_list_begin);
}

size_t call_list_unblock(void)
{
	return (size_t)(call_list_open - call_list_begin);
}

void call_list_unblock_args(uint64_t open, uint64_t args[6])
{
	memcpy(args, (const uint64_t[6]){ SIG_UNBLOCK, open, 0, 8 }, 6 * sizeof(args[0]));
}

void call_list_set(struct user_regs_struct *regs, const struct call_list_run *run)
{
	regs->rip = run->code;
	regs->rsp = run->rsp;
	regs->rbx = run->rows;
	regs->rbp = run->results;
	regs->r12 = run->count;
	regs->r13 = run->open;
	regs->rax = 0;
	regs->orig_rax = (unsigned long long)-1;
}
