/*
 * storm - everything at once: threads that come and go, forks, signals with handlers, system calls.
 *	storm
 * Until SIGTERM; then prints "ok" or what was off. Each signal that was sent was handled, once;
 * each child's status was what the child said. (SIGCHLD is blocked: while a thread is traced the
 * kernel keeps signals that would be ignored, and they wake epoll_wait in other threads.)
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "handshake.h"

static atomic_bool over;
static atomic_long sent, handled;
static const char *_Atomic trouble;

static void on_signal(int signal, siginfo_t *info, void *context)
{
	if (info->si_code != SI_TKILL || info->si_pid != getpid())
		trouble = "siginfo";
	atomic_fetch_add(&handled, 1);
}

static void on_term(int signal)
{
	over = 1;
}

static void *short_life(void *data)
{
	return data;
}

static void *spawn(void *data)
{
	for (long i = 0; !over; i++) {
		pthread_t thread;
		void *result = NULL;

		if (pthread_create(&thread, NULL, short_life, (void *)i) ||
		    pthread_join(thread, &result) || result != (void *)i)
			trouble = "thread";
	}
	return NULL;
}

static void *fork_on(void *data)
{
	for (int i = 0; !over; i++) {
		int status = 0;
		pid_t pid = fork();

		if (!pid)
			_exit(i & 127);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != (i & 127) << 8)
			trouble = "fork";
	}
	return NULL;
}

/* A thread that signals itself: each must arrive exactly once, in between epoll_waits that it may
 * interrupt. */
static void *signal_on(void *data)
{
	int epoll = epoll_create1(0);
	pthread_t self = pthread_self();
	struct epoll_event event;

	while (!over) {
		long before = atomic_load(&handled);

		atomic_fetch_add(&sent, 1);
		pthread_kill(self, SIGUSR1);
		if (atomic_load(&handled) != before + 1)
			trouble = "signal";
		if (syscall(SYS_epoll_wait, epoll, &event, 1, 1) != 0)
			trouble = "epoll_wait";
	}
	return NULL;
}

/* Asleep until another thread's signal wakes it: the EINTR that it earns must come. */
static _Atomic pthread_t sleeper;
static atomic_long woken;

static void on_wake(int signal)
{
	atomic_fetch_add(&woken, 1);
}

static void *sleep_on(void *data)
{
	int epoll = epoll_create1(0);
	struct epoll_event event;

	sleeper = pthread_self();
	for (;;) {
		long before = atomic_load(&woken);
		long got = syscall(SYS_epoll_wait, epoll, &event, 1, 20);

		if (over)
			return NULL;
		if (got < 0 && errno == EINTR && atomic_load(&woken) == before)
			trouble = "EINTR without a signal";
	}
}

static void *wake_on(void *data)
{
	struct timespec nap = { 0, 500000 };

	while (!over) {
		if (sleeper)
			pthread_kill(sleeper, SIGUSR2);
		nanosleep(&nap, NULL);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	void *(*parts[])(void *) = { spawn, fork_on, signal_on, sleep_on, wake_on };
	pthread_t threads[5];
	sigset_t mask;

	sigaction(SIGUSR1, &(struct sigaction){ .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO },
		  NULL);
	sigaction(SIGUSR2, &(struct sigaction){ .sa_handler = on_wake }, NULL);
	sigaction(SIGTERM, &(struct sigaction){ .sa_handler = on_term, .sa_flags = SA_RESTART },
		  NULL);
	sigemptyset(&mask);
	sigaddset(&mask, SIGTERM);
	sigaddset(&mask, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	for (int i = 0; i < 5; i++)
		pthread_create(&threads[i], NULL, parts[i], NULL);
	handshake(argc, argv);
	sigdelset(&mask, SIGTERM);
	while (!over)
		sigsuspend(&mask);
	for (int i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	if (sent != handled)
		trouble = "a signal was lost";
	printf("%s\n", trouble ? trouble : "ok");
	return 0;
}
