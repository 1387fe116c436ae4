/*
 * fenced - a program behind a filter of system calls.
 *	fenced [--deny NR,NR...] [--only NR,NR...] [--answer NUMBER] [--calls N] [--rounds R]
 *	       [--one 1] [--late 1] [--twice 1] [--heap 1] [--alarm US] [--spawn N]
 *	       [--during 1] [--alone 1] [--how N] [--forked 1]
 * A second thread sleeps in clock_nanosleep, ten times per second, and calls outer() when main
 * does.
 * The filter answers NUMBER (SECCOMP_RET_*; default: kill) to the calls of --deny, or to all but
 * those of --only and the program's own; --how: and to rt_sigprocmask with that first argument. It
 * holds for all threads from before "ready" on; --one: for the second thread only; --alone: for the
 * first one only; --late: from after the first round on; --twice: another filter, which allows all,
 * follows with the second round. After each of R times "go" both threads call outer() N
 * times, which calls foo(); "ready" again when both have. Prints the number of calls of both.
 * --heap: the text that outer() and foo() get is in the heap. --alarm: a signal comes every US
 * microseconds while both threads call, and its handler calls foo(), too; their number is printed
 * second. --during: the filter comes in the first round, while the second thread calls. --spawn:
 * after its calls main makes N threads, one after the other, which each call outer() once.
 * --forked: after a first "ready" and "go", a forked child does all this, until SIGTERM ends it.
 * Its parent calls outer() once then.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

#include "foo.h"
#include "handshake.h"

#define CALLS_MAX 200

static const long own[] = { SYS_read,	    SYS_write, SYS_clock_nanosleep, SYS_exit,
			    SYS_exit_group, SYS_fstat, SYS_newfstatat,	    SYS_brk };
static long calls, done;
static char kept[] = "a text of its own", *text = kept;
static atomic_long wanted, finished, alarms, begun;
static atomic_int calling;
static int count;
static char **words;

static const char *word(const char *name)
{
	for (int i = 1; i + 1 < count; i++)
		if (!strcmp(words[i], name))
			return words[i + 1];
	return NULL;
}

static unsigned short add(struct sock_filter *code, unsigned short at, const char *list,
			  uint32_t answer)
{
	for (char *end = (char *)list; list && *list; list = end + (*end == ',')) {
		code[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							  (uint32_t)strtol(list, &end, 0), 0, 1);
		code[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, answer);
	}
	return at;
}

static unsigned short add_how(struct sock_filter *code, unsigned short at, uint32_t answer)
{
	long how = handshake_option(count, words, "how", -1);
	const struct sock_filter lines[] = {
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)how, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, answer),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};

	if (how < 0)
		return at;
	memcpy(code + at, lines, sizeof(lines));
	return (unsigned short)(at + sizeof(lines) / sizeof(lines[0]));
}

static void lock_in(void)
{
	struct sock_filter code[2 * CALLS_MAX] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	};
	uint32_t answer =
		(uint32_t)handshake_option(count, words, "answer", SECCOMP_RET_KILL_PROCESS);
	const char *only = word("--only");
	unsigned short at = add(code, add_how(code, 1, answer), word("--deny"), answer);
	int one = (int)handshake_option(count, words, "one", 0) +
		  (int)handshake_option(count, words, "alone", 0);

	at = add(code, at, only, SECCOMP_RET_ALLOW);
	for (size_t i = 0; only && i < sizeof(own) / sizeof(own[0]); i++) {
		char number[24];

		snprintf(number, sizeof(number), "%ld", own[i]);
		at = add(code, at, number, SECCOMP_RET_ALLOW);
	}
	code[at++] =
		(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, only ? answer : SECCOMP_RET_ALLOW);
	struct sock_fprog program = { at, code };
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, one ? 0 : SECCOMP_FILTER_FLAG_TSYNC,
		    &program)) {
		perror("seccomp");
		_exit(4);
	}
}

static void lock_in_again(void)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { 1, &allow };

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		_exit(5);
}

__attribute__((noipa)) long outer(const char *what, long n)
{
	return foo((int)n, n * 1000, what) + 1;
}

static void on_alarm(int signal)
{
	(void)signal;
	if (!atomic_load(&calling))
		return;
	foo(1, 1, text);
	atomic_fetch_add(&alarms, 1);
}

static void *call_once(void *data)
{
	outer(text, 0);
	return data;
}

static void spawn_all(long threads)
{
	pthread_t thread;

	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread, NULL, call_once, NULL) || pthread_join(thread, NULL))
			_exit(7);
}

static void call_all(void)
{
	for (long i = 0; i < calls; i++, atomic_fetch_add(&begun, 1))
		if (outer(text, i) != i + i * 1000 + (long)strlen(text) + 1)
			_exit(6);
}

static void *work(void *data)
{
	const struct timespec pause = { .tv_nsec = 100000000 };

	if (data)
		lock_in();
	atomic_store(&finished, 0);
	for (long round = 1;; round++) {
		while (atomic_load(&wanted) < round)
			nanosleep(&pause, NULL);
		call_all();
		atomic_store(&finished, round);
	}
	return NULL;
}

/* Returns in the child. */
static void leave_it_to_a_child(void)
{
	handshake(count, words);
	pid_t child = fork();
	int status = 0;

	if (child == 0)
		return;
	if (child < 0 || waitpid(child, &status, 0) != child)
		_exit(8);
	outer(text, 0);
	_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 9);
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 1);
	long late = handshake_option(argc, argv, "late", 0);
	long during = handshake_option(argc, argv, "during", 0);
	long one = handshake_option(argc, argv, "one", 0);
	pthread_t thread;

	count = argc;
	words = argv;
	calls = handshake_option(argc, argv, "calls", 100);
	long every = handshake_option(argc, argv, "alarm", 0);
	long spawned = handshake_option(argc, argv, "spawn", 0);
	if (handshake_option(argc, argv, "heap", 0))
		text = strdup(kept);
	if (handshake_option(argc, argv, "forked", 0))
		leave_it_to_a_child();
	atomic_store(&finished, -1);
	if (pthread_create(&thread, NULL, work, one ? &thread : NULL))
		return 2;
	while (atomic_load(&finished) < 0)
		usleep(1000);
	printf("%-10s\n", "");
	fflush(stdout); /* has its memory before the filter comes */
	if (every) {
		const struct itimerval timer = { { 0, every }, { 0, every } };

		signal(SIGALRM, on_alarm);
		setitimer(ITIMER_REAL, &timer, NULL);
	}
	if (!late && !one && !during)
		lock_in();
	for (long round = 1; round <= rounds; round++) {
		handshake(argc, argv);
		atomic_store(&calling, 1);
		atomic_store(&wanted, round);
		while (during && round == 1 && atomic_load(&begun) < 100)
			;
		if (during && round == 1)
			lock_in();
		call_all();
		spawn_all(spawned);
		while (atomic_load(&finished) < round)
			usleep(1000);
		atomic_store(&calling, 0);
		done += 2 * calls;
		if (round == 1 && late)
			lock_in();
		if (round == 1 && handshake_option(argc, argv, "twice", 0))
			lock_in_again();
	}
	handshake(argc, argv);
	printf("%ld %ld\n", done, atomic_load(&alarms));
	fflush(stdout);
	_exit(0);
}
