/*
 * abi.h - where the ABI puts arguments and results.
 *
 * At a function's first instruction the ABI holds, whatever the debug information says about the
 * variables that the arguments will become. Pure.
 */
#ifndef DYNTRACE_ABI_H
#define DYNTRACE_ABI_H

#include "control/dwarf/debug.h"

enum abi_where {
	ABI_INT, /* a general register, by its hardware number */
	ABI_SSE, /* a vector register */
	ABI_STACK, /* at stack pointer + disp, as it is at the first instruction */
	ABI_X87, /* reg: 0 for st0, 1 for st1; results only */
	ABI_CONSTANT, /* nowhere: always `value` */
	ABI_KEPT, /* reg: index of the first word that the entry kept for the exit (layout.h) */
};

/* Bytes [offset, offset + size) of a value. */
struct abi_piece {
	enum abi_where where;
	uint8_t reg;
	int32_t disp;
	uint32_t offset, size;
	uint64_t value; /* ABI_CONSTANT */
};

struct abi_value {
	bool is_known; /* false: its place is unknown */
	bool is_behind; /* the piece holds the address of the value */
	size_t count; /* 0: no bytes to pass */
	struct abi_piece pieces[2];
};

struct abi_state {
	unsigned ints, sses;
	int32_t stack; /* bytes of arguments on the stack so far */
	bool is_rust, is_llvm;
	bool is_lost; /* the places of further arguments are unknown */
};

/* Starts with a function: the address of a large result is its first argument. */
void abi_start(const struct debug_function *function, struct abi_state *ret_state);
/* The next argument's place. */
void abi_next(struct abi_state *state, const struct type *type, struct abi_value *ret_value);
/* Where the result is when the function returns. */
void abi_result(const struct debug_function *function, const struct type *type,
		struct abi_value *ret_value);

#endif
