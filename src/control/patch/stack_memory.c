#include "stack_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include "control/proc/proc_status.h"
#include "shared/layout.h"

#define ENTRIES 64u /* of /proc/PID/pagemap, read at once */

void stack_memory_open(struct stack_memory *memory, struct proc *proc)
{
	*memory = (struct stack_memory){
		.proc = proc,
		.maps_fd = proc_status_open(proc->pid, "maps", O_RDONLY),
		.pagemap_fd = proc_status_open(proc->pid, "pagemap", O_RDONLY),
	};
}

void stack_memory_close(struct stack_memory *memory)
{
	if (!memory->proc)
		return;
	if (memory->maps_fd >= 0)
		close(memory->maps_fd);
	if (memory->pagemap_fd >= 0)
		close(memory->pagemap_fd);
	maps_free(&memory->maps);
}

void stack_memory_begin(struct stack_memory *memory)
{
	maps_free(&memory->maps);
	memory->maps = (struct maps){ 0 };
}

struct error *stack_memory_find(struct stack_memory *memory, uint64_t at,
				struct stack_range *ret_mapping)
{
	struct mapping asked;
	const struct mapping *found = &asked;
	struct error *error = NULL;

	*ret_mapping = (struct stack_range){ 0 };
	if (memory->maps.count || !maps_ask(memory->maps_fd, taddr_of(at), &asked)) {
		if (!memory->maps.count)
			error = maps_read(memory->proc, &memory->maps);
		found = error ? NULL : maps_find(&memory->maps, taddr_of(at));
	}
	if (found)
		*ret_mapping = (struct stack_range){ found->start.v, found->end.v,
						     !found->shared && !found->inode };
	return error;
}

struct stack_range stack_memory_used(const struct stack_memory *memory,
				     const struct stack_range *range)
{
	struct stack_range used = { range->end, range->end, range->is_anonymous };
	uint64_t entries[ENTRIES], page = range->start / DT_PAGE;
	uint64_t behind = (range->end + DT_PAGE - 1) / DT_PAGE;

	if (!range->is_anonymous || range->start >= range->end)
		return *range;
	for (size_t count; page < behind; page += count) {
		count = behind - page < ENTRIES ? behind - page : ENTRIES;
		if (!proc_status_pages(memory->pagemap_fd, page * DT_PAGE, entries, count))
			return *range;
		for (size_t i = 0; i < count; i++) {
			bool exists = entries[i] & PROC_PAGE_EXISTS;
			uint64_t at = (page + i) * DT_PAGE;

			if (!exists && used.start < range->end) {
				used.end = at;
				return used;
			}
			if (exists && used.start == range->end)
				used.start = at < range->start ? range->start : at;
		}
	}
	return used;
}
