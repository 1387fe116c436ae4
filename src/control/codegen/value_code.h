/*
 * value_code.h - operations that leave a number (event/ops.h) as machine code.
 *
 * The stack of numbers lies in the registers that the trampoline has saved: the lowest number in
 * rax, then rcx, rdx, rbx. The program's values of these registers are on the stack (record_code.h
 * draws it).
 *
 * Pure: writes the emitter.
 */
#ifndef DYNTRACE_VALUE_CODE_H
#define DYNTRACE_VALUE_CODE_H

#include "tramp_env.h"

#define VALUE_DEPTH_MAX 4
#define VALUE_OP_ROOM 40 /* bytes of code per operation, at most */

/* Code that may load from the program's memory (read_code.h): the stack has three numbers at most,
 * and two while it loads. */
struct value_reads {
	taddr pages; /* dt_state.pages, or stays */
	bool opened; /* look for dt_state.opened, too */
	int32_t frame; /* bytes between rsp and what record_emit_save has saved */
	int32_t duration; /* at an exit: the duration's place, from rsp */
	/* where a register was saved, from rsp; -1: it still holds the program's value */
	int32_t (*saved_at)(const struct value_reads *reads, enum reg reg);
	struct label *quit; /* where the memory can't be read */
	size_t quits; /* jumps there, so far */
};

/* Emits operations one by one, or only checks whether it could. */
struct value_walk {
	struct emitter *e; /* NULL: only checks */
	const struct dt_op *ops;
	size_t count;
	int32_t saved; /* bytes between rsp here and rsp at the site */
	bool at_exit;
	struct value_reads *reads; /* NULL: operations that load aren't emitted */
	size_t depth;
	bool failed;
	struct label labels[VALUE_OPS_MAX + 1]; /* per operation */
};

/* Emits one operation, or a few that are one instruction; returns their number. Sets `failed` for
 * an operation that doesn't push or change a number. */
size_t value_emit(struct value_walk *w, size_t at);
/* Emits a comparison, which may begin with a constant, and leaves its result in the flags: it holds
 * if *ret_cc does. Returns the number of operations; 0: they aren't one. */
size_t value_emit_condition(struct value_walk *w, size_t at, enum cond *ret_cc);
/* The register of a number, by its distance from the top of the stack. */
enum reg value_top(const struct value_walk *w, size_t below);

#endif
