/*
 * remote_map.h - make mappings in the target by remote calls.
 *
 * Copes with the target's limits (H17): in a target that locks all its future memory, the new
 * mapping isn't locked, so that it neither counts against the limit nor gets filled with pages.
 * Mappings have their protection from the start (H35).
 */
#ifndef DYNTRACE_REMOTE_MAP_H
#define DYNTRACE_REMOTE_MAP_H

#include "ahead.h"

struct remote_map_request {
	taddr at; /* 0: the kernel chooses */
	uint64_t size;
	int prot;
	int flags; /* MAP_* */
	int fd; /* in the target; -1 for none */
	uint64_t offset;
	const char *what; /* name of the mapping, for the error */
};

struct error *remote_map_add(struct remote *remote, struct proc *proc,
			     const struct remote_map_request *request, taddr *ret_at);
/* Adds the call that remote_map_add makes first (ahead.h). fd_of: the descriptor is the result of
 * that call of the list; -1: it is known. */
void remote_map_ahead(struct ahead *list, const struct remote_map_request *request, int fd_of);
/* Maps by a thread that is borrowed for it. */
struct error *remote_map_once(struct stop *stop, const struct remote_map_request *request,
			      taddr *ret_at);
struct error *remote_map_remove(struct remote *remote, taddr at, uint64_t size);

/* Memory to unmap. */
struct remote_map_list {
	struct remote_map_range {
		taddr at;
		uint64_t size;
	} *items;
	size_t count, room;
};
struct error *remote_map_list_add(struct remote_map_list *list, taddr at, uint64_t size);
void remote_map_list_free(struct remote_map_list *list);
/* Unmaps all of it, in this order. The desk, if there is one, must stay mapped (ahead.h). */
struct error *remote_map_remove_all(struct remote *remote, const struct remote_map_list *list);

/* Maps at `to` another view of a shared mapping, without a descriptor: the `size` bytes of its file
 * that follow the page mapped at `from`. */
struct error *remote_map_extend(struct remote *remote, struct proc *proc, taddr from, taddr to,
				uint64_t size);

#endif
