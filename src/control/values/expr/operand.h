/*
 * operand.h - the operand of an operator while an expression is parsed. Private to values/expr.
 *
 * An operand stays a place as long as a member, an index or a cast may follow, and becomes a number
 * when an operator needs one. The parser keeps the first error; later calls have no effect.
 */
#ifndef DYNTRACE_OPERAND_H
#define DYNTRACE_OPERAND_H

#include "expr.h"

#define NAME_MAX_LENGTH 256
#define DEPTH_MAX 32

enum operand_kind {
	OPERAND_PLACE, /* a typed value; also the result of a cast: a pointer not in memory */
	OPERAND_NUMBER,
	OPERAND_REAL,
	OPERAND_TEXT,
};

/* (E1) The number that `ops` leave is a value of its type: an int or unsigned is extended by its
 * sign to 64 bits; a real number is a double, and if `size` is 4 a single can hold it. */
struct operand {
	enum operand_kind kind;
	struct type type; /* of a place */
	struct value_place place;
	struct value_ops ops; /* of a number */
	uint8_t size; /* of a number: 4 or 8 bytes */
	bool is_unsigned;
	char *text; /* owned by the parser's scratch */
	struct value_ops guard; /* of a place: leave 0 if no value is there now; none: always */
	bool is_variant_name; /* a place: of the enumeration whose variant is compared */
	bool is_vector; /* a place: $xmm0, whose type a cast chooses */
	bool is_literal; /* a number written in the expression: */
	uint64_t value;
	double real;
};

struct parser {
	const char *text, *at;
	const struct expr_names *names;
	struct value_texts *texts; /* NULL: strings aren't allowed */
	struct error *error; /* the first */
	unsigned depth;
	bool counts_hits; /* $hits was used before */
	char scratch[512]; /* for string literals */
};

/* Sets the error: the message, the text, and a caret under the place. Keeps the first. */
__attribute__((format(printf, 3, 4))) void parser_fail(struct parser *p, const char *at,
						       const char *format, ...);

/* ---- words.c --------------------------------------------------------------------------------- */

void parser_skip_space(struct parser *p);
bool parser_accept(struct parser *p, const char *sign);
bool parser_is_name(char c);
/* Takes a name; false: none. C++ names continue after ::. */
bool parser_take_name(struct parser *p, char *name);
/* Extends the name by .member and [number]. */
void parser_take_path(struct parser *p, char *name);

/* ---- operand.c ------------------------------------------------------------------------------- */

void operand_set_number(struct operand *operand, uint64_t value, uint8_t size, bool is_unsigned);
/* Replaces a reference by its target. */
void operand_follow_reference(struct operand *operand);
/* Adds operations that tell whether the operand is there now: the value of an optional, or a member
 * of a variant, isn't always. */
void operand_guard(struct operand *operand, const struct value_ops *guard);
/* Makes them leave 0 if the guard of a place does, too. */
void operand_guard_ops(const struct operand *place, struct value_ops *ops);
/* Makes a place unreadable where the guard says that nothing is there. */
void operand_guard_place(struct operand *operand);
/* Makes it a number of any kind, with C's integer promotions. */
void operand_make_value(struct parser *p, struct operand *operand, const char *at);
/* Makes it an integer. */
void operand_make_number(struct parser *p, struct operand *operand, const char *at);
/* Makes it a number that is 0 or not. */
void operand_make_truth(struct parser *p, struct operand *operand, const char *at);
/* Converts an integer to a size and signedness (E1); real numbers stay. */
void operand_convert(struct operand *operand, uint8_t size, bool is_unsigned);
/* Restores E1 after an operation whose result may have more bits than its type. */
void operand_cut(struct operand *operand);
/* Converts a number to a real one. */
void operand_make_real(struct operand *operand, uint8_t size);
/* ---- operand_member.c ----------------------------------------------------------------------- */

/* Replaces a smart pointer by the pointer in it. False: it is none. */
bool operand_follow_holder(struct parser *p, struct operand *operand);
/* Replaces a pointer by its target, an optional by its value, or an array by its first element. */
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
/* Negates a literal. */
void literal_negate(struct operand *operand);

/* ---- cast.c ---------------------------------------------------------------------------------- */

/* Takes a type and its ")", after a "(". False: not a type, and nothing was taken; or an error. */
bool cast_take_type(struct parser *p, struct type *ret_type);
void cast_apply(struct parser *p, struct operand *operand, const struct type *type, const char *at);
/* str(x): a string by its address; strings stay as they are. */
void cast_to_string(struct parser *p, struct operand *operand, const char *at);

/* ---- combine.c: operators with two sides ----------------------------------------------------- */

struct binary {
	const char *sign;
	unsigned level; /* a higher level binds more closely */
	enum dt_op_code code, unsigned_code;
	enum dt_op_code real_code; /* DT_OP_END: not for real numbers */
};
#define LEVEL_EQUAL 6u
#define LEVEL_ORDER 7u
#define LEVEL_SHIFT 8u

/* The operator that the text continues with, if it binds more closely than `level`; NULL: none. */
const struct binary *binary_at(const char *text, unsigned level);
void binary_combine(struct parser *p, const struct binary *binary, struct operand *left,
		    struct operand *right, const char *at);

/* combine_real.c: compares a floating-point value in a register with a literal, without a program.
 * False: another operation. */
bool combine_written(struct parser *p, const struct binary *binary, struct operand *left,
		     struct operand *right, const char *at);
void combine_reals(struct parser *p, const struct binary *binary, struct operand *left,
		   struct operand *right, const char *at);

#endif
