/*
 * gone.c - gives take() pointers to memory that goes away, in every state of its signals, and says
 * what it saw of its own masks and handlers. A tracer changes nothing of the output.
 *
 * --end 1: dies of a fault in the end; 2: of a fault in a handler of that signal; 3: of a signal
 * that it sends itself. --closed 1: a handler blocks all signals.
 */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "handshake.h"

#define PAGE 4096
#define TURNS 2000
#define LENGTHS 200

extern char **environ;
static long hits;

__attribute__((noipa)) long take(const char *text, long where)
{
	__asm__ volatile("" ::: "memory");
	__atomic_fetch_add(&hits, 1, __ATOMIC_RELAXED);
	return where + (text != NULL);
}

static void say(const char *what, long number)
{
	char line[128];
	int length = snprintf(line, sizeof(line), "%s: %ld\n", what, number);

	if (write(1, line, (size_t)length) != length)
		_exit(4);
}

static char *map(int fd)
{
	int flags = fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
	char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (page == MAP_FAILED)
		_exit(5);
	strcpy(page, "here");
	return page;
}

/* Memory that can be read, and then can't: protected, or cut from its file. */
static void gone(long where)
{
	int fd = memfd_create("gone", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, PAGE))
		_exit(5);
	char *page = map(-1), *cut = map(fd);
	for (int i = 0; i < 4; i++) {
		take(page, where);
		take(cut, where);
	}
	if (mprotect(page, PAGE, PROT_NONE) || ftruncate(fd, 0))
		_exit(5);
	take(page, -where);
	take(cut, -where);
	munmap(page, PAGE);
	munmap(cut, PAGE);
	close(fd);
}

static unsigned long mask_now(void)
{
	sigset_t set;
	unsigned long bits = 0;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (int i = 1; i < 65; i++)
		bits |= (unsigned long)(sigismember(&set, i) == 1) << (i - 1);
	return bits;
}

static void set_all(int how)
{
	sigset_t set;

	sigfillset(&set);
	pthread_sigmask(how, &set, NULL);
}

static void handle(int number, int flags, void (*handler)(int, siginfo_t *, void *), int more)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigemptyset(&action.sa_mask);
	if (more > 0)
		sigaddset(&action.sa_mask, more);
	else if (more < 0)
		sigfillset(&action.sa_mask);
	if (sigaction(number, &action, NULL))
		_exit(6);
}

static void (*own_handler(int number))(int)
{
	struct sigaction action;

	sigaction(number, NULL, &action);
	return action.sa_handler;
}

/* ---- masks ----------------------------------------------------------------------------------- */

static void with_masks(void)
{
	set_all(SIG_BLOCK);
	gone(2);
	say("blocked", (long)mask_now());
	set_all(SIG_UNBLOCK);
	gone(3);
	say("open", (long)mask_now());
}

static void in_wait(int number, siginfo_t *info, void *context)
{
	gone(4);
	gone(4);
}

/* All signals are blocked, but while it waits. */
static void with_wait(void)
{
	sigset_t none;

	sigemptyset(&none);
	handle(SIGUSR2, 0, in_wait, 0);
	set_all(SIG_BLOCK);
	raise(SIGUSR2);
	sigsuspend(&none);
	gone(5);
	raise(SIGUSR2);
	ppoll(NULL, 0, NULL, &none);
	gone(5);
	raise(SIGUSR2);
	pselect(0, NULL, NULL, NULL, NULL, &none);
	gone(5);
	say("after waits", (long)mask_now());
	set_all(SIG_UNBLOCK);
	gone(6);
}

static void *born_blocked(void *unused)
{
	gone(7);
	say("born", (long)mask_now());
	set_all(SIG_UNBLOCK);
	gone(8);
	gone(8);
	set_all(SIG_BLOCK);
	gone(9);
	return NULL;
}

static void with_thread(void)
{
	pthread_t thread;

	set_all(SIG_BLOCK);
	pthread_create(&thread, NULL, born_blocked, NULL);
	pthread_join(thread, NULL);
	set_all(SIG_UNBLOCK);
	gone(10);
}

/* ---- handlers of its own --------------------------------------------------------------------- */

static char *bad;
static sigjmp_buf way_out;

static void mend(int number, siginfo_t *info, void *context)
{
	say("handler", number);
	say("its mask", (long)mask_now());
	say("its address", (char *)info->si_addr - bad);
	say("before", (long)((ucontext_t *)context)->uc_sigmask.__val[0]);
	gone(11);
	mprotect(bad, PAGE, PROT_READ | PROT_WRITE);
}

static void jump(int number, siginfo_t *info, void *context)
{
	say("jumps", number);
	siglongjmp(way_out, 1);
}

static void touch(void)
{
	mprotect(bad, PAGE, PROT_NONE);
	*(volatile char *)bad = 1;
}

static void try(int flags, int more)
{
	handle(SIGSEGV, flags, mend, more);
	touch();
	say("is its own", (void *)own_handler(SIGSEGV) == (void *)mend);
	gone(12);
	gone(12);
}

static void with_handlers(void)
{
	bad = map(-1);
	try(0, 0);
	try(SA_NODEFER, SIGBUS);
	try(0, -1);
	try(SA_RESETHAND, 0);
	say("is default", own_handler(SIGSEGV) == SIG_DFL);
	handle(SIGSEGV, 0, jump, 0);
	if (!sigsetjmp(way_out, 1))
		touch();
	gone(13);
	gone(13);
	signal(SIGSEGV, SIG_DFL);
	gone(14);
}

/* The kernel takes this alternate stack, but it has no room for a frame. */
static void with_small_stack(void)
{
	static char memory[65536] __attribute__((aligned(64)));
	stack_t small = { .ss_sp = memory + 32768, .ss_size = 2048 };
	stack_t none = { .ss_flags = SS_DISABLE };
	long written = 0;

	memset(memory, 0x5a, sizeof(memory));
	handle(SIGSEGV, SA_ONSTACK, jump, 0);
	handle(SIGBUS, SA_ONSTACK, jump, 0);
	sigaltstack(&small, NULL);
	gone(15);
	gone(15);
	sigaltstack(&none, NULL);
	gone(16);
	for (int i = 0; i < 32768; i++)
		written += memory[i] != 0x5a;
	say("written below", written);
	signal(SIGSEGV, SIG_DFL);
	signal(SIGBUS, SIG_DFL);
}

/* ---- processes ------------------------------------------------------------------------------- */

static void wait_for(const char *what, pid_t pid)
{
	int status = -1;

	waitpid(pid, &status, 0);
	say(what, status);
}

static void with_children(void)
{
	char *words[] = { "true", NULL };
	pid_t pid = fork();

	if (!pid) {
		gone(17);
		gone(17);
		handle(SIGSEGV, 0, jump, 0);
		gone(17);
		signal(SIGSEGV, SIG_DFL);
		gone(17);
		_exit((int)(hits & 1));
	}
	wait_for("forked", pid);
	pid = vfork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		gone(18);
		gone(18);
		set_all(SIG_BLOCK);
		gone(18);
		_exit(0);
	}
	wait_for("vforked", pid);
	gone(19);
	if (posix_spawnp(&pid, "true", NULL, NULL, words, environ))
		_exit(7);
	wait_for("spawned", pid);
	gone(20);
}

/* ---- another thread -------------------------------------------------------------------------- */

static volatile int over;

static void *flip(void *page)
{
	while (!over) {
		mprotect(page, PAGE, PROT_NONE);
		mprotect(page, PAGE, PROT_READ);
	}
	return NULL;
}

static void with_another_thread(void)
{
	char *page = map(-1);
	pthread_t thread;

	pthread_create(&thread, NULL, flip, page);
	for (int i = 0; i < TURNS; i++)
		take(page, 21);
	over = 1;
	pthread_join(thread, NULL);
}

/* Texts up to the end of readable memory, with their NUL there and without; some have a character
 * of two bytes. */
static void with_edges(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	char *end = pages + PAGE;

	mprotect(end, PAGE, PROT_NONE);
	for (int length = 0; length < LENGTHS; length++) {
		char *text = end - 1 - length;

		for (int i = 0; i <= length; i++)
			text[i] = (char)('a' + (i + length) % 26);
		if (length % 3 == 2 && length > 3)
			memcpy(text + length / 2, "\xc3\xa4", 2);
		end[-1] = 0;
		take(text, 1000 + length);
		take(text, 1000 + length);
		end[-1] = 'z';
		take(text, 2000 + length);
		take(text, 2000 + length);
	}
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void nothing(int number, siginfo_t *info, void *context)
{
	gone(22);
	gone(22);
}

static void fault(int number, siginfo_t *info, void *context)
{
	say("faults again", number);
	*(volatile char *)bad = 1;
}

static void die(long how)
{
	mprotect(bad, PAGE, PROT_NONE);
	if (how == 2)
		handle(SIGSEGV, 0, fault, 0);
	if (how == 3)
		raise(SIGSEGV);
	*(volatile char *)bad = 1;
}

int main(int argc, char **argv)
{
	handshake(argc, argv);
	gone(1);
	gone(1);
	say("is default", own_handler(SIGSEGV) == SIG_DFL && own_handler(SIGBUS) == SIG_DFL);
	with_masks();
	with_wait();
	with_thread();
	with_handlers();
	with_small_stack();
	with_children();
	with_another_thread();
	with_edges();
	if (handshake_option(argc, argv, "closed", 0)) {
		handle(SIGUSR1, 0, nothing, -1);
		raise(SIGUSR1);
		raise(SIGUSR1);
		gone(23);
	}
	say("hits", hits);
	handshake(argc, argv);
	if (handshake_option(argc, argv, "end", 0))
		die(handshake_option(argc, argv, "end", 0));
	return 0;
}
