/*
 * place_decide.h - decide which probes get sites (place.c).
 *
 * On failure a list's tracepoints may have sites, which the caller of place_list releases.
 */
#ifndef DYNTRACE_PLACE_DECIDE_H
#define DYNTRACE_PLACE_DECIDE_H

#include "control/session/state/session_state.h"
#include "control/stop/stop.h"

/* Decides on the list's probes that have no site, and on dyntrace's own. Fails if a named one can't
 * have one (place_decide_check). */
struct error *place_decide(struct session *session, const struct tracepoint_list *list);
/* A tracepoint that the user named must have a site. Of those that a glob found, some may be
 * refused, not all. */
struct error *place_decide_check(const struct tracepoint_list *list);

/* ---- ends of functions (R9) ----------------------------------------------------------------- */

/* Decides on probes at the ends of functions, once the list's own probes have their sites. */
struct error *place_decide_ends(struct session *session, const struct tracepoint_list *list);
/* The events of the ends have the id of the entry, which is known by now. */
void place_decide_number_ends(const struct tracepoint_list *list);
/* Switches the probes at ends of functions on, when all sites are placed that can be. `held` as in
 * session_begin. */
struct error *place_decide_begin_ends(struct session *session, const struct tracepoint_list *list,
				      struct stop *held);

#endif
