/*
 * forms - calls functions of instructions that are hard to move (forms_code.S).
 *	forms [--calls N] [--interrupts N]
 * Prints each one's name and the sum of what it returned. With --interrupts a string instruction
 * runs until that many signals came amid it, after "go". forms_syscalls has functions that make
 * system calls, too; there, with --go-fd, a thread waits in `blocks`, in such a call, for a second
 * "go".
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <ucontext.h>

#include "handshake.h"

#define FORMS(X)                                                                                  \
	X(packed_1) X(packed_2) X(packed_3) X(packed_4) X(padded_1) X(padded_3) X(pops_pc)        \
	X(calls_register) X(counted) X(loops_to_start) X(locked) X(strings) X(flags) X(red_zone)  \
	X(table) X(prefixes)

#define DECLARE(name) int name(int);
FORMS(DECLARE)
DECLARE(avx)
DECLARE(avx512)
DECLARE(asks_kernel)
long fills(void *to, long size);
long blocks(int fd, void *to, long size);

static const struct {
	const char *name;
	int (*call)(int);
} forms[] = {
#define ROW(name) { #name, name },
	FORMS(ROW)
};

static void call(const char *name, int (*function)(int), long calls)
{
	long sum = 0;

	for (int i = 0; i < calls; i++) {
		int result = i, argument = i; /* some set no rax; none keeps the red zone */

		__asm__ volatile("sub $128, %%rsp\n\tcall *%[f]\n\tadd $128, %%rsp"
				 : "+a"(result), "+D"(argument)
				 : [f] "b"(function)
				 : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
		sum += result;
	}
	printf("%s %ld\n", name, sum);
}

static char filled[1 << 20];
static volatile long interrupts;

static void on_alarm(int number, siginfo_t *info, void *context)
{
	const greg_t *gregs = ((ucontext_t *)context)->uc_mcontext.gregs;
	uint64_t to = (uint64_t)gregs[REG_RDI] - (uint64_t)filled;

	/* amid it: what is done and what is left make up the whole */
	if (to > 0 && to < sizeof(filled) && to + (uint64_t)gregs[REG_RCX] == sizeof(filled))
		interrupts++;
}

static void fill_until(long count)
{
	struct sigaction action = { .sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO | SA_RESTART };
	struct itimerval often = { { 0, 300 }, { 0, 300 } };
	long calls = 0, wrong = 0;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (; interrupts < count; calls++) {
		memset(filled, 0, sizeof(filled));
		wrong += fills(filled, sizeof(filled)) != 0;
		for (size_t i = 0; i < sizeof(filled); i++)
			wrong += filled[i] != 0x5a;
	}
	setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, NULL);
	printf("fills %ld\nwrong %ld\n", calls, wrong);
}

#ifdef WITH_SYSCALLS
static void *block(void *fd)
{
	char byte = 0;

	return blocks((int)(intptr_t)fd, &byte, 1) == 1 ? "read" : "nothing";
}

static void use_syscalls(int argc, char **argv, long calls)
{
	int go = (int)handshake_option(argc, argv, "go-fd", -1);
	pthread_t thread;
	void *result;

	call("asks_kernel", asks_kernel, calls);
	if (go < 0)
		return;
	handshake(argc, argv);
	pthread_create(&thread, NULL, block, (void *)(intptr_t)go);
	pthread_join(thread, &result);
	printf("%s\n", (char *)result);
}
#else
static void use_syscalls(int argc, char **argv, long calls)
{
}
#endif

int main(int argc, char **argv)
{
	long calls = handshake_option(argc, argv, "calls", 100);
	long interrupts_wanted = handshake_option(argc, argv, "interrupts", 0);

	if (interrupts_wanted) {
		handshake(argc, argv);
		fill_until(interrupts_wanted);
		return 0;
	}
	for (size_t i = 0; i < sizeof(forms) / sizeof(*forms); i++)
		call(forms[i].name, forms[i].call, calls);
	if (__builtin_cpu_supports("avx2"))
		call("avx", avx, calls);
	if (__builtin_cpu_supports("avx512f"))
		call("avx512", avx512, calls);
	use_syscalls(argc, argv, calls);
	return 0;
}
