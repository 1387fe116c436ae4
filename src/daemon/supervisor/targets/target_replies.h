/*
 * target_replies.h - messages of a target's worker.
 */
#ifndef DYNTRACE_TARGET_REPLIES_H
#define DYNTRACE_TARGET_REPLIES_H

#include "control/wire/messages.h"

struct target;

/* The target may have no worker afterwards, but it is still there. */
void target_replies_handle(struct target *target, const struct wire_message *message);

#endif
