#include "users.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "supervisor.h"

#define CLIENTS_MAX 4096
#define AGENTS_MAX 1024
#define TARGETS_MAX 1024
#define AGENTS_OF_USER_MAX 128
/* That all of these, with three descriptors per target, need no more than half of. */
#define DESCRIPTORS_WANTED 16384
#define FEWEST 16
#define QUEUED_OF_USER_MAX (64u << 20) /* bytes: one long list, or many short ones */

static size_t scale(size_t wanted, uint64_t descriptors)
{
	size_t most = descriptors >= DESCRIPTORS_WANTED ?
			      wanted :
			      (size_t)(wanted * descriptors / DESCRIPTORS_WANTED);

	return most < FEWEST ? FEWEST : most;
}

void users_set_limits(struct supervisor *supervisor)
{
	struct rlimit limit = { .rlim_cur = 1024, .rlim_max = 1024 };

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit))
			getrlimit(RLIMIT_NOFILE, &limit);
	}
	supervisor->limits = (struct users_limits){ .clients = scale(CLIENTS_MAX, limit.rlim_cur),
						    .agents = scale(AGENTS_MAX, limit.rlim_cur),
						    .targets = scale(TARGETS_MAX, limit.rlim_cur) };
}

static struct users_share share(size_t most, size_t per_user)
{
	return (struct users_share){ .most = most, .reserve = most / 8, .per_user = per_user };
}

struct users_share users_clients(const struct supervisor *supervisor)
{
	return share(supervisor->limits.clients, supervisor->limits.clients / 4);
}

struct users_share users_agents(const struct supervisor *supervisor)
{
	size_t most = supervisor->limits.agents, fair = most / 4;

	return share(most, fair < AGENTS_OF_USER_MAX ? fair : AGENTS_OF_USER_MAX);
}

struct users_share users_targets(const struct supervisor *supervisor)
{
	return share(supervisor->limits.targets, supervisor->limits.targets / 4);
}

struct error *users_check(const struct supervisor *supervisor, uid_t uid, struct users_share share,
			  size_t all, size_t own, const char *what)
{
	bool master = supervisor_is_master(supervisor, uid);
	size_t most = master ? share.most : share.most - share.reserve;

	assert(share.reserve && share.per_user); /* D6 */
	if (!master && own >= share.per_user)
		return error_new(ERROR_FAILED, "user %u has %zu %s already (the limit)", uid, own,
				 what);
	if (all >= most)
		return error_new(ERROR_FAILED, "the daemon has %zu %s already (the limit%s)", all,
				 what, master ? "" : " for users other than root");
	return NULL;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void take_turn(struct loop_source *source, uint32_t events)
{
	struct account *user =
		(struct account *)((char *)source - offsetof(struct account, turn));

	(void)events;
	assert(source->fd == user->loop.epoll_fd); /* D11 */
	error_free(loop_turn(&user->loop, 0)); /* the user may be gone afterwards */
}

static struct account *open_account(struct supervisor *supervisor, uid_t uid)
{
	struct account *user = calloc(1, sizeof(*user));

	if (!user)
		return NULL;
	user->uid = uid;
	struct error *error = loop_open(&user->loop);
	user->turn = (struct loop_source){ .fd = user->loop.epoll_fd, .ready = take_turn };
	if (!error)
		error = loop_add(&supervisor->loop, &user->turn, EPOLLIN);
	if (!error && vec_push(&supervisor->users, user))
		return user;
	error_free(error);
	loop_close(&user->loop);
	free(user);
	return NULL;
}

static void close_account(struct supervisor *supervisor, struct account *user)
{
	for (size_t i = 0; i < supervisor->users.count; i++) {
		if (supervisor->users.items[i] == user)
			supervisor->users.items[i] =
				supervisor->users.items[--supervisor->users.count];
	}
	loop_remove(&supervisor->loop, &user->turn);
	loop_close(&user->loop);
	free(user);
}

struct account *users_enter(struct supervisor *supervisor, uid_t uid, bool is_agent)
{
	struct account *user = NULL;

	for (size_t i = 0; i < supervisor->users.count && !user; i++) {
		if (supervisor->users.items[i]->uid == uid)
			user = supervisor->users.items[i];
	}
	if (!user)
		user = open_account(supervisor, uid);
	if (!user)
		return NULL;
	*(is_agent ? &user->agents : &user->clients) += 1;
	return user;
}

void users_leave(struct supervisor *supervisor, struct account *user, bool is_agent)
{
	size_t *count = is_agent ? &user->agents : &user->clients;

	assert(*count); /* D6 */
	if (--*count || user->agents || user->clients)
		return;
	assert(!user->queued);
	close_account(supervisor, user);
}

size_t users_count(const struct supervisor *supervisor, bool agents)
{
	size_t count = 0;

	for (size_t i = 0; i < supervisor->users.count; i++)
		count += agents ? supervisor->users.items[i]->agents :
				  supervisor->users.items[i]->clients;
	return count;
}

bool users_queue_too_much(const struct supervisor *supervisor, const struct account *user)
{
	return !supervisor_is_master(supervisor, user->uid) && user->queued > QUEUED_OF_USER_MAX;
}
