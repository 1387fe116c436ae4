/*
 * read_code.h - the part of a trampoline that reads the program's memory by plain loads and writes
 * the event itself: strings, members behind pointers, conditions on them.
 *
 * It does what the event's program does (shared/program.h), or nothing: where a page isn't known to
 * be readable, a string isn't ASCII or is too long, a load fails, or the chunk is full, the agent
 * gathers the event. shared/reads.h has the routines that it calls.
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_READ_CODE_H
#define DYNTRACE_READ_CODE_H

#include "tramp_env.h"

/* Can machine code do all of the event's program? */
bool read_is_native(const struct tramp_event *event, bool at_exit);
/* The most bytes that it takes. */
size_t read_room(const struct tramp_event *event);
/* The bytes below rsp that it needs at most on a stack that isn't known; 0: it isn't native. */
int32_t read_far_stack(const struct tramp_event *event, bool at_exit);
struct read_ways {
	struct label done; /* the event was written */
	struct label *no; /* its condition has turned it away */
};
/*
 * After record_emit_save; at an exit rdx is the duration. `saved`: bytes between rsp here and rsp
 * at the site. Falls through, with all registers as before but rax, rcx, rbx and at an entry rdx,
 * if the agent has to gather.
 */
void read_emit(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
	       int32_t saved, bool at_exit, struct read_ways *ways);

/* Can machine code do all of the program of an event that is counted by a text, and is the text all
 * that the program finds out? `may_turn_away`: ways->no can be used. */
bool read_is_native_key(const struct tramp_event *event, bool may_turn_away);
/* Like read_emit. At ways->done ecx is the key's index. Falls through also for a new key. */
void read_emit_key(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		   int32_t saved, struct read_ways *ways);

#endif
