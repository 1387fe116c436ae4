/*
 * takeover_find.c - find what a killed controller left: its agent, its sites, its return stubs.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/exits/exits.h"
#include "control/proc/mapped_file.h"
#include "control/record/pool.h"
#include "takeover_state.h"

#define POOL_NAME "/memfd:dyntrace-pool"

/* ---- mappings and controllers --------------------------------------------------------------- */

static bool is_named(const struct mapping *mapping, const char *name)
{
	return mapping->shared && !mapping->offset && !strncmp(mapping->path, name, strlen(name));
}

const struct mapping *takeover_next(const struct maps *maps, const struct mapping *before)
{
	for (size_t i = before ? (size_t)(before - maps->items) + 1 : 0; i < maps->count; i++) {
		if (is_named(&maps->items[i], HOLDERS_CODE))
			return &maps->items[i];
	}
	return NULL;
}

/* The pool of this agent: a controller killed during a takeover may leave two pools. */
static const struct mapping *find_pool(const struct maps *maps, const struct dt_control *control)
{
	const struct mapping *mapping = maps_find(maps, taddr_of(control->pool));

	return mapping && is_named(mapping, POOL_NAME) ? mapping : NULL;
}

/* The process that this one was forked from, with the agent in it; 0: none, or unknown. */
static uint32_t find_first(const struct agent *agent)
{
	const struct proc *proc = agent->proc;
	uint32_t first = 0;
	_cleanup_error_ struct error *unknown = mem_read(
		agent->proc, taddr_add(agent->control_at, offsetof(struct dt_control, pid)), &first,
		sizeof(first));

	return !unknown && first != (uint32_t)proc->inner_pid && proc->inner_pid == proc->pid ?
		       first :
		       0;
}

static bool is_daemon(const struct proc *controller)
{
	return !strncmp(controller->comm, "dyntraced", strlen("dyntraced"));
}

/* The controller traces this process, or the process that it was forked from. */
static struct error *refuse(const struct agent *agent, const struct proc *controller)
{
	const struct proc *proc = agent->proc;
	uint32_t first = find_first(agent);

	if (first)
		return error_new(
			ERROR_REFUSED,
			"process %d was forked from %u, which is traced already with its children, "
			"by %s, pid %d (name %u instead)",
			proc->pid, first, controller->comm, controller->pid, first);
	if (is_daemon(controller))
		return error_new(
			ERROR_REFUSED,
			"process %d is being traced already, by %s, pid %d (add tracepoints there: "
			"'dyntrace add %d:LOC'; or 'dyntrace detach %d' first)",
			proc->pid, controller->comm, controller->pid, proc->pid, proc->pid);
	return error_new(
		ERROR_REFUSED,
		"process %d is being traced already, by %s, pid %d, which another one can't join (end "
		"that first; where a daemon has the process, any number of 'dyntrace trace -p %d' can "
		"trace it at once: 'dyntraced --daemonize', 'dyntrace attach %d')",
		proc->pid, controller->comm, controller->pid, proc->pid, proc->pid);
}

/* The process, if it has a writable mapping of the code: only a controller can have one (H25).
 * NULL: it is none. The caller closes it. */
static struct proc *open_controller(const struct agent *agent, pid_t pid)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	struct proc *proc = NULL;
	_cleanup_error_ struct error *error = proc_open_plain(pid, &proc);

	if (!error)
		error = maps_read(proc, &maps);
	for (size_t i = 0; !error && i < maps.count; i++) {
		const struct mapping *mapping = &maps.items[i];

		if (mapping->inode == agent->code_inode && mapping->device == agent->code_device &&
		    (mapping->prot & PROT_WRITE))
			return proc;
	}
	proc_close(proc);
	return NULL;
}

static struct error *check_controller(const struct agent *agent, pid_t pid)
{
	struct proc *controller = open_controller(agent, pid);
	struct error *refusal = controller ? refuse(agent, controller) : NULL;

	proc_close(controller);
	return refusal;
}

pid_t takeover_controller(struct proc *proc, bool *ret_daemon)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_error_ struct error *error = maps_read(proc, &maps);
	const struct mapping *code = error ? NULL : takeover_next(&maps, NULL);
	struct tids pids = { 0 };
	pid_t found = 0;

	*ret_daemon = false;
	if (!code)
		return 0;
	const struct agent agent = { .proc = proc,
				     .code_device = code->device,
				     .code_inode = code->inode,
				     .control_at = code->start };
	if (!find_first(&agent))
		error = holders_find(&agent, &pids);
	for (size_t i = 0; i < pids.count && !found; i++) {
		struct proc *controller = open_controller(&agent, pids.items[i]);

		found = controller ? controller->pid : 0;
		*ret_daemon = controller && is_daemon(controller);
		proc_close(controller);
	}
	vec_free(&pids);
	return found;
}

static struct error *check_controllers(const struct agent *agent)
{
	struct tids pids = { 0 };
	struct error *error = holders_find(agent, &pids);

	for (size_t i = 0; i < pids.count && !error; i++)
		error = check_controller(agent, pids.items[i]);
	vec_free(&pids);
	return error;
}

/* ---- a copy of the control page ------------------------------------------------------------- */

static void *reserve(uint64_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

/* Is every count of the control page within its table? */
static bool counts_are_sound(const struct dt_control *control)
{
	for (uint32_t i = 0; i < control->window_count && i < DT_WINDOWS_MAX; i++) {
		if (control->windows[i].pages > DT_CODE_SIZE / DT_PAGE)
			return false;
	}
	return control->window_count <= DT_WINDOWS_MAX && control->site_count <= DT_SITES_MAX &&
	       control->unwinder_count <= DT_UNWINDERS_MAX &&
	       control->event_count <= DT_EVENTS_MAX &&
	       control->semaphore_count <= DT_SEMAPHORES_MAX &&
	       control->stub_count <= DT_STUBS_MAX && control->share_count <= DT_SHARES_MAX &&
	       control->caller_count <= DT_CALLERS_MAX &&
	       control->counted_count <= DT_COUNTED_MAX && control->frames_used <= DT_FRAMES_SIZE;
}

/* Are the numbers of the control page within bounds, and is the pool where it says? */
static bool control_is_sound(const struct agent *agent, const struct maps *maps)
{
	const struct dt_control *control = agent->control;
	const struct mapping *pool = find_pool(maps, control);

	return control->agent == agent->control_at.v + DT_AGENT_OFFSET &&
	       counts_are_sound(control) && pool && pool->start.v == control->pool &&
	       pool->end.v - pool->start.v == control->pool_size && control->state % DT_PAGE == 0 &&
	       memchr(control->output, 0, sizeof(control->output)) &&
	       pool_fits(control->pool_size, control->small_count, control->big_count);
}

/* Reads the bytes at the site. *ret_holds: they are the controller's. Otherwise the process has
 * unloaded the library, and nothing is to be restored. Fails if there are bytes that can't be read:
 * they may be ours (H32). */
static struct error *holds_patch(struct proc *proc, const struct maps *maps,
				 const struct dt_site *site, uint8_t bytes[DT_SITE_BYTES],
				 bool *ret_holds)
{
	*ret_holds = false;
	if (!site->length || site->length > DT_SITE_BYTES)
		return NULL;
	struct error *error = mem_read(proc, taddr_of(site->address), bytes, site->length);
	if (error && maps_find(maps, taddr_of(site->address)))
		return error;
	*ret_holds = !error && dt_site_check(bytes, site->length) == site->check;
	error_free(error);
	return NULL;
}

static struct error *is_any_site_there(const struct agent *agent, const struct maps *maps,
				       bool *ret_any)
{
	const struct dt_control *control = agent->control;
	uint8_t bytes[DT_SITE_BYTES];
	struct error *error = NULL;

	*ret_any = false;
	for (uint32_t i = 0; i < control->site_count && i < DT_SITES_MAX; i++) {
		error = holds_patch(agent->proc, maps, &control->sites[i], bytes, ret_any);
		if (error || *ret_any)
			break;
	}
	return error;
}

static struct error *read_control(struct agent *agent, const struct maps *maps)
{
	struct dt_control *control = agent->control;
	struct error *error = mem_read(agent->proc, agent->control_at, control, sizeof(*control));

	if (error)
		return error;
	if (!control->magic)
		return NULL; /* half made */
	if (control->magic != DT_MAGIC || control->version != DT_LAYOUT_VERSION)
		return error_new(
			ERROR_REFUSED,
			"process %d has the agent of another version of dyntrace (use that one)",
			agent->proc->pid);
	bool any = true;
	if (!find_pool(maps, control))
		error = is_any_site_there(agent, maps, &any);
	if (error)
		return error;
	if (!any) {
		control->magic = 0; /* half removed: the probes are removed first */
		return NULL;
	}
	if (!control_is_sound(agent, maps))
		return error_new(ERROR_REFUSED,
				 "process %d has memory that looks like an agent, but isn't one",
				 agent->proc->pid);
	const struct mapping *pool = find_pool(maps, control);
	agent->agent_at = taddr_of(control->agent);
	agent->state_at = taddr_of(control->state);
	agent->slow_at = taddr_of(control->slow);
	agent->pool_at = taddr_of(control->pool);
	agent->pool_device = pool->device;
	agent->pool_inode = pool->inode;
	agent->pool = reserve(control->pool_size);
	agent->pool_size = control->pool_size;
	return agent->pool ? NULL : error_new(ERROR_FAILED, "out of memory");
}

static struct error *make_agent(struct proc *proc, const struct maps *maps,
				const struct mapping *code, struct agent **ret_agent)
{
	struct agent *agent = calloc(1, sizeof(*agent));

	if (!agent)
		return error_new(ERROR_FAILED, "out of memory");
	agent->proc = proc;
	agent->code_fd = agent->pool_fd = -1;
	agent->code_device = code->device;
	agent->code_inode = code->inode;
	agent->control_at = code->start;
	agent->control = reserve(DT_CODE_SIZE);
	struct error *error = agent->control ? check_controllers(agent) :
					       error_new(ERROR_FAILED, "out of memory");
	if (!error)
		error = read_control(agent, maps);
	if (error) {
		agent_free(agent);
		return error;
	}
	*ret_agent = agent;
	return NULL;
}

/* ---- sites ---------------------------------------------------------------------------------- */

/* Reads the original bytes of the site from its file (H24). */
/* The files of the process, read when text is found that is a copy of one. */
struct originals {
	struct modules modules;
	bool read;
};

/* Reads what the file has where a program has copied its text to memory of huge pages. */
static bool read_copied(struct proc *proc, const struct maps *maps, struct originals *originals,
			const struct dt_site *site, uint8_t bytes[DT_SITE_BYTES])
{
	struct symtab *symtab;
	_cleanup_error_ struct error *unlisted =
		originals->read ? NULL : modules_read(proc, maps, &originals->modules);

	originals->read = true;
	struct module *module = modules_at(&originals->modules, taddr_of(site->address));
	if (!module)
		return false;
	_cleanup_error_ struct error *unreadable = module_symtab(proc, module, &symtab);
	uint64_t address = site->address - module->bias.v;
	const struct text_range *text = unreadable ? NULL : symtab_text(symtab, address);
	if (!text || address + site->length > text->address + text->size)
		return false;
	memcpy(bytes, text->bytes + (address - text->address), site->length);
	return true;
}

static bool read_original(struct proc *proc, const struct maps *maps, struct originals *originals,
			  const struct dt_site *site, uint8_t bytes[DT_SITE_BYTES])
{
	const struct mapping *mapping = maps_find(maps, taddr_of(site->address));

	if (!mapping || mapping->shared || site->address + site->length > mapping->end.v)
		return false;
	if (!mapping->inode)
		return read_copied(proc, maps, originals, site, bytes);
	_cleanup_close_ int fd = mapped_file_open(proc, mapping);
	off_t at = (off_t)(mapping->offset + site->address - mapping->start.v);
	return fd >= 0 && pread(fd, bytes, site->length, at) == site->length;
}

/* A thread in a slot of another site is on the way to the trampoline: notes where the slot's jump
 * leads. */
static void follow_slot(struct patch_site *site)
{
	uint64_t at = site->waypoint.v - (site->after ? site->after->address.v : 0);
	int32_t distance;

	if (!site->after || at + 5 > site->after->length || site->after->patched[at] != 0xe9)
		return;
	memcpy(&distance, &site->after->patched[at + 1], sizeof(distance));
	site->moves[0] = (struct patch_move){
		.copy = taddr_add(site->waypoint, 5 + (int64_t)distance),
	};
	site->move_count = 1;
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = ((const struct patch_site *)a)->address.v,
		 y = ((const struct patch_site *)b)->address.v;

	return (x > y) - (x < y);
}

/* Which bytes of the target belong to a site that was found: a bit per byte, by blocks. */
#define BLOCK 32u
_Static_assert(DT_SITE_BYTES <= BLOCK, "a site has bytes of two blocks at most");
struct covered {
	struct covered_block {
		uint64_t number; /* address / BLOCK, plus 1; 0: unused */
		uint32_t bytes;
	} *items; /* open addressing */
	size_t mask;
};

static bool covered_begin(struct covered *covered, size_t sites)
{
	size_t room = 4;

	while (room < sites * 4) /* two per site, half of them unused */
		room *= 2;
	covered->items = calloc(room, sizeof(*covered->items));
	covered->mask = room - 1;
	return covered->items != NULL;
}

static struct covered_block *covered_at(const struct covered *covered, uint64_t address)
{
	uint64_t number = address / BLOCK + 1;
	size_t at = (number * 0x9e3779b97f4a7c15ULL >> 32) & covered->mask;

	while (covered->items[at].number && covered->items[at].number != number)
		at = (at + 1) & covered->mask;
	covered->items[at].number = number;
	return &covered->items[at];
}

/* Covers the bytes of a site. False: another site has some of them. A controller killed while it
 * exchanged two sites may leave a note of each. */
static bool cover(struct covered *covered, const struct dt_site *site)
{
	uint32_t offset = site->address % BLOCK;
	uint64_t bytes = ((1ULL << site->length) - 1) << offset;
	struct covered_block *low = covered_at(covered, site->address);
	struct covered_block *high =
		bytes >> BLOCK ? covered_at(covered, site->address + BLOCK) : low;

	if (low->bytes & (uint32_t)bytes || high->bytes & (uint32_t)(bytes >> BLOCK))
		return false;
	low->bytes |= (uint32_t)bytes;
	high->bytes |= (uint32_t)(bytes >> BLOCK);
	return true;
}

/* Adds the site to those found, if its bytes are in the target. */
static struct error *find_site(struct session *session, const struct maps *maps,
			       const struct dt_site *site, struct originals *originals,
			       struct covered *covered)
{
	taddr nowhere = session->agent->agent_at;
	struct patch_site found = {
		.address = taddr_of(site->address),
		.length = site->length,
		.is_last = site->own == DT_SITE_LAST || site->own == DT_SITE_GUARD,
		.is_guard = site->own == DT_SITE_GUARD,
		.tramp_start = nowhere, /* windows are looked at as a whole */
		.tramp_end = nowhere,
		.state = PATCH_PLACED,
	};

	bool holds;
	struct error *error = holds_patch(session->proc, maps, site, found.patched, &holds);

	if (error || !holds || !cover(covered, site))
		return error;
	if (!read_original(session->proc, maps, originals, site, found.original))
		return error_new(ERROR_REFUSED,
				 "process %d: can't read the original bytes at 0x%llx from their "
				 "file: nothing was touched",
				 session->proc->pid, (unsigned long long)site->address);
	session->found.items[session->found.count++] = found;
	session->found.own += site->own != 0;
	return NULL;
}

static struct error *find_sites(struct session *session, const struct maps *maps)
{
	const struct dt_control *control = session->agent->control;
	struct found_sites *found = &session->found;
	struct covered covered = { 0 };
	struct originals originals = { 0 };
	struct error *error = NULL;

	assert(!found->items && control->site_count <= DT_SITES_MAX);
	found->items = calloc(control->site_count + 1, sizeof(*found->items));
	if (!found->items || !covered_begin(&covered, control->site_count))
		return error_new(ERROR_FAILED, "out of memory");
	for (uint32_t i = 0; i < control->site_count && !error; i++)
		error = find_site(session, maps, &control->sites[i], &originals, &covered);
	free(covered.items);
	modules_free(&originals.modules);
	if (error)
		return error;
	qsort(found->items, found->count, sizeof(*found->items), by_address);
	for (size_t i = 1; i < found->count; i++) /* first_ending_behind relies on it */
		assert(found->items[i - 1].address.v + found->items[i - 1].length <=
		       found->items[i].address.v);
	patch_link(found->items, found->count);
	for (size_t i = 0; i < found->count; i++)
		follow_slot(&found->items[i]);
	session->placed = true;
	return NULL;
}

static struct error *find_exits(struct session *session, const struct maps *maps)
{
	const struct dt_control *control = session->agent->control;
	struct exits *exits = session->exits;

	/* it may not have been made yet, or have been removed */
	if (!control->returns ||
	    !exits_are_mapped(session->proc, maps, taddr_of(control->returns)))
		return NULL;
	exits->returns = taddr_of(control->returns);
	exits->window = taddr_of(control->stubs ? control->stubs - DT_PAGE : 0);
	exits->unwound = calloc(DT_EVENTS_MAX, sizeof(*exits->unwound));
	exits->inside = calloc(DT_EVENTS_MAX, sizeof(*exits->inside));
	if (!exits->unwound || !exits->inside)
		return error_new(ERROR_FAILED, "out of memory");
	for (uint32_t i = 0; i < control->unwinder_count; i++)
		exits->unwinders[exits->unwinder_count++] =
			(struct exits_unwinder){ taddr_of(control->unwinders[i].forget),
						 taddr_of(control->unwinders[i].table) };
	return NULL;
}

struct error *takeover_find(struct session *dead, const struct maps *maps,
			    const struct mapping *code)
{
	struct error *error = make_agent(dead->proc, maps, code, &dead->agent);

	if (error || !dead->agent->control->magic)
		return error;
	error = find_sites(dead, maps);
	return error ? error : find_exits(dead, maps);
}
