/*
 * safe_read.c - copy memory of this process without faults.
 */
#include "gather.h"

#include "target/signals/loads.h"

/* (X13) */
static bool may_go(const struct dt_control *control, uint32_t i)
{
	return control->variables >> i & 1 && !(agent_flags(control) & DT_NO_READ) &&
	       !agent_is_quiet(control);
}

/* The heap of a forked child grows its own way. */
static bool is_heap_below(const struct dt_control *control, uint64_t address, uint64_t end)
{
	uint64_t start = control->heap.start;

	return address - start < end - start && agent_state(control)->pid == control->pid;
}

bool safe_is_heap(const struct dt_control *control, uint64_t address)
{
	return is_heap_below(control, address,
			     __atomic_load_n(&control->heap.end, __ATOMIC_RELAXED));
}

bool safe_may_be_heap(const struct dt_control *control, uint64_t address)
{
	return is_heap_below(control, address, control->heap.most);
}

/* (X15) Bytes from there on, up to the end of a page that is known to stay. */
static uint64_t known_heap(const struct dt_control *control, uint64_t from)
{
	const struct dt_opened *opened = &agent_state(control)->opened;
	const uint64_t *stays = agent_state(control)->stays;
	uint64_t end = (from | (DT_PAGE - 1)) + 1;

	if (from - opened->start < opened->size)
		return opened->size - (from - opened->start);

	if (stays[from / DT_PAGE % DT_PAGES] != end)
		return 0;
	return end - from + (stays[end / DT_PAGE % DT_PAGES] == end + DT_PAGE ? DT_PAGE : 0);
}

uint64_t safe_stable(const struct dt_control *control, uint64_t from)
{
	for (uint32_t i = 0; i < DT_STABLE_MAX && control->stable[i].end; i++) {
		if (from >= control->stable[i].start && from < control->stable[i].end)
			return may_go(control, i) ? 0 : control->stable[i].end - from;
	}
	return safe_is_heap(control, from) ? known_heap(control, from) : 0;
}

bool safe_read_stable(const struct dt_control *control, uint64_t from, void *to, uint64_t length)
{
	return length && safe_stable(control, from) >= length && !loads_copy(to, from, length);
}

uint64_t safe_read_list(const struct dt_control *control, const struct sys_iovec *local,
			uint32_t locals, const struct sys_iovec *remote, uint32_t remotes)
{
	uint32_t pid;

	if (agent_flags(control) & DT_NO_READ || !agent_begin_call(control, &pid))
		return 0;
	int64_t done = sys_copy_own(SYS_PROCESS_VM_READV, pid ? pid : sys_getpid(), local, locals,
				    remote, remotes);
	agent_end_call(control, pid);
	return done < 0 ? 0 : (uint64_t)done;
}

/* Reads two pieces, split at a page's end: the kernel reads a piece whole or not at all. */
uint64_t safe_read(const struct dt_control *control, uint64_t from, void *to, uint64_t length)
{
	uint64_t first = DT_PAGE - (from & (DT_PAGE - 1));
	struct sys_iovec local = { (uint64_t)to, length };
	struct sys_iovec remote[2] = { { from, length }, { from + first, 0 } };

	if (safe_read_stable(control, from, to, length))
		return length;
	if (first < length) {
		remote[0].length = first;
		remote[1].length = length - first;
	}
	return safe_read_list(control, &local, 1, remote, first < length ? 2 : 1);
}
