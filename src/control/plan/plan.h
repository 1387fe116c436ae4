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
	bool released; /* by planner_release */
};

struct tactic;

/* What stands at a site. */
enum divert {
	DIVERT_JUMP, /* a jump to the trampoline */
	DIVERT_SHORT, /* a short jump to a slot of the host, where the jump to the trampoline is */
	DIVERT_PUN, /* a jump to the hop, where a jump to the trampoline is */
	DIVERT_NONE, /* padding: nothing but slots */
};

#define HOP_LENGTH 5

/* One patched place: the probes that share it, the instructions that move. Without a probe it is there for its
 * slots alone. */
struct site {
	struct module *module;
	taddr address;
	const struct tactic *tactic;
	enum divert way;
	struct site *host; /* DIVERT_SHORT: whose slot it uses */
	size_t slot;
	size_t slot_count; /* slots that were given to others */
	uint32_t noted; /* the owner's: where it is written down for the next controller */
	taddr hop; /* DIVERT_PUN */
	size_t fixed_length; /* bytes that nobody else may change, if more than `length` */
	bool emitted; /* its trampoline is written */
	bool refused; /* it couldn't be, and will go */
	struct near_piece hop_piece;
	uint8_t lengths[TRAMP_INSNS_MAX]; /* of the moved instructions */
	size_t insn_count;
	size_t length; /* of all of them */
	VEC(struct probe *) probes; /* by address */
	struct near_piece piece;
	struct patch_site patch;
};

const char *site_tactic(const struct site *site); /* "jump", "evict", "pun" */

/* The most probes that one site can carry. */
#define SITE_PROBES_MAX TRAMP_INSNS_MAX

struct planner;

struct error *planner_create(struct proc *proc, struct planner **ret_planner);
void planner_destroy(struct planner *planner);

/* Without a process: the address space that a file is planned for. The planner takes it over. */
void planner_use_maps(struct planner *planner, struct maps maps);

/* Forgets all sites; none may have been placed. */
void planner_clear(struct planner *planner);

/* Each probe gets a site or a refusal; the probes must stay where they are in memory. The error is for
 * the whole: a module that can't be read, out of memory. */
struct error *planner_decide(struct planner *planner, struct probe **probes, size_t count);

struct plan_need {
	taddr low, high; /* must be reached; fixed: the very pages */
	uint64_t bytes;
	bool fixed; /* if they can't be had, only what needs them is refused */
};
struct plan_needs {
	struct plan_need *items;
	size_t count, room;
};
struct error *planner_needs(const struct planner *planner, struct plan_needs *ret_needs);

/* `code` is the whole code memfd, mapped here. A site whose trampoline can't be written refuses its probes. */
struct error *planner_emit(struct planner *planner, const struct tramp_env *env, struct near_pool *pool,
			   uint8_t *code);

struct site_list {
	struct site **items;
	size_t count, room;
};

/*
 * The probe isn't needed any more. Sites that nobody needs then leave the planner's list and are added to `gone`: they are
 * the caller's now, to take out of the code, and to give to planner_free_site when nobody is in their trampolines. A site
 * that other probes share stays, and so do a host and those who jump through it, until none of them is needed. false: out
 * of memory.
 */
bool planner_release(struct planner *planner, struct probe *probe, struct site_list *gone);
/* The opposite, for a probe whose site is still there. */
bool planner_take_back(struct probe *probe);
void planner_free_site(struct site *site, struct near_pool *pool);

/* Mappings of this file are ours: they don't count as memory in use. */
void planner_own_file(struct planner *planner, uint64_t device, uint64_t inode);

/* Why each tactic said no to a place, or would; for --explain. */
struct tactic_reason {
	const char *tactic;
	char reason[200]; /* "": it would do */
};
struct tactic_reasons_list {
	struct tactic_reason *items;
	size_t count, room;
};
struct error *planner_explain(struct planner *planner, const struct place *place,
			      struct tactic_reasons_list *ret_list);

size_t planner_site_count(const struct planner *planner);
struct site *planner_site(const struct planner *planner, size_t index); /* by address */

#endif
