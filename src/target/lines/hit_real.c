/*
 * hit_real.c - the shortest decimal text of a floating-point number, with integers alone: the
 * agent must not touch vector registers.
 *
 * Steele and White's way, with the bounds of Burger and Dybvig: all numbers between the two
 * neighbours' middles read back as this one. `rest` / `whole` is what isn't printed yet, `above`
 * and `below` / `whole` are the distances to the middles. Digits come until the rest is within
 * them.
 */
#include "lines.h"

#define LIMBS 40u /* 1,280 bits; a double needs some 1,140 */

/* A number without sign: limbs of 32 bits, the lowest first. */
struct big {
	uint32_t limbs[LIMBS];
};

static void big_set(struct big *big, uint64_t value)
{
	for (uint32_t i = 0; i < LIMBS; i++)
		big->limbs[i] = 0;
	big->limbs[0] = (uint32_t)value;
	big->limbs[1] = (uint32_t)(value >> 32);
}

static void big_multiply(struct big *big, uint32_t factor)
{
	uint64_t carry = 0;

	for (uint32_t i = 0; i < LIMBS; i++) {
		carry += (uint64_t)big->limbs[i] * factor;
		big->limbs[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

static void big_shift(struct big *big, uint32_t bits)
{
	for (; bits >= 31; bits -= 31)
		big_multiply(big, 1u << 31);
	big_multiply(big, 1u << bits);
}

/* Compares a + b with c: < 0, 0, > 0. */
static int big_compare_sum(const struct big *a, const struct big *b, const struct big *c)
{
	int64_t carry = 0, result = 0;

	for (uint32_t i = 0; i < LIMBS; i++) {
		carry += (int64_t)a->limbs[i] + (b ? b->limbs[i] : 0) - (int64_t)c->limbs[i];
		if ((uint32_t)carry)
			result = 1;
		carry >>= 32;
	}
	return carry < 0 ? -1 : carry > 0 ? 1 : (int)result;
}

static void big_subtract(struct big *a, const struct big *b)
{
	int64_t carry = 0;

	for (uint32_t i = 0; i < LIMBS; i++) {
		carry += (int64_t)a->limbs[i] - (int64_t)b->limbs[i];
		a->limbs[i] = (uint32_t)carry;
		carry >>= 32;
	}
}

/* ---- digits ---------------------------------------------------------------------------------- */

struct hit_digits {
	struct big rest, whole, above, below;
	bool is_even; /* the middles themselves read back as this number, too */
	int32_t point; /* the number is 0.DIGITS * 10^point */
	uint32_t count;
	char digits[20];
};

/* mantissa * 2^exponent. `is_edge`: the neighbour below is at half the distance. */
static void set_number(struct hit_digits *d, uint64_t mantissa, int32_t exponent, bool is_edge)
{
	uint32_t up = exponent > 0 ? (uint32_t)exponent : 0;
	uint32_t down = exponent < 0 ? (uint32_t)-exponent : 0;

	big_set(&d->rest, mantissa);
	big_shift(&d->rest, up + 1 + is_edge);
	big_set(&d->whole, 1);
	big_shift(&d->whole, down + 1 + is_edge);
	big_set(&d->below, 1);
	big_shift(&d->below, up);
	d->above = d->below;
	big_shift(&d->above, is_edge);
	d->is_even = !(mantissa & 1);
	d->count = 0;
}

static void times_ten(struct hit_digits *d)
{
	big_multiply(&d->rest, 10);
	big_multiply(&d->above, 10);
	big_multiply(&d->below, 10);
}

/* Finds the decimal point, from a guess that is never too high. */
static void set_point(struct hit_digits *d, int32_t guess)
{
	int least = d->is_even ? 0 : 1;

	for (d->point = 0; d->point < guess; d->point++)
		big_multiply(&d->whole, 10);
	for (; d->point > guess; d->point--)
		times_ten(d);
	for (; big_compare_sum(&d->rest, &d->above, &d->whole) >= least; d->point++)
		big_multiply(&d->whole, 10);
}

static void make_digits(struct hit_digits *d)
{
	bool low = false, high = false;

	while (!low && !high && d->count < sizeof(d->digits)) {
		char digit = '0';

		times_ten(d);
		for (; big_compare_sum(&d->rest, NULL, &d->whole) >= 0; digit++)
			big_subtract(&d->rest, &d->whole);
		low = big_compare_sum(&d->rest, NULL, &d->below) < (d->is_even ? 1 : 0);
		high = big_compare_sum(&d->rest, &d->above, &d->whole) > (d->is_even ? -1 : 0);
		int half = big_compare_sum(&d->rest, &d->rest, &d->whole);
		if (high && (!low || half > 0 || (half == 0 && digit & 1))) /* ties to even */
			digit++;
		d->digits[d->count++] = digit;
	}
}

/* ---- text ------------------------------------------------------------------------------------ */

static void add_exponent(struct hit_text *text, const struct hit_digits *d)
{
	int32_t exponent = d->point - 1;

	hit_text_bytes(text, d->digits, 1);
	if (d->count > 1) {
		hit_text_add(text, ".");
		hit_text_bytes(text, d->digits + 1, d->count - 1);
	}
	if (exponent < 0)
		hit_text_add(text, "e-");
	else
		hit_text_add(text, "e+");
	hit_text_padded(text, (uint64_t)(exponent < 0 ? -exponent : exponent), 2);
}

static void add_plain(struct hit_text *text, const struct hit_digits *d)
{
	if (d->point <= 0) {
		hit_text_add(text, "0.");
		for (int32_t i = d->point; i < 0; i++)
			hit_text_add(text, "0");
	}
	for (int32_t i = 0; i < (int32_t)d->count || i < d->point; i++) {
		if (i == d->point && i > 0)
			hit_text_add(text, ".");
		hit_text_bytes(text, i < (int32_t)d->count ? &d->digits[i] : "0", 1);
	}
}

void hit_real(struct hit_text *text, uint64_t bits, uint32_t size)
{
	uint32_t kept = size == 4 ? 23 : 52, most = size == 4 ? 0xff : 0x7ff;
	uint32_t exponent = (uint32_t)(bits >> kept) & most;
	uint64_t fraction = bits & ((1ULL << kept) - 1);
	uint64_t mantissa = fraction | (exponent ? 1ULL << kept : 0);
	int32_t scale = (int32_t)(exponent ? exponent : 1) - (int32_t)(most >> 1) - (int32_t)kept;
	struct hit_digits d;

	if (bits >> (size * 8 - 1) & 1)
		hit_text_add(text, "-");
	if (exponent == most && fraction) {
		hit_text_add(text, "nan");
	} else if (exponent == most) {
		hit_text_add(text, "inf");
	} else if (!mantissa) {
		hit_text_add(text, "0");
	} else {
		int32_t top = 63 - __builtin_clzll(mantissa) + scale;

		set_number(&d, mantissa, scale, !fraction && exponent > 1);
		set_point(&d, ((top * 78913) >> 18) + 1); /* log10(2) * 2^18 */
		make_digits(&d);
		int32_t precision = size == 4 ? 6 : 15;
		if (precision < (int32_t)d.count)
			precision = (int32_t)d.count;
		if (d.point - 1 < -4 || d.point > precision)
			add_exponent(text, &d);
		else
			add_plain(text, &d);
	}
}
