/*
 * worker_list.h - the tracepoints of a target, one item each; behind one that counts by key, an
 * item per key.
 *
 * A list is sent in pieces, so that its length needs no memory: items wait until the supervisor has
 * read those before them. Meanwhile the session goes on, and no other message is taken.
 */
#ifndef DYNTRACE_WORKER_LIST_H
#define DYNTRACE_WORKER_LIST_H

#include "worker.h"

struct error *worker_list_begin(struct worker *worker, const struct wire_message *message);
/* Sends as many items as fit. True: that were all. */
bool worker_list_go_on(struct worker *worker);
/* Forgets a list that is being sent, if there is one. */
void worker_list_end(struct worker *worker);

#endif
