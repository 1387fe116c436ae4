/*
 * remote_map.h - mappings made in the target by remote calls. Private to inject/.
 *
 * Copes with the target's limits (H17): where it locks all its future memory, what is mapped here
 * is unlocked again at once, and counts neither against its limit nor is it filled with pages.
 */
#ifndef DYNTRACE_REMOTE_MAP_H
#define DYNTRACE_REMOTE_MAP_H

#include "remote.h"

struct remote_map_request {
	taddr at; /* 0: the kernel chooses */
	uint64_t size;
	int prot;
	int flags; /* MAP_* */
	int fd; /* in the target; -1 for none */
	uint64_t offset;
	const char *what; /* for the error */
};

struct error *remote_map_add(struct remote *remote, struct proc *proc, const struct remote_map_request *request,
		       taddr *ret_at);
struct error *remote_map_remove(struct remote *remote, taddr at, uint64_t size);

/* Another view of `size` bytes of the shared mapping of which the page `from` is the one before: a
 * window of the code, without a descriptor. */
struct error *remote_map_extend(struct remote *remote, struct proc *proc, taddr from, taddr to,
			  uint64_t size);

#endif
