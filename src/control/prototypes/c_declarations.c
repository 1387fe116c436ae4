#include "c_declarations.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "c_tokens.h"
#include "control/base/vec.h"

#define DEPTH_MAX 16
#define POINTERS_MAX 8

struct named_type {
	char *name;
	struct c_type type;
};

struct reader {
	struct c_tokens tokens;
	VEC(struct named_type) types; /* typedefs */
	unsigned depth;
	bool failed; /* the declaration isn't understood */
	unsigned line; /* on which the declaration begins */
};

struct declarator {
	char name[C_NAME_MAX];
	struct c_type type; /* of the object; of a function: its result */
	bool is_function;
	bool is_whole, is_variadic;
	struct c_parameter *parameters; /* C_PARAMETERS_MAX; NULL: not wanted */
	size_t count;
};

/* ---- types ----------------------------------------------------------------------------------- */

bool c_type_is_plain(const struct c_type *type)
{
	return type->pointers || type->is_function || type->is_array ||
	       (type->base && type->base->kind != TYPE_VOID);
}

const struct c_type *c_function_unknown_type(const struct c_function *function)
{
	const struct c_type *result = &function->result;
	bool is_void = result->base && result->base->kind == TYPE_VOID;

	for (size_t i = 0; i < function->count; i++) {
		if (!c_type_is_plain(&function->parameters[i].type))
			return &function->parameters[i].type;
	}
	return is_void || c_type_is_plain(result) ? NULL : result;
}

bool c_function_is_plain(const struct c_function *function)
{
	return function->is_whole && !c_function_unknown_type(function);
}

static void copy_name(char *to, const struct c_tokens *tokens, const char *before)
{
	snprintf(to, C_NAME_MAX, "%s%.*s", before, (int)tokens->length, tokens->text);
}

static const struct c_type *find_typedef(const struct reader *r)
{
	for (size_t i = r->types.count; i > 0; i--) {
		if (c_tokens_is(&r->tokens, r->types.items[i - 1].name))
			return &r->types.items[i - 1].type;
	}
	return NULL;
}

/* Skips words that change nothing here, with their arguments. True: there was one. */
static bool skip_noise(struct reader *r)
{
	static const char *const plain[] = { "const",	     "volatile",   "restrict",
					     "__const",	     "__volatile", "__volatile__",
					     "__restrict",   "__restrict__", "inline",
					     "__inline",     "__inline__", "_Noreturn",
					     "__extension__", "register",  "auto",
					     "_Thread_local", "__thread",  "noreturn",
					     "_Complex" };
	static const char *const grouped[] = { "__attribute__", "__attribute", "__asm__", "asm",
					       "__asm",		"_Alignas",    "__declspec" };

	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		if (c_tokens_is(&r->tokens, plain[i])) {
			r->failed |= !strcmp(plain[i], "_Complex");
			c_tokens_next(&r->tokens);
			return true;
		}
	}
	for (size_t i = 0; i < sizeof(grouped) / sizeof(grouped[0]); i++) {
		if (c_tokens_accept(&r->tokens, grouped[i])) {
			if (c_tokens_is(&r->tokens, "("))
				c_tokens_skip_group(&r->tokens);
			return true;
		}
	}
	return false;
}

/* struct tag { ... }: an enumeration is an int, others are known by their tag only. */
static bool take_tagged(struct reader *r, struct c_type *type)
{
	bool is_enum = c_tokens_is(&r->tokens, "enum");
	const char *before = c_tokens_is(&r->tokens, "struct") ? "struct " : "union ";
	unsigned counts[WORDS] = { [WORD_UNSIGNED] = 1 };

	if (!is_enum && !c_tokens_is(&r->tokens, "struct") && !c_tokens_is(&r->tokens, "union"))
		return false;
	c_tokens_next(&r->tokens);
	while (skip_noise(r))
		;
	if (r->tokens.kind == C_NAME) {
		copy_name(type->tag, &r->tokens, before);
		c_tokens_next(&r->tokens);
	}
	if (c_tokens_is(&r->tokens, "{"))
		c_tokens_skip_group(&r->tokens);
	if (is_enum)
		type->base = c_type_of_words(counts);
	return true;
}

struct specifiers {
	struct c_type type;
	bool has_type, is_typedef, is_static;
};

static bool take_storage(struct reader *r, struct specifiers *to)
{
	if (c_tokens_accept(&r->tokens, "typedef"))
		to->is_typedef = true;
	else if (c_tokens_accept(&r->tokens, "static"))
		to->is_static = true;
	else if (!c_tokens_accept(&r->tokens, "extern"))
		return skip_noise(r);
	return true;
}

static bool take_keyword(struct reader *r, unsigned counts[WORDS])
{
	if (c_tokens_accept(&r->tokens, "__signed__") || c_tokens_accept(&r->tokens, "__signed")) {
		counts[WORD_SIGNED]++;
		return true;
	}
	for (size_t i = 0; i < WORDS; i++) {
		if (c_tokens_accept(&r->tokens, c_words[i])) {
			counts[i]++;
			return true;
		}
	}
	return false;
}

static void take_name(struct reader *r, struct specifiers *to)
{
	const struct c_type *found = find_typedef(r);
	char name[C_NAME_MAX];

	copy_name(name, &r->tokens, "");
	if (found)
		to->type = *found;
	else if (c_tokens_is(&r->tokens, "__builtin_va_list") || c_tokens_is(&r->tokens, "va_list"))
		to->type.is_array = true;
	else if (!(to->type.base = c_type_known(name)))
		memcpy(to->type.tag, name, sizeof(name));
	c_tokens_next(&r->tokens);
}

/* "extern const unsigned char", "static struct foo", "size_t" */
static void take_specifiers(struct reader *r, struct specifiers *to)
{
	unsigned counts[WORDS] = { 0 };
	bool has_words = false;

	while (!r->failed) {
		if (take_storage(r, to))
			continue;
		if (!to->has_type && take_keyword(r, counts)) {
			has_words = true;
			continue;
		}
		if (has_words || to->has_type)
			break;
		if (take_tagged(r, &to->type))
			to->has_type = true;
		else if (r->tokens.kind == C_NAME && !c_tokens_is(&r->tokens, "__typeof__") &&
			 !c_tokens_is(&r->tokens, "typeof"))
			take_name(r, to), to->has_type = true;
		else
			break;
	}
	if (has_words) {
		to->type.base = c_type_of_words(counts);
		to->has_type = true;
	}
	r->failed |= !to->has_type;
}

/* ---- declarators ----------------------------------------------------------------------------- */

static void take_declarator(struct reader *r, struct declarator *d);

static void take_parameter(struct reader *r, struct c_parameter *parameter)
{
	struct specifiers specifiers = { 0 };
	struct declarator d = { 0 };

	take_specifiers(r, &specifiers);
	d.type = specifiers.type;
	if (!r->failed)
		take_declarator(r, &d);
	if (d.is_function) /* decays, as an array does */
		d.type = (struct c_type){ .is_function = true };
	if (d.type.is_array)
		d.type.pointers++;
	d.type.is_array = false;
	parameter->type = d.type;
	memcpy(parameter->name, d.name, sizeof(d.name));
}

/* Behind the '(' of a function's parameters. */
static void take_parameters(struct reader *r, struct declarator *d)
{
	struct c_parameter parameter;

	d->is_whole = true;
	for (bool more = !c_tokens_is(&r->tokens, ")"); more && !r->failed;) {
		if (r->tokens.kind == C_DOTS) {
			d->is_variadic = true;
			c_tokens_next(&r->tokens);
			break;
		}
		memset(&parameter, 0, sizeof(parameter));
		take_parameter(r, &parameter);
		more = c_tokens_accept(&r->tokens, ",");
		bool is_void = !d->count && !more && !parameter.name[0] && parameter.type.base &&
			       parameter.type.base->kind == TYPE_VOID &&
			       !c_type_is_plain(&parameter.type);
		if (is_void || !d->parameters)
			continue;
		if (d->count < C_PARAMETERS_MAX)
			d->parameters[d->count++] = parameter;
		else
			d->is_whole = false;
	}
	r->failed |= !c_tokens_accept(&r->tokens, ")");
}

/* (*name)(int), (*name(int))(int), (name)(int) */
static void take_nested(struct reader *r, struct declarator *d)
{
	struct declarator inner = { .parameters = d->parameters };

	take_declarator(r, &inner);
	r->failed |= !c_tokens_accept(&r->tokens, ")");
	memcpy(d->name, inner.name, sizeof(d->name));
	bool is_pointer = inner.type.pointers || inner.type.is_array;
	if (inner.is_function || !is_pointer) { /* returns a pointer; or is only in brackets */
		bool is_function = inner.is_function;

		d->is_function = is_function;
		d->is_whole = inner.is_whole;
		d->is_variadic = inner.is_variadic;
		d->count = inner.count;
		if (is_function && is_pointer)
			d->type = (struct c_type){ .is_function = true };
		return;
	}
	d->type = (struct c_type){ .is_function = true, .pointers = 0 };
}

static void take_suffixes(struct reader *r, struct declarator *d, bool was_nested)
{
	for (;;) {
		if (c_tokens_is(&r->tokens, "[")) {
			c_tokens_skip_group(&r->tokens);
			d->type.is_array = !was_nested || !d->type.is_function;
		} else if (c_tokens_is(&r->tokens, "(") &&
			   (d->is_function || (was_nested && d->type.is_function))) {
			c_tokens_skip_group(&r->tokens); /* of what a pointer points to */
		} else if (c_tokens_accept(&r->tokens, "(")) {
			d->is_function = true;
			take_parameters(r, d);
		} else if (!skip_noise(r)) {
			return;
		}
	}
}

/* Continues d->type, the type of the specifiers, by stars, brackets and parameters. */
static void take_declarator(struct reader *r, struct declarator *d)
{
	bool was_nested = false;

	if (++r->depth > DEPTH_MAX)
		r->failed = true;
	while (!r->failed) {
		if (c_tokens_accept(&r->tokens, "*")) {
			r->failed |= d->type.pointers >= POINTERS_MAX;
			if (d->type.is_array) /* of a typedef: a pointer to the array */
				d->type = (struct c_type){ .pointers = 1 };
			else
				d->type.pointers++;
		} else if (!skip_noise(r)) {
			break;
		}
	}
	if (!r->failed && r->tokens.kind == C_NAME) {
		copy_name(d->name, &r->tokens, "");
		c_tokens_next(&r->tokens);
	} else if (!r->failed && c_tokens_is(&r->tokens, "(")) {
		struct c_tokens before = r->tokens;

		c_tokens_next(&r->tokens);
		while (skip_noise(r))
			;
		was_nested = c_tokens_is(&r->tokens, "*") || c_tokens_is(&r->tokens, "(") ||
			     (r->tokens.kind == C_NAME && !find_typedef(r));
		if (was_nested)
			take_nested(r, d);
		else
			r->tokens = before; /* parameters of a function without a name */
	}
	if (!r->failed)
		take_suffixes(r, d, was_nested);
	r->depth--;
}

/* ---- declarations ---------------------------------------------------------------------------- */

/* Behind what isn't understood: at a ';' or behind a body. */
static void recover(struct reader *r)
{
	while (r->tokens.kind != C_END) {
		bool is_body = c_tokens_is(&r->tokens, "{");

		if (c_tokens_accept(&r->tokens, ";"))
			return;
		if (is_body || c_tokens_is(&r->tokens, "(") || c_tokens_is(&r->tokens, "["))
			c_tokens_skip_group(&r->tokens);
		else
			c_tokens_next(&r->tokens);
		if (is_body)
			return;
	}
}

static bool add_typedef(struct reader *r, const struct declarator *d)
{
	struct named_type one = { .name = strdup(d->name), .type = d->type };

	if (d->is_function)
		one.type = (struct c_type){ .is_function = true };
	if (one.name && vec_push(&r->types, one))
		return true;
	free(one.name);
	return false;
}

static bool give(const struct declarator *d, const struct specifiers *specifiers,
		 const struct reader *r, bool (*found)(void *, const struct c_function *),
		 void *context)
{
	struct c_function function = { .result = d->type,
				       .count = d->count,
				       .is_variadic = d->is_variadic,
				       .is_static = specifiers->is_static,
				       .is_whole = d->is_whole,
				       .file = r->tokens.file,
				       .line = r->line };

	memcpy(function.name, d->name, sizeof(d->name));
	memcpy(function.parameters, d->parameters, d->count * sizeof(d->parameters[0]));
	return found(context, &function);
}

/* One declaration, with all its declarators. */
static bool take_declaration(struct reader *r, bool (*found)(void *, const struct c_function *),
			     void *context)
{
	struct c_parameter parameters[C_PARAMETERS_MAX];
	struct specifiers specifiers = { 0 };
	bool goes_on = true;

	take_specifiers(r, &specifiers);
	while (!r->failed && goes_on && !c_tokens_is(&r->tokens, ";")) {
		struct declarator d = { .type = specifiers.type, .parameters = parameters };

		take_declarator(r, &d);
		if (r->failed || !d.name[0]) {
			r->failed = true;
			break;
		}
		if (specifiers.is_typedef)
			goes_on = add_typedef(r, &d);
		else if (d.is_function)
			goes_on = give(&d, &specifiers, r, found, context);
		if (c_tokens_is(&r->tokens, "{") || c_tokens_is(&r->tokens, "=")) {
			recover(r);
			return goes_on;
		}
		if (!c_tokens_accept(&r->tokens, ","))
			break;
	}
	if (!r->failed && !c_tokens_accept(&r->tokens, ";"))
		r->failed = true;
	return goes_on;
}

bool c_declarations_read(const char *text,
			 bool (*found)(void *context, const struct c_function *function),
			 void *context, unsigned *ret_line)
{
	struct reader reader = { .depth = 0 };
	bool goes_on = true;

	*ret_line = 0;
	c_tokens_start(&reader.tokens, text);
	while (goes_on && reader.tokens.kind != C_END) {
		reader.line = reader.tokens.line;
		if (c_tokens_accept(&reader.tokens, ";") || c_tokens_accept(&reader.tokens, "}"))
			continue;
		struct c_tokens before = reader.tokens;
		if (c_tokens_accept(&reader.tokens, "extern") &&
		    reader.tokens.kind == C_STRING) { /* extern "C" { */
			c_tokens_next(&reader.tokens);
			c_tokens_accept(&reader.tokens, "{");
			continue;
		}
		reader.tokens = before;
		if (c_tokens_is(&reader.tokens, "_Static_assert")) {
			recover(&reader);
			continue;
		}
		reader.failed = false;
		reader.depth = 0;
		goes_on = take_declaration(&reader, found, context);
		if (reader.failed) {
			*ret_line = *ret_line ? *ret_line : reader.line;
			recover(&reader);
		}
	}
	for (size_t i = 0; i < reader.types.count; i++)
		free(reader.types.items[i].name);
	vec_free(&reader.types);
	return goes_on;
}
