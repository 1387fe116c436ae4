/*
 * demangle_rust.c - Rust's own mangling ("v0"), by its grammar: a path of crates, modules, types
 * and functions, with generic arguments, types and constants inside, and references back to earlier
 * parts of the name.
 *
 * Names are hostile: DEPTH_MAX and LENGTH_MAX bound depth and length, and with them the time, since
 * every part that refers to two others prints something. References lead back only.
 */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/strbuf.h"
#include "demangle.h"

#define DEPTH_MAX 128
#define LENGTH_MAX 16384

struct reader {
	const char *start, *at; /* the name after _R */
	struct strbuf buf;
	unsigned depth;
	unsigned lifetimes; /* bound here */
	bool silent; /* parsed, not printed */
	bool failed;
};

static void take_path(struct reader *r, bool in_value);
static void take_type(struct reader *r);
static void take_const(struct reader *r);

static void put(struct reader *r, const char *text, size_t length)
{
	if (r->silent || r->failed)
		return;
	strbuf_add(&r->buf, text, length);
	r->failed |= r->buf.failed || r->buf.length > LENGTH_MAX;
}

static void say(struct reader *r, const char *text)
{
	put(r, text, strlen(text));
}

static void say_number(struct reader *r, uint64_t number)
{
	char text[24];
	size_t at = sizeof(text);

	do
		text[--at] = (char)('0' + number % 10);
	while (number /= 10);
	put(r, text + at, sizeof(text) - at);
}

static bool accept(struct reader *r, char c)
{
	if (r->failed || *r->at != c)
		return false;
	r->at++;
	return true;
}

/* One level deeper; false: too deep, or failed before. Pairs with leave. */
static bool enter(struct reader *r)
{
	if (r->depth >= DEPTH_MAX)
		r->failed = true;
	if (!r->failed)
		r->depth++;
	return !r->failed;
}

static void leave(struct reader *r)
{
	if (r->depth)
		r->depth--;
}

/* "_" is 0, "0_" is 1, and so on. */
static uint64_t take_base62(struct reader *r)
{
	uint64_t value = 0;

	if (accept(r, '_'))
		return 0;
	while (!r->failed && isalnum((unsigned char)*r->at)) { /* hashes take all 64 bits */
		char c = *r->at++;
		unsigned digit = isdigit((unsigned char)c) ? (unsigned)(c - '0') :
				 islower((unsigned char)c) ? (unsigned)(c - 'a') + 10 :
							     (unsigned)(c - 'A') + 36;

		value = value * 62 + digit;
	}
	r->failed |= !accept(r, '_');
	return value + 1;
}

/* A letter and a number, or nothing: 0. */
static uint64_t take_optional(struct reader *r, char letter)
{
	return accept(r, letter) ? take_base62(r) + 1 : 0;
}

struct identifier {
	uint64_t disambiguator;
	const char *text;
	size_t length;
	bool is_punycode;
};

static struct identifier take_identifier(struct reader *r)
{
	struct identifier id = { .disambiguator = take_optional(r, 's') };
	char *end;

	id.is_punycode = accept(r, 'u');
	if (r->failed || !isdigit((unsigned char)*r->at)) {
		r->failed = true;
		return id;
	}
	id.length = *r->at == '0' ? (r->at++, 0) : strtoul(r->at, &end, 10);
	if (id.length)
		r->at = end;
	accept(r, '_');
	if (id.length > strlen(r->at)) {
		r->failed = true;
		return id;
	}
	id.text = r->at;
	r->at += id.length;
	return id;
}

static void say_identifier(struct reader *r, const struct identifier *id)
{
	if (id->is_punycode)
		say(r, "punycode{");
	put(r, id->text ? id->text : "", id->text ? id->length : 0);
	if (id->is_punycode)
		say(r, "}");
}

/* Reads an earlier part of the name again. */
static void take_back(struct reader *r, void (*take)(struct reader *))
{
	const char *here = r->at - 1;
	uint64_t offset = take_base62(r);
	const char *behind = r->at;

	if (r->failed || offset >= (uint64_t)(here - r->start)) {
		r->failed = true;
		return;
	}
	if (r->silent)
		return;
	r->at = r->start + offset;
	take(r);
	r->at = behind;
}

/* ---- paths ----------------------------------------------------------------------------------- */

static void take_type_path(struct reader *r)
{
	take_path(r, false);
}

static void take_value_path(struct reader *r)
{
	take_path(r, true);
}

/* The path of an impl isn't printed. */
static void skip_impl_path(struct reader *r)
{
	bool silent = r->silent;

	take_optional(r, 's');
	r->silent = true;
	take_path(r, false);
	r->silent = silent;
}

static void say_lifetime(struct reader *r, uint64_t index)
{
	char letter;

	if (index == 0 || index > r->lifetimes) {
		r->failed |= index > r->lifetimes;
		say(r, "'_");
		return;
	}
	letter = (char)('a' + (r->lifetimes - index) % 26);
	say(r, "'");
	put(r, &letter, 1);
}

static void take_generic_arguments(struct reader *r)
{
	for (bool first = true; !r->failed && !accept(r, 'E'); first = false) {
		if (!first)
			say(r, ", ");
		if (accept(r, 'L'))
			say_lifetime(r, take_base62(r));
		else if (accept(r, 'K'))
			take_const(r);
		else
			take_type(r);
	}
}

static void take_nested(struct reader *r, bool in_value)
{
	char space = *r->at ? *r->at++ : '\0';
	struct identifier id;

	take_path(r, in_value);
	id = take_identifier(r);
	if (isupper((unsigned char)space)) {
		say(r, "::{");
		if (space == 'C' || space == 'S')
			say(r, space == 'C' ? "closure" : "shim");
		else
			put(r, &space, 1);
		if (id.length)
			say(r, ":");
		say_identifier(r, &id);
		say(r, "#");
		say_number(r, id.disambiguator);
		say(r, "}");
	} else if (id.length) {
		say(r, "::");
		say_identifier(r, &id);
	}
	r->failed |= !isalpha((unsigned char)space);
}

/* <T> and <T as Trait>. */
static void take_implementation(struct reader *r, char kind)
{
	if (kind != 'Y')
		skip_impl_path(r);
	say(r, "<");
	take_type(r);
	if (kind != 'M') {
		say(r, " as ");
		take_path(r, false);
	}
	say(r, ">");
}

static void take_path(struct reader *r, bool in_value)
{
	struct identifier id;
	char kind = *r->at;

	if (!kind || !enter(r)) {
		r->failed = true;
		return;
	}
	r->at++;
	switch (kind) {
	case 'C':
		id = take_identifier(r);
		say_identifier(r, &id);
		break;
	case 'M':
	case 'X':
	case 'Y':
		take_implementation(r, kind);
		break;
	case 'N':
		take_nested(r, in_value);
		break;
	case 'I':
		take_path(r, in_value);
		say(r, in_value ? "::<" : "<");
		take_generic_arguments(r);
		say(r, ">");
		break;
	case 'B':
		take_back(r, in_value ? take_value_path : take_type_path);
		break;
	default:
		r->failed = true;
	}
	leave(r);
}

/* ---- types ----------------------------------------------------------------------------------- */

static const char *const basic_types[26] = {
	"i8", "bool", "char", "f64", "str", "f32", NULL, "u8", "isize", "usize", NULL, "i32", "u32",
	"i128", "u128", "_", NULL, NULL, "i16", "u16", "()", "...", NULL, "i64", "u64", "!",
};

/* for<'a, 'b>; the lifetimes are bound until the caller restores the count. */
static void take_binder(struct reader *r)
{
	uint64_t count = take_optional(r, 'G');

	if (count > 64)
		r->failed = true;
	if (!count || r->failed)
		return;
	say(r, "for<");
	for (uint64_t i = 0; i < count; i++) {
		say(r, i ? ", " : "");
		r->lifetimes++;
		say_lifetime(r, 1);
	}
	say(r, "> ");
}

static void take_function_type(struct reader *r)
{
	unsigned lifetimes = r->lifetimes;
	struct identifier abi;

	take_binder(r);
	if (accept(r, 'U'))
		say(r, "unsafe ");
	if (accept(r, 'K')) {
		say(r, "extern \"");
		if (accept(r, 'C')) {
			say(r, "C");
		} else {
			abi = take_identifier(r);
			for (size_t i = 0; abi.text && i < abi.length; i++)
				put(r, abi.text[i] == '_' ? "-" : abi.text + i, 1);
		}
		say(r, "\" ");
	}
	say(r, "fn(");
	for (bool first = true; !r->failed && !accept(r, 'E'); first = false) {
		say(r, first ? "" : ", ");
		take_type(r);
	}
	say(r, ")");
	if (!accept(r, 'u')) {
		say(r, " -> ");
		take_type(r);
	}
	r->lifetimes = lifetimes;
}

/* A trait with its generic arguments, still open for associated types. */
static bool take_open_path(struct reader *r);

static void open_path_again(struct reader *r)
{
	take_open_path(r);
}

static bool take_open_path(struct reader *r)
{
	bool open = false;

	if (!enter(r))
		return false;
	if (accept(r, 'B')) {
		const char *at = r->at;
		uint64_t offset = take_base62(r);

		open = !r->failed && offset < (uint64_t)(at - r->start) && r->start[offset] == 'I';
		r->at = at;
		take_back(r, open_path_again);
	} else if (accept(r, 'I')) {
		take_path(r, false);
		say(r, "<");
		take_generic_arguments(r);
		open = true;
	} else {
		take_path(r, false);
	}
	leave(r);
	return open;
}

static void take_dyn(struct reader *r)
{
	unsigned lifetimes = r->lifetimes;

	say(r, "dyn ");
	take_binder(r);
	for (bool first = true; !r->failed && !accept(r, 'E'); first = false) {
		bool open;

		say(r, first ? "" : " + ");
		open = take_open_path(r);
		while (accept(r, 'p')) {
			struct identifier id = take_identifier(r);

			say(r, open ? ", " : "<");
			say_identifier(r, &id);
			say(r, " = ");
			take_type(r);
			open = true;
		}
		say(r, open ? ">" : "");
	}
	r->lifetimes = lifetimes;
	if (accept(r, 'L')) {
		uint64_t index = take_base62(r);

		if (index) {
			say(r, " + ");
			say_lifetime(r, index);
		}
	} else {
		r->failed = true;
	}
}

static void take_tuple(struct reader *r)
{
	size_t count = 0;

	say(r, "(");
	for (; !r->failed && !accept(r, 'E'); count++) {
		say(r, count ? ", " : "");
		take_type(r);
	}
	say(r, count == 1 ? ",)" : ")");
}

/* References and pointers; false: the kind is none of these. */
static bool take_pointer(struct reader *r, char kind)
{
	uint64_t index;

	if (!kind || !strchr("RQPO", kind))
		return false;
	say(r, kind == 'P' ? "*const " : kind == 'O' ? "*mut " : "&");
	if ((kind == 'R' || kind == 'Q') && accept(r, 'L') && (index = take_base62(r))) {
		say_lifetime(r, index);
		say(r, " ");
	}
	say(r, kind == 'Q' ? "mut " : "");
	take_type(r);
	return true;
}

static void take_array(struct reader *r, char kind)
{
	say(r, "[");
	take_type(r);
	if (kind == 'A') {
		say(r, "; ");
		take_const(r);
	}
	say(r, "]");
}

static void take_type(struct reader *r)
{
	char kind = *r->at;

	if (islower((unsigned char)kind) && basic_types[kind - 'a']) {
		say(r, basic_types[kind - 'a']);
		r->at++;
		return;
	}
	if (!kind || !enter(r)) {
		r->failed = true;
		return;
	}
	r->at++;
	if (kind == 'A' || kind == 'S') {
		take_array(r, kind);
	} else if (kind == 'T') {
		take_tuple(r);
	} else if (kind == 'F') {
		take_function_type(r);
	} else if (kind == 'D') {
		take_dyn(r);
	} else if (kind == 'B') {
		take_back(r, take_type);
	} else if (!take_pointer(r, kind)) {
		r->at--;
		take_path(r, false);
	}
	leave(r);
}

/* ---- constants ------------------------------------------------------------------------------- */

static void take_const(struct reader *r)
{
	const char *digits;
	uint64_t value = 0;
	size_t length;
	char type;

	if (accept(r, 'B')) {
		if (enter(r))
			take_back(r, take_const);
		leave(r);
		return;
	}
	if (accept(r, 'p')) {
		say(r, "_");
		return;
	}
	type = *r->at ? *r->at++ : '\0';
	if (accept(r, 'n'))
		say(r, "-");
	digits = r->at;
	length = strspn(digits, "0123456789abcdef");
	r->at += length;
	if (!type || !strchr("ahstlmxyijnobc", type) || !accept(r, '_')) {
		r->failed = true; /* a type without digits */
		return;
	}
	for (size_t i = 0; i < length && i < 16; i++)
		value = value << 4 |
			(uint64_t)(isdigit((unsigned char)digits[i]) ? digits[i] - '0' :
								       digits[i] - 'a' + 10);
	if (type == 'b') {
		say(r, value ? "true" : "false");
	} else if (length > 16 || type == 'c') {
		say(r, "0x");
		put(r, digits, length);
	} else {
		say_number(r, value);
	}
}

char *demangle_rust(const char *name)
{
	struct reader r = { .start = name + 2, .at = name + 2 };

	take_path(&r, true);
	/* the instantiating crate */
	if (!r.failed && *r.at && *r.at != '.' && *r.at != '$') {
		r.silent = true;
		take_path(&r, false);
	}
	if (!r.failed && (!*r.at || *r.at == '.' || *r.at == '$') && r.buf.text)
		return r.buf.text;
	strbuf_free(&r.buf);
	return NULL;
}
