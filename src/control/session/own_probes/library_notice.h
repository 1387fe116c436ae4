/*
 * library_notice.h - learn at once when the target loads or unloads a library.
 *
 * A thread that changes the loader's list raises a number (dt_pool.modules_asked) and waits for our
 * answer with the same number (N1).
 */
#ifndef DYNTRACE_LIBRARY_NOTICE_H
#define DYNTRACE_LIBRARY_NOTICE_H

#include "control/session/state/session_state.h"

bool library_notice_create(struct session *session);
void library_notice_free(struct session *session);

/* Adds a probe of our own at the function that the loader calls for debuggers, if the process has
 * a loader with such a symbol. */
struct error *library_notice_add_probe(struct session *session);
/* The loader's struct r_debug, once the probe is added; 0: unknown. */
taddr library_notice_r_debug(const struct session *session);
/* Makes threads wait there from now on. */
void library_notice_update(struct session *session);
/* Has a thread asked? Checked before every sleep on wake_word, which the thread raises after it has
 * asked. */
bool library_notice_is_pending(const struct session *session);
/* Takes the last number, which is seen from now on; answers it, so that the thread goes on. */
uint32_t library_notice_take(struct session *session);
void library_notice_answer(struct session *session, uint32_t number);
uint32_t library_notice_seen(const struct session *session);
/* The number of threads that stopped waiting before the answer. */
uint32_t library_notice_late(const struct session *session);
/* Before detaching: no thread waits any more. */
void library_notice_end(struct session *session);
/* While the target loads a library for us, no thread waits for an answer that we couldn't give.
 * Returns the argument for library_notice_go_on. */
bool library_notice_hold(struct session *session);
void library_notice_go_on(struct session *session, bool waited);

#endif
