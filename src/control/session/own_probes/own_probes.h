/*
 * own_probes.h - probes of our own, which record nothing: they watch for system calls and library
 * changes that matter to the agent (own_probes.c).
 */
#ifndef DYNTRACE_OWN_PROBES_H
#define DYNTRACE_OWN_PROBES_H

#include "control/session/state/session_state.h"

/* Adds a probe at an address of the module; the caller fills in its event. The name is borrowed. */
struct error *own_probes_add(struct own_probes *list, struct module *module, uint64_t address,
			     const char *name, struct probe **ret_probe);
/* Adds a guard (placement/sigtrap_guards.h). `hides`: of rt_sigaction (H42). */
struct error *own_probes_add_guard(struct own_probes *list, struct module *module, uint64_t address,
				   const char *name, bool hides);
void own_probes_free(struct own_probes *list);

/* Adds a probe of the session at a function. */
struct error *own_probes_add_at(struct session *session, struct module *module,
				const struct symbol *symbol, struct probe **ret_probe);
/* Adds the session's probes in modules that have none yet; place_list places them. */
struct error *own_probes_create(struct session *session);
bool own_probes_has(const struct session *session, const struct module *module,
		    const struct symbol *symbol);
/* Does a probe of the session have neither a site nor a refusal yet? */
bool own_probes_is_missing(const struct session *session);
/* Has the site no probes but our own? */
bool own_probes_is_site(const struct site *site);
/* Notes whether the site must be removed last: because an unwinder needs it while calls are inside,
 * or because the agent's signal handlers are to be seen by nobody (H42). */
void own_probes_mark_last(struct site *site);

#endif
