/*
 * session_modules.h - the target's libraries as they come and go.
 */
#ifndef DYNTRACE_SESSION_MODULES_H
#define DYNTRACE_SESSION_MODULES_H

#include "control/session/state/session_state.h"

/* Reads the list of modules; nothing may point to the old one. */
struct error *modules_start(struct session *session);

/* Answers a thread that waits at the loader's notice, if one does (N1): looks at the list of modules
 * first. */
struct error *modules_step(struct session *session);

#endif
