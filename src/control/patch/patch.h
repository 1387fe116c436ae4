/*
 * patch.h - the only writer of live code.
 *
 * Takes planned sites (bytes read, trampolines written and mapped) and changes the bytes of all of
 * them in one stop of the target. Callers don't see how a batch is applied.
 *
 * (P1) Bytes are changed only while every thread that can execute them is held.
 * (P2) A site is written only if the target still holds exactly the bytes it was planned from.
 * (P3) After a site is written, no thread's RIP lies strictly inside the changed bytes. Before the
 *      write, such a thread is moved to the same instruction in the trampoline's copy (H14).
 * (P4) When a site is written, no word on a thread's stack or alternate stack points strictly
 *      inside the changed bytes (H9). Until then the site is put off and tried again.
 * (P5) Original bytes come back before trampolines are freed. Trampolines are freed only when no
 *      thread's RIP and no RIP saved in a signal frame lies in them. (A thread in the agent, or in
 *      shared code, called from a trampoline, returns to the trampoline: callers run
 *      patch_find_threads on these ranges in the stop that frees the memory.)
 * (P6) A site that leads through bytes of another site (`after`) is placed only while the other
 *      site is.
 * (P7) Of a group, either the new sites are placed or the old ones, never some of both.
 * (P8) The trampoline of a removed site leads to the code behind that site. While a newer site
 *      changes that code, the trampoline leads to the same instruction in the newer site's copy. So
 *      no thread leaves a trampoline into the middle of changed bytes.
 * (P9) What patched bytes need (the handler of a trap's signal, say) comes before them, and goes
 *      when the original bytes are back. So neither a failure in between nor the controller's end
 *      leaves bytes without it (H14).
 */
#ifndef DYNTRACE_PATCH_H
#define DYNTRACE_PATCH_H

#include "shared/layout.h"
#include "control/stop/stop.h"
#include "control/proc/proc.h"

#define PATCH_MOVES_MAX 16

/*
 * An instruction boundary of the site and its place in the trampoline's copy: the first instruction
 * (offset 0), the later ones, and the end (offset = length, copy = the jump back). Placing moves
 * threads from inside the site to the copy. Removing moves threads in the copy (blocked in a moved
 * system call, say) back to the site.
 */
struct patch_move {
	uint8_t offset; /* from the site's address */
	taddr copy;
};

/* A jump in our code that can be redirected while threads run it, by one store: its distance lies
 * in one cache line. */
struct patch_jump {
	uint8_t *distance; /* in our mapping; NULL: no such jump */
	taddr end; /* of the jump, in the target */
};

enum patch_state {
	PATCH_PLANNED,
	PATCH_PLACED,
	PATCH_FAILED, /* the reason is in `error` */
	PATCH_REMOVED,
};

struct patch_site {
	bool is_last; /* the owner's: remove after the other sites and their leftovers, */
	bool is_guard; /* and this one is so for the sake of rt_sigaction alone */
	taddr address;
	uint8_t length; /* of all moved instructions; can be more than the 5 bytes of a jump */
	uint8_t original[DT_SITE_BYTES];
	uint8_t patched[DT_SITE_BYTES];
	struct patch_move moves[PATCH_MOVES_MAX];
	size_t move_count;
	taddr tramp_start, tramp_end; /* code of this site alone */
	/* The site whose bytes hold this site's slot: placed before this site and removed after it
	 * (P6). NULL: none. */
	const struct patch_site *after;
	/* the jump between site and trampoline that a thread executes (a slot, a hop); 0: none */
	taddr waypoint;
	bool leads_on; /* the trampoline leads to the code behind the site, */
	struct patch_jump back; /* by this jump */
	/* the site to whose copy `back` leads instead (P8); NULL: none */
	const struct patch_site *redirect_to;
	/* the hop of a replaced site, which this site uses too: redirected to tramp_start when this
	 * site is placed */
	struct patch_jump hop;
	/* PATCH_PLACED sites of a group go when its PATCH_PLANNED sites come (P7); 0: no group */
	unsigned group;
	enum patch_state state;
	/* its write failed while old sites of its group were to go: exchange_settle brings those
	 * back */
	bool torn;
	struct error *error; /* owned */
};

struct patch_stats {
	uint64_t stopped_us; /* the longest stop */
	size_t placed, failed;
};

/* A change of the caller's in the stop that changes the text, so that no thread sees one change
 * without the other. Called with all threads held. */
struct patch_also {
	struct error *(*run)(void *data, struct stop *stop);
	/* Asked before anything changes; NULL: `run` may come. *ret_now false, or an error: not
	 * now, and threads go on for a moment. */
	struct error *(*may_run)(void *data, struct stop *stop, bool *ret_now);
	void *data;
};

/*
 * Places every PATCH_PLANNED site. With `held` NULL, patch_place stops the target itself. Otherwise
 * `held` is a stop that holds all threads already (a command at its first instruction) and stays
 * the caller's; a site in use then fails instead of being tried again. A site that can't be placed
 * is PATCH_FAILED with its error; the other sites are placed all the same. Sites don't overlap. The
 * returned error is for the batch as a whole (the target is gone...).
 *
 * PATCH_PLACED sites with a group are taken out in the same stop, and are PATCH_REMOVED then, if
 * the new sites of their group are placed. They may overlap the new sites, and no threads are
 * waited for. The new sites of a group fail together.
 *
 * The trampolines of PATCH_REMOVED sites, and of sites taken out now, are redirected where a new
 * site changes the code behind them (P8): for a process that runs their code alone. The owner frees
 * the memory of a site (redirect_to) no sooner than that of the sites redirected to it.
 *
 * `also` (or NULL) runs once, in the first stop, before the text is written (P9); where it fails
 * with ERROR_UNFIT and `held` is NULL, in a later stop.
 */
struct error *patch_place(struct proc *proc, struct stop *held, struct patch_site **sites,
			  size_t count, const struct patch_also *also,
			  struct patch_stats *ret_stats);

/*
 * Restores the bytes of every PATCH_PLACED site; all are PATCH_REMOVED then. Bytes in the target
 * that are no longer ours are left alone, and the site's error says so. Waits at most timeout_ms
 * until no thread is in any of the trampolines. *ret_idle: the trampolines may be freed, because
 * no thread is in them and no site left alone still holds our jump (under a debugger's breakpoint).
 * Pages that equal the file again are dropped with MADV_DONTNEED, so that the target's memory is as
 * before. `also` (or NULL) runs in the stop that restores the bytes, behind them (P9), unless a
 * site left alone may hold our jump; after ERROR_UNFIT, in a later one.
 */
struct error *patch_remove(struct proc *proc, struct patch_site **sites, size_t count,
			   unsigned timeout_ms, const struct patch_also *also, bool *ret_idle,
			   struct patch_stats *ret_stats);

/* Finds `after` and `waypoint` of sites that another controller wrote: a short jump leads through
 * another site of the list. The sites are sorted by address and don't overlap. */
void patch_link(struct patch_site *sites, size_t count);

/* Does the process's text hold our jump at the site? False if the text can't be read. */
bool patch_holds(struct proc *proc, const struct patch_site *site);
/* The same; true if the text is mapped and can't be read (H32). */
bool patch_may_hold(struct proc *proc, const struct maps *maps, const struct patch_site *site);

struct patch_range {
	taddr start, end;
	/* Shared code (codegen/shared_code.h, U3): a thread there counts only if the word at its
	 * stack pointer, its return address, is in one of the other ranges. */
	bool is_called;
};

/* A search for threads in some ranges, in a stop: stacks may have come and gone before it. */
struct patch_search {
	const struct patch_range *ranges; /* borrowed */
	size_t count;
	struct stack_scan_range *list;
	struct stack_scan *scan;
};
struct error *patch_search_begin(struct patch_search *search, struct proc *proc,
				 const struct patch_range *ranges, size_t count);
/* As patch_find_threads. */
struct error *patch_search_threads(struct patch_search *search, struct stop *stop, bool *ret_found);
void patch_search_end(struct patch_search *search);

/* Is a held thread in one of the ranges: by its RIP, its stack pointer, or the RIP in a signal
 * frame that it will return through? (The agent's slow paths run on stacks of their own: no memory
 * is unmapped while a thread is there.) */
struct error *patch_find_threads(struct proc *proc, struct stop *stop,
				 const struct patch_range *ranges, size_t count, bool *ret_found);
/* Does a signal frame lead into one of the ranges? Looks at no registers. */
struct error *patch_find_frames(struct proc *proc, struct stop *stop,
				const struct patch_range *ranges, size_t count, bool *ret_found);

#endif
