/*
 * worker_attach.h - into the target and out of it.
 */
#ifndef DYNTRACE_WORKER_ATTACH_H
#define DYNTRACE_WORKER_ATTACH_H

#include "worker_commands.h"

/* WIRE_CONFIGURE: attaches, the first time. */
struct error *worker_attach_configure(struct worker *worker, const struct wire_message *message,
				      struct worker_reply *reply);
/* WIRE_ATTACH: a client wants what has been done already. */
struct error *worker_attach_confirm(struct worker *worker, const struct wire_message *message,
				    struct worker_reply *reply);
/* WIRE_SETTLE: the journal was replayed, so what is left of the old controller's probes goes. */
struct error *worker_attach_settle(struct worker *worker, const struct wire_message *message,
				   struct worker_reply *reply);
/* WIRE_DETACH */
struct error *worker_attach_detach(struct worker *worker, const struct wire_message *message,
				   struct worker_reply *reply);

/* Takes everything out of the target and completes the trace. */
struct error *worker_attach_leave(struct worker *worker, struct session_summary *ret_summary);
/* A failure may have come from probes that a dead controller left. True: they are removed and the
 * error is freed, so the caller tries again. */
bool worker_attach_retry(struct worker *worker, struct error **error);

#endif
