/*
 * Expressions against C: some thousand random ones (expressions.py) over variables of all types,
 * each compiled by the compiler and by values/expr, run with the agent's arithmetic, and compared
 * for random values. The arithmetic of real numbers by itself against the processor's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "control/base/vec.h"
#include "control/values/expr/expr.h"
#include "shared/arithmetic.h"

/* ---- variables of the expressions ------------------------------------------------------------ */

enum colour { RED, GREEN = 5, BLUE };
static signed char sc;
static unsigned char uc;
static short s;
static unsigned short us;
static int i, a[4], *p = &a[1];
static unsigned u;
static long l;
static unsigned long ul;
static bool b, failed;
static enum colour e;
static float f, small_f;
static double d, small_d;
static long double ld;

#define FITS(count, value) ((count) >= 0 && (uint64_t)(count) < 8 * sizeof(value))
#define DIVIDE(x, y)                                                                               \
	({                                                                                         \
		__typeof__((x) + (y)) _x = (x), _y = (y);                                          \
		_y == 0						   ? (failed = true, 0) :          \
		_y == (__typeof__(_y))-1 && (__typeof__(_y))-1 < 0 ? 0 - _x :                      \
								     _x / _y;                      \
	})
#define REST(x, y)                                                                                 \
	({                                                                                         \
		__typeof__((x) + (y)) _x = (x), _y = (y);                                          \
		_y == 0						   ? (failed = true, 0) :          \
		_y == (__typeof__(_y))-1 && (__typeof__(_y))-1 < 0 ? 0 :                           \
								     _x % _y;                      \
	})
#define LEFT(x, y)                                          \
	({                                                  \
		__typeof__(+(x)) _x = (x);                  \
		__typeof__(+(y)) _y = (y);                  \
		FITS(_y, _x) ? _x << _y : 0;                \
	})
#define RIGHT(x, y)                                                      \
	({                                                               \
		__typeof__(+(x)) _x = (x);                               \
		__typeof__(+(y)) _y = (y);                               \
		FITS(_y, _x) ? _x >> _y : _x >> (8 * sizeof(_x) - 1) >> (_x > 0 && 1); \
	})

#include "expressions.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const struct type int_type = {
	.kind = TYPE_INT, .size = 4, .is_signed = true, .base = &int_type
};

static bool find(void *context, const char *name, struct type *ret_type,
		 struct value_place *ret_place)
{
	static const struct {
		const char *name;
		const void *address;
		struct type type;
	} variables[] = {
		{ "sc", &sc, { .kind = TYPE_INT, .size = 1, .is_signed = true } },
		{ "uc", &uc, { .kind = TYPE_INT, .size = 1 } },
		{ "s", &s, { .kind = TYPE_INT, .size = 2, .is_signed = true } },
		{ "us", &us, { .kind = TYPE_INT, .size = 2 } },
		{ "i", &i, { .kind = TYPE_INT, .size = 4, .is_signed = true } },
		{ "u", &u, { .kind = TYPE_INT, .size = 4 } },
		{ "l", &l, { .kind = TYPE_INT, .size = 8, .is_signed = true } },
		{ "ul", &ul, { .kind = TYPE_INT, .size = 8 } },
		{ "b", &b, { .kind = TYPE_BOOL, .size = 1 } },
		{ "e", &e, { .kind = TYPE_ENUM, .size = 4 } },
		{ "f", &f, { .kind = TYPE_FLOAT, .size = 4 } },
		{ "d", &d, { .kind = TYPE_FLOAT, .size = 8 } },
		{ "small_f", &small_f, { .kind = TYPE_FLOAT, .size = 4 } },
		{ "small_d", &small_d, { .kind = TYPE_FLOAT, .size = 8 } },
		{ "ld", &ld, { .kind = TYPE_FLOAT, .size = 16, .name = "long double" } },
		{ "p", &p, { .kind = TYPE_POINTER, .size = 8, .pointers = 1, .base = &int_type } },
	};

	(void)context;
	for (size_t n = 0; n < sizeof(variables) / sizeof(variables[0]); n++) {
		if (strcmp(variables[n].name, name) != 0)
			continue;
		*ret_type = variables[n].type;
		*ret_place = (struct value_place){ .kind = PLACE_MEMORY };
		ops_const(&ret_place->ops, (uint64_t)(uintptr_t)variables[n].address);
		return true;
	}
	return false;
}

static bool find_label(void *context, const char *name, int64_t *ret_value)
{
	(void)context;
	*ret_value = GREEN;
	return strcmp(name, "GREEN") == 0;
}

static bool find_type(void *context, const char *name, enum type_kind kind, struct type *ret_type)
{
	(void)context;
	*ret_type = (struct type){ .kind = TYPE_ENUM, .size = 4 };
	return kind == TYPE_ENUM && strcmp(name, "colour") == 0;
}

static const struct expr_names names = { .find = find,
					 .find_label = find_label,
					 .find_type = find_type };

/* ---- running --------------------------------------------------------------------------------- */

static uint64_t memory(uint64_t address, size_t size, bool is_signed)
{
	uint64_t value = 0;

	memcpy(&value, (const void *)(uintptr_t)address, size);
	return dt_bits(value, 0, (uint32_t)size * 8, is_signed);
}

static bool run(const struct value_ops *ops)
{
	uint64_t stack[DT_PROGRAM_STACK], *top = stack;
	bool broken = false;

	for (size_t n = 0; n < ops->count; n++) {
		const struct dt_op *op = &ops->items[n];

		assert_true(top <= stack + DT_PROGRAM_STACK);
		if (op->code == DT_OP_CONST)
			memcpy(top++, &ops->items[++n], 8);
		else if (op->code == DT_OP_LOAD)
			top[-1] = memory(top[-1], op->a, op->b);
		else if (op->code == DT_OP_REAL_LOAD)
			top[-1] = dt_real_from_x87(memory(top[-1], 8, false),
						   (uint16_t)memory(top[-1] + 8, 2, false));
		else if (op->code == DT_OP_BITS)
			top[-1] = dt_bits(top[-1], op->a, op->b, op->c);
		else if (op->code == DT_OP_OFFSET)
			top[-1] += (uint64_t)(int32_t)op->c;
		else if (op->code == DT_OP_SKIP)
			n += op->c;
		else if (op->code == DT_OP_SKIP_ZERO)
			n += *--top ? 0 : op->c;
		else if (dt_is_changing(op->code))
			top[-1] = dt_change(op, top[-1]);
		else if (dt_is_combining(op->code))
			top--, top[-1] = dt_combine(op->code, top[-1], *top, &broken);
		else
			fail_msg("operation %u", op->code);
	}
	assert_true(top == stack + 1);
	return !broken && *stack != 0;
}

/* ---- values ---------------------------------------------------------------------------------- */

static uint64_t random_bits(void)
{
	static const uint64_t edges[] = { 0,
					  1,
					  2,
					  7,
					  0x7f,
					  0x80,
					  0xff,
					  0x8000,
					  0x7fffffff,
					  0x80000000,
					  0xffffffff,
					  0x7fffffffffffffff,
					  0x8000000000000000,
					  ~0ULL,
					  ~1ULL };
	uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();

	return rand() % 2 ? edges[(size_t)rand() % (sizeof(edges) / sizeof(edges[0]))] :
			    bits >> rand() % 64;
}

/* Of all kinds: with an exponent like that of others, with a tiny one, infinite, none at all. */
static double random_double(void)
{
	uint64_t bits = random_bits() << 32 ^ random_bits();
	double value;

	switch (rand() % 8) {
	case 0: return (double)(int64_t)random_bits();
	case 1: return rand() % 2 ? 0.0 : -0.0;
	case 2: return rand() % 2 ? INFINITY : -INFINITY;
	case 3: return NAN;
	case 4: bits = (bits & 0x800fffffffffffff) | (uint64_t)(rand() % 60) << 52; break;
	case 5:
		bits = (bits & 0x800fffffffffffff) | (uint64_t)(1023 - 30 + rand() % 60) << 52;
		break;
	case 6: return rand() % 100 / 4.0;
	default: break;
	}
	memcpy(&value, &bits, sizeof(value));
	return value;
}

static void shuffle(void)
{
	sc = (signed char)random_bits();
	uc = (unsigned char)random_bits();
	s = (short)random_bits();
	us = (unsigned short)random_bits();
	i = (int)random_bits();
	u = (unsigned)random_bits();
	l = (long)random_bits();
	ul = random_bits();
	b = rand() % 2;
	e = (enum colour)(rand() % 7);
	f = (float)random_double();
	d = random_double();
	ld = (long double)random_double() * (rand() % 2 ? 1.0L : 1.0L + 0x1p-60L);
	small_f = (float)(rand() % 20000 - 10000) / 8;
	small_d = (rand() % 20000 - 10000) / 16.0;
	for (size_t n = 0; n < 4; n++)
		a[n] = (int)random_bits();
}

/* (E1) */
static void test_against_c(void **state)
{
	size_t count = sizeof(expressions) / sizeof(expressions[0]), long_ones = 0;

	(void)state;
	srand(7);
	for (size_t n = 0; n < count; n++) {
		struct value_texts texts = { 0 };
		struct value_ops ops;
		struct error *error = expr_condition(expressions[n].text, &names, &ops, &texts);

		if (error && !strstr(error_text(error), "too long"))
			fail_msg("%s", error_text(error));
		if (error) {
			long_ones++;
			error_free(error);
			continue;
		}
		for (int round = 0; round < 40; round++) {
			bool expected;

			shuffle();
			failed = false;
			expected = expressions[n].function() && !failed;
			if (run(&ops) != expected)
				fail_msg(
					"%s is %d (sc %d uc %d s %d us %d i %d u %u l %ld ul %lu b "
					"%d e %d f %a d %a ld %La)",
					expressions[n].text, !expected, sc, uc, s, us, i, u, l, ul,
					b, e, f, d, ld);
		}
		vec_free(&texts);
	}
	assert_true(long_ones * 100 < count);
}

/* ---- real numbers ---------------------------------------------------------------------------- */

static uint64_t bits_of(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits;
}

static void same(const char *what, uint64_t x, uint64_t y, uint64_t ours, double theirs)
{
	if (ours != bits_of(theirs) && !(dt_real_is_nan(ours) && isnan(theirs)))
		fail_msg("%s of %" PRIx64 " and %" PRIx64 " is %" PRIx64 ", not %a", what, x, y,
			 ours, theirs);
}

static void compare_reals(double x, double y)
{
	uint64_t xs = bits_of(x), ys = bits_of(y);
	uint32_t single;
	float narrow = (float)x;

	same("sum", xs, ys, dt_real_add(xs, ys), x + y);
	same("product", xs, ys, dt_real_mul(xs, ys), x * y);
	same("quotient", xs, ys, dt_real_div(xs, ys), x / y);
	memcpy(&single, &narrow, sizeof(single));
	if (!isnan(x))
		assert_int_equal(dt_real_narrow(xs), single);
	same("single", single, 0, dt_real_widen(single, 4), narrow);
	same("signed", xs, 0, dt_real_from_int(xs, false), (double)(int64_t)xs);
	same("unsigned", xs, 0, dt_real_from_int(xs, true), (double)xs);
	same("signed, single", xs, 0, dt_real_from_int_single(xs, false), (float)(int64_t)xs);
	same("unsigned, single", xs, 0, dt_real_from_int_single(xs, true), (float)xs);
	assert_int_equal(dt_real_less(xs, ys), x < y);
	assert_int_equal(dt_real_equal(xs, ys), x == y);
	if (x > -0x1p63 && x < 0x1p63)
		assert_int_equal(dt_real_to_int(xs, false), (int64_t)x);
	if (x > -1 && x < 0x1p64)
		assert_int_equal(dt_real_to_int(xs, true), (uint64_t)x);
}

/* With exponents around a double's ends: what is too small for one, or too large. */
static void compare_x87(uint64_t mantissa, uint16_t head)
{
	long double value = 0;

	memcpy(&value, &mantissa, sizeof(mantissa));
	memcpy((char *)&value + sizeof(mantissa), &head, sizeof(head));
	same("long double", mantissa, head, dt_real_from_x87(mantissa, head), (double)value);
}

static void test_reals(void **state)
{
	(void)state;
	srand(3);
	for (int n = 0; n < 300000; n++) {
		double x = random_double(), y = random_double();
		int exponent = 16383 - 1080 + rand() % 2160;

		compare_reals(x, y);
		compare_x87(random_bits() | 1ULL << 63, (uint16_t)(exponent | (rand() % 2) << 15));
	}
	compare_x87(0, 0);
	compare_x87(1ULL << 63, 0x7fff);
	for (uint32_t half = 0; half < 0x10000; half++) {
		uint16_t bits = (uint16_t)half;
		uint32_t brain = half << 16;
		_Float16 value;
		float upper;

		memcpy(&value, &bits, sizeof(value));
		memcpy(&upper, &brain, sizeof(upper));
		same("half", half, 0, dt_real_widen(half, 2), (double)value);
		same("upper half", half, 0, dt_real_widen(half, 3), upper);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_c),
		cmocka_unit_test(test_reals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
