/*
 * arithmetic.h - what the operations of program.h that need nothing but numbers compute: the same in the target, where filters
 * run at a hit, and in a reader of traces.
 *
 * Freestanding, no state, can't fault.
 */
#ifndef DYNTRACE_SHARED_ARITHMETIC_H
#define DYNTRACE_SHARED_ARITHMETIC_H

#include <stdbool.h>

#include "program.h"

#define DT_WORD_BITS 64u

/* `count` bits of the value from `shift` on; 0: all. */
static inline uint64_t dt_bits(uint64_t value, uint32_t shift, uint32_t count, bool is_signed)
{
	uint32_t spare = DT_WORD_BITS - (count ? count : DT_WORD_BITS);

	if (shift >= DT_WORD_BITS || spare >= DT_WORD_BITS)
		return 0;
	value = value >> shift << spare;
	return is_signed ? (uint64_t)((int64_t)value >> spare) : value >> spare;
}

static inline uint64_t dt_divide(uint8_t code, uint64_t x, uint64_t y, bool *failed)
{
	if (y == 0) {
		*failed = true;
		return 0;
	}
	switch (code) {
	case DT_OP_DIVU:
		return x / y;
	case DT_OP_MODU:
		return x % y;
	case DT_OP_DIV:
		return y == ~0ULL ? 0 - x : (uint64_t)((int64_t)x / (int64_t)y);
	default:
		return y == ~0ULL ? 0 : (uint64_t)((int64_t)x % (int64_t)y);
	}
}

static inline uint64_t dt_shift(uint8_t code, uint64_t x, uint64_t y)
{
	if (code == DT_OP_SAR)
		return (uint64_t)((int64_t)x >> (y < DT_WORD_BITS ? y : DT_WORD_BITS - 1));
	if (y >= DT_WORD_BITS)
		return 0;
	return code == DT_OP_SHL ? x << y : x >> y;
}

/* The operations with two operands, DT_OP_ADD to DT_OP_GEU. *failed: set by a division by 0. */
static inline uint64_t dt_combine(uint8_t code, uint64_t x, uint64_t y, bool *failed)
{
	int64_t a = (int64_t)x, b = (int64_t)y;

	switch (code) {
	case DT_OP_ADD: return x + y;
	case DT_OP_SUB: return x - y;
	case DT_OP_MUL: return x * y;
	case DT_OP_AND: return x & y;
	case DT_OP_OR: return x | y;
	case DT_OP_XOR: return x ^ y;
	case DT_OP_EQ: return x == y;
	case DT_OP_NE: return x != y;
	case DT_OP_LT: return a < b;
	case DT_OP_LE: return a <= b;
	case DT_OP_GT: return a > b;
	case DT_OP_GE: return a >= b;
	case DT_OP_LTU: return x < y;
	case DT_OP_LEU: return x <= y;
	case DT_OP_GTU: return x > y;
	case DT_OP_GEU: return x >= y;
	case DT_OP_SHL:
	case DT_OP_SHR:
	case DT_OP_SAR: return dt_shift(code, x, y);
	default: return dt_divide(code, x, y, failed);
	}
}

#endif
