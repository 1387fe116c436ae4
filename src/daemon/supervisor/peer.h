/*
 * peer.h - a connected client or agent.
 */
#ifndef DYNTRACE_PEER_H
#define DYNTRACE_PEER_H

#include "control/wire/channel.h"
#include "daemon/base/loop.h"
#include "daemon/supervisor/requests/identity.h"

struct request;
struct supervisor;

struct peer {
	struct supervisor *supervisor;
	struct account *user;
	size_t queued; /* bytes that user->queued has of it */
	struct loop_source source;
	struct channel channel;
	struct identity who; /* D4 */
	struct request *request; /* at work (D2); NULL: none */
	bool again; /* its next request may have come already */
	bool is_agent; /* may register, and nothing else */
	bool watches;
	pid_t watched; /* 0: all */
	char *watched_name; /* NULL: by pid, or all */
	uint64_t half_since; /* when half a message came; 0: none */
	uint64_t silent_since; /* agents: when the connection, or the last answer, was made */
};

void peer_accept(struct loop_source *source, uint32_t events);
void peer_accept_agent(struct loop_source *source, uint32_t events);
/* Sends, and drops a peer that doesn't read (D1). The peer may be gone afterwards. */
void peer_send(struct peer *peer, struct wire_out *out);
/* Events come from now on, and their queue is short. */
void peer_watch(struct peer *peer);
void peer_drop(struct peer *peer, const char *why);
/* Drops peers that have sent half a message and no more, and agents that say nothing. */
void peer_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again);

#endif
