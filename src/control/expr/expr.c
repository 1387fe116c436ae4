/*
 * expr.c - parse, type and lower in one pass: each function of the grammar returns an operand, which is still
 * a place as long as something can be done with it (a member, an index), and becomes a number when an operator
 * wants one.
 */
#include "expr.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "operand.h"

/* ---- words ------------------------------------------------------------------------------------------ */

static void skip_space(struct parser *p)
{
	while (isspace((unsigned char)*p->at))
		p->at++;
}

static bool accept(struct parser *p, const char *sign)
{
	size_t length = strlen(sign);

	skip_space(p);
	if (strncmp(p->at, sign, length) != 0)
		return false;
	p->at += length;
	return true;
}

static bool is_name_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* A name, or nothing. C++ names go on behind ::. */
static bool take_name(struct parser *p, char *name)
{
	size_t length = 0;

	skip_space(p);
	if (!is_name_char(*p->at) || isdigit((unsigned char)*p->at))
		return false;
	while (is_name_char(*p->at) || (p->at[0] == ':' && p->at[1] == ':')) {
		size_t step = *p->at == ':' ? 2 : 1;

		if (length + step >= NAME_MAX_LENGTH)
			return false;
		memcpy(name + length, p->at, step);
		length += step;
		p->at += step;
	}
	name[length] = '\0';
	return true;
}

/* What belongs to the name: .member and [number]. */
static void take_path(struct parser *p, char *name)
{
	size_t length = strlen(name);

	for (;;) {
		size_t step = 0;

		if (p->at[0] == '.' && is_name_char(p->at[1]) && !isdigit((unsigned char)p->at[1])) {
			step = 1;
			while (is_name_char(p->at[step]))
				step++;
		} else if (p->at[0] == '[') {
			step = strspn(p->at + 1, "0123456789") + 1;
			step = step > 1 && p->at[step] == ']' ? step + 1 : 0;
		}
		if (!step || length + step >= NAME_MAX_LENGTH)
			return;
		memcpy(name + length, p->at, step);
		length += step;
		name[length] = '\0';
		p->at += step;
	}
}

/* ---- primaries ------------------------------------------------------------------------------------------- */

static const char *const register_names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8",
					      "r9",  "r10", "r11", "r12", "r13", "r14", "r15", "rip", "rflags" };

bool expr_register(const char *name, uint8_t *ret_number)
{
	for (size_t i = 0; i < sizeof(register_names) / sizeof(register_names[0]); i++) {
		if (strcmp(register_names[i], name) == 0) {
			*ret_number = (uint8_t)i;
			return true;
		}
	}
	return false;
}

bool expr_is_at_exit(const char *text)
{
	static const char *const words[] = { "$ret", "$duration", "entry:" };
	bool quoted = false;

	for (const char *at = text; *at; at++) {
		if (!quoted && *at == '\'' && at[1])
			at += at[1] == '\\' && at[2] ? 2 : 1; /* a character, which may be a quote */
		else if (*at == '\\' && at[1])
			at++;
		else if (*at == '"')
			quoted = !quoted;
		for (size_t i = 0; !quoted && i < sizeof(words) / sizeof(words[0]); i++) {
			size_t length = strlen(words[i]);

			if (strncmp(at, words[i], length) == 0 && (at == text || !is_name_char(at[-1])) &&
			    (words[i][0] != '$' || !is_name_char(at[length])))
				return true;
		}
	}
	return false;
}

/* What only an exit knows; false: it is something else. */
static bool parse_exit(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	bool is_entry = strcmp(name, "entry") == 0 && p->at[0] == ':';
	char argument[NAME_MAX_LENGTH];

	if (!is_entry && strcmp(name, "$ret") != 0 && strcmp(name, "$duration") != 0)
		return false;
	if (!p->names->at_exit) {
		parser_fail(p, at, "this is known at a function's exit only (-e)");
		return true;
	}
	if (strcmp(name, "$duration") == 0) {
		*ret = (struct operand){ .kind = OPERAND_NUMBER };
		ops_add(&ret->ops, DT_OP_REG, DT_REG_DURATION, 0, 0);
		return true;
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	p->at += is_entry;
	if (is_entry && !take_name(p, argument))
		parser_fail(p, p->at, "the name of an argument is expected here");
	else if (!p->names->find(p->names->context, is_entry ? argument : name, &ret->type, &ret->place))
		parser_fail(p, at, is_entry ? "there is no argument of that name" : "the function has no result");
	return true;
}

static void parse_special(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	static const struct {
		const char *name;
		enum dt_op_code code;
	} specials[] = { { "tid", DT_OP_TID }, { "pid", DT_OP_PID }, { "cpu", DT_OP_CPU } };
	struct operand operand = { .kind = OPERAND_NUMBER };
	uint8_t number;

	if (expr_register(name, &number)) {
		operand.is_unsigned = true;
		ops_add(&operand.ops, DT_OP_REG, number, 0, 0);
		*ret = operand;
		return;
	}
	if (strcmp(name, "hits") == 0 && p->names->counter) {
		uint32_t counter = p->names->counter(p->names->context);

		if (counter == UINT32_MAX)
			parser_fail(p, at, "too many places count their hits");
		ops_add(&operand.ops, DT_OP_HITS, 0, !p->counts_hits, counter);
		p->counts_hits = true;
		*ret = operand;
		return;
	}
	for (size_t i = 0; i < sizeof(specials) / sizeof(specials[0]); i++) {
		if (strcmp(specials[i].name, name) == 0) {
			ops_add(&operand.ops, specials[i].code, 0, 0, 0);
			*ret = operand;
			return;
		}
	}
	parser_fail(p, at, "there is no $%s: registers are $rax..., and there are $tid, $pid, $cpu and $hits", name);
}

static void parse_name(struct parser *p, struct operand *ret)
{
	static const struct {
		const char *name;
		uint64_t value;
	} words[] = { { "NULL", 0 }, { "nullptr", 0 }, { "true", 1 }, { "false", 0 } };
	char name[NAME_MAX_LENGTH];
	const char *at;
	int64_t label;

	skip_space(p);
	at = p->at;
	if (!take_name(p, name)) {
		parser_fail(p, at, *at ? "a value is expected here" : "the expression isn't complete");
		return;
	}
	if (!p->names->has_paths && parse_exit(p, name, at, ret))
		return;
	if (name[0] == '$' && !p->names->has_paths) {
		parse_special(p, name + 1, at, ret);
		return;
	}
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i].name, name) == 0) {
			operand_set_number(ret, words[i].value, false);
			return;
		}
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	if (p->names->has_paths)
		take_path(p, name);
	if (p->names->find(p->names->context, name, &ret->type, &ret->place))
		return;
	if (p->names->find_label && p->names->find_label(p->names->context, name, &label)) {
		operand_set_number(ret, (uint64_t)label, false);
		return;
	}
	if (p->names->has_paths)
		parser_fail(p, at, "there is no '%s'", name);
	else if (!p->names->debug)
		parser_fail(p, at, "'%s' is unknown: there is no debug information here, only registers ($rdi)", name);
	else
		parser_fail(p, at, "there is no variable '%s' here", name);
}

static void parse_number(struct parser *p, struct operand *ret)
{
	const char *at = p->at;
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(p->at, &end, 0);
	if (errno)
		parser_fail(p, at, "the number is too large");
	p->at = end;
	while (*p->at && strchr("uUlL", *p->at))
		p->at++;
	if (*p->at == '.' || *p->at == 'e' || *p->at == 'E') {
		*ret = (struct operand){ .kind = OPERAND_REAL, .is_literal = true };
		ret->real = strtod(at, &end);
		p->at = end;
	} else {
		operand_set_number(ret, value, value > INT64_MAX);
		ret->is_literal = true;
		ret->real = (double)value;
	}
	if (is_name_char(*p->at) || *p->at == '.')
		parser_fail(p, p->at, "this isn't part of a number");
}

/* One character of a literal, escapes included; -1: its end. */
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
	return '\\'; /* a glob's own escape */
}

static void parse_char(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	int c = take_char(p, '\'');

	if (c < 0 || *p->at != '\'')
		parser_fail(p, at, "a character has its end missing");
	else
		p->at++;
	operand_set_number(ret, (uint64_t)(int64_t)(signed char)c, false);
}

static void parse_text(struct parser *p, struct operand *ret)
{
	const char *at = p->at++;
	size_t length = 0;
	int c;

	*ret = (struct operand){ .kind = OPERAND_TEXT };
	while ((c = take_char(p, '"')) >= 0 && length + 1 < sizeof(p->scratch))
		p->scratch[length++] = (char)c;
	p->scratch[length] = '\0';
	if (*p->at != '"')
		parser_fail(p, at, c < 0 ? "the string has no end" : "the string is too long");
	else
		p->at++;
	ret->text = p->scratch;
}

static void parse_expression(struct parser *p, unsigned level, struct operand *ret);

static void parse_primary(struct parser *p, struct operand *ret)
{
	skip_space(p);
	if (accept(p, "(")) {
		parse_expression(p, 0, ret);
		if (!p->error && !accept(p, ")"))
			parser_fail(p, p->at, "a ')' is missing");
	} else if (isdigit((unsigned char)*p->at)) {
		parse_number(p, ret);
	} else if (*p->at == '\'') {
		parse_char(p, ret);
	} else if (*p->at == '"') {
		parse_text(p, ret);
	} else {
		parse_name(p, ret);
	}
}

/* ---- members, indices ---------------------------------------------------------------------------------------- */

static void select_member(struct parser *p, struct operand *operand)
{
	char name[NAME_MAX_LENGTH];
	const char *at;

	skip_space(p);
	at = p->at;
	if (p->error || !take_name(p, name))
		parser_fail(p, at, "the name of a member is expected here");
	else
		operand_select_member(p, operand, name, at);
}

static void select_element(struct parser *p, struct operand *operand, const char *at)
{
	struct operand index = { 0 };

	parse_expression(p, 0, &index);
	operand_make_number(p, &index, at);
	if (!p->error && !accept(p, "]"))
		parser_fail(p, p->at, "a ']' is missing");
	operand_select_element(p, operand, &index, at);
}

static void parse_postfix(struct parser *p, struct operand *ret)
{
	parse_primary(p, ret);
	while (!p->error) {
		const char *at;

		skip_space(p);
		at = p->at;
		if (accept(p, "->")) {
			operand_dereference(p, ret, at);
			select_member(p, ret);
		} else if (accept(p, ".")) {
			select_member(p, ret);
		} else if (accept(p, "[")) {
			select_element(p, ret, at);
		} else {
			return;
		}
	}
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

static void parse_unary(struct parser *p, struct operand *ret)
{
	static const struct {
		const char *sign;
		enum dt_op_code code;
	} signs[] = { { "!", DT_OP_LNOT }, { "~", DT_OP_NOT }, { "-", DT_OP_NEG } };
	const char *at;

	skip_space(p);
	at = p->at;
	if (p->depth++ > DEPTH_MAX)
		parser_fail(p, at, "the expression is nested too deep");
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && !p->error; i++) {
		if (at[0] == signs[i].sign[0] && !(at[0] == '!' && at[1] == '=')) {
			p->at++;
			parse_unary(p, ret);
			ret->real = -ret->real;
			ret->is_literal &= signs[i].code == DT_OP_NEG;
			if (ret->kind != OPERAND_REAL || !ret->is_literal) {
				operand_make_number(p, ret, at);
				ops_add(&ret->ops, signs[i].code, 0, 0, 0);
			}
			p->depth--;
			return;
		}
	}
	if (!p->error && accept(p, "*")) {
		parse_unary(p, ret);
		operand_dereference(p, ret, at);
	} else if (!p->error && accept(p, "+")) {
		parse_unary(p, ret);
	} else if (!p->error) {
		parse_postfix(p, ret);
	}
	p->depth--;
}

static const struct binary *next_binary(struct parser *p, unsigned level)
{
	skip_space(p);
	return binary_at(p->at, level);
}

static void parse_expression(struct parser *p, unsigned level, struct operand *ret)
{
	const struct binary *binary;

	parse_unary(p, ret);
	while (!p->error && (binary = next_binary(p, level))) {
		_cleanup_free_ struct operand *right = calloc(1, sizeof(*right));
		const char *at = p->at;

		p->at += strlen(binary->sign);
		if (!right) {
			parser_fail(p, at, "out of memory");
			return;
		}
		parse_expression(p, binary->level, right);
		if (!p->error)
			binary_combine(p, binary, ret, right, at);
	}
}

/* ---- what is wanted --------------------------------------------------------------------------------------------- */

static struct error *parse_all(struct parser *p, struct operand *ret)
{
	parse_expression(p, 0, ret);
	skip_space(p);
	if (!p->error && *p->at)
		parser_fail(p, p->at, "this can't be understood here");
	return p->error;
}

struct error *expr_variable(const char *text, const struct expr_names *names, struct type *ret_type,
			    struct value_place *ret_place)
{
	struct parser parser = { .text = text, .at = text, .names = names };
	struct operand operand = { 0 };
	struct error *error = parse_all(&parser, &operand);

	if (error)
		return error;
	if (operand.kind == OPERAND_NUMBER) {
		*ret_type = (struct type){ .kind = TYPE_INT, .size = 8, .is_signed = !operand.is_unsigned };
		*ret_place = (struct value_place){ .kind = PLACE_VALUE, .ops = operand.ops };
		return NULL;
	}
	*ret_type = operand.type;
	*ret_place = operand.place;
	return NULL;
}

struct error *expr_condition(const char *text, const struct expr_names *names,
			     struct value_ops *ret_ops, struct value_texts *texts)
{
	struct parser parser = { .text = text, .at = text, .names = names, .texts = texts };
	struct operand operand = { 0 };
	struct error *error = parse_all(&parser, &operand);

	if (error)
		return error;
	operand_make_number(&parser, &operand, text);
	if (parser.error)
		return parser.error;
	if (operand.ops.failed)
		return error_new(ERROR_USAGE, "the expression is too long");
	*ret_ops = operand.ops;
	return NULL;
}
