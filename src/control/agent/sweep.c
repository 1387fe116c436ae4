#include "sweep.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/remote/remote.h"
#include "control/remote/remote_map.h"
#include "control/remote/syscall_gadget.h"

#define SWEEP_ROUNDS 1000
#define SWEEP_PAUSE_NS 2000000L
#define SYSCALL_SIZE 2

/* ---- descriptors ----------------------------------------------------------------------------- */

static struct error *find_descriptors(const struct proc *proc, struct tids *ret_numbers)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", proc->pid);
	DIR *directory = opendir(path);
	if (!directory)
		return NULL; /* it has ended, or we may not see its descriptors */
	for (struct dirent *entry; (entry = readdir(directory));) {
		char link[64] = "";

		if (entry->d_name[0] == '.' ||
		    readlinkat(dirfd(directory), entry->d_name, link, sizeof(link) - 1) < 0 ||
		    !mapped_path_is_ours(link))
			continue;
		if (!vec_push(ret_numbers, atoi(entry->d_name))) {
			closedir(directory);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	closedir(directory);
	return NULL;
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* Address of the first piece (control page, agent, seed, state), which one call makes and one call
 * removes. 0: none. */
static taddr find_base(const struct maps *maps)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (m->shared && !m->offset &&
		    !strncmp(m->path, HOLDERS_CODE, strlen(HOLDERS_CODE)))
			return m->start;
	}
	return taddr_of(0);
}

/* Unmaps the place of a window that was reserved and not made. It was noted before it was reserved,
 * so no other mapping can be there. */
static struct error *unmap_reserved(struct remote *remote, const struct maps *maps,
				    const struct dt_window *window)
{
	const struct mapping *m =
		window->address ? maps_find(maps, taddr_of(window->address)) : NULL;

	if (!m || m->start.v != window->address ||
	    m->end.v - m->start.v != window->pages * DT_PAGE || m->prot != PROT_NONE || m->shared ||
	    m->inode)
		return NULL;
	return remote_map_remove(remote, m->start, m->end.v - m->start.v);
}

static struct error *unmap_named(struct remote *remote, const struct maps *maps, taddr base)
{
	uint64_t end = base.v ? base.v + AGENT_WHOLE_SIZE : 0;
	struct error *err = NULL;

	for (size_t i = 0; i < maps->count && !err; i++) {
		const struct mapping *m = &maps->items[i];

		if (m->shared && mapping_is_ours(m) && !(m->start.v >= base.v && m->end.v <= end))
			err = remote_map_remove(remote, m->start, m->end.v - m->start.v);
	}
	/* last: by this mapping the next controller knows the rest */
	return err || !base.v ? err : remote_map_remove(remote, base, AGENT_WHOLE_SIZE);
}

/* ---- threads on their way home --------------------------------------------------------------- */

static bool is_on_a_desk(const struct maps *maps, uint64_t rip)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct mapping *m = &maps->items[i];

		if (m->shared && !m->offset &&
		    !strncmp(m->path, HOLDERS_CODE, strlen(HOLDERS_CODE)) &&
		    rip - (m->start.v + DT_WINDOWS_OFFSET) < DT_PAGE)
			return true;
	}
	return false;
}

/* Is the thread at a single call (remote.c), or right behind it? It goes home from there by the
 * restorer, to which no code of the program's own returns from this `syscall; ret`. */
static bool is_at_a_call(struct proc *proc, const struct stop *stop, size_t thread,
			 const struct syscall_gadgets *gadgets)
{
	uint64_t behind = stop_thread_rip(stop, thread).v - gadgets->call.v, home = 0;

	if (!gadgets->restorer.v || (behind != 0 && behind != SYSCALL_SIZE))
		return false;
	_cleanup_error_ struct error *unreadable =
		mem_read(proc, stop_thread_rsp(stop, thread), &home, sizeof(home));
	return !unreadable && home == gadgets->restorer.v;
}

static struct error *look_for_home(struct proc *proc, bool *ret_away)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct syscall_gadgets gadgets = { 0 };
	struct error *err = stop_all(proc, STOP_TIMEOUT_MS, &stop);

	if (!err)
		err = maps_read(proc, &maps);
	if (!err)
		err = syscall_gadget_find(proc, &maps, &gadgets);
	*ret_away = false;
	for (size_t i = 0; !err && i < stop_thread_count(stop); i++)
		*ret_away |= is_on_a_desk(&maps, stop_thread_rip(stop, i).v) ||
			     is_at_a_call(proc, stop, i, &gadgets);
	return err;
}

struct error *sweep_await_home(struct proc *proc)
{
	bool away = true;
	struct error *err = NULL;

	for (unsigned round = 0; !err && away && round < SWEEP_ROUNDS; round++) {
		if (round)
			nanosleep(&(struct timespec){ .tv_nsec = SWEEP_PAUSE_NS }, NULL);
		err = look_for_home(proc, &away);
	}
	if (!err && away)
		err = error_new(ERROR_FAILED,
				"a thread of process %d hasn't finished yet what a killed dyntrace "
				"asked it for; try again later (is the process stopped?)",
				proc->pid);
	return err;
}

/* ---- entry points ---------------------------------------------------------------------------- */

struct error *sweep_look_descriptors(const struct proc *proc, bool *ret_any)
{
	struct tids numbers = { 0 };
	struct error *err = find_descriptors(proc, &numbers);

	if (!err)
		*ret_any = numbers.count;
	vec_free(&numbers);
	return err;
}

struct error *sweep_look(struct proc *proc, bool *ret_any)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct tids numbers = { 0 };
	struct error *err = maps_read(proc, &maps);
	bool any = false;

	for (size_t i = 0; i < maps.count && !err; i++)
		any |= maps.items[i].shared && mapping_is_ours(&maps.items[i]);
	if (!err)
		err = find_descriptors(proc, &numbers);
	if (!err)
		*ret_any = any || numbers.count;
	vec_free(&numbers);
	return err;
}

struct error *sweep_clean(struct stop *stop, const struct dt_window *reserved)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct tids numbers = { 0 };
	struct remote *remote = NULL;
	int64_t result;
	struct error *err = maps_read(stop->proc, &maps);
	taddr base = find_base(&maps);

	if (!err)
		err = find_descriptors(stop->proc, &numbers);
	if (!err)
		err = remote_begin(stop, &remote);
	for (size_t i = 0; i < numbers.count && !err; i++)
		err = remote_do(remote, &result, SYS_close, (uint64_t)numbers.items[i]);
	if (!err && reserved)
		err = unmap_reserved(remote, &maps, reserved);
	if (!err)
		err = unmap_named(remote, &maps, base);
	struct error *end = remote_end(remote);
	vec_free(&numbers);
	if (err)
		error_free(end);
	return err ? err : end;
}
