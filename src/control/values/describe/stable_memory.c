/*
 * stable_memory.c - find the memory of the target that stays mapped as long as the target lives.
 *
 * The agent follows pointers by a system call that can't fault, since another thread may unmap
 * anything at any moment. Some memory stays: the segments of the program and of its libc, which the
 * loader never unloads, with the zeroed memory after them; and the stack of the first thread, which
 * only grows. A plain load there is as safe, and a hundred times faster. Literals and most
 * backtraces lie in such memory; the heap and other threads' stacks don't.
 *
 * Variables stay mapped as a rule (X13), but a program may protect or unmap pages of a static
 * array, as guards of stacks or barriers. They are read like the heap; like memory that stays only
 * where a filter forbids to read otherwise.
 *
 * Not so what the program has mapped of the same files elsewhere: V8 maps its own code once more
 * for each of its threads, and unmaps it with them. Nor a libc that is there several times: dlclose
 * unloads one that dlmopen has loaded. Nor a stack with guard pages of the program's own, which
 * come and go (SBCL): these divide the kernel's one mapping, so that another one ends where it
 * begins. Nor a libc that a static program has loaded, with another library, which brings it and
 * takes it away.
 *
 * The limit to which that stack may grow is noted, too, for functions called on it (call.h, C4) and
 * for hits there (target/stack_room.c): in any program, since a thread keeps the stack on which it
 * stands.
 *
 * A program without a loader may unmap parts of itself (packers do): none of it counts as stable,
 * unless it is a Go program, whose runtime doesn't. Go's heap stays, too (modules/go_heap.h).
 */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "control/base/cleanup.h"
#include "control/modules/go_heap.h"
#include "stable_memory.h"

#define HEAP_PAUSE_NS 1000000000ULL
#define STACK_GAP (1ULL << 20) /* the kernel's stack_guard_gap */

static bool is_libc(const struct module *module)
{
	return strncmp(module->name, "libc.so", 7) == 0 ||
	       strncmp(module->name, "libc.musl", 9) == 0 ||
	       strncmp(module->name, "ld-musl", 7) == 0;
}

/* Did the loader, or the kernel, map it as a segment of the module? */
static bool belongs_to(const struct mapping *mapping, const struct module *module)
{
	return mapping->inode && mapping->inode == module->inode &&
	       mapping->device == module->device && mapping->start.v >= module->low.v &&
	       mapping->end.v <= module->high.v;
}

/* The program's symbols; NULL: its file can't be read. */
static struct symtab *read_program(const struct session *session)
{
	struct module *program = session->modules.count ? session->modules.items[0] : NULL;
	struct symtab *symtab;

	if (!program || !program->is_executable)
		return NULL;
	_cleanup_error_ struct error *unreadable = module_symtab(session->proc, program, &symtab);
	return unreadable ? NULL : symtab;
}

/* How many has the loader brought? A static program loads, and unloads, its libc itself. */
static size_t count_libcs(const struct session *session)
{
	const struct symtab *program = read_program(session);
	size_t count = 0;

	for (size_t i = 0; program && symtab_has_loader(program) && i < session->modules.count; i++)
		count += is_libc(session->modules.items[i]);
	return count;
}

/* Does nothing unload the module? */
static bool is_kept(const struct session *session, const struct module *module)
{
	return module->is_executable || (is_libc(module) && count_libcs(session) == 1);
}

/* The module that the mapping is part of, if that is never unloaded; NULL: none. */
static const struct module *find_owner(const struct session *session, const struct mapping *mapping)
{
	for (size_t i = 0; i < session->modules.count; i++) {
		const struct module *module = session->modules.items[i];

		if (belongs_to(mapping, module) && is_kept(session, module))
			return module;
	}
	return NULL;
}

/* (X15) A part of Go's heap that is open already. */
static bool is_of_heap(const struct session *session, const struct mapping *mapping)
{
	const struct dt_heap *heap = &session->agent->control->heap;

	return !mapping->inode && mapping->start.v >= heap->start && mapping->end.v <= heap->end;
}

/*
 * The end of the mapping's stable part; 0: none is stable. *owner: on entry the module of the
 * previous mapping, on return of this one. Zeroed memory after a module's data is stable up to the
 * module's end: the kernel makes one mapping of it and of other memory that happens to follow.
 */
static uint64_t lasts_until(const struct session *session, const struct mapping *mapping,
			    taddr last_end, const struct module **owner)
{
	const struct module *before = *owner;

	*owner = find_owner(session, mapping);
	if (!(mapping->prot & PROT_READ) || mapping->shared)
		return 0;
	if (strcmp(mapping->path, "[stack]") == 0)
		return taddr_equal(last_end, mapping->start) ? 0 : mapping->end.v;
	if (*owner || is_of_heap(session, mapping))
		return mapping->end.v;
	if (mapping->path[0] || !before || !taddr_equal(last_end, mapping->start) ||
	    before->high.v <= mapping->start.v)
		return 0;
	return before->high.v < mapping->end.v ? before->high.v : mapping->end.v;
}

static bool is_variable(const struct session *session, const struct mapping *mapping)
{
	return mapping->prot & PROT_WRITE && strcmp(mapping->path, "[stack]") != 0 &&
	       !is_of_heap(session, mapping);
}

/* The first thread's stack with the room that the kernel lets it grow into: down to its limit, and
 * not near the mapping below it. */
static struct dt_range stack_of(const struct session *session, const struct maps *maps)
{
	struct rlimit limit;
	size_t i = 0;

	while (i < maps->count && strcmp(maps->items[i].path, "[stack]") != 0)
		i++;
	if (i == maps->count)
		return (struct dt_range){ 0 };
	uint64_t start = maps->items[i].start.v, end = maps->items[i].end.v,
		 below = i ? maps->items[i - 1].end.v + STACK_GAP : 0;
	if (prlimit(session->proc->pid, RLIMIT_STACK, NULL, &limit))
		return (struct dt_range){ start, end };
	uint64_t lowest = limit.rlim_cur < end ? DT_ROUND_UP(end - limit.rlim_cur, DT_PAGE) : 0;
	lowest = lowest > below ? lowest : below;
	return (struct dt_range){ lowest < start ? lowest : start, end };
}

/* (X15) No probe is there yet. */
static void note_heap(struct session *session, struct module *program, const struct maps *maps)
{
	struct dt_control *control = session->agent->control;
	taddr start = taddr_of(control->state + offsetof(struct dt_state, opened.start));
	struct dt_heap heap;

	if (!go_heap_find(session->proc, program, maps, &heap))
		return;
	_cleanup_error_ struct error *error =
		mem_write(session->proc, start, &heap.start, sizeof(heap.start));
	if (!error)
		control->heap = heap;
}

void stable_memory_note(struct session *session)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_error_ struct error *error = maps_read(session->proc, &maps);
	struct dt_control *control = session->agent->control;
	struct dt_range *ranges = control->stable;
	const struct module *owner = NULL;
	taddr last_end = taddr_of(0);
	size_t count = 0;

	if (error)
		return;
	control->stack = stack_of(session, &maps);
	const struct symtab *program = read_program(session);
	if (!program || (!symtab_is_go(program) && !count_libcs(session)))
		return;
	if (symtab_is_go(program))
		note_heap(session, session->modules.items[0], &maps);
	for (size_t i = 0; i < maps.count; i++) {
		const struct mapping *mapping = &maps.items[i];
		uint64_t end = lasts_until(session, mapping, last_end, &owner);
		bool joins = count && ranges[count - 1].end == mapping->start.v &&
			     control->variables >> (count - 1) == is_variable(session, mapping);

		last_end = mapping->end;
		if (!end)
			continue;
		if (!joins && count == DT_STABLE_MAX)
			return;
		if (!joins) {
			control->variables |= (uint32_t)is_variable(session, mapping) << count;
			ranges[count++].start = mapping->start.v;
		}
		assert(count && count <= DT_STABLE_MAX && end <= mapping->end.v);
		ranges[count - 1].end = end;
	}
}

void stable_memory_step(struct session *session, uint64_t now)
{
	struct agent *agent = session->agent;
	_cleanup_(maps_free) struct maps maps = { 0 };

	if (!agent || !agent->control->heap.end || now < session->heap_due ||
	    !__atomic_exchange_n(&agent->pool->heap_asked, 0, __ATOMIC_RELAXED))
		return;
	session->heap_due = now + HEAP_PAUSE_NS;
	_cleanup_error_ struct error *error = maps_read(session->proc, &maps);
	if (!error)
		go_heap_look(&maps, &agent->control->heap);
}
