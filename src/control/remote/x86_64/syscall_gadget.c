#include "control/remote/syscall_gadget.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"

#define GADGET_BLOCK (1u << 20)
#define GADGET_OVERLAP 16u

static const uint8_t call_bytes[] = { 0x0f, 0x05, 0xc3 };
static const uint8_t restorer_long[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
static const uint8_t restorer_short[] = { 0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05 };

struct search {
	uint64_t bare; /* any `syscall` */
	uint64_t call;
	uint64_t restorer;
};

static void search_one(const uint8_t *block, size_t n, uint64_t at, const uint8_t *bytes,
		       size_t length, uint64_t *found)
{
	const uint8_t *hit = *found ? NULL : memmem(block, n, bytes, length);

	if (hit)
		*found = at + (uint64_t)(hit - block);
}

static bool search_block(struct search *search, const uint8_t *block, size_t n, uint64_t at)
{
	search_one(block, n, at, call_bytes, 2, &search->bare);
	search_one(block, n, at, call_bytes, sizeof(call_bytes), &search->call);
	search_one(block, n, at, restorer_long, sizeof(restorer_long), &search->restorer);
	search_one(block, n, at, restorer_short, sizeof(restorer_short), &search->restorer);
	return search->call && search->restorer;
}

/* True: both pieces were found. Skips a mapping that can't be read. */
static bool search_mapping(struct proc *proc, const struct mapping *mapping, struct search *search,
			   uint8_t *block)
{
	for (uint64_t at = mapping->start.v; at < mapping->end.v;
	     at += GADGET_BLOCK - GADGET_OVERLAP) {
		uint64_t left = mapping->end.v - at;
		size_t n = left < GADGET_BLOCK ? left : GADGET_BLOCK;
		struct error *err = mem_read(proc, taddr_of(at), block, n);

		error_free(err);
		if (err)
			return false;
		if (search_block(search, block, n, at))
			return true;
		if (left <= GADGET_BLOCK)
			break;
	}
	return false;
}

/* The C library and the loader come first: they have both pieces, and are small. */
static bool is_likely(const struct mapping *mapping)
{
	return strstr(mapping->path, "/libc") || strstr(mapping->path, "/ld-");
}

static struct error *search_all(struct proc *proc, const struct maps *maps, struct search *search)
{
	_cleanup_free_ uint8_t *block = malloc(GADGET_BLOCK);

	if (!block)
		return error_new(ERROR_FAILED, "out of memory");
	for (int likely = 1; likely >= 0; likely--) {
		for (size_t i = 0; i < maps->count; i++) {
			const struct mapping *mapping = &maps->items[i];

			if (!(mapping->prot & PROT_EXEC) || is_likely(mapping) != likely ||
			    !strcmp(mapping->path, "[vsyscall]") || mapping_is_ours(mapping))
				continue;
			if (search_mapping(proc, mapping, search, block))
				return NULL;
		}
	}
	return NULL;
}

static bool still_there(struct proc *proc, const struct maps *maps, uint64_t at,
			const uint8_t *bytes, size_t n)
{
	const struct mapping *mapping = maps_find(maps, taddr_of(at));
	uint8_t now[16];

	if (!mapping || !(mapping->prot & PROT_EXEC) || mapping->end.v - at < n ||
	    mapping_is_ours(mapping))
		return false;
	struct error *err = mem_read(proc, taddr_of(at), now, n);
	error_free(err);
	return !err && !memcmp(now, bytes, n);
}

static bool still_good(struct proc *proc, const struct maps *maps)
{
	if (!proc->gadget_call || !proc->gadget_restorer)
		return false;
	return still_there(proc, maps, proc->gadget_call, call_bytes, sizeof(call_bytes)) &&
	       (still_there(proc, maps, proc->gadget_restorer, restorer_long,
			    sizeof(restorer_long)) ||
		still_there(proc, maps, proc->gadget_restorer, restorer_short,
			    sizeof(restorer_short)));
}

/* A process that was just killed isn't dead yet, but has no memory any more. */
static bool has_no_memory(struct proc *proc, const struct maps *maps)
{
	uint8_t byte;

	for (size_t i = 0; i < maps->count; i++) {
		_cleanup_error_ struct error *error =
			mem_read(proc, maps->items[i].start, &byte, sizeof(byte));

		if (!error)
			return false;
	}
	return true;
}

struct error *syscall_gadget_find(struct proc *proc, const struct maps *maps,
				  struct syscall_gadgets *ret_gadgets)
{
	struct search search = { 0 };

	if (!still_good(proc, maps)) {
		struct error *err = search_all(proc, maps, &search);

		if (err)
			return err;
		if (!search.bare && has_no_memory(proc, maps))
			return proc_gone(proc);
		if (!search.bare)
			return error_new(
				ERROR_FAILED,
				"process %d has no 'syscall' instruction to borrow",
				proc->pid);
		bool both = search.call && search.restorer;
		proc->gadget_call = both ? search.call : search.bare;
		proc->gadget_restorer = both ? search.restorer : 0;
	}
	bool is_long = proc->gadget_restorer &&
		       still_there(proc, maps, proc->gadget_restorer, restorer_long,
				   sizeof(restorer_long));
	*ret_gadgets = (struct syscall_gadgets){
		.call = taddr_of(proc->gadget_call),
		.restorer = taddr_of(proc->gadget_restorer),
		.home = (uint8_t)((is_long ? sizeof(restorer_long) : sizeof(restorer_short)) - 2),
	};
	return NULL;
}
