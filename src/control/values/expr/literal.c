/*
 * literal.c - numbers with the types that C gives them, characters, strings.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "operand.h"

static void set_real(struct operand *operand, double real, uint8_t size)
{
	uint64_t bits;

	if (size == sizeof(float))
		real = (float)real;
	memcpy(&bits, &real, sizeof(bits));
	*operand = (struct operand){
		.kind = OPERAND_REAL, .size = size, .is_literal = true, .real = real
	};
	ops_const(&operand->ops, bits);
}

static void set_written(struct operand *operand, uint64_t value, uint8_t size, bool is_unsigned)
{
	operand_set_number(operand, value, size, is_unsigned);
	operand->is_literal = true;
	operand->value = value;
	operand->real = is_unsigned ? (double)value : (double)(int64_t)value;
}

static bool is_real(const char *text)
{
	size_t digits = strspn(text, "0123456789");

	if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
		digits = 2 + strspn(text + 2, "0123456789abcdefABCDEF.");
		return text[digits] == 'p' || text[digits] == 'P';
	}
	return text[digits] == '.' || ((text[digits] == 'e' || text[digits] == 'E') && digits);
}

static void take_real(struct parser *p, struct operand *ret)
{
	char *end;
	double value = strtod(p->at, &end);
	bool is_single = *end == 'f' || *end == 'F';

	set_real(ret, value, is_single ? sizeof(float) : sizeof(double));
	p->at = end + (is_single || *end == 'l' || *end == 'L');
}

/* Units of sizes (powers of 1024) and of times (ns, as durations are). Letters that C has for
 * types of numbers, u and l, are none. */
static const struct {
	const char *name;
	uint64_t factor;
} units[] = { { "K", 1ULL << 10 }, { "M", 1ULL << 20 }, { "G", 1ULL << 30 }, { "T", 1ULL << 40 },
	      { "ns", 1 },	   { "us", 1000 },	{ "ms", 1000000 },   { "s", 1000000000 } };

/* The factor of the unit that stands here; 0: none. */
static uint64_t unit_at(const char *text, size_t *ret_length)
{
	size_t length = 0;

	while (parser_is_name(text[length]))
		length++;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strlen(units[i].name) == length && !strncmp(units[i].name, text, length)) {
			*ret_length = length;
			return units[i].factor;
		}
	}
	return 0;
}

/* Makes the number a long: 5ms, 1.5K. */
static void take_unit(struct parser *p, uint64_t factor, size_t length, struct operand *number)
{
	bool is_real = number->kind == OPERAND_REAL;
	double real = is_real ? number->real * (double)factor : 0;
	uint64_t value = is_real ? 0 : number->value;

	if (is_real ? real >= 0x1p63 : value > INT64_MAX / factor)
		parser_fail(p, p->at, "number too large");
	else
		set_written(number, is_real ? (uint64_t)real : value * factor, 8, false);
	p->at += length;
}

/* The type is the first of int, unsigned, long and unsigned long that fits; a decimal number is
 * unsigned only if no signed type fits. */
static void take_integer(struct parser *p, struct operand *ret)
{
	bool is_decimal = *p->at != '0', is_unsigned, is_long;
	const char *at = p->at;
	uint64_t value;
	size_t unit;
	char *end;

	errno = 0;
	value = strtoull(p->at, &end, 0);
	if (errno)
		parser_fail(p, at, "number too large");
	p->at = end + (unit_at(end, &unit) ? 0 : strspn(end, "uUlL"));
	is_unsigned =
		memchr(end, 'u', (size_t)(p->at - end)) || memchr(end, 'U', (size_t)(p->at - end));
	is_long =
		memchr(end, 'l', (size_t)(p->at - end)) || memchr(end, 'L', (size_t)(p->at - end));
	if (!is_long && value <= INT32_MAX)
		set_written(ret, value, 4, is_unsigned);
	else if (!is_long && value <= UINT32_MAX && (is_unsigned || !is_decimal))
		set_written(ret, value, 4, true);
	else
		set_written(ret, value, 8, is_unsigned || value > INT64_MAX);
}

void literal_number(struct parser *p, struct operand *ret)
{
	uint64_t factor;
	size_t length;

	if (is_real(p->at))
		take_real(p, ret);
	else
		take_integer(p, ret);
	if (!p->error && (factor = unit_at(p->at, &length)))
		take_unit(p, factor, length, ret);
	if (parser_is_name(*p->at) || *p->at == '.')
		parser_fail(p, p->at, "not part of a number (units are K, M, G, ns, us, ms, s)");
}

void literal_negate(struct operand *operand)
{
	if (operand->kind == OPERAND_REAL) {
		set_real(operand, -operand->real, operand->size);
		return;
	}
	uint64_t value = 0 - operand->value;
	if (operand->size == 4)
		value = operand->is_unsigned ? (uint32_t)value : (uint64_t)(int64_t)(int32_t)value;
	set_written(operand, value, operand->size, operand->is_unsigned);
}

/* One character of a literal, escapes decoded; -1: the end. */
static int take_char(struct parser *p, char quote)
{
	static const char escapes[] = "n\nt\tr\r0\0\\\\'\'\"\"";
	char c = *p->at;

	if (c == '\0' || c == quote)
		return -1;
	p->at++;
	if (c != '\\')
		return (unsigned char)c;
	for (size_t i = 0; i + 1 < sizeof(escapes); i += 2) {
		if (*p->at == escapes[i]) {
			p->at++;
			return (unsigned char)escapes[i + 1];
		}
	}
	return '\\'; /* an escape of the glob */
}

void literal_char(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	int c = take_char(p, '\'');

	if (c < 0 || *p->at != '\'')
		parser_fail(p, at, "unterminated character");
	else
		p->at++;
	set_written(ret, (uint64_t)(int64_t)(signed char)c, 4, false);
}

void literal_text(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	size_t length = 0;
	int c;

	*ret = (struct operand){ .kind = OPERAND_TEXT };
	while ((c = take_char(p, '"')) >= 0 && length + 1 < sizeof(p->scratch))
		p->scratch[length++] = (char)c;
	p->scratch[length] = '\0';
	if (*p->at != '"')
		parser_fail(p, at, c < 0 ? "unterminated string" : "string too long");
	else
		p->at++;
	ret->text = p->scratch;
}
