/*
 * wake.c - the descriptor of session_fd: readable when chunks were published (B11), or the target
 * has ended.
 *
 * Threads of the target announce a chunk by a futex, on which poll can't wait. So a thread of ours
 * sleeps on the futex and turns each wake into an eventfd. It sleeps without a limit: nothing runs
 * while nothing happens. The session arms the thread after it has read everything; the thread
 * disarms itself when it writes to the eventfd.
 */
#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/record/pool.h"
#include "control/session/own_probes/library_notice.h"
#include "session.h"
#include "wake.h"

enum { WAKE_IDLE, WAKE_ARMED, WAKE_QUIT };

struct wake {
	int epoll_fd, event_fd;
	struct dt_pool *pool;
	bool running;
	pthread_t thread;
	uint32_t state; /* futex: WAKE_* */
	uint32_t *word; /* wake_word, in the pool */
	uint32_t seen; /* its value when the thread was armed */
};

static void futex_wait(uint32_t *word, uint32_t value)
{
	syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

static void futex_wake(uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *listen(void *context)
{
	struct wake *wake = context;
	struct dt_pool *pool = wake->pool;
	uint32_t armed;

	for (;;) {
		while ((armed = __atomic_load_n(&wake->state, __ATOMIC_ACQUIRE)) == WAKE_IDLE)
			futex_wait(&wake->state, WAKE_IDLE);
		if (armed == WAKE_QUIT)
			return NULL;
		if (wake->word == &pool->wake)
			pool_wait(pool, wake->seen, NULL);
		else if (__atomic_load_n(wake->word, __ATOMIC_SEQ_CST) == wake->seen)
			futex_wait(wake->word, wake->seen);
		if (__atomic_compare_exchange_n(&wake->state, &armed, WAKE_IDLE, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			eventfd_write(wake->event_fd, 1);
	}
}

/* Blocks all signals in the new thread: they are for the session's thread. */
static struct error *start(struct wake *wake, struct dt_pool *pool)
{
	sigset_t all, before;

	assert(!wake->running);
	wake->pool = pool;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int number = pthread_create(&wake->thread, NULL, listen, wake);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	wake->running = !number;
	return number ? error_errno(number, "cannot start a thread") : NULL;
}

static struct error *poll_also(const struct wake *wake, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(wake->epoll_fd, EPOLL_CTL_ADD, fd, &event) ? error_errno(errno, "epoll") :
								      NULL;
}

static struct error *create(struct session *session, struct wake **ret_wake)
{
	struct wake *wake = calloc(1, sizeof(*wake));
	struct error *error = NULL;

	if (!wake)
		return error_new(ERROR_FAILED, "out of memory");
	wake->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	wake->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (wake->event_fd < 0 || wake->epoll_fd < 0)
		error = error_errno(errno, "cannot wait for events");
	if (!error)
		error = poll_also(wake, wake->event_fd);
	if (!error)
		error = poll_also(wake, session->proc->pidfd);
	if (error) {
		wake_free(wake);
		return error;
	}
	*ret_wake = wake;
	return NULL;
}

void wake_free(struct wake *wake)
{
	if (!wake)
		return;
	__atomic_store_n(&wake->state, WAKE_QUIT, __ATOMIC_RELEASE);
	/* the thread may be about to sleep: wake it until it has ended */
	while (wake->running && pthread_tryjoin_np(wake->thread, NULL)) {
		futex_wake(&wake->state);
		futex_wake(&wake->pool->wake);
		futex_wake(&wake->pool->modules_asked);
		nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
	}
	if (wake->event_fd >= 0)
		close(wake->event_fd);
	if (wake->epoll_fd >= 0)
		close(wake->epoll_fd);
	free(wake);
}

/* In overwrite mode, and without a trace, nobody waits for chunks, only for libraries. */
uint32_t *wake_word(const struct session *session, uint32_t *ret_seen)
{
	bool chunks = session->reader && session->options.mode != SESSION_OVERWRITE;

	*ret_seen = chunks ? reader_seen(session->reader) : library_notice_seen(session);
	return chunks ? &session->agent->pool->wake : &session->agent->pool->modules_asked;
}

struct error *wake_arm(struct session *session)
{
	struct wake *wake = session->wake;
	uint32_t idle = WAKE_IDLE;
	eventfd_t announced;

	if (!wake || !session->agent)
		return NULL;
	struct error *error = wake->running ? NULL : start(wake, session->agent->pool);
	if (error)
		return error;
	uint32_t seen, *word = wake_word(session, &seen);
	if (__atomic_load_n(&wake->state, __ATOMIC_ACQUIRE) == WAKE_ARMED) {
		if (word != wake->word)
			/* the thread sleeps on another word: it returns, and is armed for
			 * this one */
			futex_wake(wake->word);
		return NULL;
	}
	eventfd_read(wake->event_fd, &announced);
	if (library_notice_is_pending(session)) {
		eventfd_write(wake->event_fd, 1);
		return NULL;
	}
	assert(__atomic_load_n(&wake->state, __ATOMIC_ACQUIRE) == WAKE_IDLE);
	wake->word = word;
	wake->seen = seen;
	if (__atomic_compare_exchange_n(&wake->state, &idle, WAKE_ARMED, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED))
		futex_wake(&wake->state);
	return NULL;
}

struct error *session_fd(struct session *session, int *ret_fd)
{
	struct error *error = session->wake ? NULL : create(session, &session->wake);

	/* the target announces libraries before there is anything to read */
	if (!error)
		error = wake_arm(session);
	if (!error)
		*ret_fd = session->wake->epoll_fd;
	return error;
}
