#include "syscall_timeout.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 5000000

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static _Thread_local struct {
	unsigned depth;
	bool running;
	timer_t timer;
	sigset_t mask; /* before the outermost begin */
	void (*volatile function)(void *);
	void *volatile data;
} tick;

static void on_tick(int signal)
{
	int number = errno;
	void (*function)(void *) = tick.function;

	if (function)
		function(tick.data);
	errno = number;
}

static bool start_timer(int signal)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signal };
	struct itimerspec period = { { 0, TICK_NS }, { 0, TICK_NS } };

	event.sigev_notify_thread_id = gettid();
	if (timer_create(CLOCK_MONOTONIC, &event, &tick.timer))
		return false;
	if (!timer_settime(tick.timer, 0, &period, NULL))
		return true;
	timer_delete(tick.timer);
	return false;
}

void syscall_timeout_begin(void)
{
	struct sigaction action = { .sa_handler = on_tick }; /* no SA_RESTART: calls shall end */
	int signal = SIGRTMAX - 1;
	sigset_t set;

	if (tick.depth++)
		return;
	tick.running = !sigaction(signal, &action, NULL) && start_timer(signal);
	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(SIG_UNBLOCK, &set, &tick.mask);
}

void syscall_timeout_end(void)
{
	assert(tick.depth);
	if (--tick.depth)
		return;
	if (tick.running)
		timer_delete(tick.timer);
	tick.running = false;
	pthread_sigmask(SIG_SETMASK, &tick.mask, NULL);
}

bool syscall_timeout_is_running(void)
{
	return tick.running;
}

void syscall_timeout_do(void (*function)(void *data), void *data)
{
	assert(tick.depth || !function);
	tick.function = NULL; /* so that no tick sees the old function with the new data */
	tick.data = data;
	tick.function = function;
}
