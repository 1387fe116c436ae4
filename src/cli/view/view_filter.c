/*
 * view_filter.c - compile the expression once per event class and run it for each event.
 *
 * The first event of a class gives the types of its fields. Fields are numbered in the order in
 * which the expression names them (DT_OP_KEPT).
 */
#include "view_filter.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/quote.h"
#include "control/base/vec.h"
#include "control/values/expr/expr.h"
#include "shared/arithmetic.h"

#define NAMES_MAX 64
#define STACK_MAX 32
#define LISTED_MAX 16

/* The expression, compiled for an event class. */
struct kind {
	const void *class;
	bool is_known; /* its events have all the fields */
	struct type type; /* of a value */
	struct value_ops ops;
	struct value_texts texts;
	char *names[NAMES_MAX]; /* of the fields */
	size_t name_count;
};

struct view_filter {
	const char *text;
	const struct filter_source *source;
	bool is_value; /* not a condition */
	VEC(struct kind *) kinds;
	struct kind *last; /* of the previous event */
	struct error *error; /* of the unknown kind whose compilation went furthest */
};

/* Context of expr's callbacks during compilation. */
struct compiling {
	const struct filter_source *source;
	struct kind *kind;
	const void *event;
};

struct view_filter *view_filter_create(const char *text, const struct filter_source *source)
{
	struct view_filter *filter = calloc(1, sizeof(*filter));

	if (filter) {
		filter->text = text;
		filter->source = source;
	}
	return filter;
}

struct view_filter *view_filter_create_value(const char *text, const struct filter_source *source)
{
	struct view_filter *filter = view_filter_create(text, source);

	if (filter)
		filter->is_value = true;
	return filter;
}

static void kind_free(struct kind *kind)
{
	for (size_t i = 0; i < kind->name_count; i++)
		free(kind->names[i]);
	vec_free(&kind->texts);
	free(kind);
}

void view_filter_destroy(struct view_filter *filter)
{
	if (!filter)
		return;
	for (size_t i = 0; i < filter->kinds.count; i++)
		kind_free(filter->kinds.items[i]);
	vec_free(&filter->kinds);
	error_free(filter->error);
	free(filter);
}

/* ---- compilation ----------------------------------------------------------------------------- */

/* Types for comparisons. */
static const struct type types[] = {
	[FILTER_UNSIGNED] = { .kind = TYPE_INT, .size = 8 },
	[FILTER_SIGNED] = { .kind = TYPE_INT, .size = 8, .is_signed = true },
	[FILTER_SINGLE] = { .kind = TYPE_FLOAT, .size = 4 },
	[FILTER_DOUBLE] = { .kind = TYPE_FLOAT, .size = 8 },
	[FILTER_TEXT] = { .kind = TYPE_TEXT },
};

static bool find_name(void *context, const char *name, struct type *ret_type,
		      struct value_place *ret_place)
{
	struct compiling *c = context;
	struct kind *kind = c->kind;
	struct filter_value value = { .kind = FILTER_TEXT };

	if ((strcmp(name, "$name") != 0 && !c->source->find(c->event, name, &value)) ||
	    kind->name_count >= NAMES_MAX)
		return false;
	*ret_type = types[value.kind];
	if (value.is_enum)
		ret_type->kind = TYPE_ENUM;
	kind->names[kind->name_count] = strdup(name);
	if (!kind->names[kind->name_count])
		return false;
	*ret_place = (struct value_place){ .kind = PLACE_VALUE };
	ops_add(&ret_place->ops, DT_OP_KEPT, (uint8_t)kind->name_count++, 0, 0);
	return true;
}

static bool has_several(void *context, const char *name)
{
	struct compiling *c = context;

	return c->source->has(c->event, name);
}

static bool find_label(void *context, const char *name, int64_t *ret_value)
{
	struct compiling *c = context;

	return c->source->find_label(c->event, name, ret_value) == 1;
}

static bool is_ambiguous(void *context, const char *name)
{
	struct compiling *c = context;
	int64_t value;

	return c->source->find_label(c->event, name, &value) > 1;
}

/* Lists the fields of the event's payload. */
static void list_fields(void *context, struct strbuf *text)
{
	struct compiling *c = context;
	const char *name;

	for (size_t i = 0; i <= LISTED_MAX && (name = c->source->field(c->event, i)); i++)
		quote_format(text, "%s%s", i ? ", " : "", i == LISTED_MAX ? "..." : name);
}

/* Column of the caret in the message's last line. */
static size_t caret(const struct error *error)
{
	const char *line = strrchr(error_text(error), '\n');

	return line ? strlen(line) : 0;
}

static struct error *compile_value(const char *text, const struct expr_names *names,
				   struct kind *kind)
{
	struct value_place place = { 0 };
	struct error *error = expr_variable(text, names, &kind->type, &place);

	if (!error)
		kind->ops = place.ops;
	return error;
}

static struct kind *compile(struct view_filter *filter, const void *event)
{
	struct kind *kind = calloc(1, sizeof(*kind));
	struct compiling compiling = { filter->source, kind, event };
	struct expr_names names = { .context = &compiling,
				    .find = find_name,
				    .has_several = has_several,
				    .find_label = find_label,
				    .is_ambiguous = is_ambiguous,
				    .list = list_fields,
				    .has_paths = true };
	struct error *error;

	if (!kind || !vec_push(&filter->kinds, kind)) {
		free(kind);
		return NULL;
	}
	kind->class = filter->source->class(event);
	error = filter->is_value ?
			compile_value(filter->text, &names, kind) :
			expr_condition(filter->text, &names, &kind->ops, &kind->texts);
	kind->is_known = !error;
	if (error && (!filter->error || caret(error) > caret(filter->error))) {
		error_free(filter->error);
		filter->error = take_ptr(&error);
	}
	error_free(error);
	return kind;
}

static struct kind *find_kind(struct view_filter *filter, const void *event)
{
	const void *class = filter->source->class(event);

	if (filter->last && filter->last->class == class)
		return filter->last;
	for (size_t i = 0; i < filter->kinds.count; i++) {
		if (filter->kinds.items[i]->class == class)
			return filter->kinds.items[i];
	}
	return compile(filter, event);
}

/* ---- execution ------------------------------------------------------------------------------- */

struct machine {
	const struct filter_source *source;
	const struct kind *kind;
	const void *event;
	uint64_t stack[STACK_MAX];
	size_t top;
	bool failed; /* a missing field, a division by 0 */
};

static void push(struct machine *m, uint64_t value)
{
	if (m->top < STACK_MAX)
		m->stack[m->top++] = value;
	else
		m->failed = true;
}

static uint64_t pop(struct machine *m)
{
	if (m->top)
		return m->stack[--m->top];
	m->failed = true;
	return 0;
}

/* The field's number, or for text the field's index. */
static uint64_t load(struct machine *m, uint8_t index)
{
	const char *name = m->kind->names[index];
	struct filter_value value = { .kind = FILTER_TEXT };

	if (strcmp(name, "$name") != 0 && !m->source->find(m->event, name, &value))
		m->failed = true;
	return value.kind == FILTER_TEXT ? index : value.number;
}

static bool match(struct machine *m, const struct dt_op *op)
{
	const char *name = m->kind->names[pop(m) % NAMES_MAX];
	struct filter_value value = { .kind = FILTER_TEXT };
	bool found = name && strcmp(name, "$name") != 0 && m->source->find(m->event, name, &value);
	const char *text = !found ? m->source->name(m->event) : value.text ? value.text : "";
	const char *pattern = m->kind->texts.items + op->c;

	return op->b ? fnmatch(pattern, text, 0) == 0 : strcmp(pattern, text) == 0;
}

/* Returns how many operations to skip. */
static size_t step(struct machine *m, const struct dt_op *op)
{
	uint64_t x, y;

	switch (op->code) {
	case DT_OP_CONST:
		memcpy(&x, op + 1, sizeof(x));
		push(m, x);
		return 1;
	case DT_OP_KEPT: push(m, load(m, op->a)); return 0;
	case DT_OP_OFFSET: push(m, pop(m) + (uint64_t)(int32_t)op->c); return 0;
	case DT_OP_BITS: push(m, dt_bits(pop(m), op->a, op->b, op->c)); return 0;
	case DT_OP_MATCH: push(m, match(m, op)); return 0;
	case DT_OP_SKIP: return op->c;
	case DT_OP_SKIP_ZERO: return pop(m) ? 0 : op->c;
	default:
		if (dt_is_changing(op->code)) {
			push(m, dt_change(op, pop(m)));
			return 0;
		}
		if (!dt_is_combining(op->code)) {
			m->failed = true;
			return 0;
		}
		y = pop(m), x = pop(m);
		push(m, dt_combine(op->code, x, y, &m->failed));
		return 0;
	}
}

/* Runs the operations; false: the event's fields don't allow it. */
static bool execute(struct view_filter *filter, const void *event, struct machine *ret_machine,
		    uint64_t *ret_top)
{
	struct kind *kind = find_kind(filter, event);
	struct machine m = { .source = filter->source, .kind = kind, .event = event };

	if (!kind || !kind->is_known)
		return false;
	filter->last = kind;
	for (size_t i = 0; i < kind->ops.count && !m.failed; i++)
		i += step(&m, &kind->ops.items[i]);
	*ret_top = pop(&m);
	*ret_machine = m;
	return !m.failed;
}

bool view_filter_wants(struct view_filter *filter, const void *event)
{
	struct machine m;
	uint64_t top;

	return execute(filter, event, &m, &top) && top != 0;
}

bool view_filter_fits(struct view_filter *filter, const void *event)
{
	const struct kind *kind = find_kind(filter, event);

	return kind && kind->is_known;
}

bool view_filter_value(struct view_filter *filter, const void *event,
		       struct filter_value *ret_value)
{
	struct machine m;
	uint64_t top;

	if (!execute(filter, event, &m, &top))
		return false;
	const struct type *type = &m.kind->type;
	if (type->kind == TYPE_TEXT) {
		const char *name = m.kind->names[top % NAMES_MAX];

		*ret_value = (struct filter_value){ .kind = FILTER_TEXT,
						    .text = m.source->name(event) };
		return name && (!strcmp(name, "$name") ||
				m.source->find(event, name, ret_value));
	}
	*ret_value = (struct filter_value){
		.kind = type->kind == TYPE_FLOAT ?
				(type->size == 4 ? FILTER_SINGLE : FILTER_DOUBLE) :
			type->is_signed ? FILTER_SIGNED :
					  FILTER_UNSIGNED,
		.number = top,
	};
	return true;
}

struct error *view_filter_error(struct view_filter *filter)
{
	for (size_t i = 0; i < filter->kinds.count; i++) {
		if (filter->kinds.items[i]->is_known)
			return NULL;
	}
	return take_ptr(&filter->error);
}
