/*
 * faults.h - signals in functions of the user's that tracepoints call (target/fault.c): we handle
 * five of them, as long as there are such tracepoints. Private to session/.
 *
 * First the guards of the libc's rt_sigaction are in place, then the handlers, and then the
 * tracepoints are switched on.
 */
#ifndef DYNTRACE_FAULTS_H
#define DYNTRACE_FAULTS_H

#include "control/stop/stop.h"

struct session;

/* Before planner_decide: the guards are among the session's watches. */
struct error *faults_watch(struct session *session);
/* struct dt_calls, by way of a held thread. */
struct error *faults_map(struct session *session, struct stop *stop);
/* Everything is placed. `held` as in session_begin. */
struct error *faults_install(struct session *session, struct stop *held);
/* The signals are the process's own again. */
struct error *faults_uninstall(const struct session *session, struct proc *proc, struct stop *stop);

#endif
