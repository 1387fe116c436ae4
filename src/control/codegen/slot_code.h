/*
 * slot_code.h - code that finds the slot of the thread that runs it.
 *
 * Each writes to the emitter. The code accepts only a slot whose key and tid are this thread's.
 */
#ifndef DYNTRACE_SLOT_CODE_H
#define DYNTRACE_SLOT_CODE_H

#include "tramp_env.h"

struct slot_labels {
	struct label far, found;
};

/* rcx = the slot of this thread, by hash; rax, rdx, rbx are lost. */
void slot_emit_find(struct emitter *e, const struct tramp_env *env, struct label *slow);
/* rcx = the slot of this thread, by a guess. slot_emit_far writes the rest, out of line. */
void slot_emit_near(struct emitter *e, const struct tramp_env *env, struct slot_labels *l);
void slot_emit_far(struct emitter *e, const struct tramp_env *env, struct slot_labels *l,
		   struct label *slow);

/* rcx = the thread's slot. Sets rsi = its table of stubs. Before the reserve: no code may read from
 * the slot after it. */
void slot_emit_table(struct emitter *e);

#endif
