/*
 * describe_keys.c - the keys and the value of a count by key: what --by and --of mean at one
 * tracepoint.
 *
 * A key becomes fields of the program's image, as a context does. One number alone needs no image,
 * and if registers and the frame give it the trampoline finds its index by itself.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/codegen/filter_code.h"
#include "control/event/question.h"
#include "control/session/state/session_state.h"
#include "control/values/expr/expr.h"
#include "describe.h"

#define HW_RSP 4

/* ---- keys ------------------------------------------------------------------------------------ */

/* The return address, at a function's first instruction. */
static struct error *add_caller(struct describe *d)
{
	struct value_place place = { .kind = PLACE_VALUE };

	if (d->tracepoint->kind == TRACEPOINT_BARE || d->exit)
		return error_new(ERROR_USAGE, "--by caller: only at a function's entry");
	ops_add(&place.ops, DT_OP_REG, HW_RSP, 0, 0);
	ops_add(&place.ops, DT_OP_OFFSET, 0, 0, 0);
	ops_add(&place.ops, DT_OP_LOAD, 8, 0, 0);
	shape_add_number(&d->shape, "caller", FIELD_HEX, 8, &place);
	d->session->wants_unwind = true;
	return NULL;
}

static struct error *add_result_key(struct describe *d)
{
	struct value_place place;
	struct type type;

	variables_result(d, &type, &place);
	if (type.kind == TYPE_VOID)
		return error_new(ERROR_USAGE, "--by ret: the function returns nothing");
	shape_add(&d->shape, "ret", &type, &place);
	return NULL;
}

static struct error *add_key(struct describe *d, const struct question_word *word)
{
	char backtrace[32];

	switch (word->kind) {
	case QUESTION_FUNCTION:
		return NULL; /* the tracepoint's name */
	case QUESTION_RET:
		return add_result_key(d);
	case QUESTION_TID:
		return contexts_add(d, "tid");
	case QUESTION_PID:
		return contexts_add(d, "pid");
	case QUESTION_COMM:
		return contexts_add(d, "comm");
	case QUESTION_CPU:
		return contexts_add(d, "cpu");
	case QUESTION_CALLER:
		return add_caller(d);
	case QUESTION_BACKTRACE:
		snprintf(backtrace, sizeof(backtrace), word->frames ? "backtrace:%u" : "backtrace",
			 word->frames);
		return contexts_add(d, backtrace);
	default:
		return contexts_add_key(d, word->text);
	}
}

/* Can the number always be found: from registers and the frame? */
static bool is_at_hand(const struct describe *d, const struct value_place *place)
{
	return place->kind == PLACE_PIECES ||
	       (place->kind == PLACE_VALUE && filter_is_native(&place->ops, d->exit != NULL));
}

/* A key of one number that is always readable: its operations. False: not such a key. */
static bool find_number(const struct describe *d, struct value_ops *ret_ops)
{
	const struct shape *shape = &d->shape;
	const struct value_store *store = shape->stores.items;
	struct value_ops ops = { .count = 0 };

	if (!shape->field_count && !shape->stores.count) {
		ops_const(ret_ops, 0); /* one row per function */
		return true;
	}
	if (shape->failed || shape->field_count != 1 || shape->stores.count != 1 || store->guard ||
	    store->code != DT_OP_STORE || shape->fields[0].count ||
	    !is_at_hand(d, &store->place))
		return false;
	if (!place_push(&store->place, store->load, store->is_signed && !store->bit_size, &ops))
		return false;
	if (store->bit_size)
		ops_add(&ops, DT_OP_BITS, store->bit_offset, store->bit_size, store->is_signed);
	else if (store->size < 8)
		ops_add(&ops, DT_OP_BITS, 0, (uint16_t)(store->size * 8), store->is_signed);
	*ret_ops = ops;
	return !ops.failed;
}

/* ---- value ----------------------------------------------------------------------------------- */

static struct error *find_value(struct describe *d, const struct question_word *word,
				struct type *ret_type, struct value_place *ret_place)
{
	struct expr_names names = { .context = d,
				    .find = variables_find,
				    .find_label = variables_find_label,
				    .find_type = variables_find_type,
				    .list = variables_list,
				    .debug = d->debug,
				    .at_exit = d->exit != NULL,
				    .is_argument = variables_is_argument };

	if (word->kind != QUESTION_RET)
		return expr_variable(word->text, &names, ret_type, ret_place);
	variables_result(d, ret_type, ret_place);
	if (ret_type->kind == TYPE_VOID)
		return error_new(ERROR_USAGE, "the function returns nothing");
	return NULL;
}

static struct error *add_value(struct describe *d, const struct question_word *word)
{
	struct value_place place;
	struct type type;
	struct error *error = find_value(d, word, &type, &place);

	if (!error && ((type.kind != TYPE_INT && type.kind != TYPE_BOOL && type.kind != TYPE_CHAR &&
			type.kind != TYPE_ENUM) || !type.size || type.size > 8))
		error = error_new(ERROR_USAGE, "'%s' is not an integer", word->text);
	if (!error && !place_push(&place, (uint32_t)type.size, type.is_signed, &d->shape.value))
		error = error_new(ERROR_USAGE, "'%s' isn't there (optimised out)", word->text);
	if (!error && type.size < 8)
		ops_add(&d->shape.value, DT_OP_BITS, 0, (uint16_t)(type.size * 8), type.is_signed);
	return error_wrap(error, "--of");
}

/* ---- both ------------------------------------------------------------------------------------ */

static enum tramp_value value_of(const struct describe *d, const struct question *question)
{
	bool has_exit = d->tracepoint->kind == TRACEPOINT_FUNCTION;

	if (!question->value.text)
		return has_exit ? VALUE_DURATION : VALUE_NONE;
	return question->value.kind == QUESTION_DURATION ? VALUE_DURATION :
	       question->value.kind == QUESTION_SELF	 ? VALUE_SELF :
							   VALUE_NUMBER;
}

/* Does an expression need the exit? Then it is no key: keys are computed at the entry, but for the
 * result itself. */
static bool needs_exit(struct describe *d, const char *text)
{
	return expr_is_at_exit(text) ||
	       (expr_mentions(text, "ret") && !variables_is_argument(d, "ret")) ||
	       (expr_mentions(text, "duration") && !variables_is_argument(d, "duration"));
}

static struct error *check(struct describe *d, const struct question *question)
{
	bool has_exit = d->tracepoint->kind == TRACEPOINT_FUNCTION;

	for (size_t i = 0; i < question->key_count; i++) {
		const struct question_word *key = &question->keys[i];

		if (key->kind == QUESTION_RET && !has_exit)
			return error_new(ERROR_USAGE,
					 "--by ret: known at a function's exit only: add -e");
		if (key->kind == QUESTION_EXPRESSION && needs_exit(d, key->text))
			return error_new(ERROR_USAGE,
					 "--by: %s: of what is known at the exit only, just ret "
					 "alone is a key (--by ret -e)",
					 key->text);
	}
	if (question->value.text && !has_exit && question->value.kind != QUESTION_EXPRESSION)
		return error_new(ERROR_USAGE, "--of %s: known at a function's exit only: add -e",
				 question->value.text);
	return NULL;
}

static struct error *describe_words(struct describe *d, const struct question *question)
{
	struct values *values = &d->tracepoint->values;
	struct error *error = check(d, question);
	bool here;

	values->is_keyed = true;
	values->value = value_of(d, question);
	values->keys_at_exit = false;
	for (size_t i = 0; i < question->key_count; i++)
		values->keys_at_exit |= question->keys[i].kind == QUESTION_RET;
	here = values->keys_at_exit == (d->exit != NULL);
	for (size_t i = 0; i < question->key_count && !error && here; i++) {
		error = add_key(d, &question->keys[i]);
		values->key_ends[i] = (uint8_t)d->shape.field_count;
	}
	d->shape.has_key = here;
	d->shape.is_gathered |= here;
	if (!error && values->value == VALUE_NUMBER &&
	    (d->exit != NULL) == (d->tracepoint->kind == TRACEPOINT_FUNCTION)) {
		error = add_value(d, &question->value);
		d->shape.is_gathered = true;
	}
	if (!error && here)
		d->shape.key_is_number = find_number(d, &d->shape.key);
	return error;
}

struct error *describe_keys(struct describe *d)
{
	const struct tracepoint_spec *spec = &d->tracepoint->request->spec;
	struct question question = { 0 };
	struct error *error = question_parse(spec->by, spec->of, &question);

	if (!error)
		error = describe_words(d, &question);
	question_free(&question);
	return error;
}

/* After the filter is known: may the trampoline look the key up by itself? */
struct error *describe_native_key(struct describe *d)
{
	struct values *values = &d->tracepoint->values;
	bool entry_value = values->value == VALUE_NUMBER && !d->tracepoint->probe.event.exit &&
			   d->tracepoint->kind != TRACEPOINT_FUNCTION;

	free(values->native_key);
	values->native_key = NULL;
	values->key_condition = d->shape.condition.count > 0;
	/* count_tracer_prepare fills in the rest; until then: room for the code */
	d->tracepoint->probe.event.count.keys.capacity = 1;
	if (d->exit || !d->shape.key_is_number || d->shape.condition.count || entry_value ||
	    !filter_is_native(&d->shape.key, false))
		return NULL;
	values->native_key = malloc(sizeof(*values->native_key));
	if (!values->native_key)
		return error_new(ERROR_FAILED, "out of memory");
	*values->native_key = d->shape.key;
	return NULL;
}

bool describe_is_keyed(const struct tracepoint *tracepoint)
{
	const struct tracepoint_spec *spec = &tracepoint->request->spec;

	return tracepoint->tracer->kind == TRACER_COUNT && (spec->by || spec->of);
}

/* Does the exit's program find the key or the value? */
bool describe_asks_exit(const struct tracepoint *tracepoint)
{
	const struct values *values = &tracepoint->values;

	return describe_is_keyed(tracepoint) && tracepoint->kind == TRACEPOINT_FUNCTION &&
	       (values->keys_at_exit || values->value == VALUE_NUMBER);
}
