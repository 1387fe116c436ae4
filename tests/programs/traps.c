/*
 * traps - a function of one byte between others, and all that a program can do to SIGTRAP.
 *	traps [--calls N] [--handler 1] [--user-handler 1] [--fault-handler 1] MODE...
 * For each MODE, after the handshake, does what it says and calls lone() N times there. Prints
 * "MODE ok". The mode `meets` is another handshake.
 */
#include <dlfcn.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "handshake.h"
#include "lone.h"

int behind(int x);

/* The same with bytes that make a jump to where nothing is. */
void hop(void);
__asm__(".globl hop\n .type hop, @function\n hop: .cfi_startproc\n ret\n .cfi_endproc\n"
	" .size hop, . - hop\n"
	".globl behind_hop\n .type behind_hop, @function\n behind_hop: .cfi_startproc\n"
	" mov $0x40, %al\n .byte 0x48, 0xb9\n"
	".quad 0x4948474645444342\n jmp behind_hop\n .cfi_endproc\n"
	" .size behind_hop, . - behind_hop\n .fill 200, 1, 0xf4\n");

static int count;
static char **arguments; /* of main */
static long calls;
static volatile sig_atomic_t own, handled;
static sigjmp_buf place;

static void work(void)
{
	for (long i = 0; i < calls; i++)
		lone();
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	own++;
	work(); /* a handler may run into a trap itself */
}

static void on_user(int number)
{
	work();
	handled++;
}

static void take_trap(void)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO }, old;

	sigfillset(&action.sa_mask);
	if (sigaction(SIGTRAP, &action, NULL) || sigaction(SIGTRAP, NULL, &old) ||
	    old.sa_sigaction != on_trap)
		exit(10);
}

static void take_user(void)
{
	struct sigaction action = { .sa_handler = on_user };

	sigfillset(&action.sa_mask);
	if (sigaction(SIGUSR1, &action, NULL))
		exit(11);
}

static void send_user(void)
{
	sigset_t user;

	sigemptyset(&user);
	sigaddset(&user, SIGUSR1);
	sigprocmask(SIG_BLOCK, &user, NULL);
	raise(SIGUSR1);
}

static void *in_thread(void *unused)
{
	work();
	return NULL;
}

static int run_child(pid_t child)
{
	int status;

	return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

/* ---- the modes, each 0 if all went well ------------------------------------------------------ */

static int plain(void)
{
	work();
	return 0;
}

static int masked(void)
{
	sigset_t all, old;

	sigfillset(&all);
	if (pthread_sigmask(SIG_BLOCK, &all, &old))
		return 1;
	work();
	sigsetjmp(place, 1);
	if (syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, 8))
		return 2;
	work();
	return pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int handler(void)
{
	int before = own;

	take_trap();
	work();
	__asm__ volatile("int3");
	raise(SIGTRAP);
	return own == before + 2 ? 0 : 3;
}

static int ignored(void)
{
	if (signal(SIGTRAP, SIG_IGN) == SIG_ERR)
		return 4;
	raise(SIGTRAP); /* nothing happens */
	work();
	return signal(SIGTRAP, SIG_DFL) == SIG_IGN ? 0 : 5;
}

/* Waits with all signals blocked but one, whose handler runs into the trap. */
static int suspended(void)
{
	struct timespec soon = { .tv_sec = 5 };
	struct epoll_event event;
	sigset_t most;
	int fd = epoll_create1(0), before = handled;

	take_user();
	sigfillset(&most);
	sigdelset(&most, SIGUSR1);
	send_user();
	sigsuspend(&most);
	send_user();
	ppoll(NULL, 0, &soon, &most);
	send_user();
	pselect(0, NULL, NULL, NULL, &soon, &most);
	send_user();
	epoll_pwait(fd, &event, 1, 5000, &most);
	close(fd);
	return handled == before + 4 ? 0 : 6;
}

static int threads(void)
{
	pthread_t thread[4];

	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, in_thread, NULL))
			return 7;
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

static int forked(void)
{
	pid_t child = fork();

	if (child == 0) {
		work();
		_exit(masked());
	}
	return run_child(child);
}

/* As interpreters do it: everything blocked, actions reset in a child that shares the memory. */
static int vforked(void)
{
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	pid_t child = vfork();
	if (child == 0) {
		signal(SIGTRAP, SIG_DFL);
		lone();
		execl("/bin/true", "true", NULL);
		_exit(8);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	int status = run_child(child);
	char *command[] = { "true", NULL };
	if (status || posix_spawn(&child, "/bin/true", NULL, NULL, command, NULL) ||
	    run_child(child))
		return 9;
	work();
	return system("true");
}

/* A library that is loaded now, and blocks all signals by a system call of its own: --library's, in
 * the environment. */
static int plugged(void)
{
	void *library = dlopen(getenv("TRAPS_LIBRARY"), RTLD_NOW);
	void (*block)(void) = library ? (void (*)(void))dlsym(library, "block_all") : NULL;

	if (!block)
		return 30;
	block();
	work();
	return 0;
}

/* Whoever returns from a signal handler is killed. */
static int sandboxed(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		return 31;
	work();
	return 0;
}

static void on_interrupt(int number)
{
	lone();
	handled++;
}

static pthread_t interrupted_thread;
static volatile int is_over;

static void *send_interrupts(void *unused)
{
	while (!is_over)
		pthread_kill(interrupted_thread, SIGUSR1);
	return NULL;
}

/* Signals come at any moment, also while a trap's own signal is handled, and run into the trap. */
static int interrupted(void)
{
	struct sigaction action = { .sa_handler = on_interrupt };
	pthread_t thread;

	interrupted_thread = pthread_self();
	sigaction(SIGUSR1, &action, NULL);
	if (pthread_create(&thread, NULL, send_interrupts, NULL))
		return 40;
	for (int i = 0; i < 20000 || !handled; i++)
		lone();
	is_over = 1;
	pthread_join(thread, NULL);
	return 0;
}

static void on_end(int number)
{
	is_over = 1;
}

/* Gives SIGTRAP its default action again and again, and calls lone(); until SIGUSR2 comes. In
 * between the thread is elsewhere for longer than it takes to stop it: traps can be placed then. */
static int resetting(void)
{
	signal(SIGUSR2, on_end);
	while (!is_over) {
		for (int i = 0; i < 50; i++) {
			signal(SIGTRAP, SIG_DFL);
			lone();
		}
		for (volatile int i = 0; i < 200000; i++)
			;
	}
	return 0;
}

/* As Rust's threads: with an alternate stack of its own, which goes before the thread does. */
static void *short_life(void *unused)
{
	stack_t own_stack = { .ss_size = 16384 }, none = { .ss_flags = SS_DISABLE };

	own_stack.ss_sp = mmap(NULL, own_stack.ss_size, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own_stack.ss_sp == MAP_FAILED || sigaltstack(&own_stack, NULL))
		exit(60);
	work();
	if (sigaltstack(&none, NULL) || munmap(own_stack.ss_sp, own_stack.ss_size))
		exit(61);
	work();
	return NULL;
}

/* Threads are born and end all the time, until SIGUSR2 comes. */
static int born(void)
{
	pthread_t thread[4];

	signal(SIGUSR2, on_end);
	while (!is_over) {
		for (int i = 0; i < 4; i++)
			if (pthread_create(&thread[i], NULL, short_life, NULL))
				return 62;
		for (int i = 0; i < 4; i++)
			pthread_join(thread[i], NULL);
	}
	return 0;
}

__attribute__((noinline)) void say(const char *text)
{
	handled += *text == '?';
}

static void on_wait(int number)
{
	handshake(count, arguments);
}

/* Blocks all signals, unless a handler that waits comes between. */
static int passing(void)
{
	sigset_t all, old;

	signal(SIGUSR1, on_wait);
	say("!");
	sigfillset(&all);
	handshake(count, arguments);
	pthread_sigmask(SIG_BLOCK, &all, &old);
	work();
	return pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int hops(void)
{
	for (long i = 0; i < calls; i++)
		hop();
	return 0;
}

static void on_fault(int number)
{
	siglongjmp(place, 1);
}

static void take_fault(void)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };

	if (sigaction(SIGSEGV, &action, NULL))
		exit(12);
}

static int faults(void)
{
	if (!sigsetjmp(place, 1)) {
		*(volatile int *)NULL = 1;
		return 13;
	}
	return 0;
}

/* Fills every gap between mappings that the kernel finds for one page, for two and so on: what lies
 * beside them grows by that. */
static int fills_gaps(void)
{
	for (size_t pages = 1; pages <= 8; pages++) {
		for (int i = 0; i < 64; i++) {
			void *at = mmap(NULL, pages * 4096, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

			if (at == MAP_FAILED)
				return 14;
			memset(at, 1, pages * 4096);
		}
	}
	return 0;
}

static int is_ended(pid_t tid)
{
	char path[64], text[256] = "";

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	FILE *file = fopen(path, "r");
	if (file && !fgets(text, sizeof(text), file))
		exit(50);
	if (file)
		fclose(file);
	const char *state = strrchr(text, ')');
	return state && state[2] == 'Z';
}

static void *without_leader(void *unused)
{
	while (!is_ended(getpid()))
		sched_yield();
	int status = masked();
	printf("leaderless %s\n", status ? "failed" : "ok");
	exit(status);
}

/* The first thread ends, and another one blocks all signals. */
static int leaderless(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, without_leader, NULL))
		return 51;
	pthread_exit(NULL);
}

static int meets(void)
{
	handshake(count, arguments);
	return 0;
}

static int dies(void)
{
	raise(SIGTRAP);
	return 20;
}

static int dies_of_int3(void)
{
	__asm__ volatile("int3");
	return 21;
}

/* Waits with the signal blocked where it is seen. */
static int blocked_all_the_time(void)
{
	sigset_t all;

	sigfillset(&all);
	return pthread_sigmask(SIG_BLOCK, &all, NULL);
}

static const struct {
	const char *name;
	int (*run)(void);
	int before; /* the handshake */
} modes[] = {
	{ "plain", plain, 0 },	       { "masked", masked, 0 },
	{ "handler", handler, 0 },     { "ignored", ignored, 0 },
	{ "suspended", suspended, 0 }, { "threads", threads, 0 },
	{ "forked", forked, 0 },       { "vforked", vforked, 0 },
	{ "plugged", plugged, 0 },     { "sandboxed", sandboxed, 0 },
	{ "interrupted", interrupted, 0 }, { "resetting", resetting, 0 },
	{ "hops", hops, 0 },	       { "dies", dies, 0 },	       { "int3", dies_of_int3, 0 },
	{ "faults", faults, 0 },       { "gaps", fills_gaps, 0 },      { "meets", meets, 0 },
	{ "passing", passing, 0 },     { "born", born, 0 },	       { "leaderless", leaderless, 0 }, { "blocked", blocked_all_the_time, 1 },
};

static int run_modes(int argc, char **argv, int before)
{
	int status = 0;

	for (int i = 1; i < argc && !status; i++) {
		for (size_t j = 0; j < sizeof(modes) / sizeof(modes[0]); j++) {
			if (strcmp(argv[i], modes[j].name) || modes[j].before != before)
				continue;
			status = modes[j].run();
			printf("%s %s\n", argv[i], status ? "failed" : "ok");
			fflush(stdout);
		}
	}
	return status;
}

int main(int argc, char **argv)
{
	count = argc;
	arguments = argv;
	calls = handshake_option(argc, argv, "calls", 10);
	if (handshake_option(argc, argv, "handler", 0))
		take_trap();
	if (handshake_option(argc, argv, "user-handler", 0))
		take_user();
	if (handshake_option(argc, argv, "fault-handler", 0))
		take_fault();
	int status = run_modes(argc, argv, 1);
	handshake(argc, argv);
	return status ? status : run_modes(argc, argv, 0);
}
