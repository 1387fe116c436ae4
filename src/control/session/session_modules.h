/*
 * session_modules.h - follow the libraries that the target loads and unloads.
 */
#ifndef DYNTRACE_SESSION_MODULES_H
#define DYNTRACE_SESSION_MODULES_H

#include "control/session/state/session_state.h"

/* Reads the list of modules; nothing may point to the old one. */
struct error *session_modules_start(struct session *session);

/* If a thread waits at the loader's notice (N1): reads the list of modules, then answers it. */
struct error *session_modules_step(struct session *session);
/* Places probes of ours at handlers of signals, where plain loads need them (X6). */
void session_watch_handlers(struct session *session);

#endif
