#include "private_memory.h"

#include <assert.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "control/base/cleanup.h"
#include "remote.h"
#include "remote_map.h"
#include "shared/layout.h"

static struct remote_map_request request_for(const struct private_memory *memory, taddr at)
{
	return (struct remote_map_request){
		.at = at,
		.size = memory->size,
		.prot = PROT_READ | PROT_WRITE,
		.flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE |
			 (memory->is_large ? MAP_NORESERVE : 0),
		.fd = -1,
		.what = memory->what,
	};
}

void private_memory_ahead(struct ahead *list, const struct private_memory *memory, taddr at)
{
	const struct remote_map_request request = request_for(memory, at);

	remote_map_ahead(list, &request, -1);
}

struct error *private_memory_map(struct stop *stop, const struct private_memory *memory, taddr at)
{
	const struct remote_map_request request = request_for(memory, at);
	const uint64_t mark = DT_PRIVATE_MARK;

	assert(at.v && at.v % DT_PAGE == 0 && memory->size % DT_PAGE == 0);
	assert(memory->mark + sizeof(mark) <= memory->size);
	struct error *error = remote_map_once(stop, &request, &at);
	if (error)
		return error;
	error = mem_write(stop->proc, taddr_add(at, (int64_t)memory->mark), &mark, sizeof(mark));
	if (error)
		error_free(private_memory_unmap(stop, memory, at));
	return error;
}

bool private_memory_is_in(struct proc *proc, const struct maps *maps,
			  const struct private_memory *memory, taddr at)
{
	const struct mapping *m = maps_find(maps, at);
	uint64_t mark = 0;

	if (!m || m->end.v - at.v < memory->size || !mapping_is_private_data(m))
		return false;
	if (maps_has_exactly(maps, at, memory->size))
		return true;
	_cleanup_error_ struct error *unreadable =
		mem_read(proc, taddr_add(at, (int64_t)memory->mark), &mark, sizeof(mark));
	return !unreadable && mark == DT_PRIVATE_MARK;
}

struct error *private_memory_find(struct proc *proc, const struct private_memory *memory, taddr at,
				  bool *ret_found)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	const struct mapping *before =
		proc->maps_before ? maps_find(proc->maps_before, at) : NULL;

	if (before && maps_confirm(proc, before)) {
		*ret_found = private_memory_is_in(proc, proc->maps_before, memory, at);
		return NULL;
	}
	struct error *error = maps_read(proc, &maps);

	if (!error)
		*ret_found = private_memory_is_in(proc, &maps, memory, at);
	return error;
}

struct error *private_memory_list(struct proc *proc, const struct private_memory *memory, taddr at,
				  struct remote_map_list *list)
{
	bool mapped = false;
	struct error *error = at.v ? private_memory_find(proc, memory, at, &mapped) : NULL;

	return error || !mapped ? error : remote_map_list_add(list, at, memory->size);
}

struct error *private_memory_unmap(struct stop *stop, const struct private_memory *memory, taddr at)
{
	const uint64_t args[6] = { at.v, memory->size };
	int64_t result = 0;
	struct error *error = remote_syscall(stop, SYS_munmap, args, &result);

	if (!error && result < 0)
		error = error_errno((int)-result, "cannot unmap %s", memory->what);
	return error;
}
