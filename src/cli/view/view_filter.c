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
#include "control/base/vec.h"
#include "control/values/expr/expr.h"
#include "shared/arithmetic.h"

#define NAMES_MAX 64
#define STACK_MAX 32
#define WORD_MAX 128
#define LISTED_MAX 16

/* The expression, compiled for an event class. */
struct kind {
	const bt_event_class *class;
	bool is_known; /* its events have all the fields */
	struct value_ops ops;
	struct value_texts texts;
	char *names[NAMES_MAX]; /* of the fields */
	size_t name_count;
};

struct view_filter {
	const char *text;
	VEC(struct kind *) kinds;
	struct kind *last; /* of the previous event */
	struct error *error; /* of the unknown kind whose compilation went furthest */
};

/* Context of expr's callbacks during compilation. */
struct compiling {
	struct kind *kind;
	const bt_event *event;
};

struct view_filter *view_filter_create(const char *text)
{
	struct view_filter *filter = calloc(1, sizeof(*filter));

	if (filter)
		filter->text = text;
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

/* ---- fields ---------------------------------------------------------------------------------- */

static const bt_field *member_of(const bt_field *structure, const char *name)
{
	if (!structure || bt_field_get_class_type(structure) != BT_FIELD_CLASS_TYPE_STRUCTURE)
		return NULL;
	return bt_field_structure_borrow_member_field_by_name_const(structure, name);
}

static const bt_field *element_of(const bt_field *array, uint64_t index)
{
	if (!array ||
	    !bt_field_class_type_is(bt_field_get_class_type(array), BT_FIELD_CLASS_TYPE_ARRAY) ||
	    index >= bt_field_array_get_length(array))
		return NULL;
	return bt_field_array_borrow_element_field_by_index_const(array, index);
}

/* Finds the field that a path begins with; $tid and $pid are in the packet's context. */
static const bt_field *first_field(const bt_event *event, const char *name)
{
	const bt_packet *packet = bt_event_borrow_packet_const(event);
	const bt_field *parts[] = {
		bt_event_borrow_payload_field_const(event),
		bt_event_borrow_specific_context_field_const(event),
		bt_event_borrow_common_context_field_const(event),
	};

	if (name[0] == '$')
		return packet ? member_of(bt_packet_borrow_context_field_const(packet), name + 1) :
				NULL;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		const bt_field *field = member_of(parts[i], name);

		if (field)
			return field;
	}
	return NULL;
}

static const bt_field *find_field(const bt_event *event, const char *path)
{
	const bt_field *field = NULL;

	for (bool first = true; *path; first = false) {
		size_t length = strcspn(path, ".[");
		char name[WORD_MAX];

		if (path[0] == '[') {
			char *end;

			field = element_of(field, strtoull(path + 1, &end, 0));
			path = *end == ']' ? end + 1 : end;
		} else {
			if (length >= sizeof(name))
				return NULL;
			memcpy(name, path, length);
			name[length] = '\0';
			field = first ? first_field(event, name) : member_of(field, name);
			path += length;
		}
		path += *path == '.';
		if (!field)
			return NULL;
	}
	return field;
}

static const char *event_name(const bt_event *event)
{
	const char *name = bt_event_class_get_name(bt_event_borrow_class_const(event));

	return name ? name : "";
}

/* Gives the type for comparisons; false: the field has no single value. */
static bool type_of_field(const bt_field *field, struct type *ret_type)
{
	bt_field_class_type type = bt_field_get_class_type(field);

	*ret_type = (struct type){ .kind = TYPE_INT, .size = 8 };
	if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER))
		ret_type->is_signed = true;
	else if (type == BT_FIELD_CLASS_TYPE_STRING)
		ret_type->kind = TYPE_TEXT;
	else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_REAL))
		*ret_type = (struct type){
			.kind = TYPE_FLOAT,
			.size = type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL ? 4 : 8
		};
	else
		return bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER) ||
		       type == BT_FIELD_CLASS_TYPE_BOOL;
	return true;
}

static uint64_t number_of_field(const bt_field *field)
{
	bt_field_class_type type = bt_field_get_class_type(field);
	uint64_t bits = 0;

	if (type == BT_FIELD_CLASS_TYPE_BOOL)
		return bt_field_bool_get_value(field);
	if (type == BT_FIELD_CLASS_TYPE_SINGLE_PRECISION_REAL) {
		float value = bt_field_real_single_precision_get_value(field);

		memcpy(&bits, &value, sizeof(value));
	} else if (type == BT_FIELD_CLASS_TYPE_DOUBLE_PRECISION_REAL) {
		double value = bt_field_real_double_precision_get_value(field);

		memcpy(&bits, &value, sizeof(value));
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_SIGNED_INTEGER)) {
		bits = (uint64_t)bt_field_integer_signed_get_value(field);
	} else if (bt_field_class_type_is(type, BT_FIELD_CLASS_TYPE_UNSIGNED_INTEGER)) {
		bits = bt_field_integer_unsigned_get_value(field);
	}
	return bits;
}

/* ---- compilation ----------------------------------------------------------------------------- */

static bool find_name(void *context, const char *name, struct type *ret_type,
		      struct value_place *ret_place)
{
	struct compiling *c = context;
	struct kind *kind = c->kind;
	const bt_field *field = strcmp(name, "$name") == 0 ? NULL : find_field(c->event, name);

	*ret_type = (struct type){ .kind = TYPE_TEXT };
	if ((!field && strcmp(name, "$name") != 0) || (field && !type_of_field(field, ret_type)) ||
	    kind->name_count >= NAMES_MAX)
		return false;
	kind->names[kind->name_count] = strdup(name);
	if (!kind->names[kind->name_count])
		return false;
	*ret_place = (struct value_place){ .kind = PLACE_VALUE };
	ops_add(&ret_place->ops, DT_OP_KEPT, (uint8_t)kind->name_count++, 0, 0);
	return true;
}

/* Finds a label of any enumeration in the event's payload. */
static bool find_label(void *context, const char *name, int64_t *ret_value)
{
	struct compiling *c = context;
	const bt_field *payload = bt_event_borrow_payload_field_const(c->event);
	const bt_field_class *class = payload ? bt_field_borrow_class_const(payload) : NULL;
	uint64_t count = class ? bt_field_class_structure_get_member_count(class) : 0;

	for (uint64_t i = 0; i < count; i++) {
		const bt_field_class *member =
			bt_field_class_structure_member_borrow_field_class_const(
				bt_field_class_structure_borrow_member_by_index_const(class, i));

		if (bt_field_class_get_type(member) == BT_FIELD_CLASS_TYPE_UNSIGNED_ENUMERATION) {
			const bt_field_class_enumeration_unsigned_mapping *found =
				bt_field_class_enumeration_unsigned_borrow_mapping_by_label_const(
					member, name);

			if (!found)
				continue;
			*ret_value = (int64_t)bt_integer_range_unsigned_get_lower(
				bt_integer_range_set_unsigned_borrow_range_by_index_const(
					bt_field_class_enumeration_unsigned_mapping_borrow_ranges_const(
						found),
					0));
			return true;
		}
		if (bt_field_class_get_type(member) == BT_FIELD_CLASS_TYPE_SIGNED_ENUMERATION) {
			const bt_field_class_enumeration_signed_mapping *found =
				bt_field_class_enumeration_signed_borrow_mapping_by_label_const(
					member, name);

			if (!found)
				continue;
			*ret_value = bt_integer_range_signed_get_lower(
				bt_integer_range_set_signed_borrow_range_by_index_const(
					bt_field_class_enumeration_signed_mapping_borrow_ranges_const(
						found),
					0));
			return true;
		}
	}
	return false;
}

/* Lists the fields of the event's payload. */
static void list_fields(void *context, struct strbuf *text)
{
	struct compiling *c = context;
	const bt_field *payload = bt_event_borrow_payload_field_const(c->event);
	const bt_field_class *class = payload ? bt_field_borrow_class_const(payload) : NULL;
	uint64_t count = class ? bt_field_class_structure_get_member_count(class) : 0;

	for (uint64_t i = 0; i < count && i <= LISTED_MAX; i++)
		strbuf_printf(text, "%s%s", i ? ", " : "",
			      i == LISTED_MAX ?
				      "..." :
				      bt_field_class_structure_member_get_name(
					      bt_field_class_structure_borrow_member_by_index_const(
						      class, i)));
}

/* Column of the caret in the message's last line. */
static size_t caret(const struct error *error)
{
	const char *line = strrchr(error_text(error), '\n');

	return line ? strlen(line) : 0;
}

static struct kind *compile(struct view_filter *filter, const bt_event *event)
{
	struct kind *kind = calloc(1, sizeof(*kind));
	struct compiling compiling = { kind, event };
	struct expr_names names = { .context = &compiling,
				    .find = find_name,
				    .find_label = find_label,
				    .list = list_fields,
				    .has_paths = true };
	struct error *error;

	if (!kind || !vec_push(&filter->kinds, kind)) {
		free(kind);
		return NULL;
	}
	kind->class = bt_event_borrow_class_const(event);
	error = expr_condition(filter->text, &names, &kind->ops, &kind->texts);
	kind->is_known = !error;
	if (error && (!filter->error || caret(error) > caret(filter->error))) {
		error_free(filter->error);
		filter->error = take_ptr(&error);
	}
	error_free(error);
	return kind;
}

static struct kind *find_kind(struct view_filter *filter, const bt_event *event)
{
	const bt_event_class *class = bt_event_borrow_class_const(event);

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
	const struct kind *kind;
	const bt_event *event;
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
	const bt_field *field = strcmp(name, "$name") == 0 ? NULL : find_field(m->event, name);

	if (!field && strcmp(name, "$name") != 0)
		m->failed = true;
	if (!field || bt_field_get_class_type(field) == BT_FIELD_CLASS_TYPE_STRING)
		return index;
	return number_of_field(field);
}

static bool match(struct machine *m, const struct dt_op *op)
{
	const char *name = m->kind->names[pop(m) % NAMES_MAX];
	const bt_field *field =
		name && strcmp(name, "$name") != 0 ? find_field(m->event, name) : NULL;
	const char *text = field ? bt_field_string_get_value(field) : event_name(m->event);
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

bool view_filter_wants(struct view_filter *filter, const bt_event *event)
{
	struct kind *kind = find_kind(filter, event);
	struct machine m = { .kind = kind, .event = event };

	if (!kind || !kind->is_known)
		return false;
	filter->last = kind;
	for (size_t i = 0; i < kind->ops.count && !m.failed; i++)
		i += step(&m, &kind->ops.items[i]);
	return !m.failed && pop(&m) != 0;
}

struct error *view_filter_error(struct view_filter *filter)
{
	for (size_t i = 0; i < filter->kinds.count; i++) {
		if (filter->kinds.items[i]->is_known)
			return NULL;
	}
	return take_ptr(&filter->error);
}
