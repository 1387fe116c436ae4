/*
 * shape_list.c - lists: fields of which an event has as many as it has elements.
 *
 * Words of the program hold what all elements need: where they are, how many, the number of the
 * current one.
 */
#include "shape_fields.h"

#define STRING_IN_LIST 64u

bool shape_can_list(const struct shape *shape, unsigned locals)
{
	return shape->has_lists && !shape->failed && shape->list_depth < DT_LISTS_MAX &&
	       shape->locals + locals <= DT_LOCALS_MAX;
}

uint8_t shape_local(struct shape *shape)
{
	return (uint8_t)shape->locals++;
}

void shape_code(struct shape *shape, const struct value_ops *ops, uint8_t count)
{
	struct shape_code code = { .field = (uint16_t)shape->field_count };

	if (shape->guard) {
		ops_append(&code.ops, &shape->guards.items[shape->guard - 1]);
		ops_add(&code.ops, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)ops->count + 1);
	}
	ops_append(&code.ops, ops);
	if (shape->guard) {
		ops_add(&code.ops, DT_OP_SKIP, 0, 0, 3);
		ops_const(&code.ops, 0);
		ops_add(&code.ops, DT_OP_SET, count, 0, 0);
	}
	if (code.ops.failed || !vec_push(&shape->codes, code))
		shape->failed = true;
	shape->is_gathered = true;
}

/* An element is one number, one string or one struct: anything else becomes a struct's member. */
static bool needs_struct(const struct type *type)
{
	return type->kind == TYPE_ARRAY || type->kind == TYPE_VECTOR ||
	       (type->kind == TYPE_FLOAT && value_is_quadruple(type)) ||
	       (type->kind == TYPE_INT && !value_is_number_size(type->size) && type->size != 16);
}

static void add_element(struct shape *shape, const struct list_element *element, unsigned depth)
{
	size_t index;

	if (!element->second && !needs_struct(element->type)) {
		shape_value(shape, "element", element->type, element->place, depth);
		return;
	}
	shape_begin_struct(shape, "element", &index);
	shape_value(shape, element->second ? "key" : "value", element->type, element->place, depth);
	if (element->second)
		shape_value(shape, "value", element->second, element->second_place, depth);
	shape_end_struct(shape, "element", index);
}

/* The element's fields aren't blamed: the whole list is. */
void shape_add_list(struct shape *shape, const char *name, const struct list_element *element,
		    uint8_t count, uint8_t number, uint16_t most, const struct value_ops *each,
		    unsigned depth)
{
	struct shape_list list = { .field = (uint16_t)shape->field_count,
				   .blamed = shape->blamed,
				   .most = most,
				   .local = number };
	uint32_t string_max = shape->string_max;
	uint16_t guard = shape->guard;

	ops_add(&list.count, DT_OP_GET, count, 0, 0);
	if (each)
		list.each = *each;
	shape_field(shape, name, FIELD_LIST, 1);
	shape->guard = 0; /* it has set the count */
	shape->list_depth++;
	if (shape->string_max > STRING_IN_LIST)
		shape->string_max = STRING_IN_LIST;
	add_element(shape, element, depth);
	shape->string_max = string_max;
	shape->list_depth--;
	shape->guard = guard;
	if (shape->failed)
		return;
	if (shape->field_count == (size_t)list.field + 1) /* no room for it */
		shape_note(shape, "element", "<not recorded>");
	struct event_field *first = &shape->fields[list.field + 1];
	shape->fields[list.field].size = first->type == FIELD_STRING ? 1 : first->size;
	list.end = (uint16_t)shape->field_count;
	shape_field(shape, name, FIELD_END, 0);
	if (!vec_push(&shape->lists, list))
		shape->failed = true;
}
