#include "describe.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/placement/go_prologue.h"
#include "control/values/expr/expr.h"
#include "control/codegen/filter_code.h"
#include "control/session/state/session_state.h"
#include "marker_fields.h"

#define STRING_MAX_LEAST 16u
#define PAIR_ENTRY_MAX (DT_EVENT_SIZE_MAX * 2 / 3) /* the rest is the exit's */
#define ARGUMENT_FLOATS 8 /* xmm0 to xmm7 */

static const uint8_t c_registers[] = { RDI, RSI, RDX, RCX, R8, R9 };
static const uint8_t go_registers[] = { RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11 };

/* Since 1.17 Go passes arguments in registers, with the goroutine in r14: the stack check of any
 * function tells. Functions in assembly (NAME.abi0) have theirs on the stack, and C code that is
 * linked with the program has its own ABI. */
static bool is_go(const struct describe *d)
{
	const struct symbol *symbol = d->tracepoint->probe.place.symbol;
	struct go_prologue prologue;
	struct symtab *symtab;
	_cleanup_error_ struct error *unreadable =
		module_symtab(d->session->proc, d->module, &symtab);
	const struct symbol *begin =
		unreadable || !symtab_is_go(symtab) ? NULL : symtab_find(symtab, "runtime.main");
	const char *suffix = symbol ? strstr(symbol->name, ".abi0") : NULL;

	return begin && symbol && !(suffix && !suffix[5]) &&
	       go_prologue_is_go_code(symtab, symbol->address) &&
	       go_prologue_read(symtab, begin->address, &prologue);
}

size_t describe_register_count(const struct describe *d)
{
	return is_go(d) ? sizeof(go_registers) : sizeof(c_registers);
}

struct value_place describe_register(const struct describe *d, size_t number)
{
	const uint8_t *regs = is_go(d) ? go_registers : c_registers;

	assert(number < describe_register_count(d));
	return (struct value_place){
		.kind = PLACE_PIECES,
		.count = 1,
		.pieces = { { .where = ABI_INT, .reg = regs[number], .size = 8 } }
	};
}

void describe_add_floats(struct describe *d, size_t count)
{
	uint8_t size = d->tracepoint->request->spec.floats;

	for (size_t i = 0; i < count && size; i++) {
		struct value_place place = {
			.kind = PLACE_PIECES,
			.count = 1,
			.pieces = { { .where = ABI_SSE, .reg = (uint8_t)i, .size = size } }
		};
		char name[24];

		snprintf(name, sizeof(name), "xmm%zu", i);
		shape_add_number(&d->shape, name, FIELD_FLOAT, size, &place);
	}
}

/* Adds the arguments of a function without debug information: what its code may read. */
static void add_registers(struct describe *d)
{
	size_t count = describe_register_count(d);
	unsigned read = is_go(d) ? UINT_MAX :
				   module_argument_uses(d->session->proc, d->module, d->address);

	for (size_t i = 0; i < count; i++) {
		struct value_place place = describe_register(d, i);
		char name[24];

		if (!(read >> i & 1))
			continue;
		snprintf(name, sizeof(name), "arg%zu", i);
		shape_add_number(&d->shape, name, FIELD_HEX, 8, &place);
	}
	describe_add_floats(d, ARGUMENT_FLOATS);
}

static void add_parameters(struct describe *d)
{
	struct parameter_walk walk;
	struct parameter parameter;
	struct value_place place;

	variables_start(d, &walk);
	for (size_t i = 0; variables_next(d, &walk, &parameter, &place); i++) {
		char unnamed[16];

		snprintf(unnamed, sizeof(unnamed), "arg%zu", i);
		shape_add(&d->shape, parameter.name ? parameter.name : unnamed, &parameter.type,
			  &place);
	}
}

static void add_prototype(struct describe *d)
{
	struct prototype_argument argument;

	for (size_t i = 0; prototype_arguments_get(d, i, &argument); i++)
		shape_add(&d->shape, argument.name, &argument.type, &argument.place);
}

/* The debug information of assembly names no parameters. */
bool describe_knows_types(const struct describe *d)
{
	return d->prototype || d->inlined ||
	       (d->has_function && d->function.low == d->address &&
		!debug_function_is_assembly(&d->function));
}

static void add_arguments(struct describe *d)
{
	if (d->prototype)
		add_prototype(d);
	else if (describe_knows_types(d))
		add_parameters(d);
	else
		add_registers(d);
}

uint16_t describe_xmms(const struct dt_program *program)
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

void describe_prepare(struct describe *d)
{
	const struct tracepoint *tracepoint = d->tracepoint;

	d->shape.depth_max = SHAPE_DEPTH_MAX >> d->flatter;
	d->shape.has_lists = tracepoint->tracer->kind != TRACER_CALL;
	d->shape.deref = tracepoint->request->spec.deref;
}

/* Says once what the tracer's events don't hold. */
static void tell_unlisted(struct describe *d)
{
	struct session *session = d->session;

	if (!d->shape.unlisted || session->told_unlisted)
		return;
	session->told_unlisted = true;
	session_tell(session,
		     "tracer %s: of a %.*s only the members are there, not the elements (all other tracers record them)",
		     d->tracepoint->tracer->name, (int)strcspn(d->shape.unlisted, "<"),
		     d->shape.unlisted);
}

static struct error *finish(struct describe *d)
{
	struct tramp_event *event = &d->tracepoint->probe.event;
	struct values *values = &d->tracepoint->values;
	size_t size;

	assert(!d->exit && !values->fields && !values->program);
	struct error *error = shape_finish(&d->shape, event, &values->program, &size);

	tell_unlisted(d);

	if (error)
		return error;
	values->fields = take_ptr(&d->shape.fields);
	values->field_count = d->shape.field_count;
	d->shape.field_count = 0;
	event->program = values->program;
	if (!values->program)
		return NULL;
	event->program_size = (uint32_t)size;
	event->xmms = describe_xmms(values->program);
	values->program->rip = d->tracepoint->probe.place.address.v;
	values->program->pair = event->is_pair ? DT_PAIR_ENTRY : DT_PAIR_NONE;
	return NULL;
}

void describe_free_counter(struct session *session, uint32_t counter)
{
	assert(counter < DT_COUNTERS_MAX);
	vec_push(&session->free_counters, counter); /* out of memory: not used again */
}

static bool take_counter(struct session *session, uint32_t *ret_counter)
{
	if (session->free_counters.count && session->agent) {
		*ret_counter = session->free_counters.items[--session->free_counters.count];
		assert(*ret_counter < DT_COUNTERS_MAX);
		session->agent->pool->counters[*ret_counter] = (struct dt_counter){ 0 };
		return true;
	}
	*ret_counter = (uint32_t)session->counters;
	return session->counters < DT_COUNTERS_MAX && session->counters++ < DT_COUNTERS_MAX;
}

/* The tracepoint's own counter, taken at the first use. UINT32_MAX: none is left. */
static uint32_t describe_counter(void *context)
{
	struct describe *d = context;
	struct tracepoint *tracepoint = d->tracepoint;

	if (!tracepoint->has_counter)
		tracepoint->has_counter = take_counter(d->session, &tracepoint->counter);
	return tracepoint->has_counter ? tracepoint->counter : UINT32_MAX;
}

bool describe_filters_exit(struct describe *d, const char *filter)
{
	static const char *const words[] = { "ret", "duration" };

	if (expr_is_at_exit(filter))
		return true;
	for (size_t i = 0; i < 2 && d->tracepoint->kind == TRACEPOINT_FUNCTION; i++) {
		if (expr_mentions(filter, words[i]) && !variables_is_argument(d, words[i]))
			return true;
	}
	return false;
}

bool describe_is_pair(struct describe *d)
{
	const struct tracepoint *tracepoint = d->tracepoint;
	const char *filter = tracepoint->request->spec.filter;

	return tracepoint->kind == TRACEPOINT_FUNCTION && tracepoint->tracer->uses_pool && filter &&
	       describe_filters_exit(d, filter);
}

struct error *describe_set_filter(struct describe *d, const char *filter,
				  struct value_ops **ret_native)
{
	struct expr_names names = { .context = d,
				    .find = variables_find,
				    .find_label = variables_find_label,
				    .find_type = variables_find_type,
				    .list = variables_list,
				    .counter = describe_counter,
				    .debug = d->debug,
				    .at_exit = d->exit != NULL,
				    .is_argument = variables_is_argument };
	struct value_ops ops, *native;
	struct error *error = expr_condition(filter, &names, &ops, &d->shape.texts);

	if (error)
		return error_wrap(error, d->tracepoint->request->spec.is_trigger ?
						 "--snapshot-when" :
						 "--filter");
	if (!filter_is_native(&ops, d->exit != NULL)) {
		d->shape.condition = ops;
		d->shape.is_gathered = true;
		return NULL;
	}
	native = malloc(sizeof(ops));
	if (!native)
		return error_new(ERROR_FAILED, "out of memory");
	*native = ops;
	free(*ret_native);
	*ret_native = native;
	return NULL;
}

struct error *describe_set_limits(struct describe *d, struct tramp_limits *limits)
{
	const struct tracepoint_spec *spec = &d->tracepoint->request->spec;

	if (!spec->every && !spec->first && !spec->rate)
		return NULL;
	*limits = (struct tramp_limits){ .every = spec->every,
					 .first = spec->first,
					 .rate = spec->rate,
					 .counter = describe_counter(d) };
	if (limits->counter == UINT32_MAX)
		return error_new(ERROR_FAILED,
				 "--every, --first and --rate count at most %u places",
				 DT_COUNTERS_MAX);
	if (spec->rate) {
		if (!d->session->clock.frequency)
			clock_start(&d->session->clock);
		limits->period = d->session->clock.frequency;
	}
	if (d->shape.condition.count) { /* the agent judges the filter, and counts after it */
		d->shape.limits = *limits;
		*limits = (struct tramp_limits){ 0 };
	}
	return NULL;
}

/* Fails if a filter or a context needs an exit, and the tracepoint has none. */
static struct error *check_exits(const struct describe *d)
{
	const struct tracepoint *tracepoint = d->tracepoint;
	const char *filter = tracepoint->request->spec.filter;
	const char *asked = filter && expr_is_at_exit(filter) ? filter : NULL;

	for (size_t i = 0; i < tracepoint->contexts.count && !asked; i++) {
		if (expr_is_at_exit(tracepoint->contexts.items[i]))
			asked = tracepoint->contexts.items[i];
	}
	if (!asked || tracepoint->kind == TRACEPOINT_FUNCTION)
		return NULL;
	return error_new(ERROR_USAGE, "'%s' is known at a function's exit only: add -e", asked);
}

/* Describes the entry, with strings of at most that many bytes. */
static struct error *describe_all(struct describe *d, uint32_t string_max)
{
	struct tracepoint *tracepoint = d->tracepoint;
	const char *filter = tracepoint->request->spec.filter;
	struct error *error = NULL;

	shape_init(&d->shape, d->debug, string_max);
	describe_prepare(d);
	tracepoint->probe.event.is_pair = describe_is_pair(d);
	if (tracepoint->probe.event.is_pair)
		d->shape.size_most = PAIR_ENTRY_MAX;
	if (!tracepoint_has_values(tracepoint))
		;
	else if (tracepoint->probe.place.marker)
		marker_fields_add(d);
	else if (tracepoint->kind != TRACEPOINT_BARE)
		add_arguments(d);
	for (size_t i = 0; i < tracepoint->contexts.count && !error; i++) {
		if (!expr_is_at_exit(tracepoint->contexts.items[i]))
			error = contexts_add(d, tracepoint->contexts.items[i]);
	}
	if (!error && describe_is_keyed(tracepoint))
		error = describe_keys(d);
	if (!error && filter && !describe_filters_exit(d, filter))
		error = describe_set_filter(d, filter, &tracepoint->values.filter);
	if (!error && describe_is_keyed(tracepoint))
		error = describe_native_key(d);
	tracepoint->probe.event.filter = tracepoint->values.filter;
	if (!error && !tracepoint->probe.event.is_pair)
		error = describe_set_limits(d, &tracepoint->probe.event.limits);
	return error ? error : finish(d);
}

/* Describes with shorter and shorter strings, then with fewer and fewer levels of structs, until
 * the event fits. */
static struct error *describe_short(struct describe *d,
				    struct error *(*describe)(struct describe *, uint32_t),
				    uint32_t string_max)
{
	d->flatter = 0;
	for (;;) {
		struct error *error = describe(d, string_max);
		bool has_too_many = d->shape.has_too_many, is_too_long = d->shape.is_too_long;
		bool is_flat = !d->shape.depth_max;

		shape_free(&d->shape);
		if (!error || (!has_too_many && !is_too_long))
			return error;
		if (is_too_long && string_max > STRING_MAX_LEAST)
			string_max /= 2;
		else if (!is_flat)
			d->flatter++;
		else
			return error;
		error_free(error);
	}
}

struct error *describe_tracepoint(struct session *session, struct tracepoint *tracepoint)
{
	const struct place *place = &tracepoint->probe.place;
	struct describe d = { .session = session,
			      .tracepoint = tracepoint,
			      .module = place->module,
			      .address = place->address.v - place->module->bias.v };
	uint32_t string_max = tracepoint->request->spec.string_max;

	assert(place->module && place->name);
	struct error *error = module_debug(session->proc, place->module, &d.debug);

	if (error)
		return error;
	d.has_function = d.debug && debug_function_at(d.debug, d.address, &d.function);
	d.inlined = d.has_function && place->inlined &&
		    debug_inlined_die(d.debug, place->inlined, &d.inlined_die);
	prototype_arguments_find(&d);
	if (!string_max)
		string_max = VALUE_STRING_DEFAULT;
	error = check_exits(&d);
	if (!error)
		error = describe_short(&d, describe_all, string_max);
	const char *filter = tracepoint->request->spec.filter;
	if (!error && tracepoint->kind == TRACEPOINT_FUNCTION &&
	    (tracepoint_has_values(tracepoint) || (filter && describe_filters_exit(&d, filter)) ||
	     describe_asks_exit(tracepoint)))
		error = describe_short(&d, describe_exit, string_max);
	return error_wrap(error, "%s", place->name);
}

void describe_give(struct tracepoint *tracepoint, struct event_type *type)
{
	struct values *values = &tracepoint->values;

	assert(!type->fields);
	type->fields = take_ptr(&values->fields);
	type->field_count = values->field_count;
	type->is_variable = values->program != NULL;
	values->field_count = 0;
}

void describe_give_exit(struct tracepoint *tracepoint, struct event_type *type)
{
	struct values *values = &tracepoint->values;

	assert(!type->fields);
	type->fields = take_ptr(&values->exit_fields);
	type->field_count = values->exit_field_count;
	type->size = values->exit_size;
	type->is_variable = values->exit_program != NULL;
	values->exit_field_count = 0;
}

void describe_set_ids(struct tracepoint *tracepoint)
{
	struct values *values = &tracepoint->values;

	if (values->program)
		values->program->id = tracepoint->probe.event.id;
	if (values->exit_program)
		values->exit_program->id = tracepoint->probe.event.id + 1;
}
