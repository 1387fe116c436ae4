/*
 * agent_remove.c - unmap everything that agent_* mapped in a process.
 */
#include "control/base/cleanup.h"
#include "agent.h"
#include "control/remote/remote.h"
#include "control/remote/remote_map.h"

struct piece {
	taddr at;
	uint64_t size;
	uint64_t device, inode; /* inode 0: anonymous */
};

/* Unmaps only the parts that are still ours: the process may have mapped other things there. */
static struct error *unmap_piece(struct remote *remote, const struct maps *maps,
				 const struct piece *piece)
{
	uint64_t end = piece->at.v + piece->size;
	struct error *err = NULL;

	for (size_t i = 0; i < maps->count && !err; i++) {
		const struct mapping *m = &maps->items[i];
		uint64_t from = m->start.v > piece->at.v ? m->start.v : piece->at.v;
		uint64_t to = m->end.v < end ? m->end.v : end;

		if (from < to && m->inode == piece->inode &&
		    (!piece->inode || m->device == piece->device))
			err = remote_map_remove(remote, taddr_of(from), to - from);
	}
	return err;
}

/* Unmaps the code memory outside of the agent's own mapping: the windows, and what a window that
 * couldn't be made has left. */
static struct error *unmap_windows(struct remote *remote, const struct agent *agent,
				   const struct maps *maps)
{
	uint64_t base = agent->control_at.v, end = base + AGENT_WHOLE_SIZE;
	struct error *err = NULL;

	for (size_t i = 0; i < maps->count && !err; i++) {
		const struct mapping *m = &maps->items[i];

		if (m->inode == agent->code_inode && m->device == agent->code_device &&
		    (m->end.v <= base || m->start.v >= end))
			err = remote_map_remove(remote, m->start, m->end.v - m->start.v);
	}
	return err;
}

/* False: the process has begun another program since. */
static bool has_agent(const struct agent *agent, const struct maps *maps)
{
	const struct mapping *m = maps_find(maps, agent->control_at);

	return m && m->inode == agent->code_inode && m->device == agent->code_device;
}

static struct error *unmap_all(struct remote *remote, const struct agent *agent,
			       const struct maps *maps)
{
	const struct dt_control *control = agent->control;
	struct error *err = unmap_windows(remote, agent, maps);

	for (uint32_t i = 0; i < control->share_count && i < DT_SHARES_MAX && !err; i++) {
		const struct dt_share *share = &control->shares[i];
		struct piece piece = { taddr_of(share->address), share->size, share->device,
				       share->inode };

		if (piece.inode) /* 0: unknown, so nothing can be compared */
			err = unmap_piece(remote, maps, &piece);
	}
	struct piece pool = { agent->pool_at, agent->pool_size, agent->pool_device,
			      agent->pool_inode };
	if (!err)
		err = unmap_piece(remote, maps, &pool);
	/* last: sweep.c and has_agent know the agent by this mapping. No part of it can be other
	 * memory. */
	return err ? err : remote_map_remove(remote, agent->control_at, AGENT_WHOLE_SIZE);
}

struct error *agent_remove(struct stop *stop, struct agent *agent)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct remote *remote = NULL;
	struct error *err = maps_read(stop->proc, &maps);

	if (err || !has_agent(agent, &maps))
		return err;
	if ((err = remote_begin(stop, &remote)))
		return err;
	err = unmap_all(remote, agent, &maps);
	struct error *end = remote_end(remote);
	if (err)
		error_free(end);
	return err ? err : end;
}
