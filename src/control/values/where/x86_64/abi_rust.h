/*
 * abi_rust.h - how Rust classes a value to pass it. Private to this folder.
 *
 * Rust's own ABI is unwritten. Compilers since 2017 pass a value that is one number as a number, a
 * value of two numbers as two arguments, and any other in an integer register, or by address if it
 * is larger than a register. Pure.
 */
#ifndef DYNTRACE_ABI_RUST_H
#define DYNTRACE_ABI_RUST_H

#include "control/dwarf/debug.h"

enum rust_layout {
	RUST_UNKNOWN, /* the debug information doesn't tell */
	RUST_NUMBER,
	RUST_PAIR, /* in memory order */
	RUST_OTHER,
};

struct rust_number {
	uint64_t offset, size;
	enum type_kind kind; /* TYPE_INT, TYPE_FLOAT or TYPE_POINTER */
};

/* Of a struct, union or array. */
enum rust_layout rust_layout(const struct type *type, struct rust_number ret_numbers[2]);

#endif
