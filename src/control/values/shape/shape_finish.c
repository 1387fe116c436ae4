/*
 * shape_finish.c - lays out an event whose fields are known: stores at fixed places for the
 * trampoline, or a program for the agent.
 */
#include <stdlib.h>
#include <string.h>

#include "shared/layout.h"
#include "shape.h"

#define HEAD 8u
#define HW_RSP 4
#define WIDE_ROOM 56u /* for a number of 128 bits */
#define NAMES_ROOM 128u /* for names of unreadable fields */
#define LIST_ROOM 4u /* of a list's elements, in strings of the greatest length */
#define MARK_ROOM 32u /* for a mark in place of a string: (unreadable 0x...) */

static uint32_t align_up(uint32_t at, uint32_t to)
{
	return to ? (at + to - 1) / to * to : at;
}

static bool store_is_native(const struct value_store *store, struct tramp_field *ret_field)
{
	if (store->code != DT_OP_STORE || store->guard)
		return false;
	if (store->place.kind == PLACE_GONE) {
		*ret_field = (struct tramp_field){ .source = SOURCE_NOTHING };
		return true;
	}
	if (!place_native(&store->place, store->load, ret_field))
		return false;
	if (ret_field->source == SOURCE_XMM && (store->bit_size || store->bit_offset))
		return false;
	ret_field->size = store->size;
	ret_field->load = store->load;
	ret_field->shift = (uint8_t)(ret_field->shift + store->bit_offset);
	ret_field->bits = store->bit_size;
	ret_field->is_signed = store->is_signed;
	return ret_field->shift < 64;
}

/* Gives each store the offset of its field, in order; struct fields align the next field. */
static bool layout_plain(struct shape *shape, struct tramp_event *event)
{
	uint32_t at = HEAD;
	size_t next = 0;

	event->field_count = 0;
	for (size_t i = 0; i < shape->field_count; i++) {
		struct event_field *field = &shape->fields[i];

		at = align_up(at, field->type == FIELD_END ? 1 : field->size);
		field->offset = (uint16_t)at;
		for (; next < shape->stores.count && shape->stores.items[next].field == i; next++) {
			struct tramp_field native;

			if (!store_is_native(&shape->stores.items[next], &native) ||
			    event->field_count >= TRAMP_FIELDS_MAX || at > DT_EVENT_SIZE_MAX - 64)
				return false;
			native.offset = (uint16_t)at;
			at += shape->stores.items[next].size;
			if (native.source != SOURCE_NOTHING)
				event->fields[event->field_count++] = native;
		}
	}
	event->size = align_up(at, 8);
	return true;
}

/* ---- programs -------------------------------------------------------------------------------- */

struct builder {
	VEC(struct dt_op) ops;
	const struct shape *shape;
	size_t next_code;
	struct {
		const struct shape_list *list;
		size_t each; /* its DT_OP_EACH */
		uint32_t size; /* of the event, before its elements */
	} lists[DT_LISTS_MAX];
	size_t list_depth;
	uint32_t size; /* maximum of the event */
	bool failed;
};

static void build(struct builder *b, const struct value_ops *ops)
{
	b->failed |= ops->failed;
	for (size_t i = 0; i < ops->count && !b->failed; i++)
		b->failed = !vec_push(&b->ops, ops->items[i]);
}

static void build_op(struct builder *b, enum dt_op_code code, uint8_t a, uint16_t bb, uint32_t c)
{
	struct value_ops one = { .count = 0 };

	ops_add(&one, code, a, bb, c);
	build(b, &one);
}

static uint32_t blamed_field(const struct value_store *store)
{
	return store->blamed ? store->blamed - 1u : store->field;
}

/* Pushes the value, or another if its guard is 0. */
static void push_guarded(const struct builder *b, const struct value_store *store,
			 const struct value_ops *value, uint64_t other, struct value_ops *ops)
{
	if (!store->guard) {
		ops_append(ops, value);
		return;
	}
	ops_append(ops, &b->shape->guards.items[store->guard - 1]);
	ops_add(ops, DT_OP_SKIP_ZERO, 0, 0, (uint32_t)value->count + 1);
	ops_append(ops, value);
	ops_add(ops, DT_OP_SKIP, 0, 0, 2);
	ops_const(ops, other);
}

static void build_number(struct builder *b, const struct value_store *store)
{
	struct value_ops value = { .count = 0 }, ops = { .count = 0 };

	if (!place_push(&store->place, store->load, store->is_signed && !store->bit_size, &value))
		ops_const(&value, 0);
	push_guarded(b, store, &value, 0, &ops);
	if (store->bit_size)
		ops_add(&ops, DT_OP_BITS, store->bit_offset, store->bit_size, store->is_signed);
	ops_add(&ops, DT_OP_STORE, store->size, 0, blamed_field(store));
	build(b, &ops);
	b->size = align_up(b->size, store->size) + store->size;
}

static void build_string(struct builder *b, const struct value_store *store)
{
	struct value_ops value = { .count = 0 }, length = { .count = 0 }, ops = { .count = 0 };

	if (!place_push(&store->place, 8, false, &value))
		ops_const(&value, 0);
	push_guarded(b, store, &value, 0, &ops);
	if (store->mode && !place_push(&store->length, 8, false, &length))
		ops_const(&length, 0);
	if (store->mode) /* of another variant: no text, not an empty one */
		push_guarded(b, store, &length, 1, &ops);
	ops_add(&ops, DT_OP_STRING, store->load, store->count, store->mode);
	build(b, &ops);
	b->size += store->count + MARK_ROOM + 1;
}

/* A number of 128 bits. */
static void build_wide(struct builder *b, const struct value_store *store)
{
	struct value_ops ops = { .count = 0 };

	for (uint64_t offset = 0; offset < 16; offset += 8) {
		struct value_ops value = { .count = 0 };
		struct value_place half;

		place_member(&store->place, offset, &half);
		if (!place_push(&half, 8, false, &value))
			ops_const(&value, 0);
		push_guarded(b, store, &value, 0, &ops);
	}
	ops_add(&ops, DT_OP_WIDE, store->is_signed, 0, 0);
	build(b, &ops);
	b->size += WIDE_ROOM;
}

static void build_memory(struct builder *b, const struct value_store *store)
{
	struct value_ops value = { .count = 0 }, ops = { .count = 0 };

	if (!place_push_address(&store->place, &value))
		ops_const(&value, 0);
	push_guarded(b, store, &value, 0, &ops);
	ops_add(&ops, (enum dt_op_code)store->code, store->size, store->count,
		blamed_field(store));
	build(b, &ops);
	b->size = align_up(b->size, store->size) + store->count;
}

static void build_store(struct builder *b, const struct value_store *store)
{
	switch (store->code) {
	case DT_OP_STORE:
		build_number(b, store);
		break;
	case DT_OP_STRING:
		build_string(b, store);
		break;
	case DT_OP_COPY:
		build_memory(b, store);
		break;
	case DT_OP_WIDE:
		build_wide(b, store);
		break;
	case DT_OP_UNREADABLE:
		build_op(b, DT_OP_UNREADABLE, 0, 0, 0);
		b->size += NAMES_ROOM;
		break;
	case DT_OP_BACKTRACE:
		build_op(b, DT_OP_BACKTRACE, 0, store->count, 0);
		b->size = align_up(b->size, 8) + 8 + 8u * store->count;
		break;
	default:
		build_op(b, (enum dt_op_code)store->code, 0, 0, 0);
		b->size += 64;
	}
}

/* Is it a long double in the frame or in a register, which is always readable? */
static bool is_near_load(const struct value_ops *ops, size_t at)
{
	const struct dt_op *first = &ops->items[0];

	return first->code == DT_OP_REG &&
	       (first->a == HW_RSP || first->a == DT_REG_ST0 || first->a == DT_REG_ST1) &&
	       (at == 1 || (at == 2 && ops->items[1].code == DT_OP_OFFSET));
}

static bool place_can_fail(const struct value_place *place)
{
	const struct value_ops *ops = &place->ops;

	if (place->kind != PLACE_VALUE)
		return place->kind == PLACE_MEMORY;
	for (size_t i = 0; i < ops->count; i++) {
		if (ops->items[i].code == DT_OP_LOAD ||
		    (ops->items[i].code == DT_OP_REAL_LOAD && !is_near_load(ops, i)) ||
		    (ops->items[i].code >= DT_OP_DIV && ops->items[i].code <= DT_OP_MODU))
			return true;
		if (ops->items[i].code == DT_OP_CONST)
			i++;
	}
	return false;
}

/* Can a field be unreadable? Then the event has a list of unreadable fields. */
static bool can_fail(const struct shape *shape)
{
	if (shape->codes.count)
		return true;
	for (size_t i = 0; i < shape->stores.count; i++) {
		const struct value_store *store = &shape->stores.items[i];

		if (store->code != DT_OP_STRING && store->code != DT_OP_WIDE &&
		    place_can_fail(&store->place))
			return true;
	}
	return false;
}

static void build_limits(struct builder *b, const struct tramp_limits *limits)
{
	struct value_ops ops = { .count = 0 };

	if (limits->every) {
		ops_const(&ops, limits->every);
		ops_add(&ops, DT_OP_EVERY, 0, 0, limits->counter);
	}
	if (limits->rate) {
		ops_const(&ops, limits->rate);
		ops_const(&ops, limits->period);
		ops_add(&ops, DT_OP_RATE, 0, 0, limits->counter);
	}
	if (limits->first) {
		ops_const(&ops, limits->first);
		ops_add(&ops, DT_OP_FIRST, 0, 0, limits->counter);
	}
	build(b, &ops);
}

/* Is it an address of the form register + distance? */
static bool is_plain_address(const struct value_ops *ops)
{
	return ops->count && ops->count <= 2 && !ops->failed && ops->items[0].code == DT_OP_REG &&
	       (ops->count == 1 || ops->items[1].code == DT_OP_OFFSET);
}

/* The first address that must be read for a field. False: none, or not known yet. */
static bool first_address(const struct value_store *store, struct value_ops *ret_ops)
{
	struct value_ops ops = { .count = 0 };

	if (store->place.kind == PLACE_MEMORY)
		ops = store->place.ops;
	else if (store->code != DT_OP_STRING || store->place.kind != PLACE_PIECES ||
		 !place_push(&store->place, 8, false, &ops))
		return false;
	*ret_ops = ops;
	return is_plain_address(&ops);
}

static bool is_listed(const struct value_ops *list, size_t count, const struct value_ops *ops)
{
	for (size_t i = 0; i < count; i++) {
		/* of one register: likely near each other */
		if (list[i].items[0].a == ops->items[0].a)
			return true;
	}
	return false;
}

/* Reads the memory that several fields need by one system call. */
static void build_prefetch(const struct shape *shape, struct builder *b)
{
	struct value_ops list[DT_PREFETCH_MAX];
	size_t count = 0;

	for (size_t i = 0; i < shape->stores.count && count < DT_PREFETCH_MAX; i++) {
		struct value_ops ops;

		if (first_address(&shape->stores.items[i], &ops) && ops.items[0].a != HW_RSP &&
		    !is_listed(list, count, &ops))
			list[count++] = ops;
	}
	if (count < 2)
		return;
	for (size_t i = 0; i < count; i++)
		build(b, &list[i]);
	build_op(b, DT_OP_PREFETCH, (uint8_t)count, 0, 0);
}

/* The results of a count by key; the table's address comes later (program.h). */
static void build_results(const struct shape *shape, struct builder *b)
{
	struct value_ops none = { .items = { { 0 } }, .count = 1 };

	if (shape->value.count) {
		build(b, &shape->value);
		build_op(b, DT_OP_VALUE, 0, 0, 0);
	}
	if (!shape->has_key)
		return;
	if (shape->key_is_number)
		build(b, &shape->key);
	build_op(b, DT_OP_KEY, shape->key_is_number, 0, 0);
	build(b, &none);
}

/* ---- lists ----------------------------------------------------------------------------------- */

static const struct shape_list *list_of(const struct shape *shape, size_t field)
{
	for (size_t i = 0; i < shape->lists.count; i++) {
		if (shape->lists.items[i].field == field)
			return &shape->lists.items[i];
	}
	return NULL;
}

static void begin_list(struct builder *b, const struct shape_list *list, uint8_t align)
{
	if (!list || b->list_depth >= DT_LISTS_MAX) {
		b->failed = true;
		return;
	}
	build(b, &list->count);
	build_op(b, DT_OP_LIST, align, list->most,
		 list->blamed ? list->blamed - 1u : list->field);
	b->size = align_up(align_up(b->size, 4) + 4, align);
	b->lists[b->list_depth].list = list;
	b->lists[b->list_depth].each = b->ops.count;
	b->lists[b->list_depth++].size = b->size;
	build_op(b, DT_OP_EACH, list->local, 0, 0);
	build(b, &list->each);
}

/* Lists share the event: a list ends where its elements take more than its part. There is room for
 * one more element, which is then removed. */
static void end_list(struct builder *b, uint8_t align)
{
	uint32_t start = b->lists[--b->list_depth].size, element = align_up(b->size - start, align);
	size_t each = b->lists[b->list_depth].each, most = b->lists[b->list_depth].list->most;
	uint32_t part = (b->shape->string_max * LIST_ROOM) >> 2 * b->list_depth;

	if (most * element <= part || most == 1)
		part = (uint32_t)most * element;
	build_op(b, DT_OP_NEXT, 0, 0, (uint32_t)(b->ops.count - each));
	if (b->failed)
		return;
	b->ops.items[each].b = (uint16_t)part;
	b->ops.items[each].c = (uint32_t)(b->ops.count - each - 2);
	b->size = start + part + (most == 1 ? 0 : element);
}

static void build_lists(struct shape *shape, struct builder *b, size_t index)
{
	const struct event_field *field = &shape->fields[index];

	for (; b->next_code < shape->codes.count &&
	       shape->codes.items[b->next_code].field == index; b->next_code++)
		build(b, &shape->codes.items[b->next_code].ops);
	if (field->type == FIELD_LIST)
		begin_list(b, list_of(shape, index), field->size);
	if (field->type == FIELD_END && b->list_depth &&
	    b->lists[b->list_depth - 1].list->end == index)
		end_list(b, shape->fields[b->lists[b->list_depth - 1].list->field].size);
}

static void build_all(struct shape *shape, struct builder *b)
{
	size_t next = 0;

	if (shape->condition.count) {
		build(b, &shape->condition);
		build_op(b, DT_OP_REQUIRE, 0, 0, 0);
		build_limits(b, &shape->limits);
	}
	build_prefetch(shape, b);
	for (size_t i = 0; i < shape->field_count; i++) {
		struct event_field *field = &shape->fields[i];

		field->offset = 0;
		build_lists(shape, b, i);
		if (field->type == FIELD_STRUCT) {
			build_op(b, DT_OP_ALIGN, field->size, 0, 0);
			b->size = align_up(b->size, field->size);
		}
		for (; next < shape->stores.count && shape->stores.items[next].field == i; next++)
			if (!shape->key_is_number)
				build_store(b, &shape->stores.items[next]);
	}
	build_results(shape, b);
}

/* Appends the names of the fields, by number, then the texts of the condition. */
static struct dt_program *assemble(const struct shape *shape, const struct builder *b,
				   size_t *ret_size)
{
	size_t names = 0, room = 0;
	struct dt_program *program;
	char *text;

	for (size_t i = 0; i < shape->field_count && i < DT_PROGRAM_FIELDS_MAX; i++)
		names += strlen(shape->fields[i].name) + 1;
	room = sizeof(*program) + b->ops.count * sizeof(struct dt_op) + names + shape->texts.count;
	room = (room + 7) / 8 * 8;
	program = calloc(1, room);
	if (!program)
		return NULL;
	program->op_count = (uint32_t)b->ops.count;
	program->text_size = (uint32_t)(names + shape->texts.count);
	program->size_max = align_up(b->size + 16, 8);
	if (b->ops.count)
		memcpy(program->ops, b->ops.items, b->ops.count * sizeof(struct dt_op));
	text = (char *)(program->ops + program->op_count);
	for (size_t i = 0; i < shape->field_count && i < DT_PROGRAM_FIELDS_MAX; i++)
		text = stpcpy(text, shape->fields[i].name) + 1;
	if (shape->texts.count)
		memcpy(text, shape->texts.items, shape->texts.count);
	*ret_size = room;
	return program;
}

static void fix_texts(struct builder *b, const struct shape *shape)
{
	size_t names = 0;

	for (size_t i = 0; i < shape->field_count && i < DT_PROGRAM_FIELDS_MAX; i++)
		names += strlen(shape->fields[i].name) + 1;
	for (size_t i = 0; i < b->ops.count; i++) {
		if (b->ops.items[i].code == DT_OP_CONST)
			i++;
		else if (b->ops.items[i].code == DT_OP_MATCH)
			b->ops.items[i].c += (uint32_t)names;
	}
}

static void add_unreadable(struct shape *shape)
{
	if (can_fail(shape))
		shape_add_special(shape, "unreadable", DT_OP_UNREADABLE, 0);
}

bool shape_is_plain(struct shape *shape, struct tramp_event *scratch)
{
	return !shape->failed && !shape->is_gathered && layout_plain(shape, scratch);
}

struct error *shape_finish(struct shape *shape, struct tramp_event *event,
			   struct dt_program **ret_program, size_t *ret_program_size)
{
	struct builder b = { .shape = shape, .size = HEAD };
	struct dt_program *program;
	uint32_t most = shape->size_most ? shape->size_most : DT_EVENT_SIZE_MAX;

	if (shape_is_plain(shape, event)) {
		*ret_program = NULL;
		*ret_program_size = 0;
		return NULL;
	}
	shape->is_gathered = true;
	add_unreadable(shape);
	if (!shape->failed)
		build_all(shape, &b);
	fix_texts(&b, shape);
	program = shape->failed || b.failed ? NULL : assemble(shape, &b, ret_program_size);
	vec_free(&b.ops);
	if (!program)
		return error_new(ERROR_FAILED, "out of memory, or too many values");
	shape->is_too_long = program->size_max > most;
	shape->has_too_many = program->op_count > DT_PROGRAM_OPS_MAX;
	if (shape->has_too_many) {
		free(program);
		return error_new(ERROR_FAILED, "too many values for one event");
	}
	if (shape->is_too_long) {
		free(program);
		return error_new(
			ERROR_FAILED,
			"event of up to %u bytes is too long: the limit is %u (lower --string-max)",
			b.size, most);
	}
	event->field_count = 0;
	event->size = program->size_max;
	*ret_program = program;
	return NULL;
}
