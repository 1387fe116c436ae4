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

/* Lists only the parts that are still ours: the process may have mapped other things there. */
static struct error *list_piece(struct remote_map_list *list, const struct maps *maps,
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
			err = remote_map_list_add(list, taddr_of(from), to - from);
	}
	return err;
}

static bool is_code(const struct agent *agent, const struct mapping *m)
{
	return m->inode == agent->code_inode && m->device == agent->code_device;
}

/* Lists the code memory outside of the agent's own mapping: the windows, and what a window that
 * couldn't be made has left. */
static struct error *list_windows(struct remote_map_list *list, const struct agent *agent,
				  const struct maps *maps)
{
	uint64_t base = agent->control_at.v, end = base + AGENT_WHOLE_SIZE;
	struct error *err = NULL;

	for (size_t i = 0; i < maps->count && !err; i++) {
		const struct mapping *m = &maps->items[i];

		if (is_code(agent, m) && (m->end.v <= base || m->start.v >= end))
			err = remote_map_list_add(list, m->start, m->end.v - m->start.v);
	}
	return err;
}

/* False: the process has begun another program since. */
static bool has_agent(const struct agent *agent, const struct maps *maps)
{
	const struct mapping *m = maps_find(maps, agent->control_at);

	return m && is_code(agent, m);
}

static struct error *list_all(struct remote_map_list *list, const struct agent *agent,
			      const struct maps *maps)
{
	const struct dt_control *control = agent->control;
	struct error *err = list_windows(list, agent, maps);

	for (uint32_t i = 0; i < control->share_count && i < DT_SHARES_MAX && !err; i++) {
		const struct dt_share *share = &control->shares[i];
		struct piece piece = { taddr_of(share->address), share->size, share->device,
				       share->inode };

		if (piece.inode) /* 0: unknown, so nothing can be compared */
			err = list_piece(list, maps, &piece);
	}
	struct piece pool = { agent->pool_at, agent->pool_size, agent->pool_device,
			      agent->pool_inode };
	return err ? err : list_piece(list, maps, &pool);
}

/* Are all mappings of files of ours still as they were before the stop? */
static bool is_current(const struct proc *proc, const struct agent *agent, const struct maps *maps)
{
	const struct dt_control *control = agent->control;

	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];
		bool ours = is_code(agent, m) ||
			    (m->inode == agent->pool_inode && m->device == agent->pool_device);

		for (uint32_t j = 0; j < control->share_count && j < DT_SHARES_MAX; j++)
			ours |= m->inode == control->shares[j].inode &&
				m->device == control->shares[j].device;
		if (m->inode && ours && !maps_confirm(proc, m))
			return false;
	}
	return true;
}

static struct error *unmap_all(struct remote *remote, const struct agent *agent,
			       const struct remote_map_list *more, const struct maps *maps)
{
	_cleanup_(remote_map_list_free) struct remote_map_list list = { 0 };
	struct error *err = NULL;

	for (size_t i = 0; more && i < more->count && !err; i++)
		err = remote_map_list_add(&list, more->items[i].at, more->items[i].size);
	if (!err)
		err = list_all(&list, agent, maps);
	if (!err)
		err = remote_map_remove_all(remote, &list);
	/* last: sweep.c and has_agent know the agent by this mapping, and the desk is in it. No
	 * part of it can be other memory. */
	return err ? err : remote_map_remove(remote, agent->control_at, AGENT_WHOLE_SIZE);
}

struct error *agent_remove(struct stop *stop, struct agent *agent,
			   const struct remote_map_list *more)
{
	_cleanup_(maps_free) struct maps now = { 0 };
	const struct maps *maps = stop->proc->maps_before;
	struct remote *remote = NULL;
	struct error *err = NULL;

	if (!maps || !has_agent(agent, maps) || !is_current(stop->proc, agent, maps)) {
		err = maps_read(stop->proc, &now);
		maps = &now;
	}
	if (err || !has_agent(agent, maps))
		return err;
	if ((err = remote_begin(stop, &remote)))
		return err;
	err = unmap_all(remote, agent, more, maps);
	if (!err)
		ahead_forget_desk(stop->proc);
	struct error *end = remote_end(remote);
	if (err)
		error_free(end);
	return err ? err : end;
}
