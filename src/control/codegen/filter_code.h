/*
 * filter_code.h - conditions as machine code: decided in the trampoline, before anything is
 * recorded.
 *
 * What reads memory beyond the frame, compares strings or divides is left to the agent.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_FILTER_CODE_H
#define DYNTRACE_FILTER_CODE_H

#include "tramp_env.h"

/* Can all of it be done here? At an exit, rsi is the stub's slot. */
bool filter_is_native(const struct value_ops *ops, bool at_exit);

/* The most bytes that filter and limits add to a trampoline. */
size_t filter_room(const struct tramp_event *event);

/* Behind record_emit_save: to `no` if it is 0. `saved`: bytes between rsp here and rsp at the site. */
void filter_emit(struct emitter *e, const struct value_ops *ops, int32_t saved, bool at_exit,
		 struct label *no);
void filter_emit_limits(struct emitter *e, const struct tramp_env *env,
			const struct tramp_limits *limits, struct label *no);

#endif
