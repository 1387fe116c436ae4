/*
 * faults.h - handlers for five signals in functions of the user that tracepoints call
 * (target/signals/fault.c), as long as a session has such tracepoints.
 *
 * The order: the guards of the libc's rt_sigaction are placed (session/own_probes/fronts.h), then
 * the handlers are installed, then call_tracer_enable switches the tracepoints on.
 */
#ifndef DYNTRACE_FAULTS_H
#define DYNTRACE_FAULTS_H

#include "control/stop/stop.h"

struct session;

/* Maps struct dt_calls by way of a held thread. */
struct error *faults_map(struct session *session, struct stop *stop);
/* Installs the handlers, once the guards are placed. `held` as in session_begin. */
struct error *faults_install(struct session *session, struct stop *held);
/* Gives the process its own handlers back. */
struct error *faults_give_back(const struct session *session, struct proc *proc, struct stop *stop);
/* Adds struct dt_calls, if it is mapped, to what is to be unmapped. */
struct remote_map_list;
struct error *faults_list_memory(const struct session *session, struct proc *proc,
				 struct remote_map_list *list);

#endif
