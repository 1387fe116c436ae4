/*
 * value_location.c - DWARF location expressions as places and programs.
 *
 * The address of the probe decides which entry of a location list holds and how the CFA is found.
 * The rest is a list of stack operations, nearly all of which the agent's programs have too. A
 * value that needs others, or that can't be known at that address (of a register at entry), is
 * PLACE_GONE.
 */
#include "value_location.h"

#include <dwarf.h>
#include <string.h>

#define OPS_IN_MAX 256
#define HW_RSP 4
#define HW_RBP 5
#define TLS_DTV_AT 8 /* from the thread pointer, in glibc */
#define TLS_DTV_ENTRY 16

struct compiler {
	const struct location_context *context;
	struct value_ops ops;
	bool failed;
	bool is_value; /* DW_OP_stack_value was seen */
	unsigned depth; /* of frame bases and entry values */
};

/* Hardware numbers of general registers, by DWARF number. */
static const uint8_t hardware[16] = { 0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15 };

static const struct {
	uint8_t dwarf;
	uint8_t op;
} same_ops[] = {
	{ DW_OP_drop, DT_OP_DROP }, { DW_OP_swap, DT_OP_SWAP }, { DW_OP_rot, DT_OP_ROT },
	{ DW_OP_abs, DT_OP_ABS },   { DW_OP_and, DT_OP_AND },	{ DW_OP_div, DT_OP_DIV },
	{ DW_OP_minus, DT_OP_SUB }, { DW_OP_mod, DT_OP_MODU },	{ DW_OP_mul, DT_OP_MUL },
	{ DW_OP_neg, DT_OP_NEG },   { DW_OP_not, DT_OP_NOT },	{ DW_OP_or, DT_OP_OR },
	{ DW_OP_plus, DT_OP_ADD },  { DW_OP_shl, DT_OP_SHL },	{ DW_OP_shr, DT_OP_SHR },
	{ DW_OP_shra, DT_OP_SAR },  { DW_OP_xor, DT_OP_XOR },	{ DW_OP_eq, DT_OP_EQ },
	{ DW_OP_ge, DT_OP_GE },	    { DW_OP_gt, DT_OP_GT },	{ DW_OP_le, DT_OP_LE },
	{ DW_OP_lt, DT_OP_LT },	    { DW_OP_ne, DT_OP_NE },
};

static void compile(struct compiler *c, const Dwarf_Op *ops, size_t count);

static void push_register(struct compiler *c, uint64_t reg, int64_t offset)
{
	if (reg >= 16 || offset != (int32_t)offset) {
		c->failed = true;
		return;
	}
	ops_add(&c->ops, DT_OP_REG, hardware[reg], 0, 0);
	if (offset)
		ops_add(&c->ops, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
}

static void push_cfa(struct compiler *c)
{
	const struct dt_unwind_row *row =
		c->context->rows ? cfi_find(c->context->rows, c->context->pc) : NULL;

	if (!row || row->cfa_rule < DT_CFA_RSP || row->cfa_rule > DT_CFA_AT_RBP) {
		c->failed = true;
		return;
	}
	ops_add(&c->ops, DT_OP_REG, row->cfa_rule == DT_CFA_RSP ? HW_RSP : HW_RBP, 0, 0);
	ops_add(&c->ops, DT_OP_OFFSET, 0, 0, (uint32_t)(row->cfa * 8));
	if (row->cfa_rule == DT_CFA_AT_RBP)
		ops_add(&c->ops, DT_OP_LOAD, 8, 0, 0);
}

static void push_frame_base(struct compiler *c, int64_t offset)
{
	Dwarf_Die function = c->context->function->die;
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;

	if (c->depth++ || !dwarf_attr_integrate(&function, DW_AT_frame_base, &attribute) ||
	    dwarf_getlocation_addr(&attribute, c->context->pc, &ops, &count, 1) != 1 ||
	    offset != (int32_t)offset) {
		c->failed = true;
		return;
	}
	if (count == 1 && ops[0].atom >= DW_OP_reg0 && ops[0].atom <= DW_OP_reg15)
		push_register(c, ops[0].atom - DW_OP_reg0, 0);
	else
		compile(c, ops, count);
	ops_add(&c->ops, DT_OP_OFFSET, 0, 0, (uint32_t)offset);
	c->depth--;
}

static void push_address(struct compiler *c, const Dwarf_Op *op, Dwarf_Attribute *location)
{
	Dwarf_Attribute attribute;
	Dwarf_Addr address = op->number;

	if (op->atom != DW_OP_addr && (dwarf_getlocation_attr(location, op, &attribute) != 0 ||
				       dwarf_formaddr(&attribute, &address) != 0)) {
		c->failed = true;
		return;
	}
	ops_const(&c->ops, address + c->context->bias);
}

/* Turns the offset in the module's block, on the stack, into an address. A thread that has no such
 * block yet has no address. */
static void push_thread_local(struct compiler *c)
{
	const struct location_context *context = c->context;
	struct tls tls = { .kind = TLS_UNKNOWN };

	if (context->find_tls)
		tls = context->find_tls(context->tls_context);
	c->failed |= tls.kind == TLS_UNKNOWN;
	ops_add(&c->ops, DT_OP_REG, DT_REG_FS_BASE, 0, 0);
	if (tls.kind == TLS_NUMBERED) {
		ops_add(&c->ops, DT_OP_OFFSET, 0, 0, TLS_DTV_AT);
		ops_add(&c->ops, DT_OP_LOAD, 8, 0, 0);
	}
	if (tls.kind != TLS_FIXED) {
		ops_const(&c->ops, tls.word.v);
		ops_add(&c->ops, DT_OP_LOAD, 8, 0, 0);
	}
	if (tls.kind == TLS_NUMBERED) {
		ops_const(&c->ops, TLS_DTV_ENTRY);
		ops_add(&c->ops, DT_OP_MUL, 0, 0, 0);
	}
	if (tls.kind != TLS_FIXED)
		ops_add(&c->ops, DT_OP_ADD, 0, 0, 0);
	if (tls.kind == TLS_NUMBERED)
		ops_add(&c->ops, DT_OP_LOAD, 8, 0, 0);
	else
		ops_add(&c->ops, DT_OP_OFFSET, 0, 0, (uint32_t)tls.offset);
	ops_add(&c->ops, DT_OP_ADD, 0, 0, 0);
}

/* The value of a register at the function's entry: known only at the entry. */
static void push_entry_value(struct compiler *c, const Dwarf_Op *op, Dwarf_Attribute *location)
{
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;

	if (c->context->pc != c->context->function->low ||
	    dwarf_getlocation_attr(location, op, &attribute) != 0 ||
	    dwarf_getlocation(&attribute, &ops, &count) != 0 || count != 1 ||
	    ops[0].atom < DW_OP_reg0 || ops[0].atom > DW_OP_reg15) {
		c->failed = true;
		return;
	}
	push_register(c, ops[0].atom - DW_OP_reg0, 0);
}

/* Converts to another base type: integers are cut or extended. */
static void convert(struct compiler *c, const Dwarf_Op *op, Dwarf_Attribute *location)
{
	struct type type = { .kind = TYPE_VOID };
	Dwarf_Die die;
	Dwarf_Word encoding = 0, size = 0;
	Dwarf_Attribute attribute;

	if (op->number == 0)
		return; /* the generic type */
	if (dwarf_getlocation_die(location, op, &die) != 0 ||
	    !dwarf_attr(&die, DW_AT_encoding, &attribute) ||
	    dwarf_formudata(&attribute, &encoding) != 0 ||
	    !dwarf_attr(&die, DW_AT_byte_size, &attribute) ||
	    dwarf_formudata(&attribute, &size) != 0 || size == 0 || size > 8 ||
	    encoding == DW_ATE_float) {
		c->failed = true;
		return;
	}
	type.is_signed = encoding == DW_ATE_signed || encoding == DW_ATE_signed_char;
	if (size < 8)
		ops_add(&c->ops, DT_OP_BITS, 0, (uint16_t)(size * 8), type.is_signed);
}

static bool compile_simple(struct compiler *c, const Dwarf_Op *op)
{
	for (size_t i = 0; i < sizeof(same_ops) / sizeof(same_ops[0]); i++) {
		if (same_ops[i].dwarf == op->atom) {
			ops_add(&c->ops, (enum dt_op_code)same_ops[i].op, 0, 0, 0);
			return true;
		}
	}
	if (op->atom >= DW_OP_lit0 && op->atom <= DW_OP_lit31)
		ops_const(&c->ops, (uint64_t)(op->atom - DW_OP_lit0));
	else if (op->atom >= DW_OP_const1u && op->atom <= DW_OP_consts)
		ops_const(&c->ops, op->number);
	else if (op->atom >= DW_OP_breg0 && op->atom <= DW_OP_breg15)
		push_register(c, op->atom - DW_OP_breg0, (int64_t)op->number);
	else
		return false;
	return true;
}

static void compile_op(struct compiler *c, const Dwarf_Op *op)
{
	switch (op->atom) {
	case DW_OP_addr:
	case DW_OP_addrx:
	case DW_OP_constx:
	case DW_OP_GNU_addr_index:
	case DW_OP_GNU_const_index:
		push_address(c, op, c->context->location);
		break;
	case DW_OP_bregx:
		push_register(c, op->number, (int64_t)op->number2);
		break;
	case DW_OP_fbreg:
		push_frame_base(c, (int64_t)op->number);
		break;
	case DW_OP_call_frame_cfa:
		push_cfa(c);
		break;
	case DW_OP_plus_uconst:
		c->failed |= op->number > INT32_MAX;
		ops_add(&c->ops, DT_OP_OFFSET, 0, 0, (uint32_t)op->number);
		break;
	case DW_OP_dup:
	case DW_OP_over:
	case DW_OP_pick:
		ops_add(&c->ops, DT_OP_PICK,
			op->atom == DW_OP_pick ? (uint8_t)op->number : op->atom == DW_OP_over, 0,
			0);
		break;
	case DW_OP_deref:
		ops_add(&c->ops, DT_OP_LOAD, 8, 0, 0);
		break;
	case DW_OP_deref_size:
		c->failed |= op->number == 0 || op->number > 8;
		ops_add(&c->ops, DT_OP_LOAD, (uint8_t)op->number, 0, 0);
		break;
	case DW_OP_entry_value:
	case DW_OP_GNU_entry_value:
		push_entry_value(c, op, c->context->location);
		break;
	case DW_OP_convert:
	case DW_OP_GNU_convert:
		convert(c, op, c->context->location);
		break;
	case DW_OP_form_tls_address:
	case DW_OP_GNU_push_tls_address:
		push_thread_local(c);
		break;
	case DW_OP_stack_value:
		c->is_value = true;
		break;
	case DW_OP_nop:
		break;
	default:
		c->failed |= !compile_simple(c, op);
	}
}

static void compile(struct compiler *c, const Dwarf_Op *ops, size_t count)
{
	for (size_t i = 0; i < count && !c->failed; i++)
		compile_op(c, &ops[i]);
	c->failed |= c->ops.failed;
}

/* A whole register; false: the expression is something else. */
static bool piece_of(const Dwarf_Op *op, struct abi_piece *ret_piece)
{
	uint64_t reg = op->atom == DW_OP_regx ? op->number : (uint64_t)op->atom - DW_OP_reg0;

	if ((op->atom < DW_OP_reg0 || op->atom > DW_OP_reg31) && op->atom != DW_OP_regx)
		return false;
	*ret_piece = (struct abi_piece){ .size = 8 };
	if (reg < 16) {
		ret_piece->where = ABI_INT;
		ret_piece->reg = hardware[reg];
	} else if (reg >= 17 && reg <= 32) {
		ret_piece->where = ABI_SSE;
		ret_piece->reg = (uint8_t)(reg - 17);
		ret_piece->size = 16;
	} else {
		return false;
	}
	return true;
}

/* A constant, or a slot at a fixed distance from rsp; false: neither. */
static bool piece_of_ops(const struct compiler *c, const Dwarf_Op *ops, size_t count, uint64_t size,
			 struct abi_piece *ret_piece)
{
	struct compiler part = { .context = c->context };
	const struct dt_op *items = part.ops.items;

	compile(&part, ops, count);
	*ret_piece = (struct abi_piece){ .size = (uint32_t)size };
	if (part.failed || part.ops.count != 2 || size > 16)
		return false;
	if (part.is_value && items[0].code == DT_OP_CONST && size <= 8) {
		ret_piece->where = ABI_CONSTANT;
		memcpy(&ret_piece->value, &items[1], sizeof(ret_piece->value));
		return true;
	}
	ret_piece->where = ABI_STACK;
	ret_piece->disp = (int32_t)items[1].c;
	return !part.is_value && items[0].code == DT_OP_REG && items[0].a == HW_RSP &&
	       items[1].code == DT_OP_OFFSET;
}

/* Registers, constants and stack slots next to each other (DW_OP_piece). Missing pieces stay
 * missing. */
static void compile_pieces(struct compiler *c, const Dwarf_Op *ops, size_t count,
			   struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_PIECES };
	uint64_t offset = 0;

	for (size_t i = 0; i < count && place.count < 4; i++) {
		struct abi_piece piece;
		size_t end = i;
		bool found;

		while (end < count && ops[end].atom != DW_OP_piece)
			end++;
		if (end == count)
			break;
		found = end == i + 1 && piece_of(&ops[i], &piece);
		if (!found && end > i)
			found = piece_of_ops(c, ops + i, end - i, ops[end].number, &piece);
		if (found) {
			piece.offset = (uint32_t)offset;
			if (ops[end].number < piece.size)
				piece.size = (uint32_t)ops[end].number;
			place.pieces[place.count++] = piece;
		}
		offset += ops[end].number;
		i = end;
	}
	if (place.count == 0)
		place.kind = PLACE_GONE;
	*ret_place = place;
}

static void compile_place(struct compiler *c, Dwarf_Op *ops, size_t count,
			  struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_PIECES, .count = 1 };

	if (count > OPS_IN_MAX || count == 0)
		return;
	for (size_t i = 0; i < count; i++) {
		if (ops[i].atom == DW_OP_piece) {
			compile_pieces(c, ops, count, ret_place);
			return;
		}
	}
	if (count == 1 && piece_of(&ops[0], &place.pieces[0])) {
		*ret_place = place;
		return;
	}
	compile(c, ops, count);
	if (c->failed)
		return;
	place = (struct value_place){ .kind = c->is_value ? PLACE_VALUE : PLACE_MEMORY,
				      .ops = c->ops };
	*ret_place = place;
}

/* DW_OP_implicit_value, DW_AT_const_value: the debug information holds the bytes. */
static bool constant_place(Dwarf_Attribute *attribute, struct value_place *ret_place)
{
	struct value_place place = { .kind = PLACE_VALUE };
	Dwarf_Block block;
	uint64_t value = 0;
	int64_t number;

	if (debug_constant(attribute, &number)) {
		value = (uint64_t)number;
	} else if (dwarf_formblock(attribute, &block) == 0 && block.length <= 8) {
		for (size_t i = 0; i < block.length; i++)
			value |= (uint64_t)block.data[i] << 8 * i;
	} else {
		return false;
	}
	ops_const(&place.ops, value);
	*ret_place = place;
	return true;
}

void location_place(struct location_context *context, Dwarf_Die *variable,
		    struct value_place *ret_place)
{
	struct compiler c = { .context = context };
	Dwarf_Attribute attribute;
	Dwarf_Op *ops;
	size_t count;

	*ret_place = (struct value_place){ .kind = PLACE_GONE };
	debug_need_locations(context->debug);
	if (dwarf_attr_integrate(variable, DW_AT_const_value, &attribute)) {
		constant_place(&attribute, ret_place);
		return;
	}
	if (!dwarf_attr_integrate(variable, DW_AT_location, &attribute) ||
	    dwarf_getlocation_addr(&attribute, context->pc, &ops, &count, 1) != 1)
		return;
	context->location = &attribute;
	compile_place(&c, ops, count, ret_place);
	context->location = NULL;
}
