/*
 * request_life.h - a request, from its message to its answer.
 *
 * A request comes from a peer, or again from the journal or a waiting tracepoint. It ends when
 * request_settle finds no open call (D3).
 */
#ifndef DYNTRACE_REQUEST_LIFE_H
#define DYNTRACE_REQUEST_LIFE_H

#include "control/base/strbuf.h"
#include "control/wire/messages.h"
#include "identity.h"

struct peer;
struct supervisor;

struct request {
	struct supervisor *supervisor;
	struct peer *peer; /* NULL: gone, or the request is the supervisor's own */
	struct request *parent; /* NULL, or has this one as a call */
	uint32_t sequence; /* the peer's */
	enum wire_kind kind;
	struct identity who; /* D4 */
	/* the message as the peer sent it, with `who` added: for workers and the journal */
	struct wire_out bytes;
	struct wire_message message;
	unsigned calls; /* unanswered */
	unsigned done, failed;
	struct strbuf errors;
	enum error_kind error_kind;
	struct strbuf summary; /* for the log */
};

void request_begin(struct peer *peer, const struct wire_message *message);
/* Without a peer: a request of the journal or of a waiting tracepoint. */
struct error *request_again(struct supervisor *supervisor, const char *bytes, size_t length,
			    struct request **ret_request);
/* Opens a call of the request; request_close_call closes it. */
void request_open_call(struct request *request);
/* Closes a call, and ends the request if it was the last one open. */
void request_close_call(struct request *request);
/* One more result; consumes the error (NULL: success). */
void request_note(struct request *request, struct error *error);
/* Ends the request if it has no open call. */
void request_settle(struct request *request);
/* Answers the peer, which waits no longer; consumes the error. The request goes on. */
void request_leave(struct request *request, struct error *error);
/* Sends a WIRE_NOTE to the peer. */
void request_tell(const struct request *request, pid_t pid, const char *text);
/* Sends a WIRE_ITEM or WIRE_NOTE to the peer, with the pid of the target that it is about. */
void request_forward(struct request *request, const struct wire_message *answer, pid_t pid);

#endif
