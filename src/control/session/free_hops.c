/*
 * free_hops.c
 *
 * Garbage is freed as a whole, when no thread is in any of it (garbage.c); with many threads that
 * may take long. A hop is a single jump: a thread that has left it doesn't come back, and nothing
 * in the target's code leads to it any more. So a hop is free once no thread stands on it.
 */
#include <assert.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "free_hops.h"
#include "garbage.h"

static struct patch_range *list_hops(const struct session *session, size_t *ret_count)
{
	struct patch_range *ranges = calloc(session->garbage.count + 1, sizeof(*ranges));
	size_t count = 0;

	for (size_t i = 0; i < session->garbage.count && ranges; i++) {
		const struct near_piece *hop = &session->garbage.items[i]->hop_piece;

		if (hop->size)
			ranges[count++] =
				(struct patch_range){ .start = hop->at,
						      .end = taddr_add(hop->at, hop->size) };
	}
	assert(count <= session->garbage.count);
	*ret_count = count;
	return ranges;
}

static bool is_clear(struct session *session)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	size_t count = 0;
	_cleanup_free_ struct patch_range *ranges = list_hops(session, &count);
	bool found = true;

	if (!ranges || !count)
		return ranges != NULL;
	_cleanup_error_ struct error *error = stop_all(session->proc, STOP_TIMEOUT_MS, &stop);
	if (!error)
		error = patch_find_threads(session->proc, stop, ranges, count, &found);
	return !error && !found;
}

/* Not while a forked child may still have code that leads to the hops: that takes a collection. */
static void free_hops(struct session *session)
{
	if (!garbage_is_unshared(session) || !is_clear(session))
		return;
	for (size_t i = 0; i < session->garbage.count; i++) {
		struct site *site = session->garbage.items[i];

		if (!site->hop_piece.size)
			continue;
		near_pool_free(session->code, site->hop_piece);
		site->hop_piece.size = 0;
		site->patch.waypoint = taddr_of(0);
	}
}

static bool is_taken(const struct session *session)
{
	return session->garbage.count && planner_hop_is_taken(session->planner, session->code);
}

void free_hops_clear(struct session *session)
{
	uint64_t until = now_ms() + GARBAGE_WAIT_MS;
	unsigned pause_ms = 1;

	if (is_taken(session))
		free_hops(session);
	while (is_taken(session) && now_ms() < until) {
		garbage_collect_patiently(session, &pause_ms);
		free_hops(session);
	}
}
