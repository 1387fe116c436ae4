/*
 * plan.h - decide how each probe is placed.
 *
 * Three steps; the first two need nothing from the target but its maps:
 *
 *   planner_decide  groups probes into sites and finds a tactic per probe, or why none fits
 *   planner_needs   says how much code memory is needed near which module
 *   planner_emit    writes trampolines into memory mapped meanwhile, and fills in the patches
 *
 * planner_settle ends them, after patch_place.
 *
 * The planner never touches the target.
 */
#ifndef DYNTRACE_PLAN_H
#define DYNTRACE_PLAN_H

#include "control/code/near.h"
#include "control/patch/patch.h"
#include "control/names/locate.h"
#include "control/trampoline/trampoline.h"

struct site;

#define PLAN_WHY_MAX 120

/* A tracepoint to place: its place, and the event to record there. */
struct probe {
	struct place place; /* with its name; borrowed from the caller's places */
	struct tramp_event event;
	/* the result: exactly one of the two */
	struct site *site;
	struct error *refusal; /* owned by the probe's owner */
	/* tactics whose code couldn't be written: one bit per tactic; they aren't tried again */
	unsigned spent;
	bool again; /* a tactic was spent just now: planner_decide may find another */
	char spent_why[PLAN_WHY_MAX]; /* why the last one was spent */
};

struct tactic;

/* The changed bytes of a site. */
enum divert {
	DIVERT_JUMP, /* a jump to the trampoline */
	DIVERT_SHORT, /* a short jump to a slot, which holds a jump to the trampoline */
	DIVERT_PUN, /* a jump to the hop, which holds a jump to the trampoline */
	DIVERT_NONE, /* padding: only slots */
	DIVERT_TRAP, /* one byte: int3 */
};

#define HOP_LENGTH 5

struct site_kept {
	struct probe *probe;
	struct tramp_event event;
};

/* One patched place: the probes that share it and the instructions that move. A site without probes
 * exists for its slots alone. */
struct site {
	struct module *module;
	taddr address;
	const struct tactic *tactic;
	enum divert way;
	struct site *slot_host; /* DIVERT_SHORT: the site whose slot it uses */
	size_t slot;
	size_t slot_count; /* slots given out to other sites */
	uint32_t noted; /* the owner's: its position in the list for the next controller */
	taddr hop; /* DIVERT_PUN */
	/* the replaced site whose hop this site uses; NULL: it has its own */
	struct site *hop_of;
	size_t fixed_length; /* bytes that no other site may change, if more than `length` */
	bool emitted; /* its trampoline is written */
	bool leaves; /* planner_release takes it out, and the sites that use its slots */
	struct error *refusal; /* why the trampoline couldn't be written; NULL: it could */
	bool replaced; /* the owner's: another site has taken its place, */
	bool in_child; /* but a forked child still uses it */
	bool has_exit; /* its trampoline records exits: return stubs lead there (H5) */
	bool has_redirects; /* the owner's: trampolines of kept sites lead to it (P8) */
	/* calls through its return stubs haven't returned, although it is out of the text */
	bool calls_inside;
	unsigned group; /* of the exchange it is part of (L4); 0: none */
	VEC(struct site_kept) kept; /* of a superseded site: its probes, as they were */
	struct near_piece hop_piece;
	uint8_t lengths[TRAMP_INSNS_MAX]; /* of the moved instructions */
	size_t insn_count;
	size_t length; /* of all of them */
	VEC(struct probe *) probes; /* by address */
	struct near_piece piece;
	struct patch_site patch;
};

const char *site_tactic(const struct site *site); /* "jump", "short-jump", "pun", "trap" */

/* The most probes per site. */
#define SITE_PROBES_MAX TRAMP_INSNS_MAX

struct site_list {
	struct site **items;
	size_t count, room;
};

struct planner;

struct error *planner_create(struct proc *proc, struct planner **ret_planner);
void planner_destroy(struct planner *planner);

/* Keeps room in a list of the owner's for every site that the planner has: planner_settle and
 * planner_release succeed with that list, and with one that it is appended to. Before the first
 * site. */
void planner_keep_room(struct planner *planner, struct site_list *list);

/* Sets the address space to plan for, without a process. The planner owns `maps` then. */
void planner_use_maps(struct planner *planner, struct maps maps);

/* Never moves calls: the process has a shadow stack (CET), and a moved call pushes an address that
 * isn't on it. */
void planner_keep_calls(struct planner *planner);

/*
 * The planner calls may_trap before it plans a trap in a module; an error is the reason why not.
 * Without may_trap it plans no traps. A caller that allows traps makes sure that SIGTRAP isn't lost
 * (H10), and places DIVERT_TRAP sites after all others.
 */
typedef struct error *(*planner_may_trap_fn)(void *context, const struct module *module);
void planner_allow_traps(struct planner *planner, planner_may_trap_fn may_trap, void *context);
/* SIGTRAP is guarded: from now on traps can be placed together with other sites of an exchange. */
void planner_traps_ready(struct planner *planner);
/*
 * The planner calls may_redirect before it prefers an exchange that redirects old trampolines (P8)
 * to a trap, once per planner_decide. Without may_redirect it prefers such exchanges always.
 */
typedef bool (*planner_may_redirect_fn)(void *context);
void planner_ask_redirects(struct planner *planner, planner_may_redirect_fn may_redirect,
			   void *context);
/* Never plans a trap for the probe. */
void planner_forbid_trap(struct probe *probe);
/* Is a site that isn't emitted yet a trap? */
bool planner_has_new_traps(const struct planner *planner);
/* Refuses the probes of traps that aren't emitted yet. */
void planner_refuse_traps(struct planner *planner, const char *reason);

/* Forgets all sites; none may have been placed. */
void planner_clear(struct planner *planner);

/*
 * Gives each probe a site or a refusal. The probes stay where they are in memory until they are
 * refused or released. The returned error is for the batch: a module that can't be read, out of
 * memory.
 *
 * planner_decide can be called again at any time, with new probes. Emitted sites stay as they are,
 * with one exception: if a new probe is in such a site, or needs its bytes, the site and the sites
 * that share its slots are superseded, and all their probes get new sites together with the new
 * probe. Both generations exist until planner_settle: give the patches of both to patch_place,
 * which exchanges them in one stop, or leaves the old ones. A placed probe is never refused by
 * this. The steps of an exchange:
 *
 *   planner_decide, planner_needs, planner_emit: as the first time, for new sites only
 *   patch_place: with the patches of planner_superseded and of all PATCH_PLANNED sites
 *   planner_settle: also if patch_place, or a step before it, failed
 */
struct error *planner_decide(struct planner *planner, struct probe **probes, size_t count);

struct plan_need {
	taddr low, high; /* to be reached; fixed: these very pages */
	uint64_t bytes;
	bool fixed; /* without them, only the probes that need them are refused */
};
struct plan_needs {
	struct plan_need *items;
	size_t count, room;
};
struct error *planner_needs(const struct planner *planner, struct plan_needs *ret_needs);

/* Writes trampolines. `code` is our mapping of the whole code memfd. The probes of a site whose
 * trampoline can't be written are refused. */
struct error *planner_emit(struct planner *planner, const struct tramp_env *env,
			   struct near_pool *pool, uint8_t *code);

/*
 * Does a decided exchange redirect old trampolines (P8) or an old hop? Then no other process may
 * run the code of the old sites. `group`: of this exchange; 0: of any.
 */
bool planner_redirects(const struct planner *planner, unsigned group);

/* Does a removed site still occupy the place of a planned hop? */
bool planner_hop_is_taken(const struct planner *planner, struct near_pool *pool);

/* The old sites of exchanges, taken out in the stop that places the new ones. */
const struct site_list *planner_superseded(const struct planner *planner);

/*
 * Ends an exchange. Where the new sites are placed, the old ones are added to `gone`; the caller
 * owns them as with planner_release, but they are out of the code already. Otherwise the old sites
 * are back as before, new probes are refused with the reason, and the new sites are added to `gone`
 * (a thread may have been moved into their trampolines). The caller handles new probes whose sites
 * failed outside a group. false: out of memory.
 */
bool planner_settle(struct planner *planner, struct site_list *gone);

/*
 * Takes probes out of their sites; their owner may free them then. Sites without probes leave the
 * planner's list and are added to `gone`: the caller takes them out of the code, and gives them to
 * planner_free_site when no thread is in their trampolines. A site that other probes share stays
 * (its trampoline still records the probe's events: switch it off first). A slot host and the sites
 * that jump through it stay until all of them are without probes. Looks at all sites once, however
 * many probes go. false: out of memory.
 */
bool planner_release(struct planner *planner, struct probe *const *probes, size_t count,
		     struct site_list *gone);
void planner_free_site(struct site *site, struct near_pool *pool);

/* Call before a module without sites is freed. */
void planner_forget_module(struct planner *planner, const struct module *module);

/* Sets the file whose mappings are ours: they don't count as memory in use. */
void planner_own_file(struct planner *planner, uint64_t device, uint64_t inode);

/* Why each tactic refuses a place; for --explain. */
struct tactic_reason {
	const char *tactic;
	char reason[200]; /* "": the tactic fits */
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
