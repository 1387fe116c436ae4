/*
 * operand.h - what stands between two operators while an expression is read; private to expr/.
 *
 * An operand is a place as long as something can be done with it (a member, an index), and becomes a number when an
 * operator wants one. The first error stays in the parser; after it nothing has an effect.
 */
#ifndef DYNTRACE_EXPR_OPERAND_H
#define DYNTRACE_EXPR_OPERAND_H

#include "expr.h"

#define NAME_MAX_LENGTH 256
#define DEPTH_MAX 32

/* OPERAND_REAL: a number with a point, good for nothing but comparing. */
enum operand_kind { OPERAND_PLACE, OPERAND_NUMBER, OPERAND_TEXT, OPERAND_REAL };

struct operand {
	enum operand_kind kind;
	struct type type; /* of a place */
	struct value_place place;
	struct value_ops ops; /* of a number */
	bool is_unsigned;
	char *text; /* owned by the parser's scratch */
	bool is_literal; /* a number that was written out: */
	double real;
};

struct parser {
	const char *text, *at;
	const struct expr_names *names;
	struct value_texts *texts; /* NULL: no strings here */
	struct error *error; /* the first */
	unsigned depth;
	bool counts_hits; /* $hits was there already */
	char scratch[512]; /* of string literals */
};

/* "what" at a place of the text, with a caret under it. Only the first counts. */
__attribute__((format(printf, 3, 4))) void parser_fail(struct parser *p, const char *at, const char *format, ...);

void operand_set_number(struct operand *operand, uint64_t value, bool is_unsigned);
/* References are what they refer to. */
void operand_follow_reference(struct operand *operand);
void operand_make_number(struct parser *p, struct operand *operand, const char *at);
/* What a pointer points to, or an array's first element. */
void operand_dereference(struct parser *p, struct operand *operand, const char *at);
void operand_select_member(struct parser *p, struct operand *operand, const char *name, const char *at);
void operand_select_element(struct parser *p, struct operand *operand, const struct operand *index, const char *at);

/* combine.c: operators with two sides. */
struct binary {
	const char *sign;
	unsigned level; /* higher ones bind more closely */
	enum dt_op_code code, unsigned_code;
};
/* The one that the text goes on with, if it binds more closely than `level`; NULL: none. */
const struct binary *binary_at(const char *text, unsigned level);
void binary_combine(struct parser *p, const struct binary *binary, struct operand *left, struct operand *right,
		    const char *at);

#endif
