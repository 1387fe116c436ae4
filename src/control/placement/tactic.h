/*
 * tactic.h - the ways to divert an instruction. A table, tried in order; each can say no, with a
 * reason, and leaves nothing behind when it does.
 *
 *	jump	five bytes, whole instructions, nothing leads inside. If the instruction's own five bytes won't
 *		do, the site before it grows over it, or a site begins a little before it.
 *	short-jump	two bytes: a short jump to a slot, five bytes that nobody runs: padding, or the rest of a site
 *		("host") that is made longer for it.
 *	pun	what must stay of the five bytes stays, and makes part of the distance: the jump leads to a
 *		hop that is put there.
 *	trap	one byte, where SIGTRAP is certain to reach us (H10).
 */
#ifndef DYNTRACE_TACTIC_H
#define DYNTRACE_TACTIC_H

#include "planner.h"

/* What a tactic looks at. */
struct tactic_view {
	struct planner *planner;
	const struct module_view *module;
	const struct body *body;
	size_t index; /* the instruction in it */
	const struct probe *probe; /* NULL: asked without one */
};

struct tactic {
	const char *name;
	/* Makes a site that covers the instruction, or makes one that does. It is in the planner's
	 * list then. */
	struct error *(*try)(const struct tactic_view *view, struct site **ret_site);
	/* asked when all other sites are known: it relies on bytes that they might want */
	bool is_late;
};

extern const struct tactic tactics[];
extern const size_t tactic_count;

/* A run of a body's instructions. */
struct run {
	size_t first, count;
	size_t length;
};

/* Whole instructions from `first` on, at least `need` bytes; nothing leads inside and nobody claims
 * them. NULL or why not. */
struct error *run_gather(const struct tactic_view *view, size_t first, size_t need,
			 struct run *ret_run);
/* A site of those instructions, in the planner's list. */
struct error *run_make_site(const struct tactic_view *view, const struct run *run,
			    const char *tactic, struct site **ret_site);

/* tactic_short_jump.c: a free slot that a short jump at `from` reaches. */
struct error *short_jump_find_host(const struct tactic_view *view, taddr from, struct site **ret_host,
			size_t *ret_slot);

/* tactic_trap.c */
struct error *tactic_trap_try(const struct tactic_view *view, struct site **ret_site);

/* tactic_pun.c */
struct error *tactic_pun_try(const struct tactic_view *view, struct site **ret_site);

#endif
