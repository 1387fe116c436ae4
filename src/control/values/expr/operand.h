/*
 * operand.h - what stands between two operators while an expression is read; private to expr/.
 *
 * An operand is a place as long as something can be done with it (a member, an index, a cast), and
 * becomes a number when an operator wants one. The first error stays in the parser; after it
 * nothing has an effect.
 */
#ifndef DYNTRACE_OPERAND_H
#define DYNTRACE_OPERAND_H

#include "expr.h"

#define NAME_MAX_LENGTH 256
#define DEPTH_MAX 32

enum operand_kind {
	OPERAND_PLACE, /* of a value of a type; also what a cast made: a pointer in no memory */
	OPERAND_NUMBER,
	OPERAND_REAL,
	OPERAND_TEXT,
};

/* (E1) The number that `ops` leave is one of its type: an int or unsigned is extended by its sign
 * to 64 bits; a real one is a double, and if `size` is 4 a single could hold it. */
struct operand {
	enum operand_kind kind;
	struct type type; /* of a place */
	struct value_place place;
	struct value_ops ops; /* of a number */
	uint8_t size; /* of a number: 4 or 8 bytes */
	bool is_unsigned;
	char *text; /* owned by the parser's scratch */
	bool is_literal; /* a number that was written out: */
	uint64_t value;
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
__attribute__((format(printf, 3, 4))) void parser_fail(struct parser *p, const char *at,
						       const char *format, ...);

/* ---- words.c --------------------------------------------------------------------------------- */

void parser_skip_space(struct parser *p);
bool parser_accept(struct parser *p, const char *sign);
bool parser_is_name(char c);
/* A name, or nothing. C++ names go on behind ::. */
bool parser_take_name(struct parser *p, char *name);
/* What belongs to the name: .member and [number]. */
void parser_take_path(struct parser *p, char *name);

/* ---- operand.c ------------------------------------------------------------------------------- */

void operand_set_number(struct operand *operand, uint64_t value, uint8_t size, bool is_unsigned);
/* References are what they refer to. */
void operand_follow_reference(struct operand *operand);
/* A number of any kind; C's integer promotions are done. */
void operand_make_value(struct parser *p, struct operand *operand, const char *at);
/* One that isn't real. */
void operand_make_number(struct parser *p, struct operand *operand, const char *at);
/* 0 or not: a number. */
void operand_make_truth(struct parser *p, struct operand *operand, const char *at);
/* A number to the type of another (E1); real ones stay. */
void operand_convert(struct operand *operand, uint8_t size, bool is_unsigned);
/* After an operation whose result may have more bits than its type. */
void operand_cut(struct operand *operand);
/* A number to a real one. */
void operand_make_real(struct operand *operand, uint8_t size);
/* What a pointer points to, or an array's first element. */
void operand_dereference(struct parser *p, struct operand *operand, const char *at);
void operand_take_address(struct parser *p, struct operand *operand, const char *at);
void operand_select_member(struct parser *p, struct operand *operand, const char *name,
			   const char *at);
void operand_select_element(struct parser *p, struct operand *operand, struct operand *index,
			    const char *at);

/* ---- literal.c ------------------------------------------------------------------------------- */

void literal_number(struct parser *p, struct operand *ret);
void literal_char(struct parser *p, struct operand *ret);
void literal_text(struct parser *p, struct operand *ret);
/* -1 */
void literal_negate(struct operand *operand);

/* ---- cast.c ---------------------------------------------------------------------------------- */

/* Behind a "(": a type and its ")". False: it is no type, and nothing was taken; or an error. */
bool cast_take_type(struct parser *p, struct type *ret_type);
void cast_apply(struct parser *p, struct operand *operand, const struct type *type, const char *at);

/* ---- combine.c: operators with two sides ----------------------------------------------------- */

struct binary {
	const char *sign;
	unsigned level; /* higher ones bind more closely */
	enum dt_op_code code, unsigned_code;
	enum dt_op_code real_code; /* DT_OP_END: not of real numbers */
};
#define LEVEL_EQUAL 6u
#define LEVEL_ORDER 7u
#define LEVEL_SHIFT 8u

/* The one that the text goes on with, if it binds more closely than `level`; NULL: none. */
const struct binary *binary_at(const char *text, unsigned level);
void binary_combine(struct parser *p, const struct binary *binary, struct operand *left,
		    struct operand *right, const char *at);

/* combine_real.c: a floating-point value that is in a register, with a number that was written out:
 * no program is needed for that. False: it is something else. */
bool combine_written(struct parser *p, const struct binary *binary, struct operand *left,
		     struct operand *right, const char *at);
void combine_reals(struct parser *p, const struct binary *binary, struct operand *left,
		   struct operand *right, const char *at);

#endif
