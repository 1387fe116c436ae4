/*
 * exits.h - function exits of one session: their memory in the target, how many calls never
 * returned, and how to leave with calls inside. Private to session/.
 *
 * For each tracepoint with exits, once its process has been left or has ended:
 * entries = exits + unwound + missed + inside, where losses of exit events count as exits.
 */
#ifndef DYNTRACE_EXITS_H
#define DYNTRACE_EXITS_H

#include "shared/returns.h"
#include "control/stop/stop.h"
#include "control/exits/code/exit_stub.h"

struct session;
struct tracepoint_list;
struct module;
struct symtab;

/* An unwinder of the target that knows of the stubs. */
struct exits_unwinder {
	taddr forget; /* its function for that */
	taddr table; /* what it was told */
};

struct exits {
	taddr returns; /* struct dt_returns in the target; 0: no exits are recorded */
	taddr window; /* code that records exits, the unwind table, then the stubs */
	uint32_t offset; /* of the window in the code memfd */
	uint64_t missed; /* as seen last */
	size_t table_at, fde_at; /* in the window */
	uint32_t *unwound; /* by entry id: found when a process was left */
	uint32_t *inside;
	struct exits_unwinder unwinders[DT_UNWINDERS_MAX];
	size_t unwinder_count;
	bool all_announced; /* no unwinder is left that has to be told */
	uint64_t next_watch, next_grow; /* ns */
};

/* Does any of those with a site want its exit recorded? */
bool exits_wanted(const struct tracepoint_list *list);

/* Takes the exit from tracepoints that can't have one (H6, H7): entries only, with the reason; an
 * error where the user named the function. */
struct error *exits_check(struct session *session, const struct tracepoint_list *list);

/* Does /proc/PID/status say that the kernel keeps a shadow stack for it (CET)? */
bool exits_has_shadow_stack(const char *status);
bool exits_shadow_stack_of(pid_t pid);

/* Maps stubs and slots by way of a held thread, and fills in `env`. */
struct error *exits_map(struct session *session, struct stop *stop);
/* Into a forked child that was there before. */
struct error *exits_map_child(struct session *session, struct proc *child, struct stop *stop);
struct error *exits_write(struct session *session, struct tramp_env *env);

/* Writes down whose calls may return through stubs (R6), of the modules that are there now. */
void exits_allow(struct session *session);

/* Tells every unwinder in the target of the stubs (H7), before the first of them is used. `held`
 * as in safepoint_call. */
struct error *exits_register(struct session *session, struct stop *held);
/* Does that module unwind frames by itself? */
bool exits_is_unwinder(const struct symtab *symtab);
/* Is the unwinder in that module LLVM's libunwind? */
bool exits_is_llvm(const struct symtab *symtab);
/* Does the unwinder in that module know, by a call or by a hook? */
bool exits_is_announced(struct session *session, struct module *module);
/* exits_hook.c: a probe of ours for each unwinder that can take one and doesn't know yet; to be
 * placed with the list's. */
struct error *exits_hook_add(struct session *session, const struct tracepoint_list *list);
/* Is one there, or will be with the next that are placed? */
bool exits_hook_is_there(const struct session *session, const struct module *module);
/* Libraries were loaded or unloaded: nothing of the new ones has run yet. */
void exits_modules_changed(struct session *session);
/* Now and then: tells unwinders that couldn't be told at once. */
void exits_watch(struct session *session, uint64_t now_ns);
/* session_exits_from. */
taddr exits_from(struct session *session);
/* In a process that is being left. */
struct error *exits_unregister(struct session *session, struct proc *proc);

/* Now and then: more stubs if they run short. */
void exits_grow(struct session *session, uint64_t now_ns);

/* The process's text has been restored: waits a little for calls that are inside, then puts the
 * return addresses of the others back on their stacks. *ret_clean false: a frame vanished, and
 * something that looks like its stub's address is still about: the stubs must stay. */
struct error *exits_settle(struct session *session, struct proc *proc, bool *ret_clean);
/* Stubs of the process that lead to garbage lead elsewhere from now on, or the site has
 * calls_inside. All threads are stopped, and none is in garbage. */
struct error *exits_release(struct session *session, struct proc *proc);
/* Is a held thread in a stub? */
bool exits_find_threads(const struct session *session, const struct stop *stop);
/* Unmaps the slots; the stubs' window goes with the agent's others. */
struct error *exits_unmap(const struct session *session, struct stop *stop);

bool exits_create(struct session *session);
void exits_free(struct session *session);

#endif
