/*
 * filter_code.h - conditions as machine code, evaluated in the trampoline before it records.
 *
 * The agent evaluates conditions that read memory beyond the frame, compare strings or divide.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_FILTER_CODE_H
#define DYNTRACE_FILTER_CODE_H

#include "tramp_env.h"

/* Can machine code evaluate the whole condition? At an exit, rsi is the stub's slot. */
bool filter_is_native(const struct value_ops *ops, bool at_exit);

/* The most bytes that filter and limits add to a trampoline. */
size_t filter_room(const struct tramp_event *event);

/* After record_emit_save: jumps to `no` if the condition is 0. `saved`: bytes between rsp here and
 * rsp at the site. */
void filter_emit(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit,
		 struct label *no);
/* rax = the number that the operations leave. */
void filter_emit_value(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit);
/* The most bytes that it takes. */
size_t filter_value_room(const struct value_ops *ops);
void filter_emit_limits(struct emitter *e, const struct tramp_env *env,
			const struct tramp_limits *limits, struct label *no);

#endif
