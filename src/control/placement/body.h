/*
 * body.h - a function's instructions, and how each can be reached.
 *
 * Addresses are the file's own. The list continues with the padding after the function, which is
 * never executed.
 */
#ifndef DYNTRACE_BODY_H
#define DYNTRACE_BODY_H

#include "control/base/vec.h"
#include "control/code/decode.h"
#include "branch_targets.h"

/* How execution reaches an instruction, other than by falling through from the one before. */
enum body_way {
	WAY_NONE, /* not at all */
	WAY_BRANCH, /* by a branch, surely or perhaps */
	WAY_RETURN, /* a call returns there */
	WAY_UNKNOWN, /* unknown: no fall-through, and no branch was found */
	WAY_PARKED, /* only goroutines that were parked there go on there (go_epilogue.h) */
};

struct body_insn {
	uint64_t at;
	uint8_t length;
	bool dead; /* padding, never executed */
	bool sees_rip; /* a branch, a call, or an operand relative to rip */
	enum body_way way;
	enum insn_flow flow;
};

struct body {
	uint64_t start, end; /* of the function */
	const struct text_range *text;
	const struct branch_targets *branch_targets;
	VEC(struct body_insn) insns;
};

/* Reads a function into `body`, whose memory is used again. Bytes that can't be decoded end the
 * list. With `targets` NULL, only the boundaries of instructions are right. false: out of
 * memory. */
bool body_read(struct body *body, const struct symtab *symtab, const struct branch_targets *targets,
	       uint64_t start, uint64_t end);
void body_free(struct body *body);

/* The index of the instruction that holds the address; false: the body ends before it. */
bool body_find(const struct body *body, uint64_t address, size_t *ret_index);

/* Must the instruction stay? It can't be moved, or its bytes are also data or a branch target. */
bool body_is_fixed(const struct body *body, size_t index);

#endif
