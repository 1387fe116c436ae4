/*
 * count_code.h - the part of a trampoline that counts a hit in the target, and the part of an exit
 * that counts its duration (struct dt_cell in layout.h).
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_COUNT_CODE_H
#define DYNTRACE_COUNT_CODE_H

#include "control/codegen/tramp_env.h"

/* The most bytes that an exit adds to a trampoline. */
size_t count_room(const struct tramp_event *event);

/* After record_emit_save: counts the hit, or jumps to `out` in a child that isn't traced. rax, rcx,
 * rdx, rbx are lost. */
void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_count *count,
		    struct label *out);

/* The code that the tracepoint's return stubs jump to. */
void count_emit_exit(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event);

#endif
