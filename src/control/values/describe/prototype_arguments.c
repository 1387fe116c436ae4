/*
 * prototype_arguments.c - arguments and results by a prototype, where no debug information has the
 * function: numbers and pointers only, whose places the System V ABI gives.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "control/session/state/session_state.h"
#include "describe.h"

#define SSES 8

static const uint8_t int_registers[] = { RDI, RSI, RDX, RCX, R8, R9 };
#define INTS (sizeof(int_registers) / sizeof(int_registers[0]))

/* A library exports a function under several names: open64, __open64. The user's comes first. */
static const struct prototype *find_name(const struct describe *d, const char *name)
{
	const struct prototypes *own = d->tracepoint->request->prototypes;
	const struct prototype *found = prototypes_find(own, name);

	if (!found)
		found = prototypes_find_shipped(d->module->name, name);
	if (!found && !strncmp(name, "__", 2))
		found = prototypes_find_shipped(d->module->name, name + 2);
	return found;
}

void prototype_arguments_find(struct describe *d)
{
	const struct place *place = &d->tracepoint->probe.place;
	const struct location *location = &d->tracepoint->request->location;

	if (place->marker || place->inlined || !place->symbol ||
	    place->symbol->address != d->address ||
	    (d->has_function && !debug_function_is_assembly(&d->function)))
		return;
	if (location->symbol && !location->is_glob && !location->provider)
		d->prototype = find_name(d, location->symbol);
	if (!d->prototype)
		d->prototype = find_name(d, place->symbol->name);
}

static struct value_place place_of(const struct abi_piece *piece)
{
	struct value_place place = { .kind = PLACE_PIECES, .count = 1, .pieces = { *piece } };

	return place;
}

static void next_place(const struct type *type, unsigned *ints, unsigned *sses, int32_t *stack,
		       struct value_place *ret_place)
{
	bool is_float = type->kind == TYPE_FLOAT;
	struct abi_piece piece = { .size = (uint32_t)type->size };

	if (is_float && type->size <= 8 && *sses < SSES) {
		piece.where = ABI_SSE;
		piece.reg = (uint8_t)(*sses)++;
	} else if (!is_float && *ints < INTS) {
		piece.where = ABI_INT;
		piece.reg = int_registers[(*ints)++];
	} else { /* behind the return address; a long double is aligned */
		if (type->size == 16)
			*stack = (*stack + 15) & ~15;
		piece.where = ABI_STACK;
		piece.disp = 8 + *stack;
		*stack += (int32_t)((type->size + 7) / 8 * 8);
	}
	*ret_place = place_of(&piece);
}

bool prototype_arguments_get(const struct describe *d, size_t number,
			     struct prototype_argument *ret_argument)
{
	const struct prototype *prototype = d->prototype;
	unsigned ints = 0, sses = 0;
	int32_t stack = 0;

	assert(prototype);
	if (number >= prototype->count)
		return false;
	for (size_t i = 0; i <= number; i++)
		next_place(&prototype->parameters[i].type, &ints, &sses, &stack,
			   &ret_argument->place);
	ret_argument->type = prototype->parameters[number].type;
	if (prototype->parameters[number].name)
		snprintf(ret_argument->name, sizeof(ret_argument->name), "%s",
			 prototype->parameters[number].name);
	else
		snprintf(ret_argument->name, sizeof(ret_argument->name), "arg%zu", number);
	return true;
}

void prototype_arguments_result(const struct describe *d, struct type *ret_type,
				struct value_place *ret_place)
{
	const struct type *type = &d->prototype->result;
	struct abi_piece piece = { .where = type->kind != TYPE_FLOAT ? ABI_INT :
					    type->size == 16	     ? ABI_X87 :
								       ABI_SSE,
				   .size = type->size == 16 ? 10 : (uint32_t)type->size };

	if (piece.where == ABI_INT)
		piece.reg = RAX;
	*ret_type = *type;
	*ret_place = place_of(&piece);
	if (type->kind == TYPE_VOID)
		ret_place->kind = PLACE_GONE;
}
