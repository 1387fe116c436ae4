/*
 * patch.h - the only writer of live code.
 *
 * Takes sites that were planned before (bytes read, trampolines written and mapped) and exchanges
 * them all in one stop of the target. How a batch is applied is this interface's own affair.
 *
 * (P1) Bytes are written only while every thread that can execute them is held.
 * (P2) A site is written only if the target still holds exactly the bytes it was planned from.
 * (P3) No thread's RIP lies strictly inside what a patch changes after it was written: it was moved
 *      to the same instruction in the trampoline's copy, before the bytes were written (H14).
 * (P4) No word on a thread's stack or alternate stack leads strictly inside what a patch changes
 *      when it is written (H9): the site is put off, and tried again.
 * (P5) Original bytes come back before trampolines are freed; trampolines are freed only when no
 *      thread's RIP and no RIP that a signal frame keeps lies in them. (Who is in the agent, called
 *      from a trampoline, comes back to it: patch_find_threads on the agent's range tells, in the
 *      stop in which memory goes.)
 * (P6) A site that leads through bytes of another one (`after`) is there only while that one is.
 * (P7) Of a group, the new sites are there, or the old ones, never some of both.
 * (P8) A trampoline whose site is gone leads to the code behind that site, or, while another site
 *      changes what is there, to the same instruction in the other one's copy. So nobody comes out
 *      inside of what was changed.
 */
#ifndef DYNTRACE_PATCH_H
#define DYNTRACE_PATCH_H

#include "shared/layout.h"
#include "control/stop/stop.h"
#include "control/proc/proc.h"

#define PATCH_MOVES_MAX 16

/*
 * An instruction boundary of the site and its place in the trampoline's copy: the first instruction
 * (offset 0), those inside, and the end (offset = length, copy = the jump back). Placing moves
 * threads from inside the site to the copy; removing moves threads that are in the copy (blocked in
 * a moved system call, say) back.
 */
struct patch_move {
	uint8_t offset; /* from the site's address */
	taddr copy;
};

/* A jump in code of ours that can be led elsewhere while others run it: by one store to its
 * distance, in one cache line. */
struct patch_jump {
	uint8_t *distance; /* in our mapping; NULL: there is no such jump */
	taddr end; /* of the jump, in the target */
};

enum patch_state {
	PATCH_PLANNED,
	PATCH_PLACED,
	PATCH_FAILED, /* `error` says why */
	PATCH_REMOVED,
};

struct patch_site {
	bool is_last; /* the owner's: removed when the others are, and what they left behind */
	taddr address;
	uint8_t length; /* bytes exchanged, and interior: everything moved, can be more than 5 */
	uint8_t original[DT_SITE_BYTES];
	uint8_t patched[DT_SITE_BYTES];
	struct patch_move moves[PATCH_MOVES_MAX];
	size_t move_count;
	taddr tramp_start, tramp_end; /* what belongs to this site alone */
	/* It leads through bytes of that site: placed only once that one is, taken back before it.
	 * NULL: none. */
	const struct patch_site *after;
	/* on the way to the trampoline a thread stands there once (a slot, a hop); 0: it doesn't */
	taddr waypoint;
	bool leads_on; /* from its trampoline to the code behind the site, */
	struct patch_jump back; /* by this jump */
	/* the site whose copy it leads to instead (P8); NULL: it doesn't */
	const struct patch_site *redirect_to;
	/* on the way from the site, of one that it takes the place of: leads to tramp_start when it
	 * is placed */
	struct patch_jump hop;
	/* those that are PATCH_PLACED go when those that are PATCH_PLANNED come (P7); 0: none */
	unsigned group;
	enum patch_state state;
	struct error *error; /* owned */
};

struct patch_stats {
	uint64_t stopped_us; /* the longest stop */
	size_t placed, failed;
};

/*
 * Places every PATCH_PLANNED site. `held`: NULL, and the target is stopped here, or a stop of the
 * caller's that holds all its threads already (a command at its first instruction) and stays the
 * caller's; then a site in use can't be tried again, and fails. A site that can't be placed is
 * PATCH_FAILED with its error, the others are placed all the same. Sites don't overlap. The
 * returned error is for the batch as a whole (the target is gone...).
 *
 * Sites that are PATCH_PLACED and have a group are taken out in the same stop, and are
 * PATCH_REMOVED then, if the new ones of their group are placed; they may overlap those, and have
 * no threads waited for. The new sites of a group fail together.
 *
 * Sites that are PATCH_REMOVED, and those that are taken out now, are led on where a new one
 * changes what is behind them (P8): for a process that runs their code alone. Their memory is freed
 * no sooner than that of who leads to it (redirect_to).
 */
struct error *patch_place(struct proc *proc, struct stop *held, struct patch_site **sites,
			  size_t count, struct patch_stats *ret_stats);

/*
 * Takes every PATCH_PLACED site back; all are PATCH_REMOVED then. Where the target's bytes are no
 * longer ours, they are left alone, and the site's error says so. Waits (bounded, timeout_ms) until
 * no thread is in any of the trampolines; *ret_idle tells whether they may go: that was reached,
 * and no site that was left alone still holds our jump (under a debugger's breakpoint). Pages that
 * equal the file again are dropped with MADV_DONTNEED, so that the target's memory is as before.
 */
struct error *patch_remove(struct proc *proc, struct patch_site **sites, size_t count,
			   unsigned timeout_ms, bool *ret_idle, struct patch_stats *ret_stats);

/* Finds out `after` and `waypoint` of sites that another controller noted: a short jump leads through
 * one of the others. */
void patch_link(struct patch_site *sites, size_t count);

/* Are its bytes in the process's text those of our jump? Not if they can't be read. */
bool patch_holds(struct proc *proc, const struct patch_site *site);

struct patch_range {
	taddr start, end;
};

/* Is any held thread in one of the ranges: by its RIP, its stack pointer, or the RIP in a signal
 * frame that it will return through? (The agent's slow paths run on a stack of their own; before
 * anything is unmapped nobody may be in there.) */
struct error *patch_find_threads(struct proc *proc, struct stop *stop,
				 const struct patch_range *ranges, size_t count, bool *ret_found);

#endif
