/*
 * describe_exit.c - what the event of a function's exit holds: the result, the duration, and the
 * contexts that have a meaning there.
 *
 * Arguments are gone at the exit. If an expression of the exit uses arguments, the entry keeps them
 * word by word, beside the return stub of the call (exits/code/exit_stub.h).
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/values/expr/expr.h"
#include "control/exits/code/exit_stub.h"
#include "control/session/state/session_state.h"
#include "describe.h"

/* ---- kept arguments -------------------------------------------------------------------------- */

/* Keeps words that follow each other on the stack, or one word, which may be kept already. */
static bool keep_words(struct describe *d, const struct tramp_field *first, size_t words,
		       uint8_t *ret_index)
{
	struct tramp_event *exit = d->exit;

	assert(exit && exit->kept_count <= DT_KEPT_DURATION);
	for (size_t i = 0; words == 1 && i < exit->kept_count; i++) {
		if (memcmp(&exit->kept[i], first, sizeof(*first)) == 0) {
			*ret_index = (uint8_t)i;
			return true;
		}
	}
	if (exit->kept_count + words > DT_KEPT_DURATION)
		return false;
	*ret_index = (uint8_t)exit->kept_count;
	for (size_t i = 0; i < words; i++) {
		exit->kept[exit->kept_count] = *first;
		exit->kept[exit->kept_count++].disp += (int32_t)(8 * i);
	}
	return true;
}

static bool keep_register(struct describe *d, uint8_t reg, uint8_t *ret_index)
{
	struct tramp_field field;

	memset(&field, 0, sizeof(field)); /* fields are compared as bytes */
	field.source = SOURCE_REGISTER;
	field.reg = (enum reg)reg;
	field.size = 8;
	return keep_words(d, &field, 1, ret_index);
}

static bool keep_stack(struct describe *d, int32_t disp, size_t words, uint8_t *ret_index)
{
	struct tramp_field field;

	memset(&field, 0, sizeof(field));
	field.source = SOURCE_STACK;
	field.disp = disp;
	field.size = 8;
	return keep_words(d, &field, words, ret_index);
}

static bool keep_xmm(struct describe *d, uint8_t reg, uint8_t *ret_index)
{
	struct tramp_field field;

	memset(&field, 0, sizeof(field));
	field.source = SOURCE_XMM;
	field.reg = (enum reg)reg;
	field.size = 8;
	return keep_words(d, &field, 1, ret_index);
}

static bool keep_piece(struct describe *d, struct abi_piece *piece)
{
	bool kept;

	switch (piece->where) {
	case ABI_INT:
		kept = keep_register(d, piece->reg, &piece->reg);
		break;
	case ABI_SSE: /* the lower half */
		kept = piece->disp + (int32_t)piece->size <= 8 &&
		       keep_xmm(d, piece->reg, &piece->reg);
		break;
	case ABI_STACK:
		kept = keep_stack(d, piece->disp, (piece->size + 7) / 8, &piece->reg);
		piece->disp = 0;
		break;
	case ABI_CONSTANT:
		return true;
	default:
		kept = false;
	}
	piece->where = ABI_KEPT;
	return kept;
}

/* Replaces registers in operations by their kept values. */
static bool keep_ops(struct describe *d, const struct value_ops *ops, struct value_ops *ret_ops)
{
	struct value_ops kept = { .count = 0 };
	uint8_t index;

	for (size_t i = 0; i < ops->count; i++) {
		const struct dt_op *op = &ops->items[i];
		bool on_stack = op->code == DT_OP_REG && op->a == RSP;

		if (on_stack && i + 2 < ops->count && op[1].code == DT_OP_OFFSET &&
		    op[2].code == DT_OP_LOAD && op[2].a == 8 &&
		    keep_stack(d, (int32_t)op[1].c, 1, &index)) {
			ops_add(&kept, DT_OP_KEPT, index, 0, 0);
			i += 2;
		} else if (on_stack || op->code == DT_OP_XMM ||
			   (op->code == DT_OP_REG && op->a > R15)) {
			return false;
		} else if (op->code == DT_OP_REG) {
			if (!keep_register(d, op->a, &index))
				return false;
			ops_add(&kept, DT_OP_KEPT, index, 0, 0);
		} else {
			ops_add(&kept, (enum dt_op_code)op->code, op->a, op->b, op->c);
			if (op->code == DT_OP_CONST && ++i < ops->count)
				ops_add(&kept, (enum dt_op_code)op[1].code, op[1].a, op[1].b,
					op[1].c);
		}
	}
	*ret_ops = kept;
	return !kept.failed;
}

bool describe_keep(struct describe *d, const struct value_place *place,
		   struct value_place *ret_place)
{
	struct value_place kept = *place;
	bool known = place->kind != PLACE_GONE;

	if (place->kind == PLACE_PIECES) {
		for (size_t i = 0; i < kept.count && known; i++)
			known = keep_piece(d, &kept.pieces[i]);
	} else if (known) {
		known = keep_ops(d, &place->ops, &kept.ops);
	}
	*ret_place = known ? kept : (struct value_place){ .kind = PLACE_GONE };
	return known;
}

/* ---- event ----------------------------------------------------------------------------------- */

static void add_duration(struct describe *d)
{
	struct value_place place = { .kind = PLACE_VALUE };

	ops_add(&place.ops, DT_OP_REG, DT_REG_DURATION, 0, 0);
	shape_add_number(&d->shape, "duration", FIELD_UINT, 8, &place);
}

static void add_result(struct describe *d)
{
	struct value_place place;
	struct type type;

	variables_result(d, &type, &place);
	if (type.kind != TYPE_VOID)
		shape_add(&d->shape, "ret", &type, &place);
	if (!describe_knows_types(d))
		describe_add_floats(d, 1);
}

/* Adds the contexts of the exit. Variables belong to the entry, unless they ask for the exit. */
static struct error *add_contexts(struct describe *d)
{
	const struct tracepoint *tracepoint = d->tracepoint;
	struct error *error = NULL;

	for (size_t i = 0; i < tracepoint->contexts.count && !error; i++) {
		const char *context = tracepoint->contexts.items[i];

		if (contexts_is_at_exit(context))
			error = contexts_add(d, context);
	}
	return error;
}

static bool uses(const struct value_ops *ops, enum dt_op_code code, uint8_t a)
{
	for (size_t i = 0; ops && i < ops->count; i++) {
		if (ops->items[i].code == code && ops->items[i].a == a)
			return true;
		if (ops->items[i].code == DT_OP_CONST)
			i++;
	}
	return false;
}

static bool program_uses(const struct dt_program *program, uint8_t reg)
{
	for (uint32_t i = 0; i < program->op_count; i++) {
		if (program->ops[i].code == DT_OP_REG && program->ops[i].a == reg)
			return true;
		if (program->ops[i].code == DT_OP_CONST)
			i++;
	}
	return false;
}

/* Is the event rax or no result, and the duration? Most exits are, and share one code. */
static bool is_common(const struct describe *d)
{
	const struct tramp_event *exit = d->exit;
	const struct tramp_field *ret = &exit->fields[0];

	if (exit->program || exit->filter || exit->kept_count || exit->is_pair)
		return false;
	if (d->shape.field_count == 1)
		return true;
	return d->shape.field_count == 2 && exit->field_count == 2 &&
	       ret->source == SOURCE_REGISTER && ret->reg == RAX && !ret->shift && !ret->bits &&
	       ret->offset == EXIT_EVENT_RET && exit->fields[1].offset == EXIT_EVENT_DURATION;
}

/* The code of an exit has the stub's slot in rsi: the function's rsi is on the stack. */
static void move_rsi(struct tramp_event *exit)
{
	for (size_t i = 0; i < exit->field_count; i++) {
		if (exit->fields[i].source == SOURCE_REGISTER && exit->fields[i].reg == RSI) {
			exit->fields[i].source = SOURCE_STACK;
			exit->fields[i].disp = -8;
			exit->fields[i].load = 8;
		}
	}
}

/* Bytes of the entry's part in a pair, at most: its clock and its fields. */
static uint32_t entry_part(const struct describe *d)
{
	const struct tramp_event *entry = &d->tracepoint->probe.event;

	return entry->program ? entry->size - 8 : entry->size;
}

/* Makes a pair of the exit (program.h): the entry's fields lie before its own. */
static void make_pair(const struct describe *d, struct dt_program *program)
{
	const struct tramp_event *entry = &d->tracepoint->probe.event;
	struct tramp_event *exit = d->exit;

	exit->is_pair = true;
	if (program) {
		program->pair = entry->program ? DT_PAIR_GATHERED : DT_PAIR_PLAIN;
		program->pair_size = entry->program ? 0 : entry->size - 8;
		program->size_max += entry_part(d);
		return;
	}
	assert(!entry->program);
	exit->pair_size = entry->size - 8;
	for (size_t i = 0; i < exit->field_count; i++)
		exit->fields[i].offset = (uint16_t)(exit->fields[i].offset + entry->size);
	exit->size += entry->size;
}

static struct error *finish(struct describe *d)
{
	struct values *values = &d->tracepoint->values;
	struct tramp_event *exit = d->exit;
	size_t size;

	assert(exit && !values->exit_program && !values->exit_fields && !values->exit);
	struct error *error = shape_finish(&d->shape, exit, &values->exit_program, &size);

	if (error)
		return error;
	values->exit_size = exit->size;
	if (d->tracepoint->probe.event.is_pair)
		make_pair(d, values->exit_program);
	exit->filter = values->exit_filter;
	exit->count.keys.has_condition = d->shape.condition.count > 0;
	exit->filters_duration = uses(exit->filter, DT_OP_REG, DT_REG_DURATION);
	exit->program = values->exit_program;
	if (exit->program) {
		exit->program_size = (uint32_t)size;
		exit->xmms = describe_xmms(exit->program);
		exit->st0 = program_uses(exit->program, DT_REG_ST0);
		exit->st1 = program_uses(exit->program, DT_REG_ST1);
	}
	move_rsi(exit);
	if (is_common(d)) {
		if (d->shape.field_count == 1)
			d->shape.fields[0].offset = EXIT_EVENT_DURATION;
		values->exit_size = EXIT_EVENT_SIZE;
	} else {
		values->exit = take_ptr(&d->exit);
		d->tracepoint->probe.event.at_exit = values->exit;
	}
	values->exit_fields = take_ptr(&d->shape.fields);
	values->exit_field_count = d->shape.field_count;
	d->shape.field_count = 0;
	return NULL;
}

/* A gathered exit has its duration first (exits/code/exit_stub.h). Only a finished description
 * shows whether the exit is gathered: describe_exit tries both orders. */
static struct error *describe_in_order(struct describe *d, uint32_t string_max, bool duration_first)
{
	const char *filter = d->tracepoint->request->spec.filter;
	struct error *error;

	shape_init(&d->shape, d->debug, string_max);
	describe_prepare(d);
	if (d->tracepoint->probe.event.is_pair) {
		/* one of the two gathered: the agent writes both */
		d->shape.is_gathered = d->tracepoint->probe.event.program != NULL;
		d->shape.size_most = DT_EVENT_SIZE_MAX - entry_part(d);
	}
	if (describe_is_keyed(d->tracepoint)) {
		error = describe_keys(d);
	} else {
		if (duration_first)
			add_duration(d);
		add_result(d);
		if (!duration_first)
			add_duration(d);
		error = add_contexts(d);
	}
	d->tracepoint->values.filters_exits = filter && describe_filters_exit(d, filter);
	if (!error && d->tracepoint->values.filters_exits)
		error = describe_set_filter(d, filter, &d->tracepoint->values.exit_filter);
	if (!error && d->tracepoint->probe.event.is_pair)
		error = describe_set_limits(d, &d->exit->limits);
	return error;
}

struct error *describe_exit(struct describe *d, uint32_t string_max)
{
	_cleanup_free_ struct tramp_event *exit = calloc(1, sizeof(*exit));
	struct tramp_event scratch;
	struct error *error;

	if (!exit)
		return error_new(ERROR_FAILED, "out of memory");
	assert(!d->exit);
	d->exit = exit;
	error = describe_in_order(d, string_max, false);
	if (!error && !shape_is_plain(&d->shape, &scratch)) {
		shape_free(&d->shape);
		*exit = (struct tramp_event){ 0 };
		error = describe_in_order(d, string_max, true);
	}
	if (!error)
		error = finish(d);
	if (!d->exit)
		take_ptr(&exit); /* the tracepoint owns it */
	d->exit = NULL;
	return error;
}
