/*
 * lookup.c - handlers of faults that look at the context: where the instruction is, and what its
 * registers hold. Built by the tests.
 *
 *	lookup N [late]		N times each fault; with `late`, waits for a line of input after the
 *				handlers are installed
 *
 * The handler skips the instruction, repairs its cause, continues elsewhere, or jumps out. Prints
 * how often it saw another address, or other registers, than the program's own.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define NOINLINE __attribute__((noinline))

enum fate { SKIP, REPAIR, ELSEWHERE, JUMP };

static sigjmp_buf out;
static const char *expected; /* address of the instruction */
static int expected_signal;
static enum fate fate;
static unsigned length; /* of the instruction */
static char *page; /* what REPAIR makes readable */
static long seen[32], wrong, registers_wrong;

#define MARK 0x1122334455667788

/*
 * Each function has its fault in its first instruction, in its middle, or behind pushes; r10 and
 * flags are set before. rdi is the argument.
 */
#define FUNCTION(name, before, at, instruction, behind)                                            \
	long name(long argument);                                                                  \
	extern const char at[], at##_next[];                                                       \
	__asm__(".text\n.globl " #name "\n.type " #name ", @function\n.balign 16\n" #name ":\n"    \
		"	.cfi_startproc\n" before #at ":\n	" instruction "\n" #at "_next:\n"        \
		behind "	ret\n	.cfi_endproc\n.size " #name ", . - " #name "\n")

FUNCTION(load_first, "", at_first, "mov (%rdi), %rax", "");
FUNCTION(load_second, "xor %eax, %eax\n", at_second, "mov (%rdi), %eax", "inc %eax\n");
FUNCTION(load_pushed, "push %rbx\n.cfi_adjust_cfa_offset 8\nmov $7, %ebx\n", at_pushed,
	 "mov (%rdi), %rax", "add %rbx, %rax\npop %rbx\n.cfi_adjust_cfa_offset -8\n");
FUNCTION(store_first, "", at_store, "movq $9, (%rdi)", "mov $3, %eax\n");
FUNCTION(divide, "mov $100, %eax\nxor %edx, %edx\n", at_divide, "div %edi", "inc %rax\n");
FUNCTION(illegal, "xor %eax, %eax\n", at_illegal, "ud2", "inc %rax\n");
FUNCTION(trap_own, "xor %eax, %eax\n", at_trap, "int3", "inc %rax\n");
FUNCTION(trap_first, "", at_trap_first, "int3", "inc %rax\n");
FUNCTION(call_bad, "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n", at_call, "call *(%rdi)",
	 "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n");

/* The functions as they are called: with a mark in a register that no function changes. */
static long call(long (*function)(long), long argument)
{
	register long mark __asm__("r13") = MARK;
	long result;

	__asm__ volatile("call *%[function]"
			 : "=a"(result), "+r"(mark), "+D"(argument)
			 : [function] "r"(function)
			 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
	registers_wrong += mark != MARK;
	return result;
}

NOINLINE long elsewhere(long argument)
{
	return argument ? -5 : -6;
}

static void on_fault(int number, siginfo_t *info, void *data)
{
	greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
	const char *rip = (const char *)registers[REG_RIP];

	seen[number]++;
	wrong += rip != (number == SIGTRAP ? expected + 1 : expected) || number != expected_signal;
	if (number == SIGFPE || number == SIGILL)
		wrong += info->si_addr != expected;
	registers_wrong += registers[REG_R13] != MARK;
	switch (fate) {
	case SKIP:
		registers[REG_RIP] = (greg_t)(expected + length);
		registers[REG_RAX] = 40;
		break;
	case REPAIR:
		mprotect(page, 4096, PROT_READ | PROT_WRITE);
		registers[REG_RDI] = (greg_t)page;
		break;
	case ELSEWHERE:
		registers[REG_RSP] -= number == SIGSEGV && expected == at_pushed ? -8 : 0;
		registers[REG_RIP] = (greg_t)elsewhere; /* which returns to the function's caller */
		break;
	case JUMP:
		siglongjmp(out, 2);
	}
}

static long sum;

static void try(long (*function)(long), const char *at, const char *next, int number, enum fate how)
{
	long bad = number == SIGFPE ? 0 : (long)page;
	int jumped = sigsetjmp(out, 1);

	mprotect(page, 4096, number == SIGFPE ? PROT_READ | PROT_WRITE : PROT_NONE);
	if (jumped) {
		sum = sum * 3 + jumped;
		return;
	}
	expected = at;
	expected_signal = number;
	length = (unsigned)(next - at);
	fate = how;
	sum = sum * 3 + call(function, bad) % 1000;
}

/* ---- stack overflow -------------------------------------------------------------------------- */

static char *limit;
static long overflows, overflows_wrong;
extern const char recurse_end[];

long recurse(long n);
__asm__(".text\n.globl recurse\n.type recurse, @function\n.balign 16\nrecurse:\n"
	"	.cfi_startproc\n"
	"	sub $24, %rsp\n	.cfi_adjust_cfa_offset 24\n"
	"	mov %rdi, 8(%rsp)\n"
	"	inc %rdi\n"
	"	call recurse\n"
	"	add $24, %rsp\n	.cfi_adjust_cfa_offset -24\n"
	"	ret\n	.cfi_endproc\nrecurse_end:\n.size recurse, . - recurse\n");

static void on_overflow(int number, siginfo_t *info, void *data)
{
	greg_t *registers = ((ucontext_t *)data)->uc_mcontext.gregs;
	const char *rip = (const char *)registers[REG_RIP];

	const char *address = info->si_addr;

	(void)number;
	overflows++;
	overflows_wrong += address < limit || address >= limit + 4096; /* Rust's and JVMs' look */
	overflows_wrong += rip < (const char *)recurse || rip >= recurse_end;
	registers_wrong += registers[REG_R13] != MARK;
	siglongjmp(out, 1);
}

/* On a stack of its own, with a page below it that can't be touched, at all alignments. */
static void overflow(unsigned shift)
{
	static char signal_stack[65536];
	stack_t alternate = { .ss_sp = signal_stack, .ss_size = sizeof(signal_stack) };
	struct sigaction action = { .sa_sigaction = on_overflow,
				    .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &action, NULL);
	if (sigsetjmp(out, 1))
		return;
	char *stack = limit + 4096 + 16384 - 16 * (shift % 64);
	register long mark __asm__("r13") = MARK;
	__asm__ volatile("mov %%rsp, %%r12\n	mov %[stack], %%rsp\n	call recurse\n	mov %%r12, %%rsp"
			 : "+r"(mark)
			 : [stack] "r"(stack), "D"(0)
			 : "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
}

static void install(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };
	static const int numbers[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction old;

		sigaction(numbers[i], &action, NULL);
		sigaction(numbers[i], NULL, &old);
		wrong += old.sa_sigaction != on_fault || !(old.sa_flags & SA_NODEFER);
	}
}

int main(int argc, char **argv)
{
	long count = argc > 1 ? atol(argv[1]) : 1;

	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	limit = mmap(NULL, 4096 + 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	mprotect(limit, 4096, PROT_NONE);
	install();
	if (argc > 2) {
		puts("ready");
		fflush(stdout);
		getchar();
	}
	for (long i = 0; i < count; i++) {
		install();
		for (int how = SKIP; how <= JUMP; how++) {
			try(load_first, at_first, at_first_next, SIGSEGV, how);
			try(load_second, at_second, at_second_next, SIGSEGV, how);
			try(load_pushed, at_pushed, at_pushed_next, SIGSEGV, how);
			try(store_first, at_store, at_store_next, SIGSEGV, how);
		}
		for (int how = SKIP; how <= JUMP; how += 3) {
			try(divide, at_divide, at_divide_next, SIGFPE, how);
			try(illegal, at_illegal, at_illegal_next, SIGILL, how);
			try(trap_own, at_trap, at_trap_next, SIGTRAP, how);
			try(trap_first, at_trap_first, at_trap_first_next, SIGTRAP, how);
			try(call_bad, at_call, at_call_next, SIGSEGV, how);
		}
		overflow((unsigned)i);
	}
	printf("sum %ld segv %ld fpe %ld ill %ld trap %ld overflows %ld wrong %ld %ld %ld\n", sum,
	       seen[SIGSEGV], seen[SIGFPE], seen[SIGILL], seen[SIGTRAP], overflows, wrong,
	       registers_wrong, overflows_wrong);
	return wrong || registers_wrong || overflows_wrong;
}
