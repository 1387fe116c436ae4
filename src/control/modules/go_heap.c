/*
 * go_heap.c - see go_heap.h.
 *
 * (X15) Go's runtime takes its heap in arenas of 64 MiB, from a fixed address upwards. It reserves
 *       an arena without access, and opens it piece by piece. It gives memory back by madvise,
 *       which leaves pages readable, and unmaps or closes no piece that is open. So a page that
 *       could be read once stays, goroutines' stacks included: they lie in the heap.
 *
 * That is so in the releases from 1.18 to 1.25. Later ones begin at a random address. Two settings
 * of GODEBUG close freed memory: a program that has one of them counts as unknown. So does one with
 * experiments, of which user arenas do so, too, and one that may protect pages (elf/go_protect.h).
 *
 * Arenas lie one behind the other. What lies above them may be of others: a library chooses its
 * addresses at random, as V8 does. So the heap ends with the last arena, and the end is looked for
 * again when the agent has read memory above it. The first arena counts from the beginning, since
 * the runtime takes it before any function of the program runs.
 */
#include "go_heap.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "control/base/cleanup.h"
#include "control/elf/go_build.h"
#include "control/elf/go_protect.h"
#include "control/proc/proc_status.h"

#define RELEASE_FIRST 18u
#define RELEASE_LAST 25u
#define HEAP_START 0xc000000000ULL
#define HEAP_MOST 0x10000000000ULL /* where the shadow of sanitizers may begin */
#define ARENA (64ULL << 20)

/* Settings of the runtime that take memory away. */
static const char *const closing[] = { "efence=", "harddecommit=" };

static bool is_closing(const char *text)
{
	for (size_t i = 0; i < sizeof(closing) / sizeof(closing[0]); i++) {
		if (strstr(text, closing[i]))
			return true;
	}
	return false;
}

/* Does the environment, as it was when the program began, leave these settings alone? False also if
 * the program has written something else there. */
static bool check_environment(const struct proc *proc)
{
	_cleanup_close_ int fd = proc_status_open(proc->pid, "environ", O_RDONLY);
	size_t length = 0;
	_cleanup_free_ char *text = fd < 0 ? NULL : proc_status_slurp(fd, &length);

	if (!text)
		return false;
	for (const char *at = text; at < text + length; at += strlen(at) + 1) {
		if (!strchr(at, '=') ||
		    (strncmp(at, "GODEBUG=", strlen("GODEBUG=")) == 0 && is_closing(at)))
			return false;
	}
	return true;
}

static bool check_build(const struct symtab *symtab)
{
	unsigned release;

	if (!symtab_is_go(symtab) || !go_build_release(symtab, &release) ||
	    release < RELEASE_FIRST || release > RELEASE_LAST || go_protect_may(symtab))
		return false;
	for (size_t i = 0; i < sizeof(closing) / sizeof(closing[0]); i++) {
		if (go_build_mentions(symtab, closing[i]))
			return false;
	}
	return true;
}

/* The end of the mappings from the heap's start on, one behind the other, with that access. */
static uint64_t mapped_until(const struct maps *maps, int prot)
{
	uint64_t end = HEAP_START;

	for (size_t i = 0; i < maps->count && end < HEAP_MOST; i++) {
		const struct mapping *mapping = &maps->items[i];

		if (mapping->start.v == end && !mapping->inode && !mapping->shared &&
		    (mapping->prot & prot) == prot)
			end = mapping->end.v;
	}
	return end < HEAP_MOST ? end : HEAP_MOST;
}

void go_heap_look(const struct maps *maps, struct dt_heap *heap)
{
	uint64_t end = mapped_until(maps, PROT_NONE), open = mapped_until(maps, PROT_READ);

	end -= (end - HEAP_START) % ARENA;
	if (end < HEAP_START + ARENA)
		end = HEAP_START + ARENA;
	if (open > end)
		open = end;
	if (end > heap->end)
		__atomic_store_n(&heap->end, end, __ATOMIC_RELAXED);
	if (open > heap->open)
		__atomic_store_n(&heap->open, open, __ATOMIC_RELAXED);
}

bool go_heap_find(struct proc *proc, struct module *program, const struct maps *maps,
		  struct dt_heap *ret_heap)
{
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable = module_symtab(proc, program, &symtab);

	if (unreadable || !check_build(symtab) || !check_environment(proc))
		return false;
	struct dt_heap heap = { .start = HEAP_START, .open = HEAP_START, .most = HEAP_MOST };
	go_heap_look(maps, &heap);
	*ret_heap = heap;
	return true;
}
