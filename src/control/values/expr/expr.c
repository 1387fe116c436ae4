/*
 * expr.c - parses, types and lowers in one pass: each function of the grammar returns an operand,
 * which stays a place as long as a member or an index may follow, and becomes a number when an
 * operator needs one.
 */
#include "expr.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/arithmetic.h"
#include "control/base/cleanup.h"
#include "operand.h"

/* ---- primaries ------------------------------------------------------------------------------- */

static const char *const register_names[] = { "rax", "rcx", "rdx", "rbx", "rsp", "rbp",
					      "rsi", "rdi", "r8",  "r9",  "r10", "r11",
					      "r12", "r13", "r14", "r15", "rip", "rflags" };

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

bool expr_mentions(const char *text, const char *name)
{
	size_t length = strlen(name);
	bool quoted = false;

	for (const char *at = text; *at; at++) {
		bool is_member = at > text && (at[-1] == '.' || (at[-1] == '>' && at > text + 1 &&
								   at[-2] == '-'));

		if (!quoted && *at == '\'' && at[1]) /* a character, which may be a quote */
			at += at[1] == '\\' && at[2] ? 2 : 1;
		else if (*at == '\\' && at[1])
			at++;
		else if (*at == '"')
			quoted = !quoted;
		else if (!quoted && !is_member && strncmp(at, name, length) == 0 &&
			 (at == text || !parser_is_name(at[-1])) &&
			 (name[length - 1] == ':' || !parser_is_name(at[length])))
			return true;
	}
	return false;
}

bool expr_is_at_exit(const char *text)
{
	return expr_mentions(text, "$ret") || expr_mentions(text, "$duration") ||
	       expr_mentions(text, "entry:");
}

/* $xmm0 to $xmm15: a double, unless a cast says float. False: another name. */
static bool parse_vector(const char *name, struct operand *ret)
{
	char *end;
	unsigned long number;

	if (strncmp(name, "xmm", 3) != 0 || !isdigit((unsigned char)name[3]))
		return false;
	number = strtoul(name + 3, &end, 10);
	if (*end || number > 15)
		return false;
	*ret = (struct operand){ .kind = OPERAND_PLACE,
				 .type = { .kind = TYPE_FLOAT, .size = 8, .name = "double" },
				 .is_vector = true };
	ret->place = (struct value_place){ .kind = PLACE_PIECES, .count = 1 };
	ret->place.pieces[0] =
		(struct abi_piece){ .where = ABI_SSE, .reg = (uint8_t)number, .size = 8 };
	return true;
}

/* Values that only an exit has; false: another name. */
static bool parse_exit(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	bool is_entry = strcmp(name, "entry") == 0 && p->at[0] == ':';
	char argument[NAME_MAX_LENGTH];

	if (p->names->at_exit && p->names->is_argument &&
	    !p->names->is_argument(p->names->context, name)) {
		if (strcmp(name, "ret") == 0)
			name = "$ret";
		else if (strcmp(name, "duration") == 0)
			name = "$duration";
	}
	if (!is_entry && strcmp(name, "$ret") != 0 && strcmp(name, "$duration") != 0)
		return false;
	if (!p->names->at_exit) {
		parser_fail(p, at, "known at a function's exit only (-e)");
		return true;
	}
	if (strcmp(name, "$duration") == 0) {
		*ret = (struct operand){ .kind = OPERAND_NUMBER, .size = 8 };
		ops_add(&ret->ops, DT_OP_REG, DT_REG_DURATION, 0, 0);
		return true;
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	p->at += is_entry;
	if (is_entry && !parser_take_name(p, argument))
		parser_fail(p, p->at, "expected the name of an argument");
	else if (!p->names->find(p->names->context, is_entry ? argument : name, &ret->type,
				 &ret->place))
		parser_fail(p, at,
			    is_entry ? "unknown argument" :
				       "the function has no result");
	return true;
}

static void parse_special(struct parser *p, const char *name, const char *at, struct operand *ret)
{
	static const struct {
		const char *name;
		enum dt_op_code code;
	} specials[] = { { "tid", DT_OP_TID }, { "pid", DT_OP_PID }, { "cpu", DT_OP_CPU } };
	struct operand operand = { .kind = OPERAND_NUMBER, .size = 8 };
	uint8_t number;

	if (expr_register(name, &number)) {
		operand.is_unsigned = true;
		ops_add(&operand.ops, DT_OP_REG, number, 0, 0);
		*ret = operand;
		return;
	}
	if (parse_vector(name, ret))
		return;
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
	parser_fail(
		p, at,
		"unknown '$%s' (available: registers such as $rax and $xmm0, $tid, $pid, $cpu, $hits)",
		name);
}

static void fail_unknown(struct parser *p, const char *at, const char *name)
{
	_cleanup_(strbuf_free) struct strbuf list = { 0 };

	if (p->names->list)
		p->names->list(p->names->context, &list);
	if (p->names->has_several && p->names->has_several(p->names->context, name))
		parser_fail(p, at, "'%s' has several values (name one: %s.MEMBER or %s[0])", name,
			    name, name);
	else if (p->names->is_ambiguous && p->names->is_ambiguous(p->names->context, name))
		parser_fail(p, at,
			    "'%s' is a label of several enumerations (compare with text: == \"%s\")",
			    name, name);
	else if (p->names->has_paths)
		parser_fail(p, at, list.length ? "unknown field '%s' (available: %s)" :
						 "unknown field '%s'",
			    name, list.text);
	else if (!p->names->at_exit && (!strcmp(name, "ret") || !strcmp(name, "duration")))
		parser_fail(p, at, "known at a function's exit only (-e)");
	else if (list.text && list.length)
		parser_fail(p, at, "unknown variable '%s' (available: %s)", name, list.text);
	else if (!p->names->debug)
		parser_fail(
			p, at,
			"unknown variable '%s' (no debug information here: use registers, as $rdi)",
			name);
	else
		parser_fail(p, at, "unknown variable '%s'", name);
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

	parser_skip_space(p);
	at = p->at;
	if (!parser_take_name(p, name)) {
		parser_fail(p, at,
			    *at ? "expected a value" : "incomplete expression");
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
			operand_set_number(ret, words[i].value, 4, false);
			return;
		}
	}
	*ret = (struct operand){ .kind = OPERAND_PLACE };
	if (p->names->has_paths)
		parser_take_path(p, name);
	if (p->names->find(p->names->context, name, &ret->type, &ret->place))
		return;
	if (p->names->find_label && p->names->find_label(p->names->context, name, &label)) {
		operand_set_number(ret, (uint64_t)label, label == (int32_t)label ? 4 : 8, false);
		return;
	}
	fail_unknown(p, at, name);
}

static void parse_expression(struct parser *p, unsigned level, struct operand *ret);

/* str(x), as bpftrace has it; false: something else. */
static bool parse_str(struct parser *p, struct operand *ret)
{
	const char *at = p->at, *open = at + strlen("str");

	if (strncmp(at, "str", strlen("str")) != 0)
		return false;
	while (*open == ' ')
		open++;
	if (*open != '(')
		return false;
	p->at = open + 1;
	parse_expression(p, 0, ret);
	if (!p->error && !parser_accept(p, ")"))
		parser_fail(p, p->at, "missing ')'");
	cast_to_string(p, ret, at);
	return true;
}

static void parse_primary(struct parser *p, struct operand *ret)
{
	parser_skip_space(p);
	if (parse_str(p, ret))
		return;
	if (parser_accept(p, "(")) {
		parse_expression(p, 0, ret);
		if (!p->error && !parser_accept(p, ")"))
			parser_fail(p, p->at, "missing ')'");
	} else if (isdigit((unsigned char)p->at[*p->at == '.'])) {
		literal_number(p, ret);
	} else if (*p->at == '\'') {
		literal_char(p, ret);
	} else if (*p->at == '"') {
		literal_text(p, ret);
	} else {
		parse_name(p, ret);
	}
}

/* ---- members, indices ------------------------------------------------------------------------ */

static void select_member(struct parser *p, struct operand *operand)
{
	char name[NAME_MAX_LENGTH];
	const char *at;

	parser_skip_space(p);
	at = p->at;
	if (p->error || !parser_take_name(p, name))
		parser_fail(p, at, "expected the name of a member");
	else
		operand_select_member(p, operand, name, at);
}

static void select_element(struct parser *p, struct operand *operand, const char *at)
{
	struct operand index = { 0 };

	parse_expression(p, 0, &index);
	if (!p->error && !parser_accept(p, "]"))
		parser_fail(p, p->at, "missing ']'");
	operand_select_element(p, operand, &index, at);
}

static void parse_postfix(struct parser *p, struct operand *ret)
{
	parse_primary(p, ret);
	while (!p->error) {
		const char *at;

		parser_skip_space(p);
		at = p->at;
		if (parser_accept(p, "->")) {
			operand_dereference(p, ret, at);
			select_member(p, ret);
		} else if (parser_accept(p, ".")) {
			select_member(p, ret);
		} else if (parser_accept(p, "[")) {
			select_element(p, ret, at);
		} else {
			return;
		}
	}
}

/* ---- operators ------------------------------------------------------------------------------- */

static void parse_unary(struct parser *p, struct operand *ret);

static void negate(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_value(p, operand, at);
	if (operand->is_literal) {
		literal_negate(operand);
	} else if (operand->kind == OPERAND_REAL) {
		ops_const(&operand->ops, DT_REAL_SIGN);
		ops_add(&operand->ops, DT_OP_XOR, 0, 0, 0);
	} else {
		ops_add(&operand->ops, DT_OP_NEG, 0, 0, 0);
		operand_cut(operand);
	}
}

static void complement(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_number(p, operand, at);
	ops_add(&operand->ops, DT_OP_NOT, 0, 0, 0);
	operand_cut(operand);
	operand->is_literal = false;
}

static void deny(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_truth(p, operand, at);
	ops_add(&operand->ops, DT_OP_LNOT, 0, 0, 0);
	operand->size = 4;
	operand->is_unsigned = operand->is_literal = false;
}

static void keep(struct parser *p, struct operand *operand, const char *at)
{
	operand_make_value(p, operand, at);
}

/* sizeof a type, or of an expression's type. */
static void parse_sizeof(struct parser *p, struct operand *ret, const char *at)
{
	const char *start = p->at;
	struct type type;
	uint64_t size;

	if (!parser_accept(p, "(") || !cast_take_type(p, &type)) {
		p->at = start;
		parse_unary(p, ret);
		operand_follow_reference(ret);
		type = ret->type;
	} else {
		ret->kind = OPERAND_PLACE;
	}
	if (ret->kind == OPERAND_PLACE && p->names->debug)
		type_complete(p->names->debug, &type);
	size = ret->kind == OPERAND_PLACE ? type.size : ret->size;
	if (!size)
		parser_fail(p, at, "unknown size");
	operand_set_number(ret, size, 8, true);
}

/* (type)x; false: not a cast. */
static bool parse_cast(struct parser *p, struct operand *ret, const char *at)
{
	struct type type;

	if (!parser_accept(p, "("))
		return false;
	if (!cast_take_type(p, &type)) {
		p->at = at;
		return p->error != NULL;
	}
	parse_unary(p, ret);
	cast_apply(p, ret, &type, at);
	return true;
}

/* A unary operator and its operand; false: no unary operator. */
static bool parse_sign(struct parser *p, struct operand *ret, const char *at)
{
	static const struct {
		char sign;
		void (*apply)(struct parser *p, struct operand *operand, const char *at);
	} signs[] = { { '!', deny }, { '~', complement },	   { '-', negate },
		      { '+', keep }, { '*', operand_dereference }, { '&', operand_take_address } };

	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
		if (at[0] != signs[i].sign)
			continue;
		p->at++;
		parse_unary(p, ret);
		if (!p->error)
			signs[i].apply(p, ret, at);
		return true;
	}
	return false;
}

static void parse_unary(struct parser *p, struct operand *ret)
{
	const char *at;

	parser_skip_space(p);
	at = p->at;
	if (p->depth++ > DEPTH_MAX)
		parser_fail(p, at, "expression nested too deeply");
	if (p->error || parse_sign(p, ret, at) || parse_cast(p, ret, at)) {
		p->depth--;
		return;
	}
	if (strncmp(at, "sizeof", 6) == 0 && !parser_is_name(at[6])) {
		p->at += 6;
		parse_sizeof(p, ret, at);
	} else {
		parse_postfix(p, ret);
	}
	p->depth--;
}

static const struct binary *next_binary(struct parser *p, unsigned level)
{
	parser_skip_space(p);
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

/* ---- variables and conditions ---------------------------------------------------------------- */

static struct error *parse_all(struct parser *p, struct operand *ret)
{
	parse_expression(p, 0, ret);
	parser_skip_space(p);
	if (!p->error && *p->at)
		parser_fail(p, p->at,
			    *p->at == '=' ? "nothing is assigned here (== compares)" :
					    "unexpected text");
	return p->error;
}

/* Counts the numbers on the stack. Both ways of a jump leave the same number. */
static bool is_too_deep(const struct value_ops *ops)
{
	int depth = 0;

	for (size_t i = 0; i < ops->count; i++) {
		uint8_t code = ops->items[i].code;

		if (code == DT_OP_CONST) {
			depth++;
			i++;
		} else if (dt_is_combining(code) || code == DT_OP_SKIP || code == DT_OP_SKIP_ZERO ||
			   code == DT_OP_DROP) {
			depth--;
		} else if (code == DT_OP_MATCH) {
			depth -= ops->items[i].a;
		} else if (code == DT_OP_REG || code == DT_OP_XMM || code == DT_OP_KEPT ||
			   code == DT_OP_PICK || (code >= DT_OP_TID && code <= DT_OP_HITS)) {
			depth++;
		}
		if (depth > (int)DT_PROGRAM_STACK)
			return true;
	}
	return false;
}

static struct error *check(const struct value_ops *ops)
{
	if (ops->failed)
		return error_new(ERROR_USAGE, "expression too long");
	if (is_too_deep(ops))
		return error_new(
			ERROR_USAGE,
			"expression too long: it needs more than %u numbers at once",
			DT_PROGRAM_STACK);
	return NULL;
}

struct error *expr_variable(const char *text, const struct expr_names *names, struct type *ret_type,
			    struct value_place *ret_place)
{
	struct parser parser = { .text = text, .at = text, .names = names };
	struct operand operand = { 0 };
	struct error *error = parse_all(&parser, &operand);
	bool is_computed = operand.kind == OPERAND_NUMBER || operand.kind == OPERAND_REAL;

	if (!error && operand.kind == OPERAND_TEXT)
		parser_fail(&parser, text, "not a variable");
	if (!error && operand.is_variant_name)
		operand_make_value(&parser, &operand, text);
	if (!error && operand.kind == OPERAND_PLACE)
		operand_guard_place(&operand);
	error = parser.error ? parser.error :
			       check(is_computed ? &operand.ops : &operand.place.ops);
	if (error)
		return error;
	if (is_computed) {
		operand.type =
			(struct type){ .kind = operand.kind == OPERAND_REAL ? TYPE_FLOAT : TYPE_INT,
				       .size = operand.kind == OPERAND_REAL ? 8 : operand.size,
				       .is_signed = !operand.is_unsigned };
		operand.place = (struct value_place){ .kind = PLACE_VALUE, .ops = operand.ops };
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
	operand_make_truth(&parser, &operand, text);
	error = parser.error ? parser.error : check(&operand.ops);
	if (error)
		return error;
	*ret_ops = operand.ops;
	return NULL;
}
