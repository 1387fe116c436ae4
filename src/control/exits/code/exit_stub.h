/*
 * exit_stub.h - code for function exits: the part of an entry trampoline that takes a return stub,
 * the stubs, the code that records an exit, and the unwind table of all of them.
 *
 * The protocol is R1 to R11 of returns.h. Pure: writes the buffers it is given.
 */
#ifndef DYNTRACE_EXIT_STUB_H
#define DYNTRACE_EXIT_STUB_H

#include "control/codegen/tramp_env.h"

/* The event NAME_exit: header, ret, duration. */
#define EXIT_EVENT_SIZE 24u
#define EXIT_EVENT_RET 8u
#define EXIT_EVENT_DURATION 16u

/*
 * A tracepoint whose exit records other fields has an event for the exit (tramp_event.at_exit),
 * made as an entry's is: plain fields, or a program for the agent (with the exit's id). Its
 * sources:
 *
 *	SOURCE_REGISTER	any but rsi, which is the SOURCE_STACK at -8
 *	SOURCE_XMM	any; xmm0 and xmm1 are results
 *	SOURCE_STACK	from rsp as at the entry: 8 is the first argument on the stack, unless the
 *			function has changed it
 *	SOURCE_DURATION	ns
 *	programs	the same; DT_REG_DURATION; with tramp_event.st0 and st1 also DT_REG_ST0 and
 *			DT_REG_ST1, for long double
 *
 * With `is_pair` the exit's event is a pair (program.h): the offsets of its fields are those in the
 * pair, behind the pair_size bytes of the entry's.
 *
 * Its filter decides at the exit. `kept` are words that the entry keeps for the exit (DT_OP_KEPT).
 * A gathered exit has its duration as its first field: the summary reads it there.
 */

/* ---- parts of an entry trampoline (trampoline.c) --------------------------------------------- */

/* The most bytes that these add to a trampoline. */
#define EXIT_ENTRY_ROOM 704
#define EXIT_FIELD_ROOM 40
size_t exit_room(const struct tramp_event *event);

/* Labels that exit_emit_take shares with the fast path. Zero them first. */
struct exit_labels {
	struct label miss, busy, taken, out;
	size_t site_field; /* where the distance to the site goes */
	size_t again_field; /* likewise; 0: none */
	/* of pairs whose entry is gathered: where the distances to its program go; 0: none */
	size_t program_field, late_program_field;
};

/* Around record_emit_save and record_emit_restore: rsi, and a word for the clock. */
#define EXIT_SAVED_RSI 48 /* from rsp */
/* From rsp after record_emit_save: the upper half of the word with the flags, in which a count by
 * key keeps the index of the key. */
#define EXIT_KEY 4
void exit_emit_save(struct emitter *e);
void exit_emit_restore(struct emitter *e);
/* After the reserve, rdx = clock: keeps it for the stub. */
void exit_emit_clock(struct emitter *e);
/* After the event is written, rsi = the thread's table of stubs (slot_emit_table): takes a stub,
 * restores, and jumps to the stub. Without a stub, to l->out. */
void exit_emit_take(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    struct exit_labels *l);
/* As exit_emit_take, by the routine event->taking, of which exit_emit_miss is a part. rcx = 0: the
 * event is lost, and the call gets no stub. */
void exit_emit_take_shared(struct emitter *e, const struct tramp_event *event,
			   struct exit_labels *l);
/* Can that be? */
bool exit_can_share(const struct tramp_event *event);
/* Out of line: the hint was wrong, or the thread's slot unknown. Reads the clock unless `timed`. */
void exit_emit_miss(struct emitter *e, const struct tramp_env *env, const struct tramp_event *event,
		    bool timed, struct exit_labels *l);
/* Before the filter of an entry that may have late stubs: the call before it with the same place is
 * over, whether this one is recorded or not (R9). */
void exit_emit_again(struct emitter *e, const struct tramp_env *env,
		     const struct tramp_event *event, struct exit_labels *l);
/* At an end of a function, after record_emit_save: puts the call's late stub in the place of the
 * return address (R9). */
void exit_emit_leave(struct emitter *e, const struct tramp_env *env, struct exit_labels *l);
/* Data: its struct dt_return_site. */
void exit_emit_leave_site(struct emitter *e, const struct tramp_event *event,
			  const struct exit_labels *l);
/* Data: the trampoline's struct dt_return_site. True: the exit has code of its own, which begins
 * here (event->exit_code); the caller emits it. */
bool exit_emit_site(struct emitter *e, const struct tramp_env *env, struct tramp_event *event,
		    const struct exit_labels *l);

/* ---- once per target ------------------------------------------------------------------------- */

#define EXIT_CODE_ROOM 704u

/* The code that stubs jump to: records NAME_exit, gives the stub back, returns. */
void exit_emit_records(struct emitter *e, const struct tramp_env *env,
		       const struct tramp_event *event);
/* The code for exits that record rax and the duration, shared by all tracepoints. Fails only when
 * it doesn't fit. */
bool exit_emit_code(const struct tramp_env *env, uint8_t *bytes, size_t room, taddr pc,
		    size_t *ret_size);

/*
 * Writes the routine by which trampolines take a stub, to run at pc (SHARED_STUB, U3): rsi = the
 * thread's table of stubs, rdx = the trampoline's struct dt_return_site. rcx = the stub's slot, in
 * which the clock is; 0: there is none. All else is lost.
 */
bool exit_emit_taking(const struct tramp_env *env, uint8_t *bytes, size_t room, taddr pc,
		      size_t *ret_size);

/* Writes stubs [first, end); `bytes` is stub `first`. */
bool exit_emit_stubs(const struct tramp_env *env, uint32_t first, uint32_t end, uint8_t *bytes);

#define EXIT_FRAME_ROOM 256u

/* Writes .eh_frame for all stubs: a CIE, one FDE, the end. *ret_fde: the offset of the FDE. */
bool exit_frame_table(const struct tramp_env *env, uint8_t *bytes, size_t room, size_t *ret_size,
		      size_t *ret_fde);

#endif
