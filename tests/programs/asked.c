/*
 * asked.c - asks the kernel again and again for its own handlers of SIGSEGV and SIGTRAP. Built by
 * the tests, with several libcs; with -DOWN it asks by a `syscall` instruction of its own.
 *
 * Calls work() and lone() meanwhile, until its input ends. Prints how often it was told of another
 * handler.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define TURNS 20
#define PAUSE_NS 50000 /* between questions: no trap is placed while a thread asks */

long work(long x);
__attribute__((noinline, noclone)) long work(long x)
{
	__asm__ volatile("" : "+r"(x));
	return 3 * x;
}

/* One byte, with something directly behind it that is jumped to: a probe there is a trap. */
void lone(void);
__asm__(".text\n .fill 200, 1, 0xf4\n"
	".globl lone\n .type lone, @function\n lone: .cfi_startproc\n ret\n .cfi_endproc\n"
	" .size lone, . - lone\n"
	".globl behind\n .type behind, @function\n behind: .cfi_startproc\n"
	" .byte 5, 0, 0, 0, 0\n" /* add $0, %eax */
	"ret\n .cfi_endproc\n .size behind, . - behind\n .fill 200, 1, 0xf4\n"
	".globl to_behind\n .type to_behind, @function\n to_behind: .cfi_startproc\n jmp behind\n"
	" .cfi_endproc\n .size to_behind, . - to_behind\n");

static void handle(int signal, siginfo_t *info, void *context)
{
}

#ifdef OWN
/* the kernel's struct sigaction */
struct action {
	void *handler;
	unsigned long flags;
	void *restorer;
	unsigned long mask;
};

static void *ask(int signal)
{
	register long size __asm__("r10") = 8;
	struct action action;
	long result;

	__asm__ volatile("mov $13, %%eax\n syscall"
			 : "=a"(result)
			 : "D"((long)signal), "S"(0L), "d"(&action), "r"(size)
			 : "rcx", "r11", "memory");
	return result ? NULL : action.handler;
}
#else
static void *ask(int signal)
{
	struct sigaction action;

	return sigaction(signal, NULL, &action) ? NULL : (void *)action.sa_sigaction;
}
#endif

int main(void)
{
	struct sigaction action = { .sa_sigaction = handle, .sa_flags = SA_SIGINFO };
	struct pollfd input = { .events = POLLIN };
	long asked = 0, wrong = 0;

	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	puts("ready");
	fflush(stdout);
	do {
		for (long i = 0; i < TURNS; i++) {
			nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
			if (work(i) != 3 * i)
				return 3;
			lone();
			wrong += ask(SIGSEGV) != (void *)handle;
			wrong += ask(SIGTRAP) != (void *)handle;
			asked += 2;
		}
	} while (poll(&input, 1, 0) == 0);
	printf("%ld wrong, asked: %d\n", wrong, asked > 0);
	return 0;
}
