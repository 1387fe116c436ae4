/*
 * unreleased.c
 *
 * The function that seized the thread may never look at it again: a daemon's worker sleeps until
 * a client asks for something. So the kernel is asked to say when the thread stops: while the list
 * isn't empty, SIGCHLD has a handler, which does nothing but what is left to do (H31). ptrace is
 * tied to the thread that seized: a signal that another thread gets is handed on to that one.
 */
#include "unreleased.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNRELEASED_FIRST 64

struct unreleased {
	pid_t tid;
	bool own_child;
};

/* Used with SIGCHLD blocked, and by its handler. */
static _Thread_local struct unreleased first[UNRELEASED_FIRST];
static _Thread_local struct unreleased *larger; /* mapped; NULL: `first` is enough */
static _Thread_local size_t count, room;
static volatile pid_t owner; /* the thread with a list; 0: none */
static struct sigaction former; /* of SIGCHLD, while there is an owner */
static void (*volatile prepare_thread)(pid_t tid);

void unreleased_prepare_by(void (*prepare)(pid_t tid))
{
	prepare_thread = prepare;
}

static struct unreleased *items(void)
{
	return larger ? larger : first;
}

static bool has_room(size_t more)
{
	return count + more <= (larger ? room : UNRELEASED_FIRST);
}

/* The kernel has attached us to the child of a thread that reports a clone: unreleased_reserve has
 * made room for it. */
static void add_child(pid_t parent)
{
	unsigned long child = 0;

	if (!ptrace(PTRACE_GETEVENTMSG, parent, 0, &child) && child && has_room(1))
		items()[count++] = (struct unreleased){ .tid = (pid_t)child };
}

/* True: the thread is let go or gone, and leaves the list. The report of a signal stays in place
 * until the thread goes on (S9, stop/held.h). */
static bool settle_one(const struct unreleased *one)
{
	int which = WSTOPPED | (one->own_child ? 0 : WEXITED);
	siginfo_t info = { 0 };

	if (waitid(P_PID, (id_t)one->tid, &info, which | WNOHANG | WNOWAIT | __WALL))
		return errno == ECHILD; /* what nobody can tell is still ours */
	if (!info.si_pid)
		return false;
	bool ended = info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
	int event = info.si_status >> 8, signal = event ? 0 : info.si_status;
	bool taken = (!ended && !event) ||
		     !waitid(P_PID, (id_t)one->tid, &info, which | WNOHANG | __WALL);
	if (ended || !taken)
		return taken || errno == ECHILD;
	/* the detach delivers a pending signal that was reported without an event */
	if (event == PTRACE_EVENT_STOP && prepare_thread)
		prepare_thread(one->tid);
	if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK)
		add_child(one->tid);
	return ptrace(PTRACE_DETACH, one->tid, 0, signal) == 0;
}

static void settle_from(size_t begin)
{
	struct unreleased *list = items();

	for (size_t i = begin; i < count;) { /* also those that settle_one adds */
		if (settle_one(&list[i]))
			list[i] = list[--count];
		else
			i++;
	}
}

static void on_child(int number)
{
	int before = errno;

	if (count)
		settle_from(0);
	else if (owner && owner != (pid_t)syscall(SYS_gettid))
		syscall(SYS_tgkill, getpid(), owner, number);
	errno = before;
}

static void block(sigset_t *ret_before)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	pthread_sigmask(SIG_BLOCK, &child, ret_before);
	/* The libc says of this function that it calls nothing here: the compiler would go on with
	 * a list from before the handler ran. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* The signal's handler is ours while this thread has a list. */
static void watch(void)
{
	pid_t self = (pid_t)syscall(SYS_gettid);

	if (count && !owner) {
		struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_RESTART };

		if (!sigaction(SIGCHLD, &action, &former))
			owner = self;
	} else if (!count && owner == self) {
		owner = 0;
		sigaction(SIGCHLD, &former, NULL);
	}
}

static void unblock(const sigset_t *before)
{
	watch();
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* With SIGCHLD blocked: its handler uses the list. */
static bool grow(size_t wanted)
{
	size_t now = larger ? room : UNRELEASED_FIRST, next = 2 * now;

	if (wanted <= now)
		return true;
	while (next < wanted)
		next *= 2;
	void *mapped = mmap(NULL, next * sizeof(*larger), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped == MAP_FAILED)
		return false;
	memcpy(mapped, items(), count * sizeof(*larger));
	if (larger)
		munmap(larger, room * sizeof(*larger));
	larger = mapped;
	room = next;
	return true;
}

bool unreleased_reserve(size_t more)
{
	sigset_t before;

	if (has_room(more))
		return true;
	block(&before);
	bool grown = grow(count + more);
	unblock(&before);
	return grown;
}

void unreleased_add(pid_t tid, bool own_child)
{
	sigset_t before;

	block(&before);
	if (grow(count + 1))
		items()[count++] = (struct unreleased){ tid, own_child };
	watch();
	/* it may have stopped before there was a handler; the others are the handler's */
	if (count)
		settle_from(count - 1);
	unblock(&before);
}

bool unreleased_take(pid_t tid)
{
	bool found = false;
	sigset_t before;

	if (!count)
		return false;
	block(&before);
	struct unreleased *list = items();
	for (size_t i = 0; i < count && !found; i++) {
		if (list[i].tid != tid)
			continue;
		list[i] = list[--count];
		found = true;
	}
	unblock(&before);
	return found;
}

void unreleased_settle(void)
{
	sigset_t before;

	if (!count)
		return;
	block(&before);
	settle_from(0);
	unblock(&before);
}
