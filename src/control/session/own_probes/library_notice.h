/*
 * library_notice.h - learn at once when the target loads or unloads a library.
 *
 * A thread that changes the loader's list raises a number (dt_pool.modules_asked) and waits until we
 * have answered with it (N1).
 */
#ifndef DYNTRACE_LIBRARY_NOTICE_H
#define DYNTRACE_LIBRARY_NOTICE_H

#include "control/session/state/session_state.h"

bool library_notice_create(struct session *session);
void library_notice_free(struct session *session);

/* Adds a probe of our own where the loader tells debuggers of its list; none where there is no
 * loader, or no name in it. */
struct error *library_notice_add_probe(struct session *session);
/* Makes threads wait there from now on, if anything of the list depends on it; `depends`: something
 * else does. */
void library_notice_update(struct session *session, const struct tracepoint_list *list,
			   bool depends);
/* Has a thread asked? The word of wake_word was raised behind that: whoever sleeps on it looks here
 * first. */
bool library_notice_is_pending(const struct session *session);
/* The last number, which counts as seen from now on; and its answer: the thread goes on. */
uint32_t library_notice_take(struct session *session);
void library_notice_answer(struct session *session, uint32_t number);
uint32_t library_notice_seen(const struct session *session);
/* How many threads didn't wait to the end. */
uint32_t library_notice_late(const struct session *session);
/* The target is being left: nobody waits any more. */
void library_notice_end(struct session *session);
/* While we have a library loaded ourselves nobody waits for our answer, which wouldn't come. Gives
 * what library_notice_go_on wants. */
bool library_notice_hold(struct session *session);
void library_notice_go_on(struct session *session, bool waited);

#endif
