#include "marker_fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/elf/sdt.h"
#include "control/session/state/session_state.h"

/* Operands within these bytes of rsp are read directly from the frame; compilers emit none farther
 * away. */
#define FRAME_LOW (-128)
#define FRAME_HIGH 65536
#define HW_RSP 4

/* ---- places ---------------------------------------------------------------------------------- */

static bool find_symbol(void *context, const char *name, uint64_t *ret_address)
{
	const struct symbol *symbol = symtab_find(context, name);

	if (!symbol)
		return false;
	*ret_address = symbol->address;
	return true;
}

static void push_scaled(const struct sdt_argument *a, struct value_ops *ops)
{
	ops_add(ops, DT_OP_REG, a->index, 0, 0);
	ops_const(ops, a->scale);
	ops_add(ops, DT_OP_MUL, 0, 0, 0);
	ops_add(ops, DT_OP_ADD, 0, 0, 0);
}

static void memory_place(const struct sdt_argument *a, uint64_t bias, struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_MEMORY };

	if (a->base == HW_RSP && a->index == SDT_NO_REGISTER && !a->segment && !a->is_relative &&
	    a->disp >= FRAME_LOW && a->disp < FRAME_HIGH) {
		*ret_place = (struct value_place){ .kind = PLACE_PIECES,
						   .count = 1,
						   .pieces = { { .where = ABI_STACK,
								 .disp = (int32_t)a->disp,
								 .size = a->size } } };
		return;
	}
	ops_const(&place.ops, (uint64_t)a->disp + (a->is_relative ? bias : 0));
	if (a->base != SDT_NO_REGISTER) {
		ops_add(&place.ops, DT_OP_REG, a->base, 0, 0);
		ops_add(&place.ops, DT_OP_ADD, 0, 0, 0);
	}
	if (a->index != SDT_NO_REGISTER)
		push_scaled(a, &place.ops);
	if (a->segment) {
		ops_add(&place.ops, DT_OP_REG, a->segment == 'f' ? DT_REG_FS_BASE : DT_REG_GS_BASE,
			0, 0);
		ops_add(&place.ops, DT_OP_ADD, 0, 0, 0);
	}
	*ret_place = place;
}

static void argument_place(const struct sdt_argument *a, uint64_t bias,
			   struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_GONE };

	switch (a->kind) {
	case SDT_REGISTER:
	case SDT_XMM:
		place.kind = PLACE_PIECES;
		place.count = 1;
		place.pieces[0] =
			(struct abi_piece){ .where = a->kind == SDT_XMM ? ABI_SSE : ABI_INT,
					    .reg = a->reg,
					    .disp = a->shift,
					    .size = a->kind == SDT_XMM ? 16 : 8u - a->shift };
		break;
	case SDT_CONSTANT:
		place.kind = PLACE_VALUE;
		ops_const(&place.ops, (uint64_t)a->disp + (a->is_relative ? bias : 0));
		break;
	case SDT_MEMORY:
		memory_place(a, bias, &place);
		break;
	default:
		break;
	}
	*ret_place = place;
}

/* ---- fields ---------------------------------------------------------------------------------- */

/* Walks the arguments of the tracepoint's marker. */
struct walk {
	const char *text;
	struct sdt_symbols symbols;
	uint64_t bias;
	size_t index; /* of the next one */
};

static struct walk walk_start(const struct describe *d)
{
	const struct place *place = &d->tracepoint->probe.place;

	assert(place->marker && place->module);
	return (struct walk){ .text = place->marker->arguments,
			      .symbols = { find_symbol, place->module->symtab },
			      .bias = place->module->bias.v };
}

static bool walk_next(struct walk *walk, struct sdt_argument *ret_argument,
		      struct value_place *ret_place)
{
	if (walk->index >= SDT_ARGUMENTS_MAX ||
	    !sdt_next_argument(&walk->text, &walk->symbols, ret_argument))
		return false;
	argument_place(ret_argument, walk->bias, ret_place);
	walk->index++;
	return true;
}

/* An unsigned number as wide as a pointer mostly is a pointer. */
static enum field_type field_type_of(const struct sdt_argument *a)
{
	if (a->is_float || (a->kind == SDT_XMM && a->size >= 4))
		return FIELD_FLOAT;
	if (a->is_signed)
		return FIELD_INT;
	return a->size == 8 ? FIELD_HEX : FIELD_UINT;
}

void marker_fields_add(struct describe *d)
{
	struct walk walk = walk_start(d);
	struct sdt_argument argument;
	struct value_place place;

	while (walk_next(&walk, &argument, &place)) {
		char name[16];

		snprintf(name, sizeof(name), "arg%zu", walk.index - 1);
		if (place.kind != PLACE_PIECES && place.kind != PLACE_GONE)
			d->shape.is_gathered = true;
		shape_add_number(&d->shape, name, field_type_of(&argument),
				 argument.size ? argument.size : 8, &place);
	}
}

bool marker_fields_find(struct describe *d, const char *name, struct type *ret_type,
			struct value_place *ret_place)
{
	struct sdt_argument argument;
	char *end;

	if (!d->tracepoint->probe.place.marker || strncmp(name, "arg", 3) != 0)
		return false;
	unsigned long wanted = strtoul(name + 3, &end, 10);
	if (end == name + 3 || *end)
		return false;
	struct walk walk = walk_start(d);
	while (walk_next(&walk, &argument, ret_place)) {
		enum field_type type = field_type_of(&argument);

		if (walk.index != wanted + 1)
			continue;
		*ret_type = (struct type){ .kind = type == FIELD_FLOAT ? TYPE_FLOAT : TYPE_INT,
					   .is_signed = argument.is_signed,
					   .size = argument.size };
		return true;
	}
	return false;
}
