/*
 * value_place.h - where a value is when a probe is hit, and operations that load it.
 *
 * Pure.
 */
#ifndef DYNTRACE_VALUE_PLACE_H
#define DYNTRACE_VALUE_PLACE_H

#include "abi.h"
#include "control/event/tramp_event.h"

enum place_kind {
	PLACE_GONE, /* optimised out, or unknown */
	PLACE_PIECES, /* in registers and in the frame */
	PLACE_MEMORY, /* ops: the address */
	PLACE_VALUE, /* ops: the number itself */
};

/* Where a value is when the probe is hit. */
struct value_place {
	enum place_kind kind;
	struct abi_piece pieces[4];
	size_t count;
	struct value_ops ops;
};

/* From the ABI, at a function's first instruction or (results) at its return. */
void place_from_abi(const struct abi_value *abi, struct value_place *ret_place);
/* The part of a value from byte `offset` on. */
void place_member(const struct value_place *place, uint64_t offset, struct value_place *ret_place);
/* The target of the pointer at this place. */
void place_behind(const struct value_place *place, struct value_place *ret_place);
/* Pushes the number at a place, of at most 8 bytes, on the program's stack. False: PLACE_GONE. */
bool place_push(const struct value_place *place, uint32_t size, bool is_signed,
		struct value_ops *ops);

/* Pushes the address on the program's stack. False: not in memory. */
bool place_push_address(const struct value_place *place, struct value_ops *ops);
/* The field for a trampoline that loads the value itself. False: it can't. */
bool place_native(const struct value_place *place, uint32_t size, struct tramp_field *ret_field);

/* Are the first `size` bytes anywhere? Parts of a value may be optimised out. */
bool place_has(const struct value_place *place, uint32_t size);

/* Pushes a floating-point value as a double on the program's stack. False: PLACE_GONE, or too many
 * bits. */
bool value_real(const struct type *type, const struct value_place *place, struct value_ops *ops);
/* Is it a floating-point type of 16 bytes? */
bool value_is_quadruple(const struct type *type);

#endif
