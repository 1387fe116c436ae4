/*
 * code_window.h - windows of the code memfd near the target's modules.
 *
 * The first windows are mapped while the target has a descriptor of the memfd, by one call each;
 * later ones (agent_map_window) are doubled from an existing mapping (remote_map_extend).
 */
#ifndef DYNTRACE_CODE_WINDOW_H
#define DYNTRACE_CODE_WINDOW_H

#include "agent.h"
#include "control/remote/ahead.h"

/* Maps the windows of the options; `there` is the memfd's descriptor in the target. A window whose
 * place isn't free stays unmapped, and one that is mapped already as it is. */
struct error *code_window_map_first(struct remote *remote, struct agent *agent, int there,
				    const struct agent_options *options);
/* Adds the calls by which it does (ahead.h). */
void code_window_ahead(struct ahead *list, const struct agent *agent, int there,
		       const struct agent_options *options);

#endif
