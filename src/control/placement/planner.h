/*
 * planner.h - the planner's state. Private to placement/.
 *
 * (L1) Sites are sorted by address and their claims don't overlap. A site claims site_claim bytes
 *      from its address on: no other site may change or rely on them.
 * (L2) An emitted site keeps its instructions and its slots: it neither grows nor gives out more
 *      slots.
 * (L3) A slot host outlives the sites that jump through its slots.
 * (L4) Sites of an exchange have the number of their group, not 0: the old ones in `superseded`,
 *      the new ones in `sites`. A site grows and gives out slots within its group only, so that a
 *      group can be undone.
 *      New sites of the group being decided lie in `span`, its old sites are the last ones of
 *      `superseded`: no step of a group looks at all sites.
 * (L5) There is room for every site, superseded ones included, in `sites` and in the owner's lists:
 *      undoing, settling and releasing need no memory (H32).
 * (L6) Among placed sites, a trap is planned only where no exchange of them does: a hit of a trap
 *      costs some hundred times as much. An exchange that redirects old trampolines counts only
 *      if that is possible now.
 */
#ifndef DYNTRACE_PLANNER_H
#define DYNTRACE_PLANNER_H

#include "control/code/jump.h"
#include "body.h"
#include "plan.h"

#define PLANNER_ROOMS 2
#define SITE_INSNS_MAX (PATCH_MOVES_MAX - 1) /* the last move is the site's end */

/* A module with its symbols and branch targets, read once. */
struct module_view {
	struct module *module;
	struct symtab *symtab;
	struct branch_targets *branch_targets;
};

/* Hops of puns that lie side by side (tactic_pun.c). */
struct hop_stack {
	uint64_t start, end;
};

struct planner {
	struct proc *proc; /* NULL: plans for a file, not for a process */
	VEC(struct module_view *) views;
	VEC(struct site *) sites; /* (L1) */
	struct site_list superseded; /* (L4) */
	struct site_list *rooms[PLANNER_ROOMS]; /* the owner's lists (L5); the first NULL ends it */
	unsigned group; /* of the sites being decided; 0: none */
	unsigned last_group;
	size_t first_superseded; /* of that group */
	struct {
		uint64_t low, high;
	} span; /* its sites' addresses, both included; low > high: none yet */
	struct body body; /* of the last function that function_body read */
	const struct module_view *body_view;
	struct body near; /* of the neighbour searched for a slot host */
	uint64_t own_device, own_inode; /* the file whose mappings are ours */
	struct maps maps; /* shows free memory; read for every planner_decide */
	VEC(struct hop_stack) hop_stacks; /* in that memory */
	/* a bit per grain of memory, hashed; 0: no site has ever had a hop there. NULL: unknown */
	uint64_t *hop_bits;
	bool has_hops; /* now or before */
	planner_may_trap_fn may_trap;
	void *may_trap_context;
	bool traps_ready;
	bool avoids_traps; /* while all else is tried (L6) */
	planner_may_redirect_fn may_redirect;
	void *may_redirect_context;
	/* its answer: asked once per planner_decide */
	enum { REDIRECTS_UNKNOWN, REDIRECTS_POSSIBLE, REDIRECTS_IMPOSSIBLE } redirects;
	bool keeps_calls;
	struct {
		struct probe *const *items; /* by address */
		size_t count;
	} wanted; /* probes being decided: late tactics may not rely on their bytes */
};

/* siteset.c - the planner's sites, by address */
/* The last site that starts at or before the address; NULL: none. */
struct site *siteset_before(const struct planner *planner, taddr address);
/* The first site whose claim overlaps [start, end); NULL: none. */
struct site *siteset_overlapping(const struct planner *planner, taddr start, taddr end);
/* The index of the first site at or after the address. */
size_t siteset_index(const struct planner *planner, uint64_t address);
/* Closes the gap between two indices. */
void siteset_close_gap(struct planner *planner, size_t start, size_t end);
bool siteset_insert(struct planner *planner, struct site *site);
/* Notes the address of a new site of a group (L4), and of one that begins earlier now. */
void siteset_note(struct planner *planner, const struct site *site);
/* Puts a superseded site back, for which there is room (L5). */
void siteset_put(struct planner *planner, struct site *site);
/* Is the site in the list, at its place, without an overlap (L1)? For asserts. */
bool siteset_fits(const struct planner *planner, const struct site *site);
void siteset_remove(struct planner *planner, struct site *site);
void site_free(struct site *site);
/* Hands the hop over, if `from` has it. */
void site_take_hop(struct site *site, struct site *from);
uint64_t site_claim(const struct site *site);
/* The number of slots that still fit after its jump. */
size_t site_slots_free(const struct site *site);
taddr site_slot(const struct site *site, size_t index);

/* plan.c */
/* Is a probe being decided in [start, end)? Always false in the last round, which may use any bytes
 * that are left. */
bool plan_is_wanted(const struct planner *planner, taddr start, taddr end);
/* Gives each probe without a site a site or a refusal; sorts the probes by address. Emitted sites
 * stay as they are. */
struct error *plan_all(struct planner *planner, struct probe **probes, size_t count);

/* regroup.c - new probes among placed sites */
/* Tries refused probes again, superseding emitted sites in their way. */
struct error *regroup_decide(struct planner *planner, struct probe **probes, size_t count);
/* Brings the old sites of the group back, moves the new ones to `gone` and refuses new probes. gone
 * NULL: frees the new ones, which aren't emitted. false: out of memory. */
bool regroup_undo(struct planner *planner, unsigned group, const char *reason,
		  struct site_list *gone);

/* function.c */
struct error *function_view(struct planner *planner, struct module *module,
			    struct module_view **ret_view);
/* The body of the function around the address of the file; valid until the next call. */
struct error *function_body(struct planner *planner, const struct module_view *view,
			    const struct symbol *symbol, uint64_t address,
			    const struct body **ret_body);
/* The bounds of the function around an address, by its symbol or the unwind table. */
bool function_bounds(const struct module_view *view, const struct symbol *symbol, uint64_t address,
		     uint64_t *ret_start, uint64_t *ret_end);

#endif
