#include "values.h"

#include <stdio.h>
#include <stdlib.h>

#include "../base/cleanup.h"
#include "../expr/expr.h"
#include "../plan/filter_code.h"
#include "internal.h"
#include "markers.h"

#define STRING_MAX_LEAST 16u

static struct value_place register_place(uint8_t reg)
{
	return (struct value_place){ .kind = PLACE_PIECES,
				     .count = 1,
				     .pieces = { { .where = ABI_INT, .reg = reg, .size = 8 } } };
}

/* Without debug information: the integer argument registers of the System V ABI, in order. */
static void add_registers(struct describe *d)
{
	static const uint8_t regs[] = { RDI, RSI, RDX, RCX, R8, R9 };

	for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++) {
		struct value_place place = register_place(regs[i]);
		char name[8];

		snprintf(name, sizeof(name), "arg%zu", i);
		shape_add_number(&d->shape, name, FIELD_HEX, 8, &place);
	}
}

static void add_parameters(struct describe *d)
{
	struct parameter_walk walk;
	struct parameter parameter;
	struct value_place place;

	names_start(d, &walk);
	for (size_t i = 0; names_next(d, &walk, &parameter, &place); i++) {
		char unnamed[16];

		snprintf(unnamed, sizeof(unnamed), "arg%zu", i);
		shape_add(&d->shape, parameter.name ? parameter.name : unnamed, &parameter.type, &place);
	}
}

static void add_arguments(struct describe *d)
{
	/* Of assembly there is a description, but no parameters in it. */
	if (d->inlined || (d->has_function && d->function.low == d->address &&
			   !debug_function_is_assembly(&d->function)))
		add_parameters(d);
	else
		add_registers(d);
}

/* The result, as far as rax holds it. With no debug information it is 64 bits. */
static void set_result(struct describe *d)
{
	struct event_field *ret = &d->tracepoint->values.ret;
	Dwarf_Die die = d->function.die;
	struct abi_value abi;
	struct type type;

	*ret = (struct event_field){ .name = "ret", .type = FIELD_UINT, .size = 8 };
	if (!d->has_function || d->function.low != d->address ||
	    debug_function_is_assembly(&d->function))
		return;
	type_of(&die, &type);
	abi_result(&d->function, &type, &abi);
	if (abi.is_known && !abi.is_behind && abi.count == 1 && abi.pieces[0].where == ABI_INT) {
		struct value_place place;
		struct shape shape;

		shape_init(&shape, d->debug, VALUE_STRING_DEFAULT);
		place_from_abi(&abi, &place);
		if (type.kind == TYPE_POINTER || type.kind == TYPE_REFERENCE)
			shape_add_number(&shape, "ret", FIELD_HEX, 8, &place);
		else
			shape_add(&shape, "ret", &type, &place);
		if (!shape.failed && shape.field_count == 1 && shape.fields[0].type != FIELD_STRING) {
			*ret = shape.fields[0];
			shape.field_count = 0; /* its labels are handed over */
		}
		shape_free(&shape);
	} else if (abi.is_behind) {
		ret->type = FIELD_HEX; /* where it is */
	} else {
		ret->name[0] = '\0'; /* none, or in other registers */
	}
}

static uint16_t xmms_of(const struct dt_program *program)
{
	uint16_t xmms = 0;

	for (uint32_t i = 0; i < program->op_count; i++) {
		if (program->ops[i].code == DT_OP_XMM)
			xmms |= (uint16_t)(1u << (program->ops[i].a & 15));
		else if (program->ops[i].code == DT_OP_CONST)
			i++;
	}
	return xmms;
}

static struct error *finish(struct describe *d)
{
	struct tramp_event *event = &d->tracepoint->probe.event;
	struct values *values = &d->tracepoint->values;
	size_t size;
	struct error *error = shape_finish(&d->shape, event, &values->program, &size);

	if (error)
		return error;
	values->fields = take_ptr(&d->shape.fields);
	values->field_count = d->shape.field_count;
	d->shape.field_count = 0;
	event->program = values->program;
	if (!values->program)
		return NULL;
	event->program_size = (uint32_t)size;
	event->xmms = xmms_of(values->program);
	values->program->rip = d->tracepoint->probe.place.address.v;
	return NULL;
}

void values_free_counter(struct session *session, uint32_t counter)
{
	vec_push(&session->free_counters, counter); /* else it isn't used again */
}

static bool take_counter(struct session *session, uint32_t *ret_counter)
{
	if (session->free_counters.count && session->agent) {
		*ret_counter = session->free_counters.items[--session->free_counters.count];
		session->agent->pool->counters[*ret_counter] = (struct dt_counter){ 0 };
		return true;
	}
	*ret_counter = (uint32_t)session->counters;
	return session->counters < DT_COUNTERS_MAX && session->counters++ < DT_COUNTERS_MAX;
}

/* The tracepoint's counter, its own from the first use on. */
static uint32_t values_counter(void *context)
{
	struct describe *d = context;
	struct tracepoint *tracepoint = d->tracepoint;

	if (!tracepoint->has_counter)
		tracepoint->has_counter = take_counter(d->session, &tracepoint->counter);
	return tracepoint->has_counter ? tracepoint->counter : UINT32_MAX;
}

static struct error *set_filter(struct describe *d, const char *filter)
{
	struct expr_names names = { .context = d, .find = names_find, .find_label = names_find_label,
				    .counter = values_counter, .debug = d->debug };
	struct value_ops ops;
	struct error *error = expr_condition(filter, &names, &ops, &d->shape.texts);

	if (error)
		return error_wrap(error, "--filter");
	if (!filter_is_native(&ops)) {
		d->shape.condition = ops;
		d->shape.is_gathered = true;
		return NULL;
	}
	free(d->tracepoint->values.filter);
	d->tracepoint->values.filter = malloc(sizeof(ops));
	if (!d->tracepoint->values.filter)
		return error_new(ERROR_FAILED, "out of memory");
	*d->tracepoint->values.filter = ops;
	d->tracepoint->probe.event.filter = d->tracepoint->values.filter;
	return NULL;
}

static struct error *set_limits(struct describe *d)
{
	const struct tracepoint_spec *spec = &d->tracepoint->request->spec;
	struct tramp_limits *limits = &d->tracepoint->probe.event.limits;

	if (!spec->every && !spec->first && !spec->rate)
		return NULL;
	*limits = (struct tramp_limits){ .every = spec->every,
					 .first = spec->first,
					 .rate = spec->rate,
					 .counter = values_counter(d) };
	if (limits->counter == UINT32_MAX)
		return error_new(ERROR_FAILED, "--every, --first and --rate count at most %u places",
				 DT_COUNTERS_MAX);
	if (spec->rate) {
		if (!d->session->clock.frequency)
			clock_start(&d->session->clock);
		limits->period = d->session->clock.frequency;
	}
	if (d->shape.condition.count) { /* the agent decides, and then counts */
		d->shape.limits = *limits;
		*limits = (struct tramp_limits){ 0 };
	}
	return NULL;
}

/* Everything, with strings of at most that many bytes. */
static struct error *describe_all(struct describe *d, uint32_t string_max)
{
	const struct tracepoint *tracepoint = d->tracepoint;
	const char *filter = tracepoint->request->spec.filter;
	struct error *error = NULL;

	shape_init(&d->shape, d->debug, string_max);
	if (tracepoint->probe.place.marker)
		markers_add_fields(d);
	else if (tracepoint->kind != TRACEPOINT_BARE)
		add_arguments(d);
	for (size_t i = 0; i < tracepoint->contexts.count && !error; i++)
		error = contexts_add(d, tracepoint->contexts.items[i]);
	if (!error && filter)
		error = set_filter(d, filter);
	if (!error)
		error = set_limits(d);
	return error ? error : finish(d);
}

struct error *values_describe(struct session *session, struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	struct describe d = { .session = session,
			      .tracepoint = tracepoint,
			      .address = place->address.v - place->module->bias.v };
	uint32_t string_max = tracepoint->request->spec.string_max;
	struct error *error = module_debug(session->proc, place->module, &d.debug);
	bool again;

	if (error)
		return error;
	d.has_function = d.debug && debug_function_at(d.debug, d.address, &d.function);
	d.inlined = d.has_function && place->inlined &&
		    debug_inlined_die(d.debug, place->inlined, &d.inlined_die);
	set_result(&d);
	if (!string_max)
		string_max = VALUE_STRING_DEFAULT;
	/* Many strings: each gets less. */
	do {
		error_free(error);
		error = describe_all(&d, string_max);
		again = error && d.shape.is_too_long && string_max > STRING_MAX_LEAST;
		shape_free(&d.shape);
		string_max /= 2;
	} while (again);
	return error_wrap(error, "cannot record the values at '%s'", place->name);
}

void values_give(struct tracepoint *tracepoint, struct event_type *type)
{
	struct values *values = &tracepoint->values;

	type->fields = take_ptr(&values->fields);
	type->field_count = values->field_count;
	type->is_variable = values->program != NULL;
	values->field_count = 0;
	if (values->program)
		values->program->id = tracepoint->probe.event.id;
}

void values_free(struct values *values)
{
	event_fields_free(values->fields, values->field_count);
	free(values->program);
	free(values->filter);
	for (size_t i = 0; i < values->ret.label_count; i++)
		free(values->ret.labels[i].name);
	free(values->ret.labels);
	*values = (struct values){ 0 };
}
