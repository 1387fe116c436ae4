/*
 * dispatched - a program that handles its own system calls, as Wine does (Syscall User Dispatch).
 *	dispatched [--calls N] [--rounds R] [--range libc|own] [--late 1] [--busy 1] [--heap 1]
 * From before "ready" on (--late: from the second round on) each system call of both its threads
 * is a SIGSYS, except for those from the range: all of the libc, or one function of the program's
 * own. Without a range, a byte allows all calls outside of the rounds. After each of R times "go"
 * both threads call foo() N times, and make a system call of their own after each tenth. Prints the
 * number of calls of foo, of those that the handler got, and of those that it didn't expect.
 * --busy: the second thread never sleeps, and its calls are never allowed by the byte. --heap: the
 * text that foo() gets is in the heap.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>

#include "foo.h"
#include "handshake.h"

#define SET_DISPATCH 59 /* PR_SET_SYSCALL_USER_DISPATCH */
#define GUEST 0x7000 /* number of the guest's call */
#define GUEST_RESULT 4711

static __thread volatile char selector;
static __thread int is_on;
static atomic_long expected, strange;
static atomic_long wanted, finished;
static long calls, rounds, ready, go;
static int has_range, busy;
static const char *text = FOO_TEXT;
static long (*call)(long, ...);
static uint64_t range_start, range_length;

long own_call(long number, ...);
long guest_call(long number);
extern char own_start[], own_end[];
__asm__(".text\n.globl own_call, guest_call, own_start, own_end\n"
	"own_start: own_call: mov %rdi,%rax; mov %rsi,%rdi; mov %rdx,%rsi; mov %rcx,%rdx; syscall; ret\n"
	"own_end: guest_call: mov %rdi,%rax; syscall; ret\n");

static void on_call(int signal, siginfo_t *info, void *data)
{
	ucontext_t *context = data;

	(void)signal;
	if (info->si_syscall == GUEST)
		atomic_fetch_add(&expected, 1);
	else
		atomic_fetch_add(&strange, 1);
	context->uc_mcontext.gregs[REG_RAX] = GUEST_RESULT;
	selector = 0; /* for the return */
}

static void begin(void)
{
	if (prctl(SET_DISPATCH, 1, range_start, range_length, &selector)) {
		perror("prctl");
		_exit(3);
	}
	is_on = 1;
	selector = has_range;
}

static void find_range(const char *what)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	uint64_t start, end;
	char line[512];

	has_range = what != NULL;
	call = what && !strcmp(what, "libc") ? syscall : own_call;
	if (what && !strcmp(what, "own")) {
		range_start = (uint64_t)own_start;
		range_length = (uint64_t)(own_end - own_start);
	}
	while (what && !strcmp(what, "libc") && fgets(line, sizeof(line), maps)) {
		if (strstr(line, "r-xp") && strstr(line, "/libc") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2) {
			range_start = start;
			range_length = end - start;
		}
	}
	fclose(maps);
}

static void call_all(void)
{
	for (long i = 0; i < calls; i++) {
		selector = is_on;
		if (foo((int)i, i, text) != 2 * i + (long)sizeof(FOO_TEXT) - 1)
			_exit(6);
		if (i % 10 == 9 && is_on && guest_call(GUEST) != GUEST_RESULT)
			_exit(7);
	}
	selector = is_on && has_range;
}

static void *work(void *late)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	if (!late)
		begin();
	selector = busy;
	atomic_store(&finished, 0);
	for (long round = 1;; round++) {
		while (atomic_load(&wanted) < round) {
			if (!busy)
				call(SYS_nanosleep, (long)&pause, 0, 0);
		}
		if (late && round == 2)
			begin();
		call_all();
		selector = busy;
		atomic_store(&finished, round);
	}
	return NULL;
}

static void keep_step(void)
{
	char byte = 'r';

	if ((ready >= 0 && call(SYS_write, ready, (long)&byte, 1) != 1) ||
	    (go >= 0 && call(SYS_read, go, (long)&byte, 1) < 0))
		_exit(5);
}

int main(int argc, char **argv)
{
	long late = handshake_option(argc, argv, "late", 0);
	const struct sigaction action = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO };
	const char *range = NULL;
	pthread_t thread;

	for (int i = 1; i + 1 < argc; i++)
		range = strcmp(argv[i], "--range") ? range : argv[i + 1];
	calls = handshake_option(argc, argv, "calls", 100);
	if (handshake_option(argc, argv, "heap", 0))
		text = strdup(FOO_TEXT);
	rounds = handshake_option(argc, argv, "rounds", 1);
	busy = (int)handshake_option(argc, argv, "busy", 0);
	ready = handshake_option(argc, argv, "ready-fd", -1);
	go = handshake_option(argc, argv, "go-fd", -1);
	find_range(range);
	sigaction(SIGSYS, &action, NULL);
	atomic_store(&finished, -1);
	if (pthread_create(&thread, NULL, work, late ? &late : NULL))
		return 2;
	while (atomic_load(&finished) < 0)
		usleep(1000);
	if (!late)
		begin();
	for (long round = 1; round <= rounds; round++) {
		keep_step();
		if (late && round == 2)
			begin();
		atomic_store(&wanted, round);
		call_all();
		while (atomic_load(&finished) < round)
			;
	}
	keep_step();
	selector = 0;
	printf("%ld %ld %ld\n", 2 * calls * rounds, atomic_load(&expected), atomic_load(&strange));
	fflush(stdout);
	_exit(0);
}
