/*
 * arithmetic.h - the operations of program.h that need only numbers: the same code in the target,
 * where filters run at a hit, and in the reader of traces.
 *
 * Freestanding, no state, can't fault.
 */
#ifndef DYNTRACE_ARITHMETIC_H
#define DYNTRACE_ARITHMETIC_H

#include <stdbool.h>

#include "program.h"
#include "real.h"

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

static inline uint64_t dt_combine_real(uint8_t code, uint64_t x, uint64_t y)
{
	switch (code) {
	case DT_OP_REAL_ADD: return dt_real_add(x, y);
	case DT_OP_REAL_SUB: return dt_real_add(x, y ^ DT_REAL_SIGN);
	case DT_OP_REAL_MUL: return dt_real_mul(x, y);
	case DT_OP_REAL_DIV: return dt_real_div(x, y);
	case DT_OP_REAL_EQ: return dt_real_equal(x, y);
	case DT_OP_REAL_NE: return !dt_real_equal(x, y);
	case DT_OP_REAL_LT: return dt_real_less(x, y);
	case DT_OP_REAL_LE: return dt_real_less(x, y) || dt_real_equal(x, y);
	case DT_OP_REAL_GT: return dt_real_less(y, x);
	default: return dt_real_less(y, x) || dt_real_equal(x, y);
	}
}

static inline bool dt_is_combining(uint8_t code)
{
	return code >= DT_OP_ADD && code <= DT_OP_REAL_GE;
}

/* Binary operations. A division by 0 sets *failed. */
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
	case DT_OP_DIV:
	case DT_OP_DIVU:
	case DT_OP_MOD:
	case DT_OP_MODU: return dt_divide(code, x, y, failed);
	default: return dt_combine_real(code, x, y);
	}
}

static inline bool dt_is_changing(uint8_t code)
{
	return code >= DT_OP_NEG && code <= DT_OP_REAL_TO;
}

/* Unary operations. */
static inline uint64_t dt_change(const struct dt_op *op, uint64_t x)
{
	switch (op->code) {
	case DT_OP_NEG: return 0 - x;
	case DT_OP_NOT: return ~x;
	case DT_OP_LNOT: return !x;
	case DT_OP_REAL_WIDEN: return dt_real_widen(x, op->a);
	case DT_OP_REAL_NARROW: return dt_real_narrow(x);
	case DT_OP_REAL_FROM:
		return op->b ? dt_real_from_int_single(x, op->a) : dt_real_from_int(x, op->a);
	case DT_OP_REAL_TO: return dt_real_to_int(x, op->a);
	default: return (int64_t)x < 0 ? 0 - x : x;
	}
}

#endif
