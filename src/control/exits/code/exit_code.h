/*
 * exit_code.h - pieces of the code that return stubs jump to, after a push of rsi and
 * record_emit_save; exit_code.c draws the stack.
 */
#ifndef DYNTRACE_EXIT_CODE_H
#define DYNTRACE_EXIT_CODE_H

#include "control/codegen/tramp_env.h"

/* From rsp: the stub's index, in the place of the return address. */
#define EXIT_RA 48

/* Starts an unwind row: the function has returned, with `depth` bytes on the stack since. */
void exit_emit_row(struct emitter *e, int32_t depth);
/* The event NAME_exit of most functions: rax and the duration. */
const struct tramp_event *exit_plain_event(void);
/* Sets rsi = the stub's slot. Jumps to `unrecorded` unless the stub is in use, by this process
 * (R2). rax is lost. */
void exit_emit_identify(struct emitter *e, const struct tramp_env *env, struct label *unrecorded);
/* At `unrecorded`: counts a return through a stub that is not in use. rax is lost. */
void exit_emit_unrecorded(struct emitter *e, const struct tramp_env *env);
/* Frees the stub and makes its hint name it, then puts the return address in the index's place
 * (R2). rax, rdx are lost. */
void exit_emit_give_back(struct emitter *e, const struct tramp_env *env);

/* rax = ns since the entry; rdx = clock, which is lost. */
void exit_emit_duration(struct emitter *e, const struct tramp_env *env);
/* rsi = the stub's slot. Jumps to `unwanted` if the exit's filter says no. rax, rcx, rdx, rbx are
 * lost. */
void exit_emit_filter(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct label *unwanted);
/* For exits that need the clock before a slot of the thread, or none: in a forked child without a
 * hit so far, the agent first marks the stubs as the parent's. Jumps to `unrecorded` then, or to
 * `back` if the agent can't, or the thread has given up the clock (H26). rax, rcx, rdx, rbx are
 * lost. */
void exit_emit_fresh(struct emitter *e, const struct tramp_env *env, struct label *unrecorded,
		     struct label *back);

#endif
