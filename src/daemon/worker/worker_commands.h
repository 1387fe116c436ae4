/*
 * worker_commands.h - the supervisor's messages to a worker.
 */
#ifndef DYNTRACE_WORKER_COMMANDS_H
#define DYNTRACE_WORKER_COMMANDS_H

#include "worker.h"

struct worker_reply {
	uint32_t sequence;
	/* of the tracepoints that were made; `made`: also of refused ones, for the journal */
	struct name_list names, made;
	struct name_list triggers; /* made with them (worker_snapshots.h) */
	const char *state;
	uint64_t time; /* of the attach, for its event; 0: none */
};

/* Does what one message says, and answers it; a list is begun, and worker->listing is active. */
void worker_commands_do(struct worker *worker, const struct wire_message *message);
/* Sends more of the list, and the answer behind it. */
void worker_commands_go_on(struct worker *worker);

/* ---- for the commands ------------------------------------------------------------------------ */

/* NULL: it is attached. */
struct error *worker_commands_not_attached(const struct worker *worker);
/* A line for the client beside the answer. */
void worker_commands_note(struct worker *worker, const struct worker_reply *reply,
			  const char *text);

#endif
