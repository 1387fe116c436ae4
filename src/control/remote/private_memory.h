/*
 * private_memory.h - private memory of ours in a target, which fork copies.
 *
 * The control page has its address before it is mapped and until it is unmapped. A controller that
 * was killed around either leaves the address of memory that isn't there; the program may have
 * mapped its own memory there since. So the memory is recognised, in one of two ways:
 *
 * - by its bounds. The caller chooses a place with a free page on either side (near_find_lone);
 * - by DT_PRIVATE_MARK in it. The program may map memory beside it later on, and the kernel makes
 *   one mapping of both.
 */
#ifndef DYNTRACE_PRIVATE_MEMORY_H
#define DYNTRACE_PRIVATE_MEMORY_H

#include "ahead.h"
#include "control/proc/proc.h"

struct private_memory {
	uint64_t size; /* whole pages */
	uint64_t mark; /* where DT_PRIVATE_MARK is in it */
	bool is_large; /* mapped with MAP_NORESERVE: most of it stays untouched */
	const char *what; /* its name, for errors */
};

/* Maps the memory, and marks it. Fails if anything else is mapped there. */
struct error *private_memory_map(struct stop *stop, const struct private_memory *memory, taddr at);
/* Adds the call by which it does (ahead.h). */
void private_memory_ahead(struct ahead *list, const struct private_memory *memory, taddr at);
/* Is the memory mapped there? */
struct error *private_memory_find(struct proc *proc, const struct private_memory *memory, taddr at,
				  bool *ret_found);
/* Likewise, by mappings that the caller has read. */
bool private_memory_is_in(struct proc *proc, const struct maps *maps,
			  const struct private_memory *memory, taddr at);
struct error *private_memory_unmap(struct stop *stop, const struct private_memory *memory,
				   taddr at);
/* Adds the memory to a list of what is to be unmapped, if it is mapped there. */
struct remote_map_list;
struct error *private_memory_list(struct proc *proc, const struct private_memory *memory, taddr at,
				  struct remote_map_list *list);

#endif
