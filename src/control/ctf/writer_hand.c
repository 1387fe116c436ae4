/*
 * writer_hand.c
 *
 * The caller offers a write, and goes on. When it is through with that, it waits for the end of the
 * write; but if the second thread hasn't even begun, because other work has all processors, the
 * caller takes the offer back and writes by itself. If the second thread has begun, and other work
 * kept it from going on, the caller has lost time: no packet is offered for HAND_REST times as
 * long. So waiting takes no more than that share of the time, however busy the machine is.
 */
#include "writer_hand.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <x86intrin.h>

#include "control/base/now.h"

#define HAND_PARTS 2
#define HAND_STACK (128u << 10)
#define HAND_SPINS 400 /* of some 20 ns: a thread that sleeps costs more to wake */
#define HAND_LATE_NS 1000000u
#define HAND_REST 16u

enum hand_state { HAND_IDLE, HAND_OFFERED, HAND_TAKEN, HAND_DONE, HAND_QUIT };

struct writer_hand {
	pthread_t thread;
	uint32_t state; /* futex: enum hand_state */
	uint32_t asleep; /* threads that sleep on it, or are about to */
	/* the write that is offered: the second thread's between HAND_TAKEN and HAND_DONE */
	int fd, count;
	struct iovec parts[HAND_PARTS];
	uint64_t at;
	int result;
	/* the caller's: */
	uint64_t rests_until; /* ns of CLOCK_MONOTONIC: nothing is offered before */
};

int writer_put_all(int fd, struct iovec *parts, int count, uint64_t at)
{
	ssize_t n = 0;

	for (;;) {
		/* also skips empty parts */
		for (; count && (size_t)n >= parts->iov_len; parts++, count--)
			n -= (ssize_t)parts->iov_len;
		if (!count)
			return 0;
		parts->iov_base = (char *)parts->iov_base + n;
		parts->iov_len -= (size_t)n;
		n = pwritev(fd, parts, count, (off_t)at);
		if (n < 0 && errno != EINTR)
			return errno;
		if (!n)
			return ENOSPC;
		n = n < 0 ? 0 : n;
		at += (uint64_t)n;
	}
}

/* ---- the word that both threads look at ----------------------------------------------------- */

static void tell(struct writer_hand *hand, enum hand_state state)
{
	__atomic_store_n(&hand->state, state, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&hand->asleep, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &hand->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static bool change(struct writer_hand *hand, uint32_t from, enum hand_state to)
{
	return __atomic_compare_exchange_n(&hand->state, &from, to, false, __ATOMIC_SEQ_CST,
					   __ATOMIC_SEQ_CST);
}

/* Waits until the state is another one. */
static void wait_behind(struct writer_hand *hand, uint32_t state)
{
	for (int i = 0; i < HAND_SPINS; i++) {
		if (__atomic_load_n(&hand->state, __ATOMIC_ACQUIRE) != state)
			return;
		_mm_pause();
	}
	__atomic_fetch_add(&hand->asleep, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&hand->state, __ATOMIC_SEQ_CST) == state)
		syscall(SYS_futex, &hand->state, FUTEX_WAIT_PRIVATE, state, NULL, NULL, 0);
	__atomic_fetch_sub(&hand->asleep, 1, __ATOMIC_SEQ_CST);
}

/* ---- the second thread ---------------------------------------------------------------------- */

static void *run(void *context)
{
	struct writer_hand *hand = context;

	for (;;) {
		uint32_t state = __atomic_load_n(&hand->state, __ATOMIC_ACQUIRE);

		if (state == HAND_QUIT)
			return NULL;
		if (state != HAND_OFFERED) {
			wait_behind(hand, state);
			continue;
		}
		if (!change(hand, HAND_OFFERED, HAND_TAKEN))
			continue;
		hand->result = writer_put_all(hand->fd, hand->parts, hand->count, hand->at);
		tell(hand, HAND_DONE);
	}
}

bool writer_hand_helps(void)
{
	cpu_set_t set;

	return !sched_getaffinity(0, sizeof(set), &set) && CPU_COUNT(&set) > 1;
}

struct writer_hand *writer_hand_create(void)
{
	struct writer_hand *hand = calloc(1, sizeof(*hand));
	pthread_attr_t attributes;
	sigset_t all, before;

	if (!hand || pthread_attr_init(&attributes)) {
		free(hand);
		return NULL;
	}
	sigfillset(&all);
	int failed = pthread_attr_setstacksize(&attributes, HAND_STACK);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (!failed)
		failed = pthread_create(&hand->thread, &attributes, run, hand);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	if (failed) {
		free(hand);
		return NULL;
	}
	return hand;
}

void writer_hand_free(struct writer_hand *hand)
{
	if (!hand)
		return;
	assert(hand->state == HAND_IDLE);
	tell(hand, HAND_QUIT);
	pthread_join(hand->thread, NULL);
	free(hand);
}

/* ---- the caller ----------------------------------------------------------------------------- */

/* Waits for the end of the write (W6). */
static int finish(struct writer_hand *hand)
{
	uint64_t since = now_ns();

	wait_behind(hand, HAND_TAKEN);
	assert(__atomic_load_n(&hand->state, __ATOMIC_ACQUIRE) == HAND_DONE);
	uint64_t now = now_ns();
	if (now - since > HAND_LATE_NS)
		hand->rests_until = now + HAND_REST * (now - since);
	__atomic_store_n(&hand->state, HAND_IDLE, __ATOMIC_SEQ_CST);
	return hand->result;
}

int writer_hand_put(const struct writer_aside *aside, int fd, struct iovec *parts, int count,
		    uint64_t at)
{
	struct writer_hand *hand = aside->hand;

	assert(count <= HAND_PARTS);
	if (hand->rests_until > now_ns()) {
		aside->meanwhile(aside->context);
		return writer_put_all(fd, parts, count, at);
	}
	hand->fd = fd;
	hand->count = count;
	hand->at = at;
	memcpy(hand->parts, parts, (size_t)count * sizeof(*parts));
	tell(hand, HAND_OFFERED);
	aside->meanwhile(aside->context);
	return change(hand, HAND_OFFERED, HAND_IDLE) ? writer_put_all(fd, parts, count, at) :
						       finish(hand);
}
