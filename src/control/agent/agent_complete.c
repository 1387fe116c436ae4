/*
 * agent_complete.c - map into a forked child what the target got after the fork, at the same
 * addresses.
 *
 * Windows are doubled from the child's mappings, as in the target, in the order of the memfd; other
 * shared memory needs its descriptor.
 */
#include <assert.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "control/proc/proc.h"
#include "control/remote/pass_fd.h"
#include "agent.h"
#include "control/remote/remote_map.h"

/* Is the file mapped at `at`? Fails if another mapping is there. */
static struct error *look(const struct maps *maps, taddr at, uint64_t device, uint64_t inode,
			  bool *ret_there)
{
	const struct mapping *mapping = maps_find(maps, at);

	*ret_there = mapping && mapping->device == device && mapping->inode == inode;
	return mapping && !*ret_there ?
		       error_new(ERROR_REFUSED, "its memory at 0x%lx is in use", at.v) :
		       NULL;
}

static struct error *complete_windows(struct remote *remote, struct proc *child,
				      const struct agent *agent, const struct maps *maps)
{
	const struct dt_control *control = agent->control;
	taddr before = taddr_add(agent->control_at, DT_WINDOWS_OFFSET);
	struct error *err = NULL;

	for (uint32_t i = 0; i < control->window_count && !err; i++) {
		const struct dt_window *window = &control->windows[i];
		taddr at = taddr_of(window->address);
		bool there = false;

		err = look(maps, at, agent->code_device, agent->code_inode, &there);
		if (!err && !there)
			err = remote_map_extend(remote, child, before, at, window->pages * DT_PAGE);
		before = taddr_add(at, (int64_t)((window->pages - 1) * DT_PAGE));
	}
	return err;
}

static struct error *map_share(struct remote *remote, struct proc *child,
			       const struct dt_share *share, int fd)
{
	struct remote_map_request request = {
		.at = taddr_of(share->address),
		.size = share->size,
		.prot = PROT_READ | PROT_WRITE,
		.flags = MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
		.what = "shared memory",
	};
	int64_t closed;
	taddr at;
	struct error *err = pass_fd(remote, child, fd, &request.fd);

	if (err)
		return err;
	err = remote_map_add(remote, child, &request, &at);
	struct error *closing = remote_do(remote, &closed, SYS_close, (uint64_t)request.fd);
	if (err)
		error_free(closing);
	return err ? err : closing;
}

static struct error *complete_shares(struct remote *remote, struct proc *child,
				     const struct agent *agent, const struct maps *maps)
{
	const struct dt_control *control = agent->control;
	struct error *err = NULL;

	for (uint32_t i = 0; i < control->share_count && !err; i++) {
		const struct dt_share *share = &control->shares[i];
		bool there = false;

		err = look(maps, taddr_of(share->address), share->device, share->inode, &there);
		assert(agent->share_fds[i]);
		if (!err && !there)
			err = map_share(remote, child, share, agent->share_fds[i] - 1);
	}
	return err;
}

struct error *agent_complete(struct stop *stop, const struct agent *agent)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct remote *remote = NULL;
	struct error *err = maps_read(stop->proc, &maps);

	if (!err)
		err = remote_begin(stop, &remote);
	if (err)
		return err;
	err = complete_windows(remote, stop->proc, agent, &maps);
	if (!err)
		err = complete_shares(remote, stop->proc, agent, &maps);
	struct error *end = remote_end(remote);
	if (err)
		error_free(end);
	return err ? err : end;
}
