/*
 * watch_code.h - the part of an own probe's trampoline that notifies the controller.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_WATCH_CODE_H
#define DYNTRACE_WATCH_CODE_H

#include "tramp_env.h"

/* After record_emit_save: does what tramp_event.watches and asks say. rax, rcx, rdx and rbx are
 * lost. */
void watch_emit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event);

#endif
