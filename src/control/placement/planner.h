/*
 * planner.h - what the files of plan/ share of the planner.
 *
 * (L1) Sites are sorted by address, and what two of them claim doesn't overlap: site_claim bytes
 *      from its address on, which no other site may change or rely on.
 * (L2) A site that has been emitted keeps its instructions and its slots: it neither grows nor
 *      hosts more.
 * (L3) A host outlives the sites that jump through its slots.
 * (L4) Sites that are exchanged have the number of their group, not 0: the old ones in
 *      `superseded`, the new ones in `sites`. A site grows and gives slots within its group only,
 *      so that a group can be undone.
 */
#ifndef DYNTRACE_PLANNER_H
#define DYNTRACE_PLANNER_H

#include "control/code/jump.h"
#include "body.h"
#include "plan.h"

#define SITE_INSNS_MAX (PATCH_MOVES_MAX - 1) /* one move is the end's */

/* What is known of a module, found once. */
struct module_view {
	struct module *module;
	struct symtab *symtab;
	struct branch_targets *branch_targets;
};

struct planner {
	struct proc *proc; /* NULL: a file is looked at, not a process */
	VEC(struct module_view *) views;
	VEC(struct site *) sites; /* (L1) */
	struct site_list superseded; /* (L4) */
	unsigned group; /* of what is decided just now */
	unsigned last_group;
	struct body body; /* of the function that was looked at last */
	const struct module_view *body_view;
	struct body near; /* the same for the search of a host in a neighbour */
	uint64_t own_device, own_inode; /* a file whose mappings are ours */
	struct maps maps; /* where there is room; read for every planner_decide */
	planner_may_trap_fn may_trap;
	void *may_trap_context;
	bool traps_ready;
	bool keeps_calls;
	struct {
		/* by address; those that have no site yet are waiting for one */
		struct probe *const *items;
		size_t count;
	} wanted; /* whose bytes nobody may rely on just now */
};

/* siteset.c - the planner's sites, by address */
/* the last that starts at or before it */
struct site *siteset_before(const struct planner *planner, taddr address);
/* the first; NULL: none */
struct site *siteset_overlapping(const struct planner *planner, taddr start, taddr end);
bool siteset_insert(struct planner *planner, struct site *site);
void siteset_remove(struct planner *planner, struct site *site);
void site_free(struct site *site);
/* The hop, if the other one has it, is this one's. */
void site_take_hop(struct site *site, struct site *from);
uint64_t site_claim(const struct site *site);
/* How many more slots fit behind its jump. */
size_t site_slots_free(const struct site *site);
taddr site_slot(const struct site *site, size_t index);

/* plan.c */
/* Is one of the probes that are being decided in [start, end)? Not told in the last round: then
 * what is left may be used. */
bool plan_is_wanted(const struct planner *planner, taddr start, taddr end);
/* Each of them that has no site gets one, or a refusal; sorts them by address. Sites that are
 * emitted stay as they are. */
struct error *plan_all(struct planner *planner, struct probe **probes, size_t count);

/* regroup.c - new probes among sites that are placed */
/* Tries again with what was refused, at the expense of sites in the way. */
struct error *regroup_decide(struct planner *planner, struct probe **probes, size_t count);
/* The old sites of that group are back, the new ones go to `gone`, new probes are refused. false:
 * out of memory. */
bool regroup_undo(struct planner *planner, unsigned group, const char *reason,
		  struct site_list *gone);

/* function.c */
struct error *function_view(struct planner *planner, struct module *module,
			    struct module_view **ret_view);
/* The body of the function around the address of the file; stays valid until the next call. */
struct error *function_body(struct planner *planner, const struct module_view *view,
			    const struct symbol *symbol, uint64_t address,
			    const struct body **ret_body);
/* Bounds of the function around an address, by its symbol or its unwind table. */
bool function_bounds(const struct module_view *view, const struct symbol *symbol, uint64_t address,
		     uint64_t *ret_start, uint64_t *ret_end);

#endif
