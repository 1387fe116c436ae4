/*
 * abi_rust.h - how Rust sees a value when it passes it. Private to sym/.
 *
 * Rust's own ABI is unwritten. What compilers have done since 2017: a value that is one number goes
 * where a number goes, one of two numbers as two arguments, and anything else in an integer
 * register, or by address if it is larger than one. Pure.
 */
#ifndef DYNTRACE_ABI_RUST_H
#define DYNTRACE_ABI_RUST_H

#include "control/dwarf/debug.h"

enum rust_layout {
	RUST_UNKNOWN, /* nobody can tell from the debug information */
	RUST_NUMBER,
	RUST_PAIR, /* in the order they have in memory */
	RUST_OTHER,
};

struct rust_number {
	uint64_t offset, size;
	enum type_kind kind; /* TYPE_INT, TYPE_FLOAT or TYPE_POINTER */
};

/* Of a struct, union or array. */
enum rust_layout rust_layout(const struct type *type, struct rust_number ret_numbers[2]);

#endif
