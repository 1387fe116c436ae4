/*
 * exits.h - function exits of one session: their memory in the target, the number of calls that
 * never returned, and how to detach while calls are inside traced functions.
 *
 * For each tracepoint with exits, once the session has left its process or the process has ended:
 * entries = exits + unwound + missed + inside, where losses of exit events count as exits.
 */
#ifndef DYNTRACE_EXITS_H
#define DYNTRACE_EXITS_H

#include "shared/returns.h"
#include "control/base/vec.h"
#include "control/agent/agent.h"
#include "control/patch/patch.h"
#include "control/remote/ahead.h"
#include "control/stop/stop.h"
#include "control/exits/check/return_tables.h"
#include "control/exits/code/exit_stub.h"

struct session;
struct tracepoint;
struct tracepoint_list;
struct module;
struct symtab;

/* An unwinder of the target that knows the stubs by a call. */
struct exits_unwinder {
	taddr forget; /* its function that takes the table back */
	taddr table; /* argument of the call */
};

/* A module that was judged: how its runtime uses return addresses. */
struct exits_caller {
	const struct module *module;
	taddr low; /* of the module, which is another one if this differs */
	char *name; /* of the module, for messages */
	struct return_tables tables;
};

struct exits {
	taddr returns; /* struct dt_returns in the target; 0: not mapped */
	taddr window; /* code that records exits, the unwind table, then the stubs; 0: not mapped */
	bool ready; /* all of it is mapped and written, and the unwinders know of it */
	uint32_t offset; /* of the window in the code memfd */
	uint64_t missed; /* sum of the tallies when exits_grow last grew */
	size_t table_at, fde_at; /* in the window */
	uint32_t *unwound; /* by entry id: calls found gone by exits_settle */
	uint32_t *inside; /* likewise: calls found inside */
	struct exits_unwinder unwinders[DT_UNWINDERS_MAX];
	size_t unwinder_count;
	VEC(struct exits_caller) callers; /* modules that were judged */
	bool all_announced; /* every unwinder in the target knows the stubs */
	uint64_t next_watch, next_grow, next_look; /* ns */
	bool settles; /* exits_settle has begun to note calls that are inside */
};

/* Does any tracepoint with a site want its exit recorded? */
bool exits_wanted(const struct tracepoint_list *list);

/* Takes the exit from tracepoints that can't have one (H6, H7): these record entries only, and keep
 * the reason. Fails if the user named such a function. */
struct error *exits_check(struct session *session, const struct tracepoint_list *list);

/* Takes the exit from Go functions one of whose ends has no probe. Called when all ends have their
 * sites. Fails as exits_check does. */
struct error *exits_check_ends(const struct tracepoint_list *list);

/* exits_late.c: adds probes at the ends of functions that a language runtime calls (R9), to be
 * placed with the list's own; keeps the reason where it can't. */
struct error *exits_late_add(struct session *session, const struct tracepoint_list *list);
/* The probes of the tracepoint are refused: gives them up, to be released by the caller. */
void exits_late_refuse(struct tracepoint *tracepoint);
/* Does each probe have a site? Is each in the target's text? */
bool exits_late_has_sites(const struct tracepoint *tracepoint);
bool exits_late_is_placed(const struct tracepoint *tracepoint);
/* Lets calls have late stubs, or no more. */
void exits_late_switch(struct session *session, struct tracepoint *tracepoint, bool on);
void exits_late_free(struct tracepoint *tracepoint);

/* Does this text of /proc/PID/status report a shadow stack (CET)? */
bool exits_has_shadow_stack(const char *status);
bool exits_shadow_stack_of(pid_t pid);

/* Gets the memory that exits need here, before threads are held. */
struct error *exits_prepare(struct session *session);
/* Chooses places near `near`, before threads are held, and claims them in `maps`. False: none is
 * free. */
bool exits_find_places(struct maps *maps, taddr near, taddr *ret_returns,
		       struct code_window *ret_window);
/* Adds the call that maps the slots there (ahead.h). */
void exits_ahead(struct ahead *list, taddr at);
/* Maps slots and stubs by way of a held thread: slots where dt_control says if that is free, stubs
 * in `window` if that is mapped (NULL: it isn't). */
struct error *exits_map(struct session *session, struct stop *stop,
			const struct code_window *window);
/* Maps the slots into a child that forked before exits_map. */
struct error *exits_map_child(struct session *session, struct proc *child, struct stop *stop);
/* Writes the shared code and the first stubs, and fills in `env`. */
struct error *exits_write(struct session *session, struct tramp_env *env);

/* Finds runtimes that look up return addresses (H29), in all modules or in the program alone. Reads
 * files: call it before threads are held, so that exits_allow has nothing left to read. */
struct error *exits_judge_callers(struct session *session, bool all);
/* Lists the code whose calls may return through stubs (R6), for the modules mapped now. */
void exits_allow(struct session *session);
/* "OCaml in PROGRAM": the runtimes that exits_judge_callers has found; NULL: none, or out of memory.
 * The caller frees. */
char *exits_runtimes(const struct session *session);
/* Is the module a language runtime, or has it a compiler (exits_judge_callers)? Then calls of its
 * functions may come from code that gets no stub. */
bool exits_has_runtime(const struct session *session, const struct module *module);
/* Does a runtime that was found tell the overflow of a stack by an address near rsp, as OCaml's
 * does? */
bool exits_looks_near(const struct session *session);
void exits_free_callers(struct exits *exits);

/* Announces the stubs to every unwinder in the target (H7), before the first use of a stub. `held`
 * as in safepoint_call. */
struct error *exits_register(struct session *session, struct stop *held);
/* Does the module unwind frames by itself? */
bool exits_is_unwinder(const struct symtab *symtab);
/* exits_bound.c: do exceptions go through the unwinder in this module, now or by the loader's
 * search order? True also if that can't be told. */
bool exits_is_bound(struct session *session, const struct module *unwinder,
		    const struct symtab *symtab);
/* Is the unwinder in the module LLVM's libunwind? */
bool exits_is_llvm(const struct symtab *symtab);
/* Does the unwinder in the module know the stubs, by a call or by a hook? */
bool exits_is_announced(struct session *session, struct module *module);
/* exits_hook.c: adds an own probe for each unwinder that can have one and doesn't know the stubs
 * yet. The caller places these probes together with the list's. */
struct error *exits_hook_add(struct session *session, const struct tracepoint_list *list);
/* Is the module's hook placed, or planned for the next placement? */
bool exits_hook_is_there(const struct session *session, const struct module *module);
/* The target loaded or unloaded libraries; no code of the new ones has run yet. */
void exits_modules_changed(struct session *session);
/* Call regularly: announces the stubs to unwinders that had no safe point before. */
void exits_watch(struct session *session, uint64_t now_ns);
/* session_exits_from. */
taddr exits_from(struct session *session);
/* Makes the unwinders of a process forget the stubs, before the session leaves the process. */
struct error *exits_unregister(struct session *session, struct proc *proc);

/* Call regularly: writes more stubs if they run short. */
void exits_grow(struct session *session, uint64_t now_ns);

/* exits_open.c: call regularly: notes calls that are inside and may never return (open_calls.h). */
void exits_open_look(struct session *session, uint64_t now_ns);
/* Recording has ended: without exits_settle, what the last look counted as inside may be wrong. */
void exits_open_end(struct session *session);

/* The process's text is restored: waits a little for calls that are inside, then puts the return
 * addresses of the other calls back on their stacks. *ret_clean false: a frame vanished, and memory
 * still holds a word that looks like its stub's address; the stubs must stay. */
struct error *exits_settle(struct session *session, struct proc *proc, bool *ret_clean);
/* Redirects the process's stubs that lead to garbage, or sets the site's calls_inside. All threads
 * are stopped, and none is in garbage. */
struct error *exits_release(struct session *session, struct proc *proc);
/* The stubs, and the code that all exits share; empty: there are none. */
struct patch_range exits_range(const struct session *session);
/* Are the slots mapped there? */
bool exits_are_mapped(struct proc *proc, const struct maps *maps, taddr returns);
/* Adds the slots, if they are mapped, to what is to be unmapped; agent_remove unmaps the stubs'
 * window. */
struct remote_map_list;
struct error *exits_list_memory(const struct session *session, struct proc *proc,
				struct remote_map_list *list);

bool exits_create(struct session *session);
void exits_free(struct session *session);

#endif
