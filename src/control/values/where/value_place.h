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
	PLACE_GONE, /* optimised out, or nobody knows */
	PLACE_PIECES, /* in registers and in the frame */
	PLACE_MEMORY, /* ops: its address */
	PLACE_VALUE, /* ops: the number itself */
};

/* Where a value is when the probe is hit. */
struct value_place {
	enum place_kind kind;
	struct abi_piece pieces[4];
	size_t count;
	struct value_ops ops;
};

/* By the ABI, at a function's first instruction or (results) its return. */
void place_from_abi(const struct abi_value *abi, struct value_place *ret_place);
/* Part of a value: bytes from `offset` on. */
void place_member(const struct value_place *place, uint64_t offset, struct value_place *ret_place);
/* What the pointer at this place leads to. */
void place_behind(const struct value_place *place, struct value_place *ret_place);
/* The number at a place, of at most 8 bytes, on the program's stack. False: it isn't anywhere. */
bool place_push(const struct value_place *place, uint32_t size, bool is_signed,
		struct value_ops *ops);

/* Its address on the program's stack. False: it is in no memory. */
bool place_push_address(const struct value_place *place, struct value_ops *ops);
/* What a trampoline loads itself. False: it can't. */
bool place_native(const struct value_place *place, uint32_t size, struct tramp_field *ret_field);

/* Are its first bytes anywhere? Parts of a value may be optimised out. */
bool place_has(const struct value_place *place, uint32_t size);

/* A floating-point value as a double on the program's stack. False: it isn't anywhere, or has too
 * many bits. */
bool value_real(const struct type *type, const struct value_place *place, struct value_ops *ops);
/* Is it a floating-point type of 16 bytes? */
bool value_is_quadruple(const struct type *type);

#endif
