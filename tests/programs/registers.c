/* Calls spot with every register at a value that is known: rax 0x100, rcx 0x101, ..., r15 0x10f
 * (but rsp); xmm n the pair 0x200 + n, 0x300 + n; carry, zero and overflow set. Prints rsp there,
 * and the bases of FS and GS. */
#include <asm/prctl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t pairs[16][2] __attribute__((aligned(16)));
static uint64_t general[16], at_spot;
static char gs_area[64];

void call_spot(const uint64_t (*xmm)[2], const uint64_t *regs, uint64_t *rsp);

__asm__(".globl spot\n.type spot, @function\nspot:\n\t.cfi_startproc\n"
	"\tnop\n\tnop\n\tnop\n\tnop\n\tnop\n\tret\n\t.cfi_endproc\n\t.size spot, .-spot\n"
	".globl call_spot\n.type call_spot, @function\ncall_spot:\n"
	"\tpush %rbx\n\tpush %rbp\n\tpush %r12\n\tpush %r13\n\tpush %r14\n\tpush %r15\n\t"
	"push %rdx\n"
	"\tlea -8(%rsp), %rax\n\tmov %rax, (%rdx)\n"
	"\tmovaps (%rdi), %xmm0\n\tmovaps 16(%rdi), %xmm1\n\tmovaps 32(%rdi), %xmm2\n\t"
	"movaps 48(%rdi), %xmm3\n"
	"\tmovaps 64(%rdi), %xmm4\n\tmovaps 80(%rdi), %xmm5\n\tmovaps 96(%rdi), %xmm6\n\t"
	"movaps 112(%rdi), %xmm7\n"
	"\tmovaps 128(%rdi), %xmm8\n\tmovaps 144(%rdi), %xmm9\n\tmovaps 160(%rdi), %xmm10\n\t"
	"movaps 176(%rdi), %xmm11\n"
	"\tmovaps 192(%rdi), %xmm12\n\tmovaps 208(%rdi), %xmm13\n\tmovaps 224(%rdi), %xmm14\n\t"
	"movaps 240(%rdi), %xmm15\n"
	"\tmov $0x80, %al\n\tadd $0x80, %al\n" /* carry, zero and overflow */
	"\tmov (%rsi), %rax\n\tmov 8(%rsi), %rcx\n\tmov 16(%rsi), %rdx\n\tmov 24(%rsi), %rbx\n\t"
	"mov 40(%rsi), %rbp\n\tmov 56(%rsi), %rdi\n"
	"\tmov 64(%rsi), %r8\n\tmov 72(%rsi), %r9\n\tmov 80(%rsi), %r10\n\tmov 88(%rsi), %r11\n\t"
	"mov 96(%rsi), %r12\n\tmov 104(%rsi), %r13\n"
	"\tmov 112(%rsi), %r14\n\tmov 120(%rsi), %r15\n\tmov 48(%rsi), %rsi\n"
	"\tcall spot\n"
	"\tpop %rdx\n\tpop %r15\n\tpop %r14\n\tpop %r13\n\tpop %r12\n\tpop %rbp\n\tpop %rbx\n\t"
	"ret\n\t.size call_spot, .-call_spot\n");

int main(void)
{
	uint64_t fs = 0;

	for (unsigned i = 0; i < 16; i++) {
		pairs[i][0] = 0x200 + i;
		pairs[i][1] = 0x300 + i;
		general[i] = 0x100 + i;
	}
	syscall(SYS_arch_prctl, ARCH_SET_GS, gs_area);
	syscall(SYS_arch_prctl, ARCH_GET_FS, &fs);
	call_spot(pairs, general, &at_spot);
	printf("%lx %lx %lx\n", at_spot, fs, (unsigned long)gs_area);
	return 0;
}
