/*
 * plan.h - decide how each probe is placed.
 *
 * Three steps, the first two of which need nothing from the target but its maps:
 *
 *	planner_decide	groups probes into sites and finds a tactic for each, or the reason why none fits
 *	planner_needs	how much code memory is wanted near which module
 *	planner_emit	writes trampolines into memory that was mapped meanwhile, and the patches
 *
 * Nothing here touches the target.
 */
#ifndef DYNTRACE_PLAN_PLAN_H
#define DYNTRACE_PLAN_PLAN_H

#include "../code/near.h"
#include "../patch/patch.h"
#include "../sym/sym.h"
#include "trampoline.h"

struct site;

/* A tracepoint to place: where, and what is recorded there. */
struct probe {
	struct place place; /* its name is the place's; borrowed from the caller's places */
	struct tramp_event event;
	/* Filled in: exactly one of the two. */
	struct site *site;
	struct error *refusal; /* owned by the probe's owner */
};

struct tactic;

/* One patched place: the probes that share it, the instructions that move. */
struct site {
	struct module *module;
	taddr address;
	const struct tactic *tactic;
	uint8_t lengths[TRAMP_INSNS_MAX]; /* of the moved instructions */
	size_t insn_count;
	size_t length; /* of all of them */
	VEC(struct probe *) probes; /* by address */
	struct near_piece piece;
	struct patch_site patch;
};

const char *site_tactic(const struct site *site); /* "jump" */

/* The most probes that one site can carry. */
#define SITE_PROBES_MAX TRAMP_INSNS_MAX

struct planner;

struct error *planner_create(struct proc *proc, struct planner **ret_planner);
void planner_destroy(struct planner *planner);

/* Each probe gets a site or a refusal; the probes must stay where they are in memory. The error is for
 * the whole: a module that can't be read, out of memory. */
struct error *planner_decide(struct planner *planner, struct probe **probes, size_t count);

struct plan_need {
	taddr low, high; /* must be reached */
	uint64_t bytes;
};
struct plan_needs {
	struct plan_need *items;
	size_t count, room;
};
struct error *planner_needs(const struct planner *planner, struct plan_needs *ret_needs);

/* `code` is the whole code memfd, mapped here. A site whose trampoline can't be written refuses its probes. */
struct error *planner_emit(struct planner *planner, const struct tramp_env *env, struct near_pool *pool,
			   uint8_t *code);

size_t planner_site_count(const struct planner *planner);
struct site *planner_site(const struct planner *planner, size_t index); /* by address */

#endif
