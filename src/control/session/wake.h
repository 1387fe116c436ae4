/*
 * wake.h - one descriptor to sleep on.
 */
#ifndef DYNTRACE_WAKE_H
#define DYNTRACE_WAKE_H

#include "control/session/state/session_state.h"

struct wake;
/* The word that the target raises when there is something for us, and the value that we have seen. */
uint32_t *wake_word(const struct session *session, uint32_t *ret_seen);
/* All has been read: session_fd is readable again with the next chunk. */
struct error *wake_arm(struct session *session);
void wake_free(struct wake *wake);

#endif
