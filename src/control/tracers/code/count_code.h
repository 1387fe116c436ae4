/*
 * count_code.h - the part of a trampoline that counts a hit in the target, and the part of an exit
 * that counts its duration (struct dt_cell in layout.h).
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_COUNT_CODE_H
#define DYNTRACE_COUNT_CODE_H

#include "control/codegen/tramp_env.h"

/* The most bytes that an exit, keys and `demoted` add to a trampoline. */
size_t count_room(const struct tramp_event *event);

/* Labels of a count by key. Zero them first. */
struct count_key_labels {
	struct label missing, found;
	size_t program_field;
};

/* After record_emit_save: counts the hit, or jumps to `out` in a child that isn't traced or if the
 * program turns the hit away. `saved`: bytes between rsp here and rsp at the site. rax, rcx, rdx,
 * rbx are lost. */
void count_emit_hit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    int32_t saved, struct count_key_labels *l, struct label *out);
/* Out of line: adds a key. */
void count_emit_slow(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, int32_t saved, struct count_key_labels *l,
		     struct label *out);

/* After record_emit_save: counts a hit in a cell without times, or jumps to `out` likewise. */
void count_emit_demoted(struct emitter *e, const struct tramp_env *env,
			const struct tramp_count *count, struct label *out);

/* The code that the tracepoint's return stubs jump to. */
void count_emit_exit(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event);

#endif
