/*
 * real.h - floating-point arithmetic with integers: filters compare doubles, but the agent must not
 * touch vector registers.
 *
 * A real number on the stack of a program is the 64 bits of a double. Results are those of the
 * processor: rounded to nearest, ties to even, subnormal numbers included. Every NaN result is one
 * quiet NaN.
 *
 * Freestanding, no state, can't fault.
 */
#ifndef DYNTRACE_REAL_H
#define DYNTRACE_REAL_H

#include <stdbool.h>
#include <stdint.h>

#define DT_REAL_SIGN (1ULL << 63)
#define DT_REAL_INFINITE (0x7ffULL << 52)
#define DT_REAL_NAN (0xfffULL << 51)
#define DT_REAL_TOP (1ULL << 63)

/* A binary format: bits of the mantissa, including the hidden bit, and of the exponent. */
struct dt_real_format {
	uint8_t mantissa, exponent;
};
#define DT_REAL_HALF ((struct dt_real_format){ 11, 5 })
#define DT_REAL_BRAIN ((struct dt_real_format){ 8, 8 })
#define DT_REAL_SINGLE ((struct dt_real_format){ 24, 8 })
#define DT_REAL_DOUBLE ((struct dt_real_format){ 53, 11 })

/* A decomposed number: mantissa / 2^63 * 2^exponent; mantissa is 0 or has its highest bit set. */
struct dt_real {
	bool is_negative, is_infinite, is_nan;
	int32_t exponent;
	uint64_t mantissa;
};

static inline struct dt_real dt_real_normal(struct dt_real x)
{
	uint32_t zeros = x.mantissa ? (uint32_t)__builtin_clzll(x.mantissa) : 0;

	x.mantissa <<= zeros;
	x.exponent -= (int32_t)zeros;
	return x;
}

static inline struct dt_real dt_real_take(uint64_t bits, struct dt_real_format f)
{
	uint32_t kept = f.mantissa - 1u;
	uint64_t most = (1ULL << f.exponent) - 1, exponent = bits >> kept & most,
		 fraction = bits & ((1ULL << kept) - 1);
	struct dt_real x = { .is_negative = bits >> (kept + f.exponent) & 1,
			     .is_infinite = exponent == most && !fraction,
			     .is_nan = exponent == most && fraction };

	x.exponent = (int32_t)(exponent ? exponent : 1) - (int32_t)(most >> 1);
	x.mantissa = ((exponent != 0 ? 1ULL << kept : 0) | fraction) << (63 - kept);
	return dt_real_normal(x);
}

/* Rounds. The lowest bit of the mantissa stands for all bits below it. */
static inline uint64_t dt_real_give(struct dt_real x, struct dt_real_format f)
{
	uint32_t kept = f.mantissa - 1u, shift = 64u - f.mantissa;
	uint64_t most = (1ULL << f.exponent) - 1, infinite = most << kept;
	uint64_t sign = (uint64_t)x.is_negative << (kept + f.exponent), bits, rest, half;
	int32_t exponent = x.exponent + (int32_t)(most >> 1);

	if (x.is_nan)
		return infinite | 1ULL << (kept - 1);
	if (x.is_infinite || (x.mantissa && exponent >= (int32_t)most))
		return sign | infinite;
	if (exponent <= 0) { /* subnormal */
		shift = 1 - exponent < 64 ? shift + (uint32_t)(1 - exponent) : 65;
		exponent = 1;
	}
	if (!x.mantissa || shift > 64)
		return sign;
	bits = shift < 64 ? x.mantissa >> shift : 0;
	rest = shift < 64 ? x.mantissa & ((1ULL << shift) - 1) : x.mantissa;
	half = 1ULL << (shift - 1);
	bits += rest > half || (rest == half && (bits & 1));
	/* The hidden bit, where it is set, makes the exponent one more; so does a carry out of the
	 * mantissa. */
	return sign | (((uint64_t)(exponent - 1) << kept) + bits);
}

static inline struct dt_real dt_real_of(uint64_t bits)
{
	return dt_real_take(bits, DT_REAL_DOUBLE);
}

static inline uint64_t dt_real_bits(struct dt_real x)
{
	return dt_real_give(x, DT_REAL_DOUBLE);
}

/* From another format, by its size in bytes; 3: the 16 bits that are the upper half of a single. */
static inline uint64_t dt_real_widen(uint64_t bits, uint8_t from)
{
	return dt_real_bits(dt_real_take(bits, from == 2 ? DT_REAL_HALF :
					       from == 3 ? DT_REAL_BRAIN :
							   DT_REAL_SINGLE));
}

static inline uint64_t dt_real_narrow(uint64_t bits)
{
	return dt_real_give(dt_real_of(bits), DT_REAL_SINGLE);
}

/* The 80 bits of an x87 register. If the highest bit doesn't fit the exponent, the result is that
 * of the processor's own load. */
static inline uint64_t dt_real_from_x87(uint64_t mantissa, uint16_t head)
{
	uint16_t exponent = head & 0x7fff;
	struct dt_real x = { .is_negative = head >> 15,
			     .mantissa = mantissa,
			     .exponent = (exponent ? exponent : 1) - 16383 };

	if (exponent == 0x7fff) {
		x.is_infinite = mantissa == DT_REAL_TOP;
		x.is_nan = !x.is_infinite;
	} else if (exponent && !(mantissa & DT_REAL_TOP)) {
		x.is_nan = true;
	}
	return dt_real_bits(dt_real_normal(x));
}

static inline uint64_t dt_real_from_int(uint64_t value, bool is_unsigned)
{
	struct dt_real x = { .is_negative = !is_unsigned && (int64_t)value < 0, .exponent = 63 };

	x.mantissa = x.is_negative ? 0 - value : value;
	return dt_real_bits(dt_real_normal(x));
}

/* Through a single: rounded once, not twice. */
static inline uint64_t dt_real_from_int_single(uint64_t value, bool is_unsigned)
{
	struct dt_real x = { .is_negative = !is_unsigned && (int64_t)value < 0, .exponent = 63 };

	x.mantissa = x.is_negative ? 0 - value : value;
	return dt_real_widen(dt_real_give(dt_real_normal(x), DT_REAL_SINGLE), sizeof(float));
}

/* Rounds towards 0; numbers that are too large give 2^63. */
static inline uint64_t dt_real_to_int(uint64_t bits, bool is_unsigned)
{
	struct dt_real x = dt_real_of(bits);
	int32_t most = is_unsigned && !x.is_negative ? 63 : 62;
	uint64_t value;

	if (x.is_nan || x.is_infinite || (x.mantissa && x.exponent > most))
		return DT_REAL_TOP;
	value = x.mantissa && x.exponent >= 0 ? x.mantissa >> (63 - x.exponent) : 0;
	return x.is_negative ? 0 - value : value;
}

/* ---- binary operations ---------------------------------------------------------------------- */

static inline uint64_t dt_real_add(uint64_t left, uint64_t right)
{
	struct dt_real x = dt_real_of(left), y = dt_real_of(right), swap;
	uint32_t apart;

	if (x.is_nan || y.is_nan ||
	    (x.is_infinite && y.is_infinite && x.is_negative != y.is_negative))
		return DT_REAL_NAN & ~DT_REAL_SIGN;
	if (x.is_infinite || !y.mantissa)
		return x.mantissa || x.is_infinite ? left : left & right; /* -0 only of two -0 */
	if (y.is_infinite || !x.mantissa)
		return right;
	if (x.exponent < y.exponent || (x.exponent == y.exponent && x.mantissa < y.mantissa)) {
		swap = x;
		x = y;
		y = swap;
	}
	apart = (uint32_t)(x.exponent - y.exponent);
	x.mantissa >>= 1; /* room for a carry; 11 bits lie below a double's last */
	x.exponent++;
	y.mantissa >>= 1;
	if (apart)
		y.mantissa = apart < 63 ? y.mantissa >> apart |
						  ((y.mantissa & ((1ULL << apart) - 1)) != 0) :
					  1;
	x.mantissa =
		x.is_negative == y.is_negative ? x.mantissa + y.mantissa : x.mantissa - y.mantissa;
	x.is_negative &= x.mantissa != 0;
	return dt_real_bits(dt_real_normal(x));
}

static inline uint64_t dt_real_mul(uint64_t left, uint64_t right)
{
	struct dt_real x = dt_real_of(left), y = dt_real_of(right);
	unsigned __int128 product = (unsigned __int128)x.mantissa * y.mantissa;

	if (x.is_nan || y.is_nan || (x.is_infinite && !y.is_infinite && !y.mantissa) ||
	    (y.is_infinite && !x.is_infinite && !x.mantissa))
		return DT_REAL_NAN & ~DT_REAL_SIGN;
	x.is_negative ^= y.is_negative;
	x.is_infinite |= y.is_infinite;
	x.exponent += y.exponent + 1;
	x.mantissa = (uint64_t)(product >> 64) | ((uint64_t)product != 0);
	return dt_real_bits(dt_real_normal(x));
}

static inline uint64_t dt_real_div(uint64_t left, uint64_t right)
{
	struct dt_real x = dt_real_of(left), y = dt_real_of(right);
	uint64_t quotient, rest;

	if (x.is_nan || y.is_nan || (x.is_infinite && y.is_infinite) ||
	    (!x.is_infinite && !x.mantissa && !y.is_infinite && !y.mantissa))
		return DT_REAL_NAN & ~DT_REAL_SIGN;
	x.is_negative ^= y.is_negative;
	if (y.is_infinite)
		return (uint64_t)x.is_negative << 63;
	if (x.is_infinite || !y.mantissa)
		return (uint64_t)x.is_negative << 63 | DT_REAL_INFINITE;
	/* Half of x's mantissa is less than y's: the quotient fits. */
	__asm__("divq %4"
		: "=a"(quotient), "=d"(rest)
		: "d"(x.mantissa >> 1), "a"(x.mantissa << 63), "r"(y.mantissa)
		: "cc");
	x.mantissa = quotient | (rest != 0);
	x.exponent -= y.exponent;
	return dt_real_bits(dt_real_normal(x));
}

/* ---- comparison: false for NaN --------------------------------------------------------------- */

static inline bool dt_real_is_nan(uint64_t bits)
{
	return (bits & ~DT_REAL_SIGN) > DT_REAL_INFINITE;
}

/* An integer with the order of the doubles; equal for -0 and 0. */
static inline int64_t dt_real_order(uint64_t bits)
{
	return bits & DT_REAL_SIGN ? -(int64_t)(bits & ~DT_REAL_SIGN) : (int64_t)bits;
}

static inline bool dt_real_less(uint64_t x, uint64_t y)
{
	return !dt_real_is_nan(x) && !dt_real_is_nan(y) && dt_real_order(x) < dt_real_order(y);
}

static inline bool dt_real_equal(uint64_t x, uint64_t y)
{
	return !dt_real_is_nan(x) && !dt_real_is_nan(y) && dt_real_order(x) == dt_real_order(y);
}

#endif
