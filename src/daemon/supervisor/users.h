/*
 * users.h - what each user has of the daemon, and how much of it a user may have.
 *
 * (D6) Connections, processes with the agent, waiting tracepoints and queued answers are bounded:
 *      per user, and of all users together. What all users together may have leaves a reserve that
 *      only root and the daemon's own user get. Agents, which anybody may connect, have limits of
 *      their own.
 * (D11) Time is shared by users, not by connections: the connections of one user are a loop of
 *       their own, which has one turn in the supervisor's. A user with a thousand connections made
 *       root wait for as many requests.
 */
#ifndef DYNTRACE_USERS_H
#define DYNTRACE_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "control/base/error.h"
#include "daemon/base/loop.h"

struct supervisor;

/* With connections; freed with the last of them. */
struct account {
	uid_t uid;
	struct loop loop; /* of its connections (D11) */
	struct loop_source turn; /* in the supervisor's loop */
	size_t clients, agents;
	size_t queued; /* bytes of answers that it hasn't read */
};

/* Numbers that the supervisor can serve with its descriptors. */
struct users_limits {
	size_t clients, agents, targets; /* all users, root too */
};

/* A limit of all users, with root's reserve in it, and one per user. */
struct users_share {
	size_t most, reserve, per_user;
};

/* Finds out how many descriptors there are. */
void users_set_limits(struct supervisor *supervisor);
struct users_share users_clients(const struct supervisor *supervisor);
struct users_share users_agents(const struct supervisor *supervisor);
struct users_share users_targets(const struct supervisor *supervisor);
/* May the user have one more of something of which all have `all`, and the user `own`? `what`: its
 * name in the plural. */
struct error *users_check(const struct supervisor *supervisor, uid_t uid, struct users_share share,
			  size_t all, size_t own, const char *what);

/* One more connection; NULL: out of memory or descriptors. */
struct account *users_enter(struct supervisor *supervisor, uid_t uid, bool is_agent);
void users_leave(struct supervisor *supervisor, struct account *user, bool is_agent);
/* Connections of all users. */
size_t users_count(const struct supervisor *supervisor, bool agents);
/* Has that user too many answers that wait to be read? */
bool users_queue_too_much(const struct supervisor *supervisor, const struct account *user);

#endif
