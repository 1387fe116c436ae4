/*
 * states.c - changes its signal masks, handlers, alternate stacks, stacks, threads and processes at
 * random, and calls take() between with pointers to memory that is there, that went away, or that
 * never was. Prints what it sees of itself. A tracer changes nothing of that.
 *
 * "E NUMBER TEXT" stands before a call: what a tracer has to find there; "-": it can't be read.
 *
 * --seed N: of the choices. --steps N: at the uppermost level.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "handshake.h"

#define PAGE 4096
#define COUNT(of) (sizeof(of) / sizeof((of)[0]))
#define DEPTH 3
#define VARIABLES 64
#define STACK_SIZE 65536
#define MADV_GUARD 102 /* MADV_GUARD_INSTALL */
#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

extern char **environ;
static uint64_t seed;
static __thread int depth, in_handler;
static long serial;
static char *bad;
static sigjmp_buf way_out;
static __thread int way_out_is_set;

__attribute__((noipa)) void take(const char *text, long number)
{
	__asm__ volatile("nop; nop; nop; nop; nop" : : "r"(text), "r"(number) : "memory");
}

static void say(const char *format, ...)
{
	char line[256];
	va_list list;

	va_start(list, format);
	int length = vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	if (write(1, line, (size_t)length) != length)
		_exit(4);
}

static unsigned pick(unsigned below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 20) % below;
}

static void call(const char *text, const char *expected)
{
	long number = ++serial;

	say("E %ld %s\n", number, expected);
	take(text, number);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static char *fresh(const char *text)
{
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		_exit(5);
	strcpy(page, text);
	return page;
}

static char *of_file(int fd)
{
	char *page =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, pick(2) ? MAP_SHARED : MAP_PRIVATE, fd, 0);

	if (page == MAP_FAILED)
		_exit(5);
	return page;
}

static char variables[VARIABLES][PAGE] __attribute__((aligned(PAGE)));
static unsigned next_variable;

enum how { CUT, OF_PROGRAM, PROTECTED, PROTECTED_TOO, GUARDED, UNMAPPED, MOVED, REPLACED, HOWS };
static const char *const texts[HOWS] = { "cut",	 "variable", "heap", "heap",
					 "heap", "heap",     "heap", "heap" };

static char *get(enum how how, int *ret_fd)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	*ret_fd = -1;
	if (how == OF_PROGRAM) {
		char *page = variables[next_variable++ % VARIABLES];

		mmap(page, PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
		return strcpy(page, texts[how]);
	}
	if (how != CUT)
		return fresh(texts[how]);
	*ret_fd = memfd_create("gone", MFD_CLOEXEC);
	if (*ret_fd < 0 || ftruncate(*ret_fd, PAGE) || pwrite(*ret_fd, "cut", 4, 0) != 4)
		_exit(5);
	return of_file(*ret_fd);
}

static void spoil(char *page, enum how how, int fd)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;

	switch (how) {
	case CUT:
		if (ftruncate(fd, 0))
			_exit(5);
		break;
	case GUARDED:
		if (!madvise(page, PAGE, MADV_GUARD))
			break;
		__attribute__((fallthrough)); /* an older kernel */
	case UNMAPPED:
		munmap(page, PAGE);
		break;
	case MOVED:
		mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, fresh(""));
		break;
	case REPLACED:
		mmap(page, PAGE, PROT_NONE, flags, -1, 0);
		break;
	default:
		mprotect(page, PAGE, PROT_NONE);
	}
}

/* Memory that can be read, and then can't. */
static void gone(void)
{
	enum how how = pick(HOWS);
	unsigned before = pick(4), after = 1 + pick(2);
	int fd;
	char *page = get(how, &fd);

	for (unsigned i = 0; i < before; i++)
		call(page, texts[how]);
	spoil(page, how, fd);
	for (unsigned i = 0; i < after; i++)
		call(page, "-");
	if (how == OF_PROGRAM)
		mprotect(page, PAGE, PROT_READ);
	else if (how != UNMAPPED && how != MOVED)
		munmap(page, PAGE);
	if (fd >= 0)
		close(fd);
}

static void takes(void)
{
	char local[20];

	switch (pick(8)) {
	case 0:
		call("a literal", "a literal");
		break;
	case 1:
		call(NULL, "(null)");
		break;
	case 2:
		call((char *)(long)(1 + pick(4000)), "-");
		break;
	case 3:
		call((char *)(1UL << 63 | pick(1 << 20)), "-");
		break;
	case 4:
		snprintf(local, sizeof(local), "local %u", pick(100));
		call(local, local);
		break;
	default:
		gone();
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

static const int numbers[] = { SIGSEGV, SIGBUS, SIGUSR1, SIGUSR2, SIGFPE, SIGTRAP };

static unsigned long bits_of(const sigset_t *set)
{
	unsigned long bits = 0;

	for (int i = 1; i < 65; i++)
		bits |= (unsigned long)(sigismember(set, i) == 1) << (i - 1);
	return bits;
}

static sigset_t some_set(void)
{
	sigset_t set;

	sigemptyset(&set);
	if (pick(5) == 0)
		sigfillset(&set);
	else
		for (size_t i = 0; i < COUNT(numbers); i++)
			if (pick(3) == 0)
				sigaddset(&set, numbers[i]);
	return set;
}

static unsigned long mask_now(void)
{
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	return bits_of(&set);
}

static int is_blocked(int number)
{
	return (int)(mask_now() >> (number - 1) & 1);
}

static void change_mask(void)
{
	sigset_t set = some_set(), old;
	int how = (int)pick(3);

	int result = pick(2) ? pthread_sigmask(how, &set, &old) :
			       (int)syscall(SYS_rt_sigprocmask, how, &set, &old, 8);
	say("mask %d: %d %lx %lx\n", how, result, bits_of(&old) & 0x7fffffff, mask_now());
}

static void steps(unsigned count);

static void handler(int number, siginfo_t *info, void *data)
{
	ucontext_t *context = data;
	long address = info->si_code > 0 ? (char *)info->si_addr - bad : -1;

	say("handler %d code %d address %ld mask %lx before %lx stack %x\n", number, info->si_code,
	    address, mask_now(), context->uc_sigmask.__val[0], context->uc_stack.ss_flags);
	in_handler++;
	if (depth < DEPTH)
		steps(1 + pick(3));
	in_handler--;
	if (info->si_code > 0) {
		if (way_out_is_set && pick(2))
			siglongjmp(way_out, 1);
		mprotect(bad, PAGE, PROT_READ | PROT_WRITE);
	}
	say("handler ends\n");
}

static void simple(int number)
{
	say("simple %d mask %lx\n", number, mask_now());
	in_handler++;
	if (depth < DEPTH)
		steps(1 + pick(2));
	in_handler--;
	if (number == SIGSEGV)
		mprotect(bad, PAGE, PROT_READ | PROT_WRITE);
}

static int name_of(const struct sigaction *action)
{
	return action->sa_handler == SIG_DFL   ? 0 :
	       action->sa_handler == SIG_IGN   ? 1 :
	       action->sa_handler == simple    ? 2 :
	       action->sa_sigaction == handler ? 3 :
						 4;
}

static void change_action(void)
{
	int number = numbers[pick(COUNT(numbers))];
	struct sigaction action = { .sa_flags = 0 }, old;
	unsigned what = pick(8);

	action.sa_flags = (pick(2) ? SA_ONSTACK : 0) | (pick(3) ? 0 : SA_NODEFER) |
			  (pick(4) ? 0 : (int)SA_RESETHAND) | (pick(2) ? SA_RESTART : 0);
	if (pick(2) == 0)
		action.sa_mask = some_set();
	if (what == 0)
		action.sa_handler = SIG_DFL;
	else if (what == 1 && number != SIGSEGV && number != SIGBUS)
		action.sa_handler = SIG_IGN;
	else if (what < 4)
		action.sa_handler = simple;
	else
		action.sa_sigaction = handler, action.sa_flags |= SA_SIGINFO;
	int result = sigaction(number, &action, &old);
	say("action %d: %d was %d flags %x mask %lx\n", number, result, name_of(&old), old.sa_flags,
	    bits_of(&old.sa_mask) & 0x7fffffff);
}

static int has_handler(int number)
{
	struct sigaction action;

	sigaction(number, NULL, &action);
	return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

static void change_stack(void)
{
	static char memory[8][STACK_SIZE];
	static unsigned next;
	stack_t new = { .ss_sp = memory[next++ % 8],
			.ss_size = pick(4) ? STACK_SIZE : STACK_SIZE / 2 },
		old = { 0 };
	unsigned what = pick(5);

	if (what == 0)
		new = (stack_t){ .ss_flags = SS_DISABLE };
	if (what == 1)
		new.ss_flags = (int)SS_AUTODISARM;
	int result = sigaltstack(&new, &old);
	say("stack: %d was %x %zu\n", result ? errno : 0, old.ss_flags, old.ss_size);
}

static void raise_one(void)
{
	int number = numbers[pick(5)];

	if (in_handler > 1 || !has_handler(number) || is_blocked(number))
		return;
	if (number == SIGSEGV && pick(2))
		return;
	say("raise %d\n", number);
	raise(number);
	say("raised\n");
}

/* Two that come together: the second one's handler begins before the first one's does anything.
 * (Not SIGFPE: one whose handler is changed there gets the new one under a tracer.) */
static void raise_two(void)
{
	int first = numbers[pick(4)], second = numbers[pick(4)];
	sigset_t both, old;

	if (in_handler > 1 || first == second || !has_handler(first) || !has_handler(second) ||
	    is_blocked(first) || is_blocked(second))
		return;
	sigemptyset(&both);
	sigaddset(&both, first);
	sigaddset(&both, second);
	pthread_sigmask(SIG_BLOCK, &both, &old);
	say("raise %d and %d\n", first, second);
	raise(first);
	raise(second);
	takes();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	say("raised both, mask %lx\n", mask_now());
}

static void fault(void)
{
	if (in_handler || !has_handler(SIGSEGV) || is_blocked(SIGSEGV))
		return;
	mprotect(bad, PAGE, PROT_NONE);
	way_out_is_set = 1;
	int jumped = sigsetjmp(way_out, 1);
	if (!jumped)
		*(volatile char *)bad = 1;
	else
		in_handler = 0;
	way_out_is_set = 0;
	mprotect(bad, PAGE, PROT_READ | PROT_WRITE);
	say("fault: jumped %d mask %lx\n", jumped, mask_now());
}

static void wait_for_sent(void)
{
	int number = numbers[pick(3)];
	sigset_t set, old;
	siginfo_t info = { 0 };
	struct signalfd_siginfo read_info = { 0 };

	if (in_handler)
		return;
	sigemptyset(&set);
	sigaddset(&set, number);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	pthread_sigqueue(pthread_self(), number, (union sigval){ .sival_int = 7 });
	takes();
	if (pick(2)) {
		int result = sigwaitinfo(&set, &info);
		say("waited %d: code %d value %d\n", result, info.si_code, info.si_value.sival_int);
	} else {
		int fd = signalfd(-1, &set, SFD_CLOEXEC);
		ssize_t got = read(fd, &read_info, sizeof(read_info));
		say("read %zd: %u code %d value %d\n", got, read_info.ssi_signo, read_info.ssi_code,
		    read_info.ssi_int);
		close(fd);
	}
	takes();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* A handler in a wait with another mask. */
static void wait_with_mask(void)
{
	sigset_t all, none, old;
	unsigned how = pick(3);
	int result;

	if (in_handler || !has_handler(SIGUSR1))
		return;
	sigfillset(&all);
	none = some_set();
	sigdelset(&none, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	raise(SIGUSR1);
	if (how == 0)
		result = sigsuspend(&none);
	else if (how == 1)
		result = ppoll(NULL, 0, NULL, &none);
	else
		result = pselect(0, NULL, NULL, NULL, NULL, &none);
	say("wait %u: %d mask %lx\n", how, result, mask_now());
	takes();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- processes, threads, stacks -------------------------------------------------------------- */

static void fork_one(void)
{
	int status = -1;

	if (depth > 1)
		return;
	pid_t pid = fork();
	if (!pid) {
		serial += 1000000;
		steps(1 + pick(6));
		_exit((int)pick(100));
	}
	waitpid(pid, &status, 0);
	serial += 10000000;
	say("forked: %d\n", status);
}

static void vfork_one(void)
{
	int status = -1;

	if (in_handler)
		return;
	pid_t pid = vfork();
	if (!pid) {
		if (pick(2))
			change_mask();
		if (pick(2))
			change_action();
		takes();
		takes();
		_exit(3);
	}
	waitpid(pid, &status, 0);
	say("vforked: %d mask %lx\n", status, mask_now());
}

static void spawn_one(void)
{
	char *words[] = { "true", NULL };
	int status = -1;
	pid_t pid = 0;

	int result = posix_spawnp(&pid, "true", NULL, NULL, words, environ);
	waitpid(pid, &status, 0);
	say("spawned: %d %d\n", result, status);
}

static void *in_thread(void *data)
{
	depth = (int)(long)data;
	say("thread mask %lx\n", mask_now());
	steps(1 + pick(6));
	return NULL;
}

static void thread_one(void)
{
	pthread_t thread;

	if (in_handler || pthread_create(&thread, NULL, in_thread, (void *)(long)(depth + 1)))
		return;
	pthread_join(thread, NULL);
	say("joined\n");
}

static ucontext_t here[DEPTH + 2], there[DEPTH + 2];

static void in_coroutine(void)
{
	int at = depth;

	steps(1 + pick(3));
	swapcontext(&there[at], &here[at]);
	steps(1 + pick(3));
}

static void coroutine(void)
{
	static char still[DEPTH + 2][2 * STACK_SIZE];
	int at = depth;
	char *memory = pick(2) ? still[at] : malloc(2 * STACK_SIZE);

	if (in_handler || at != depth)
		return;
	getcontext(&there[at]);
	there[at].uc_stack.ss_sp = memory;
	there[at].uc_stack.ss_size = 2 * STACK_SIZE;
	there[at].uc_link = &here[at];
	makecontext(&there[at], in_coroutine, 0);
	swapcontext(&here[at], &there[at]);
	say("between, mask %lx\n", mask_now());
	if (pick(2))
		change_mask();
	takes();
	swapcontext(&here[at], &there[at]);
	say("after, mask %lx\n", mask_now());
}

static ucontext_t stayed, aside;

static void in_aside(void)
{
	for (unsigned i = 1 + pick(3); i; i--)
		takes();
}

/* A handler goes to a stack that has no room for a signal's frame, and comes back. */
static void go_aside(void)
{
	static char pages[2 * PAGE] __attribute__((aligned(PAGE)));

	if (!in_handler)
		return;
	mprotect(pages, PAGE, PROT_NONE);
	getcontext(&aside);
	aside.uc_stack.ss_sp = pages + PAGE;
	aside.uc_stack.ss_size = PAGE;
	aside.uc_link = &stayed;
	makecontext(&aside, in_aside, 0);
	swapcontext(&stayed, &aside);
}

static void again(void)
{
	ucontext_t context;
	volatile int turns = 0;

	if (in_handler)
		return;
	getcontext(&context);
	takes();
	if (!turns++) {
		change_mask();
		setcontext(&context);
	}
	say("again, mask %lx\n", mask_now());
}

static void (*const ways[])(void) = {
	takes,	       takes,	      takes,	      takes,	 change_mask, change_mask,
	change_action, change_action, change_stack,   raise_one, raise_two,   fault,
	fault,	       wait_for_sent, wait_with_mask, fork_one,	 vfork_one,   spawn_one,
	thread_one,    thread_one,    coroutine,      coroutine, again,	      go_aside,
	go_aside,
};

static void steps(unsigned count)
{
	depth++;
	while (depth <= DEPTH && count-- > 0)
		ways[pick(COUNT(ways))]();
	depth--;
}

int main(int argc, char **argv)
{
	seed = (uint64_t)handshake_option(argc, argv, "seed", 1) * 0x9e3779b97f4a7c15 + 1;
	bad = fresh("bad");
	for (int i = 0; i < 8; i++)
		pick(2);
	handshake(argc, argv);
	steps((unsigned)handshake_option(argc, argv, "steps", 60));
	say("end, mask %lx\n", mask_now());
	return 0;
}
