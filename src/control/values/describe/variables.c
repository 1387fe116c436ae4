/*
 * variables.c - from a variable's name to its place at a tracepoint.
 */
#include <assert.h>
#include <ctype.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/exits/check/result_check.h"
#include "control/session/state/session_state.h"
#include "describe.h"
#include "marker_fields.h"

/* Did the compiler make the function from another, with arguments left out or split? No ABI gives
 * the places of these. */
static bool is_clone(const struct place *place)
{
	static const char *const marks[] = { ".constprop.", ".isra.", ".part." };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		if (strstr(place->name, marks[i]) ||
		    (place->symbol && strstr(place->symbol->name, marks[i])))
			return true;
	}
	return false;
}

static bool is_local(const struct describe *d)
{
	const struct symbol *symbol = d->tracepoint->probe.place.symbol;
	Dwarf_Die die = d->function.die;

	return symbol ? !symbol->global : !dwarf_hasattr_integrate(&die, DW_AT_external);
}

/* musl's table of a thread's blocks has another layout. */
static struct tls find_tls(void *context)
{
	struct describe *d = context;
	struct tls tls = module_tls(d->session->proc, d->module);

	for (size_t i = 0; tls.kind == TLS_NUMBERED && i < d->session->modules.count; i++) {
		if (strncmp(d->session->modules.items[i]->name, "ld-musl", strlen("ld-musl")) == 0)
			tls.kind = TLS_UNKNOWN;
	}
	return tls;
}

static struct location_context location_context(struct describe *d)
{
	struct location_context context = { .debug = d->debug,
					    .function = &d->function,
					    .pc = d->address,
					    .bias = d->module->bias.v,
					    .find_tls = find_tls,
					    .tls_context = d };
	_cleanup_error_ struct error *error =
		module_cfi(d->session->proc, d->module, &context.rows);

	return context;
}

/* Without optimisation each parameter has one place, in the frame, for the whole function. Only
 * parameters passed by their address differ: the address is in a register first. */
static bool was_optimised(const struct debug_function *function)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = function->die;
	struct parameter parameter;
	struct abi_state state;
	bool any = false;

	abi_start(function, &state);
	while (debug_next_parameter(&die, &walk, &parameter)) {
		Dwarf_Attribute attribute;
		struct abi_value abi;

		abi_next(&state, &parameter.type, &abi);
		if (!dwarf_attr_integrate(&parameter.die, DW_AT_location, &attribute))
			return parameter.type.size != 0;
		if (dwarf_whatform(&attribute) == DW_FORM_exprloc)
			any = true;
		else if (!abi.is_known || !abi.is_behind)
			return true;
	}
	return !any;
}

/* May LLVM have changed the calling convention, as it does with local functions? */
static bool is_llvms_own(const struct describe *d)
{
	return is_local(d) && debug_function_is_llvm(&d->function) && was_optimised(&d->function);
}

/*
 * LLVM drops arguments that a local function doesn't use, and moves up the following ones; only the
 * location lists show that. So in optimised code the location lists decide: a register that they
 * name, or nothing. The same holds in languages without a fixed ABI.
 */
void variables_start(struct describe *d, struct parameter_walk *ret_walk)
{
	bool at_entry = d->has_function && !d->inlined && d->function.low == d->address;

	*ret_walk = (struct parameter_walk){ .context = location_context(d) };
	ret_walk->by_abi = at_entry && !is_clone(&d->tracepoint->probe.place);
	ret_walk->may_drop =
		d->has_function && (debug_function_is_changed(&d->function) || is_llvms_own(d) ||
				    !debug_function_has_abi(&d->function));
	ret_walk->is_promoted = ret_walk->by_abi && !ret_walk->may_drop &&
				debug_function_is_unprototyped(&d->function);
	abi_start(&d->function, &ret_walk->abi);
}

static bool is_in_frame(const struct value_place *place)
{
	const struct dt_op *first = &place->ops.items[0];

	return place->kind == PLACE_MEMORY && (!place->ops.count || first->code != DT_OP_REG ||
					       first->a == RSP || first->a == RBP);
}

bool variables_next(struct describe *d, struct parameter_walk *walk,
		    struct parameter *ret_parameter, struct value_place *ret_place)
{
	Dwarf_Die die = d->inlined ? d->inlined_die : d->function.die;
	struct abi_value abi;

	if (!debug_next_parameter(&die, &walk->members, ret_parameter))
		return false;
	if (walk->is_promoted && ret_parameter->type.kind == TYPE_FLOAT &&
	    ret_parameter->type.size == sizeof(float))
		ret_parameter->type.size = sizeof(double);
	abi_next(&walk->abi, &ret_parameter->type, &abi);
	if (!walk->by_abi || walk->may_drop)
		location_place(&walk->context, &ret_parameter->die, ret_place);
	if (walk->by_abi && !walk->may_drop)
		place_from_abi(&abi, ret_place);
	else if (walk->by_abi && is_in_frame(ret_place))
		ret_place->kind = PLACE_GONE; /* the function hasn't stored it there yet */
	return true;
}

/* Finds a parameter of the function, or of the inlined copy, whose entry the tracepoint is at. */
static bool find_argument(struct describe *d, const char *name, struct type *ret_type,
			  struct value_place *ret_place)
{
	struct parameter_walk walk;
	struct parameter parameter;
	struct prototype_argument argument;

	for (size_t i = 0; d->prototype && prototype_arguments_get(d, i, &argument); i++) {
		if (strcmp(argument.name, name) == 0) {
			*ret_type = argument.type;
			*ret_place = argument.place;
			return true;
		}
	}
	if (!d->has_function)
		return false;
	variables_start(d, &walk);
	if (!walk.by_abi && !d->inlined)
		return false;
	while (variables_next(d, &walk, &parameter, ret_place)) {
		if (parameter.name && strcmp(parameter.name, name) == 0) {
			*ret_type = parameter.type;
			return true;
		}
	}
	return false;
}

bool variables_is_argument(void *context, const char *name)
{
	struct describe *d = context;
	struct value_place place;
	struct type type;

	return find_argument(d, name, &type, &place);
}

/* Is the tracepoint at a function whose parameters aren't known, but where its caller put them? */
static bool is_plain_entry(const struct describe *d)
{
	const struct place *place = &d->tracepoint->probe.place;

	if (place->marker || d->inlined || (d->has_function && d->function.low != d->address))
		return false;
	if (d->has_function && !debug_function_is_assembly(&d->function))
		return false;
	return d->tracepoint->kind != TRACEPOINT_BARE ||
	       (place->symbol && place->symbol->address == d->address);
}

/* arg0, arg1...: parameters by number; without debug information, the registers of the ABI, as
 * events have them. False: another name, or no such argument. */
static bool find_numbered(struct describe *d, const char *name, struct type *ret_type,
			  struct value_place *ret_place)
{
	struct parameter_walk walk;
	struct parameter parameter;
	unsigned long wanted;
	char *end;

	if (strncmp(name, "arg", 3) != 0 || !isdigit((unsigned char)name[3]))
		return false;
	wanted = strtoul(name + 3, &end, 10);
	if (*end)
		return false;
	if (is_plain_entry(d)) {
		if (wanted >= describe_register_count(d))
			return false;
		*ret_type = (struct type){ .kind = TYPE_INT, .size = 8 };
		*ret_place = describe_register(d, wanted);
		return true;
	}
	if (!d->has_function)
		return false;
	variables_start(d, &walk);
	while ((walk.by_abi || d->inlined) && variables_next(d, &walk, &parameter, ret_place)) {
		if (wanted-- == 0) {
			*ret_type = parameter.type;
			return true;
		}
	}
	return false;
}

/* Has the function around an address of the file a result, as far as is known? */
static bool has_result(void *context, uint64_t address)
{
	struct describe *d = context;
	struct debug_function function;
	struct type type;

	if (!debug_function_at(d->debug, address, &function) || function.low == d->function.low)
		return false;
	type_of(&function.die, &type);
	return type.kind != TYPE_VOID;
}

/* Did the compiler drop the result? */
static bool is_dropped(struct describe *d, const struct symtab *symtab,
		       const struct abi_piece *piece)
{
	if (debug_function_is_changed(&d->function) ||
	    !result_is_set(symtab, d->function.low, d->function.high, piece))
		return true;
	switch (result_use(symtab, d->function.low, piece, has_result, d)) {
	case RESULT_USED: return false;
	case RESULT_IGNORED: return true;
	default: return is_clone(&d->tracepoint->probe.place);
	}
}

/*
 * Replaces the place of a result that the compiler may have dropped. Newer versions of LLVM mark a
 * changed function, but not what changed. The address of a result in memory need not come back in
 * rax then, but was the first argument.
 */
static void doubt_result(struct describe *d, const struct abi_value *abi, struct value_place *place)
{
	struct value_place first = { .kind = PLACE_PIECES,
				     .count = 1,
				     .pieces = { { .where = ABI_INT, .reg = RDI, .size = 8 } } };
	struct value_place kept = { .kind = PLACE_GONE };
	struct symtab *symtab;
	_cleanup_error_ struct error *error = module_symtab(d->session->proc, d->module, &symtab);

	if (abi->is_known && abi->is_behind && describe_keep(d, &first, &kept))
		place_behind(&kept, place);
	else if ((abi->is_known && abi->is_behind) || error ||
		 is_dropped(d, symtab, &abi->pieces[0]))
		place->kind = PLACE_GONE;
}

void variables_result(struct describe *d, struct type *ret_type, struct value_place *ret_place)
{
	Dwarf_Die die = d->function.die;
	struct abi_value abi;

	assert(d->exit);
	if (d->prototype) {
		prototype_arguments_result(d, ret_type, ret_place);
		return;
	}
	/* without debug information: 64 bits */
	*ret_type = (struct type){ .kind = TYPE_INT, .size = 8 };
	*ret_place =
		(struct value_place){ .kind = PLACE_PIECES,
				      .count = 1,
				      .pieces = { { .where = ABI_INT, .reg = RAX, .size = 8 } } };
	if (!d->has_function || d->function.low != d->address ||
	    debug_function_is_assembly(&d->function))
		return;
	type_of(&die, ret_type);
	abi_result(&d->function, ret_type, &abi);
	place_from_abi(&abi, ret_place);
	if (is_llvms_own(d) || debug_function_is_changed(&d->function) ||
	    is_clone(&d->tracepoint->probe.place))
		doubt_result(d, &abi, ret_place);
}

/* Finds, at an exit, the result, parameters with their values at the entry, and variables at a
 * fixed address. */
static bool find_at_exit(struct describe *d, const char *name, struct type *ret_type,
			 struct value_place *ret_place)
{
	struct location_context location;
	struct value_place place;
	Dwarf_Die die;

	if (strcmp(name, "$ret") == 0) {
		variables_result(d, ret_type, ret_place);
		return ret_type->kind != TYPE_VOID;
	}
	if (find_argument(d, name, ret_type, &place) ||
	    find_numbered(d, name, ret_type, &place)) {
		describe_keep(d, &place, ret_place);
		return true;
	}
	if (!d->debug || !debug_find_variable(d->debug, d->has_function ? &d->function : NULL,
					      d->address, name, &die))
		return false;
	location = location_context(d);
	type_of(&die, ret_type);
	location_place(&location, &die, ret_place);
	return ret_place->kind == PLACE_MEMORY && ret_place->ops.items[0].code == DT_OP_CONST;
}

bool variables_find(void *context, const char *name, struct type *ret_type,
		    struct value_place *ret_place)
{
	struct describe *d = context;
	struct location_context location;
	Dwarf_Die die;

	if (marker_fields_find(d, name, ret_type, ret_place))
		return true;
	if (d->exit)
		return find_at_exit(d, name, ret_type, ret_place);
	if (find_argument(d, name, ret_type, ret_place) ||
	    find_numbered(d, name, ret_type, ret_place))
		return true;
	if (!d->debug || !debug_find_variable(d->debug, d->has_function ? &d->function : NULL,
					      d->address, name, &die))
		return false;
	location = location_context(d);
	type_of(&die, ret_type);
	location_place(&location, &die, ret_place);
	return true;
}

void variables_list(void *context, struct strbuf *text)
{
	struct describe *d = context;
	struct parameter_walk walk;
	struct parameter parameter;
	struct value_place place;

	struct prototype_argument argument;

	for (size_t i = 0; d->prototype && prototype_arguments_get(d, i, &argument); i++)
		strbuf_printf(text, "%s%s", text->length ? ", " : "", argument.name);
	if (is_plain_entry(d) && !d->prototype)
		strbuf_printf(text, "arg0 to arg%zu", describe_register_count(d) - 1);
	if (!d->has_function)
		return;
	variables_start(d, &walk);
	while (variables_next(d, &walk, &parameter, &place)) {
		if (parameter.name)
			strbuf_printf(text, "%s%s", text->length ? ", " : "", parameter.name);
	}
}

bool variables_find_label(void *context, const char *name, int64_t *ret_value)
{
	struct describe *d = context;

	return d->has_function && debug_find_label(&d->function, name, ret_value);
}

bool variables_find_type(void *context, const char *name, enum type_kind kind,
			 struct type *ret_type)
{
	struct describe *d = context;

	return d->debug && debug_find_type(d->debug, d->has_function ? &d->function : NULL, name,
					   kind, ret_type);
}
