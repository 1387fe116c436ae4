/*
 * watch_code.h - the part of a trampoline of a probe of our own that tells the controller something.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_WATCH_CODE_H
#define DYNTRACE_WATCH_CODE_H

#include "tramp_env.h"

/* Behind record_emit_save: what tramp_event.watches and asks say. rax, rcx, rdx and rbx are lost. */
void watch_emit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event);

#endif
