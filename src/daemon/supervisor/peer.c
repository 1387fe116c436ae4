/*
 * peer.c - connections of clients and agents.
 *
 * A request that has come already is taken in a later turn of the loop (peer->again): a thousand
 * requests that came together must not be as many calls deep.
 */
#include "peer.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/supervisor/requests/request_life.h"
#include "supervisor.h"

#define PEER_QUEUE_MAX (64u << 20) /* one answer: a list of all tracepoints of all targets */
#define WATCHER_QUEUE_MAX (1u << 20)
#define HALF_MESSAGE_SECONDS 30 /* that a peer may take to send the rest */
#define AGENT_SECONDS 10 /* ... and an agent to say anything: it waits 2 s for an answer */
#define SECOND_NS 1000000000ULL
#define ACCEPT_MAX 256 /* connections per turn */

static void forget_peer(struct supervisor *supervisor, const struct peer *peer)
{
	size_t i = 0;

	while (i < supervisor->peers.count && supervisor->peers.items[i] != peer)
		i++;
	assert(i < supervisor->peers.count);
	supervisor->peers.items[i] = supervisor->peers.items[--supervisor->peers.count];
}

/* After anything that changes the queue. */
static void count_queue(struct peer *peer)
{
	size_t now = peer->channel.out.bytes.length - peer->channel.sent;

	assert(peer->user->queued >= peer->queued); /* D6 */
	peer->user->queued += now - peer->queued;
	peer->queued = now;
}

void peer_drop(struct peer *peer, const char *why)
{
	struct supervisor *supervisor = peer->supervisor;

	if (why && log_share_take(supervisor, peer->who.uid))
		log_line("dropped pid %d, uid %u: %s", peer->who.pid, peer->who.uid, why);
	if (peer->request) {
		assert(peer->request->peer == peer); /* D2 */
		peer->request->peer = NULL; /* D3 */
	}
	loop_remove(&peer->user->loop, &peer->source);
	channel_close(&peer->channel);
	count_queue(peer);
	users_leave(supervisor, peer->user, peer->is_agent);
	forget_peer(supervisor, peer);
	free(peer->watched_name);
	free(peer);
}

static void set_events(struct peer *peer)
{
	uint32_t events = EPOLLRDHUP;

	if (!peer->request && channel_is_idle(&peer->channel))
		events |= EPOLLIN;
	if (!channel_is_idle(&peer->channel) || peer->again)
		events |= EPOLLOUT;
	loop_change(&peer->user->loop, &peer->source, events);
}

void peer_send(struct peer *peer, struct wire_out *out)
{
	channel_send(&peer->channel, out);
	if (peer->channel.broken || peer->channel.ended)
		return peer_drop(peer,
				 peer->channel.broken ? error_text(peer->channel.broken) : NULL);
	count_queue(peer);
	if (users_queue_too_much(peer->supervisor, peer->user))
		return peer_drop(peer, "its user doesn't read what it asked for");
	if (!peer->request)
		peer->silent_since = now_ns();
	set_events(peer);
}

void peer_watch(struct peer *peer)
{
	peer->watches = true;
	peer->channel.queue_max = WATCHER_QUEUE_MAX; /* D1 */
}

/* Says so to a peer that can't be understood, in the hope that it understands that. */
static void drop_broken(struct peer *peer)
{
	struct wire_out out = { 0 };

	wire_begin_reply(&out, 0, peer->channel.broken);
	wire_end(&out);
	if (!out.bytes.failed)
		send(peer->channel.fd, out.bytes.text, out.bytes.length,
		     MSG_NOSIGNAL | MSG_DONTWAIT);
	wire_free(&out);
	peer_drop(peer, error_text(peer->channel.broken));
}

static bool has_half_message(const struct peer *peer)
{
	return peer->channel.in.length > peer->channel.taken;
}

/* Takes the next request, if it has come, none is at work, and the last answer was taken (D2). The
 * peer may be gone afterwards. */
static void take_request(struct peer *peer)
{
	struct wire_message message;

	assert(peer->channel.queue_max <= PEER_QUEUE_MAX); /* D1 */
	if (peer->request || (!channel_is_idle(&peer->channel) && !peer->channel.ended))
		return set_events(peer);
	if (channel_next(&peer->channel, &message)) {
		peer->half_since = 0;
		assert(!peer->request); /* D2 */
		return request_begin(peer, &message);
	}
	if (peer->channel.broken)
		return drop_broken(peer);
	if (peer->channel.ended)
		return peer_drop(peer, NULL);
	if (!has_half_message(peer))
		peer->half_since = 0;
	else if (!peer->half_since)
		peer->half_since = now_ns();
	if (peer->half_since)
		supervisor_sweep_soon(peer->supervisor);
	set_events(peer);
}

static void peer_ready(struct loop_source *source, uint32_t events)
{
	struct peer *peer = (struct peer *)((char *)source - offsetof(struct peer, source));

	assert(peer->channel.fd == source->fd);
	peer->again = false;
	if (events & EPOLLOUT)
		channel_flush(&peer->channel);
	count_queue(peer);
	if (peer->request && (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)))
		return peer_drop(peer, NULL);
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP))
		channel_fill(&peer->channel);
	take_request(peer);
}

/* Root, the daemon's own user, and the members of the group. The socket's mode says the same; this
 * is for connections that were handed on, and for a mode that was changed. */
static bool may_connect(const struct supervisor *supervisor, const struct identity *who)
{
	return who->uid == 0 || who->uid == supervisor->self.uid ||
	       (supervisor->has_group && identity_in_group(who, supervisor->group));
}

static size_t connections_of(const struct supervisor *supervisor, uid_t uid, bool is_agent)
{
	for (size_t i = 0; i < supervisor->users.count; i++) {
		const struct account *user = supervisor->users.items[i];

		if (user->uid == uid)
			return is_agent ? user->agents : user->clients;
	}
	return 0;
}

static struct error *admit(struct supervisor *supervisor, int fd, bool is_agent,
			   struct identity *ret_who)
{
	struct error *error = identity_of_peer(fd, ret_who);

	if (error)
		return error;
	if (!is_agent && !may_connect(supervisor, ret_who))
		return error_new(
			ERROR_NOT_PERMITTED,
			"not permitted: only root and the members of the daemon's group may use it");
	return users_check(supervisor, ret_who->uid,
			   is_agent ? users_agents(supervisor) : users_clients(supervisor),
			   users_count(supervisor, is_agent),
			   connections_of(supervisor, ret_who->uid, is_agent), "connections");
}

static void refuse(struct supervisor *supervisor, int fd, const struct identity *who,
		   const struct error *error)
{
	struct wire_out out = { 0 };

	if (log_share_take(supervisor, who->uid))
		log_line("refused pid %d, uid %u: %s", who->pid, who->uid, error_text(error));
	wire_begin_reply(&out, 1, error);
	wire_end(&out);
	if (!out.bytes.failed)
		send(fd, out.bytes.text, out.bytes.length, MSG_NOSIGNAL | MSG_DONTWAIT);
	wire_free(&out);
	close(fd);
}

/* Without a free descriptor the loop would spin: peer_sweep accepts again. */
static void pause_accepting(struct supervisor *supervisor, struct loop_source *source)
{
	log_line("cannot accept a connection: no descriptor left");
	loop_change(&supervisor->loop, source, 0);
	supervisor_sweep_soon(supervisor);
}

/* False: nobody else has connected. */
static bool accept_peer(struct supervisor *supervisor, struct loop_source *source, bool is_agent)
{
	int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct identity who = { 0 };

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
			pause_accepting(supervisor, source);
		return false;
	}
	_cleanup_error_ struct error *error = admit(supervisor, fd, is_agent, &who);
	struct peer *peer = error ? NULL : calloc(1, sizeof(*peer));
	struct account *user = peer ? users_enter(supervisor, who.uid, is_agent) : NULL;
	if (!error && (!user || !vec_push(&supervisor->peers, peer)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error) {
		if (user)
			users_leave(supervisor, user, is_agent);
		free(peer);
		refuse(supervisor, fd, &who, error);
		return true;
	}
	*peer = (struct peer){ .supervisor = supervisor,
			       .user = user,
			       .silent_since = now_ns(),
			       .who = who,
			       .is_agent = is_agent,
			       .source = { .fd = fd, .ready = peer_ready } };
	channel_open(&peer->channel, fd, WIRE_REQUEST_MAX, PEER_QUEUE_MAX);
	peer->channel.asks_sender = is_agent && supervisor->self.uid == 0;
	assert(fcntl(fd, F_GETFL) & O_NONBLOCK); /* D1 */
	error = loop_add(&user->loop, &peer->source, EPOLLIN | EPOLLRDHUP);
	if (error)
		peer_drop(peer, error_text(error));
	else if (is_agent)
		supervisor_sweep_soon(supervisor);
	return true;
}

/* Others may connect as fast as they can: root must not wait a turn for each of them (D11). */
static void accept_some(struct supervisor *supervisor, struct loop_source *source, bool is_agent)
{
	for (int i = 0; i < ACCEPT_MAX && accept_peer(supervisor, source, is_agent); i++)
		;
}

void peer_accept(struct loop_source *source, uint32_t events)
{
	(void)events;
	accept_some((struct supervisor *)((char *)source - offsetof(struct supervisor, listener)),
		    source, false);
}

void peer_accept_agent(struct loop_source *source, uint32_t events)
{
	(void)events;
	accept_some((struct supervisor *)((char *)source - offsetof(struct supervisor, agents)),
		    source, true);
}

void peer_sweep(struct supervisor *supervisor, uint64_t now, bool *ret_again)
{
	for (size_t i = supervisor->peers.count; i-- > 0;) {
		struct peer *peer = supervisor->peers.items[i];

		*ret_again |= peer->half_since || peer->is_agent;
		if (peer->half_since && now - peer->half_since > HALF_MESSAGE_SECONDS * SECOND_NS)
			peer_drop(peer, "half a message and no more for 30 seconds");
		else if (peer->is_agent && !peer->request &&
			 now - peer->silent_since > AGENT_SECONDS * SECOND_NS)
			peer_drop(peer, "an agent that says nothing");
	}
	loop_change(&supervisor->loop, &supervisor->listener, EPOLLIN);
	loop_change(&supervisor->loop, &supervisor->agents, EPOLLIN);
}
