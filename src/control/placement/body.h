/*
 * body.h - a function's instructions, and how each can be reached.
 *
 * Addresses are the file's own. Behind the function's own instructions come those of the padding
 * that follows it, which nobody runs.
 */
#ifndef DYNTRACE_BODY_H
#define DYNTRACE_BODY_H

#include "control/base/vec.h"
#include "control/code/decode.h"
#include "branch_targets.h"

/* What leads to an instruction, other than the one before it. */
enum body_way {
	WAY_NONE, /* nothing */
	WAY_INBOUND, /* something jumps there, or may */
	WAY_RETURN, /* a call returns there */
	WAY_UNKNOWN, /* the code before it doesn't lead on, and nothing that was found does */
};

struct body_insn {
	uint64_t at;
	uint8_t length;
	bool dead; /* padding that nobody runs */
	bool sees_rip; /* a branch, a call, an operand relative to it */
	enum body_way way;
	enum insn_flow flow;
};

struct body {
	uint64_t start, end; /* of the function */
	const struct text_range *text;
	const struct branch_targets *branch_targets;
	VEC(struct body_insn) insns;
};

/* Takes the body's old memory over. What can't be decoded ends it. Without `branch_targets` only where
 * instructions begin is told. false: out of memory. */
bool body_read(struct body *body, const struct symtab *symtab, const struct branch_targets *branch_targets,
	       uint64_t start, uint64_t end);
void body_free(struct body *body);

/* The index of the instruction that holds the address; false: the body ends before it. */
bool body_find(const struct body *body, uint64_t address, size_t *ret_index);

/* It can't be moved, or its bytes are data as well. */
bool body_is_fixed(const struct body *body, size_t index);

#endif
