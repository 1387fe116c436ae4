/*
 * count_code.h - the part of a trampoline that counts a hit in the target, and of an exit that
 * counts its duration (struct dt_cell in layout.h).
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_COUNT_CODE_H
#define DYNTRACE_COUNT_CODE_H

#include "control/codegen/tramp_env.h"

/* The most bytes that an exit adds to a trampoline. */
size_t count_room(const struct tramp_event *event);

/* Behind record_emit_save: one more hit; rax, rcx, rdx, rbx are lost. To `out` where it isn't to be
 * counted. */
void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_count *count,
		    struct label *out);

/* The code that the tracepoint's return stubs go on to. */
void count_emit_exit(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event);

#endif
