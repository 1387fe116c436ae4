/*
 * tactic.h - the ways to divert an instruction: a table, tried in order. A tactic that refuses
 * gives the reason and leaves nothing behind.
 *
 *   jump        five bytes of whole instructions without a branch target inside. If the five bytes
 *               from the instruction on won't do, the site before grows over it, or a site begins a
 *               little before it.
 *   short-jump  two bytes: a short jump to a slot, five bytes that are never executed otherwise:
 *               padding, or the rest of a longer site (the "slot host").
 *   pun         some of the five bytes must stay, and make up part of the distance: the jump leads
 *               to a hop that is mapped there.
 *   trap        one byte, where SIGTRAP is certain to reach us (H10).
 */
#ifndef DYNTRACE_TACTIC_H
#define DYNTRACE_TACTIC_H

#include "planner.h"

/* The instruction that a tactic is asked for. */
struct tactic_view {
	struct planner *planner;
	const struct module_view *module;
	const struct body *body;
	size_t index; /* the instruction in it */
	const struct probe *probe; /* NULL: for planner_explain */
};

struct tactic {
	const char *name;
	/* Makes a site that covers the instruction, or grows one; it is in the planner's list
	 * then. */
	struct error *(*try)(const struct tactic_view *view, struct site **ret_site);
	/* tried when all other sites are known: it relies on bytes that they might need */
	bool is_late;
};

extern const struct tactic tactics[];
extern const size_t tactic_count;

/* A run of a body's instructions. */
struct run {
	size_t first, count;
	size_t length;
};

/* Collects whole instructions from `first` on, at least `need` bytes, without a branch target
 * inside and claimed by no site. No goroutine may be parked inside the first `changed` bytes. The
 * error is the reason why not. */
struct error *run_gather(const struct tactic_view *view, size_t first, size_t need, size_t changed,
			 struct run *ret_run);
/* Finds a run that begins before the view's instruction, as long as code falls through to it; its
 * first `changed` bytes become a jump. */
bool run_gather_back(const struct tactic_view *view, size_t changed, struct run *ret_run);
/* Makes a site of those instructions, in the planner's list. */
struct error *run_make_site(const struct tactic_view *view, const struct run *run,
			    const char *tactic, struct site **ret_site);

/* tactic_short_jump.c: takes a free slot that a short jump at `from` reaches. */
struct error *short_jump_take_slot(const struct tactic_view *view, taddr from,
				   struct site **ret_host, size_t *ret_slot);

/* tactic_trap.c */
struct error *tactic_trap_try(const struct tactic_view *view, struct site **ret_site);

/* tactic_pun.c */
struct error *tactic_pun_try(const struct tactic_view *view, struct site **ret_site);

#endif
