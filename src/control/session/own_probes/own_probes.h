/*
 * own_probes.h - probes of our own, which record nothing (own_probes.c says what for). Private to session/.
 */
#ifndef DYNTRACE_OWN_PROBES_H
#define DYNTRACE_OWN_PROBES_H

#include "control/session/state/session_state.h"

/* One more, at that address of the module; its event is for the caller to fill in. The name stays
 * the caller's. */
struct error *own_probes_add(struct own_probes *list, struct module *module, uint64_t address,
			     const char *name, struct probe **ret_probe);
/* One at a guard's place (placement/sigtrap_guards.h). */
struct error *own_probes_add_guard(struct own_probes *list, struct module *module, uint64_t address,
				   const char *name);
void own_probes_free(struct own_probes *list);

/* One of the session's, at a function. */
struct error *own_probes_add_at(struct session *session, struct module *module, const struct symbol *symbol,
			struct probe **ret_probe);
/* Those of modules that have none yet; place_list places them. */
struct error *own_probes_create(struct session *session);
bool own_probes_has(const struct session *session, const struct module *module,
	       const struct symbol *symbol);
bool own_probes_is_missing(const struct session *session); /* one isn't placed yet */
bool own_probes_is_site(const struct site *site); /* nothing but watches */
bool own_probes_is_last(const struct site *site); /* one that an unwinder needs while calls are inside */

#endif
