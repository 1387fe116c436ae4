/*
 * names.c - from a variable's name to its place at a tracepoint.
 */
#include <string.h>

#include "../base/cleanup.h"
#include "../plan/value_location.h"
#include "internal.h"

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

bool names_at_entry(const struct describe *d)
{
	return d->has_function && d->function.low == d->address &&
	       !is_clone(d->tracepoint->probe.place.symbol);
}

struct location_context names_context(struct describe *d)
{
	struct module *module = d->tracepoint->probe.place.module;
	struct location_context context = { .function = &d->function,
					    .pc = d->address,
					    .bias = module->bias.v };
	_cleanup_error_ struct error *error = module_cfi(d->session->proc, module, &context.rows);

	return context;
}

/* A parameter, by the ABI. */
static bool find_argument(struct describe *d, const char *name, struct type *ret_type,
			  struct value_place *ret_place)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = d->function.die;
	struct parameter parameter;
	struct abi_state state;

	abi_start(&d->function, &state);
	while (debug_next_parameter(&die, &walk, &parameter)) {
		struct abi_value abi;

		abi_next(&state, &parameter.type, &abi);
		if (!parameter.name || strcmp(parameter.name, name) != 0)
			continue;
		*ret_type = parameter.type;
		place_from_abi(&abi, ret_place);
		return true;
	}
	return false;
}

bool names_find(void *context, const char *name, struct type *ret_type, struct value_place *ret_place)
{
	struct describe *d = context;
	struct location_context location;
	Dwarf_Die die;

	if (!d->debug)
		return false;
	if (names_at_entry(d) && find_argument(d, name, ret_type, ret_place))
		return true;
	if (!debug_find_variable(d->debug, d->has_function ? &d->function : NULL, d->address, name, &die))
		return false;
	location = names_context(d);
	type_of(&die, ret_type);
	location_place(&location, &die, ret_place);
	return true;
}

bool names_find_label(void *context, const char *name, int64_t *ret_value)
{
	struct describe *d = context;

	return d->has_function && debug_find_label(&d->function, name, ret_value);
}
