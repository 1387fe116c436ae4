/*
 * wake.h - the descriptor of session_fd, and the thread behind it.
 */
#ifndef DYNTRACE_WAKE_H
#define DYNTRACE_WAKE_H

#include "control/session/state/session_state.h"

struct wake;
/* The word that the target raises for us, and the value of it that we have seen. */
uint32_t *wake_word(const struct session *session, uint32_t *ret_seen);
/* After everything was read: makes session_fd readable with the next chunk. */
struct error *wake_arm(struct session *session);
void wake_free(struct wake *wake);

#endif
