/*
 * exit_code.h - pieces of the code that return stubs go on to. Behind a push of rsi and
 * record_emit_save; exit_stub.c draws the stack. Private to plan/.
 */
#ifndef DYNTRACE_EXIT_CODE_H
#define DYNTRACE_EXIT_CODE_H

#include "control/codegen/tramp_env.h"

/* From rsp: the stub's index, in the place of the return address. */
#define EXIT_RA 48

/* For who unwinds: the function has returned, with so many bytes on the stack since. */
void exit_emit_row(struct emitter *e, int32_t depth);
/* NAME_exit of most functions: rax and the duration. */
const struct tramp_event *exit_plain_event(void);
/* rsi = the stub's slot: is it in use, and by this process (R2)? If not, to `unrecorded`. rax is
 * lost. */
void exit_emit_judge(struct emitter *e, struct label *unrecorded);
/* rsi = the stub's slot, and judges it. */
void exit_emit_identify(struct emitter *e, const struct tramp_env *env, struct label *unrecorded);
/* At `unrecorded`: counts a return through a stub that is in nobody's use. rax is lost. */
void exit_emit_unrecorded(struct emitter *e, const struct tramp_env *env);
/* The stub is free, then the return address takes its index's place (R2); its hint leads to it.
 * rax, rdx are lost. */
void exit_emit_give_back(struct emitter *e, const struct tramp_env *env);

/* rax = ns since the entry, of rdx = clock, which is lost. */
void exit_emit_duration(struct emitter *e, const struct tramp_env *env);
/* rsi = the stub's slot: to `unwanted` if the exit's filter says no. rax, rcx, rdx, rbx are lost. */
void exit_emit_filter(struct emitter *e, const struct tramp_env *env,
		      const struct tramp_event *event, struct label *unwanted);
/* For exits that need no slot of the thread: in a forked child that has hit nothing yet, whose
 * stubs are its parent's, the agent says so first. To `unrecorded`, or to `back` if it can't. rdx
 * is the clock, before and after; rax, rcx, rbx are lost. */
void exit_emit_fresh(struct emitter *e, const struct tramp_env *env, uint32_t id,
		     struct label *unrecorded, struct label *back);

#endif
