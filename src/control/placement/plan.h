/*
 * plan.h - decide how each probe is placed.
 *
 * Three steps, the first two of which need nothing from the target but its maps:
 *
 *	planner_decide	groups probes into sites and finds a tactic for each, or the reason why none fits
 *	planner_needs	how much code memory is wanted near which module
 *	planner_emit	writes trampolines into memory that was mapped meanwhile, and the patches
 *
 * and planner_settle, when what they led to is over.
 *
 * Nothing here touches the target.
 */
#ifndef DYNTRACE_PLAN_H
#define DYNTRACE_PLAN_H

#include "control/code/near.h"
#include "control/patch/patch.h"
#include "control/names/locate.h"
#include "control/trampoline/trampoline.h"

struct site;

#define PLAN_WHY_MAX 120

/* A tracepoint to place: where, and what is recorded there. */
struct probe {
	struct place place; /* its name is the place's; borrowed from the caller's places */
	struct tramp_event event;
	/* Filled in: exactly one of the two. */
	struct site *site;
	struct error *refusal; /* owned by the probe's owner */
	/* tactics that said yes, and whose code couldn't be written then: a bit each. They aren't
	 * asked again. */
	unsigned spent;
	bool again; /* ... as happened just now: planner_decide may find another way */
	char spent_why[PLAN_WHY_MAX]; /* of the last one */
};

struct tactic;

/* What stands at a site. */
enum divert {
	DIVERT_JUMP, /* a jump to the trampoline */
	DIVERT_SHORT, /* a short jump to a slot of the host, where the jump to the trampoline is */
	DIVERT_PUN, /* a jump to the hop, where a jump to the trampoline is */
	DIVERT_NONE, /* padding: nothing but slots */
	DIVERT_TRAP, /* one byte: int3 */
};

#define HOP_LENGTH 5

struct site_kept {
	struct probe *probe;
	struct tramp_event event;
};

/* One patched place: the probes that share it, the instructions that move. Without a probe it is
 * there for its slots alone. */
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
	/* ... which is that of the site whose place it takes; NULL: it is its own */
	struct site *hop_of;
	size_t fixed_length; /* bytes that nobody else may change, if more than `length` */
	bool emitted; /* its trampoline is written */
	struct error *refusal; /* why it couldn't be: it will go; NULL: it could */
	bool replaced; /* the owner's: another one has taken its place, */
	bool in_child; /* but not in a forked child, which goes on with it */
	bool has_exit; /* its trampoline records exits: return stubs lead there (H5) */
	bool has_redirects; /* the owner's: others that are kept lead to it (P8) */
	/* ... of calls that haven't returned yet, although it is out of the target's text */
	bool calls_inside;
	unsigned group; /* it is exchanged with others (L4); 0: it isn't */
	VEC(struct site_kept) kept; /* superseded: its probes, as they were */
	struct near_piece hop_piece;
	uint8_t lengths[TRAMP_INSNS_MAX]; /* of the moved instructions */
	size_t insn_count;
	size_t length; /* of all of them */
	VEC(struct probe *) probes; /* by address */
	struct near_piece piece;
	struct patch_site patch;
};

const char *site_tactic(const struct site *site); /* "jump", "short-jump", "pun", "trap" */

/* The most probes that one site can carry. */
#define SITE_PROBES_MAX TRAMP_INSNS_MAX

struct site_list {
	struct site **items;
	size_t count, room;
};

struct planner;

struct error *planner_create(struct proc *proc, struct planner **ret_planner);
void planner_destroy(struct planner *planner);

/* Without a process: the address space that a file is planned for. The planner takes it over. */
void planner_use_maps(struct planner *planner, struct maps maps);

/* Calls stay where they are: the process has a shadow stack (CET), and a moved call pushes an
 * address that isn't there. */
void planner_keep_calls(struct planner *planner);

/*
 * Asked before a trap is planned in that module; an error is the reason why it can't be. Without it
 * there are no traps. Whoever allows them sees to it that SIGTRAP isn't lost (H10), and places the
 * sites that are DIVERT_TRAP after all others.
 */
typedef struct error *(*planner_may_trap_fn)(void *context, const struct module *module);
void planner_allow_traps(struct planner *planner, planner_may_trap_fn may_trap, void *context);
/* SIGTRAP is seen to: from now on traps can be placed together with others, where sites are
 * exchanged. */
void planner_traps_ready(struct planner *planner);
/* Is any site that isn't emitted yet a trap? */
bool planner_has_new_traps(const struct planner *planner);
/* They can't be after all. */
void planner_refuse_traps(struct planner *planner, const char *reason);

/* Forgets all sites; none may have been placed. */
void planner_clear(struct planner *planner);

/*
 * Each probe gets a site or a refusal; the probes must stay where they are in memory until they are
 * refused or released. The error is for the whole: a module that can't be read, out of memory.
 *
 * It can be called again at any time, with new probes. Sites that have been emitted stay as they
 * are, with one exception: if a new probe is in such a site, or needs its bytes, the site and those
 * that share its slots are superseded, and all their probes get new sites together with the new
 * one. Then there are two generations, until planner_settle: give the patches of both to
 * patch_place, which exchanges them in one stop, or leaves the old ones. No probe that was placed
 * gets a refusal by this. What happens later, in short:
 *
 *	planner_decide, planner_needs, planner_emit	as the first time; what is new alone is asked for and written
 *	patch_place	with the patches of planner_superseded, and those of all sites that are PATCH_PLANNED
 *	planner_settle	also if patch_place, or anything before it, failed
 */
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

/* `code` is the whole code memfd, mapped here. A site whose trampoline can't be written refuses its
 * probes. */
struct error *planner_emit(struct planner *planner, const struct tramp_env *env,
			   struct near_pool *pool, uint8_t *code);

/*
 * Does an exchange that has been decided need that no other process runs the code of the old sites:
 * because that is led on to the new one's (P8), or the hop is the same? `group`: that one; 0: any.
 */
bool planner_leads_on(const struct planner *planner, unsigned group);

/* Can a hop that was decided not be had just now, because what was removed has its place still? */
bool planner_hop_is_taken(const struct planner *planner, struct near_pool *pool);

/* Sites that are to be taken out in the stop in which new ones take their place. */
const struct site_list *planner_superseded(const struct planner *planner);

/*
 * Ends an exchange. Where the new sites are placed, the old ones are added to `gone`, which are the
 * caller's as with planner_release, but out of the code already. Where they aren't, the old ones
 * are back as if nothing had been asked for, probes that were new are refused with the reason, and
 * the new sites are added to `gone` (a thread may have been moved into their trampolines). New
 * probes whose sites failed by themselves are the caller's to look after. false: out of memory.
 */
bool planner_settle(struct planner *planner, struct site_list *gone);

/*
 * The probe isn't needed any more; its owner may free it. Sites that nobody needs then leave the
 * planner's list and are added to `gone`: they are the caller's now, to take out of the code, and
 * to give to planner_free_site when nobody is in their trampolines. A site that other probes share
 * stays (its trampoline still has what was recorded for this one: switch it off first), and so do a
 * host and those who jump through it, until none of them is needed. false: out of memory.
 */
bool planner_release(struct planner *planner, struct probe *probe, struct site_list *gone);
void planner_free_site(struct site *site, struct near_pool *pool);

/* The module is gone, or will be freed; no site is in it. */
void planner_forget_module(struct planner *planner, const struct module *module);

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
