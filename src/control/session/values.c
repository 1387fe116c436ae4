#include "values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/cleanup.h"
#include "../plan/value_location.h"
#include "internal.h"

/* What is being described. */
struct describe {
	struct session *session;
	struct tracepoint *tracepoint;
	struct debug *debug; /* NULL: the module has no debug information */
	uint64_t address; /* the file's */
	struct shape shape;
};

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

/* Functions that the compiler made from others, with arguments left out or split: no ABI tells where they are. */
static bool is_clone(const struct symbol *symbol)
{
	static const char *const marks[] = { ".constprop.", ".isra.", ".part." };

	for (size_t i = 0; symbol && i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (strstr(symbol->name, marks[i]))
			return true;
	}
	return false;
}

static const struct cfi_rows *rows_of(struct describe *d)
{
	struct module *module = d->tracepoint->probe.place.module;
	const struct cfi_rows *rows;
	_cleanup_error_ struct error *error = module_cfi(d->session->proc, module, &rows);

	return error ? NULL : rows;
}

static void add_parameters(struct describe *d, const struct debug_function *function)
{
	bool by_location = is_clone(d->tracepoint->probe.place.symbol);
	struct location_context context = {
		.function = function,
		.rows = by_location ? rows_of(d) : NULL,
		.pc = d->address,
		.bias = d->tracepoint->probe.place.module->bias.v,
	};
	struct member_walk walk = { .started = false };
	Dwarf_Die die = function->die;
	struct parameter parameter;
	struct abi_state state;

	abi_start(function, &state);
	for (size_t i = 0; debug_next_parameter(&die, &walk, &parameter); i++) {
		struct value_place place;
		struct abi_value abi;
		char unnamed[16];

		abi_next(&state, &parameter.type, &abi);
		if (by_location)
			location_place(&context, &parameter.die, &place);
		else
			place_from_abi(&abi, &place);
		snprintf(unnamed, sizeof(unnamed), "arg%zu", i);
		shape_add(&d->shape, parameter.name ? parameter.name : unnamed, &parameter.type, &place);
	}
}

static void add_arguments(struct describe *d)
{
	struct debug_function function;

	if (d->debug && debug_function_at(d->debug, d->address, &function) &&
	    function.low == d->address)
		add_parameters(d, &function);
	else
		add_registers(d);
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

struct error *values_describe(struct session *session, struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	struct describe d = { .session = session,
			      .tracepoint = tracepoint,
			      .address = place->address.v - place->module->bias.v };
	struct error *error = module_debug(session->proc, place->module, &d.debug);

	if (error)
		return error;
	shape_init(&d.shape, d.debug,
		   session->options.string_max ? session->options.string_max : VALUE_STRING_DEFAULT);
	if (tracepoint->kind != TRACEPOINT_BARE)
		add_arguments(&d);
	error = finish(&d);
	shape_free(&d.shape);
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
	*values = (struct values){ 0 };
}
