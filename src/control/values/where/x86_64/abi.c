/*
 * abi.c - the System V ABI for x86-64.
 *
 * Section 3.2.3 of the psABI. A value of up to two eightbytes is classed eightbyte by eightbyte: an
 * eightbyte that holds only floating point is SSE, any other INTEGER. Larger or misaligned values,
 * and those with an x87 number, are in memory. C++ classes that can't be copied byte by byte are
 * passed by address, and so are large values in Rust. Rust's own ABI is unwritten: is_known is set
 * only where every compiler version agrees.
 */
#include "control/values/where/abi.h"

#include "abi_rust.h"

#include <dwarf.h>
#include <string.h>

#define ARGUMENT_INTS 6
#define ARGUMENT_SSES 8
#define DEPTH_MAX 16
#define ALIGN_MAX 4096u
#define PASS_BY_REFERENCE 4 /* DW_CC_pass_by_reference */
#define PASS_BY_VALUE 5
#define DEFAULTED_IN_CLASS 1 /* DW_DEFAULTED_in_class */

static const uint8_t int_regs[ARGUMENT_INTS] = { 7, 6, 2, 1, 8, 9 }; /* rdi rsi rdx rcx r8 r9 */
static const uint8_t result_regs[2] = { 0, 2 }; /* rax rdx */

/* Steps per value: bounds structs that hold themselves, several times each. */
#define STEPS_MAX 20000
static unsigned steps;
static bool is_llvm; /* LLVM compiled the function at hand */

enum class { CLASS_NONE, CLASS_SSE, CLASS_SSE_UP, CLASS_INT, CLASS_X87, CLASS_MEMORY };

static enum class merge(enum class a, enum class b)
{
	if (a == b || b == CLASS_NONE)
		return a;
	if (a == CLASS_NONE)
		return b;
	if (a == CLASS_MEMORY || b == CLASS_MEMORY)
		return CLASS_MEMORY;
	if (a == CLASS_INT || b == CLASS_INT)
		return CLASS_INT;
	if (a == CLASS_X87 || b == CLASS_X87)
		return CLASS_MEMORY;
	return CLASS_SSE;
}

static bool is_long_double(const struct type *type)
{
	return type->kind == TYPE_FLOAT && type->size == 16 &&
	       (!type->name || !strstr(type->name, "128"));
}

static void classify(const struct type *type, uint64_t offset, enum class classes[2],
		     unsigned depth);

/* A number of that class and size. Across the middle, as in packed structs: memory. */
static void put_scalar(enum class class, uint64_t size, uint64_t offset, enum class classes[2])
{
	uint64_t align = size > 8 ? 8 : size;

	if (size == 0 || offset % align || offset + size > 16) {
		classes[0] = classes[1] = CLASS_MEMORY;
		return;
	}
	classes[offset / 8] = merge(classes[offset / 8], class);
	if (size > 8)
		classes[1] = merge(classes[1], class == CLASS_SSE ? CLASS_SSE_UP : class);
}

/* The alignment that a struct's bit fields ask for; 1: packed. */
static uint64_t bit_alignment(const struct type *type, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;
	struct type element = *type;
	uint64_t align = 1;

	if (type->kind == TYPE_ARRAY)
		type_count(type, &element);
	if ((element.kind != TYPE_STRUCT && element.kind != TYPE_UNION) || depth > DEPTH_MAX ||
	    ++steps > STEPS_MAX)
		return 1;
	while (type_next_member(&element, &walk, &member)) {
		uint64_t wanted =
			member.bit_size ? member.type.size : bit_alignment(&member.type, depth + 1);

		align = wanted > align && wanted <= 8 ? wanted : align;
	}
	return element.size % align ? 1 : align;
}

/*
 * clang checks the alignment of a struct in a struct, gcc only that of the numbers in it. They
 * differ if only a bit field asks for more: packed { int; struct { float; long : 26; }; }.
 */
static bool is_misplaced(const struct type *type, uint64_t offset)
{
	return is_llvm && offset % bit_alignment(type, 0) != 0;
}

static void put_members(const struct type *type, uint64_t offset, enum class classes[2],
			unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;

	while (type_next_member(type, &walk, &member)) {
		uint64_t at = offset + member.offset;

		if (!member.bit_size && is_misplaced(&member.type, at)) {
			classes[0] = classes[1] = CLASS_MEMORY;
			return;
		}
		if (!member.bit_size) {
			classify(&member.type, at, classes, depth + 1);
			continue;
		}
		for (uint64_t bit = at * 8 + member.bit_offset, end = bit + member.bit_size - 1;;
		     bit = end) {
			if (bit / 64 < 2)
				classes[bit / 64] = merge(classes[bit / 64], CLASS_INT);
			if (bit == end)
				break;
		}
	}
}

/* Half of a long double beside an integer: memory. Each struct in a struct is judged by itself. */
static void put_struct(const struct type *type, uint64_t offset, enum class classes[2],
		       unsigned depth)
{
	enum class own[2] = { CLASS_NONE, CLASS_NONE };

	put_members(type, offset, own, depth);
	if (own[1] == CLASS_X87 && own[0] != CLASS_X87)
		own[0] = own[1] = CLASS_MEMORY;
	classes[0] = merge(classes[0], own[0]);
	classes[1] = merge(classes[1], own[1]);
}

static void put_array(const struct type *type, uint64_t offset, enum class classes[2],
		      unsigned depth)
{
	struct type element;
	uint64_t count = type_count(type, &element);

	for (uint64_t i = 0; i < count && element.size && offset + i * element.size < 16; i++)
		classify(&element, offset + i * element.size, classes, depth + 1);
}

static void classify(const struct type *type, uint64_t offset, enum class classes[2],
		     unsigned depth)
{
	if (depth > DEPTH_MAX || ++steps > STEPS_MAX || offset + type->size > 16) {
		classes[0] = classes[1] = CLASS_MEMORY;
		return;
	}
	switch (type->kind) {
	case TYPE_STRUCT:
	case TYPE_UNION:
		put_struct(type, offset, classes, depth);
		break;
	case TYPE_ARRAY:
		put_array(type, offset, classes, depth);
		break;
	case TYPE_COMPLEX:
		put_scalar(CLASS_SSE, type->size / 2, offset, classes);
		put_scalar(CLASS_SSE, type->size / 2, offset + type->size / 2, classes);
		break;
	case TYPE_FLOAT:
		put_scalar(is_long_double(type) ? CLASS_X87 : CLASS_SSE, type->size, offset,
			   classes);
		break;
	case TYPE_VECTOR:
		put_scalar(CLASS_SSE, type->size, offset, classes);
		break;
	default:
		put_scalar(CLASS_INT, type->size, offset, classes);
	}
}

static uint64_t align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) / align * align;
}

/* The alignment that explains why something is at `to` and not nearer to `from`; 8: none from 32
 * on. LLVM doesn't tell alignments; smaller gaps have other reasons (unnamed bit fields). */
static unsigned alignment_by_gap(uint64_t from, uint64_t to)
{
	unsigned align = 16;

	if (align_up(from, 8) >= to || align_up(from, align) >= to)
		return 8;
	while (align < ALIGN_MAX && align_up(from, align) < to)
		align *= 2;
	return align_up(from, align) == to ? align : 8;
}

static unsigned alignment(const struct type *type, unsigned depth);

/* The most that a member asks for, or that the gaps between members tell, if they are in order
 * (Rust's aren't). */
static unsigned struct_alignment(const struct type *type, unsigned depth)
{
	struct member_walk walk = { .started = false };
	struct member member;
	uint64_t end = 0;
	unsigned most = 8, gap = 8;
	bool in_order = true;

	while (type_next_member(type, &walk, &member)) {
		unsigned align = alignment(&member.type, depth + 1);
		unsigned by_gap = alignment_by_gap(end, member.offset);

		/* else the struct is packed */
		if (align > most && member.offset % align == 0 && type->size % align == 0)
			most = align;
		in_order &= type->kind == TYPE_UNION || member.bit_size || member.offset >= end;
		gap = by_gap > gap && type->size % by_gap == 0 ? by_gap : gap;
		if (member.offset + member.type.size > end)
			end = member.offset + member.type.size;
	}
	if (end && alignment_by_gap(end, type->size) > gap)
		gap = alignment_by_gap(end, type->size);
	return in_order && gap > most ? gap : most;
}

/* Alignment on the stack: 8, or more if a member asks for it. */
static unsigned alignment(const struct type *type, unsigned depth)
{
	Dwarf_Attribute attribute;
	Dwarf_Die die = type->die;
	struct type element;
	Dwarf_Word align;

	if (depth > DEPTH_MAX || ++steps > STEPS_MAX || type->kind == TYPE_VOID)
		return 8;
	if (dwarf_attr_integrate(&die, DW_AT_alignment, &attribute) &&
	    dwarf_formudata(&attribute, &align) == 0 && align >= 8 && align <= ALIGN_MAX)
		return (unsigned)align;
	switch (type->kind) {
	case TYPE_STRUCT:
	case TYPE_UNION:
		return struct_alignment(type, depth);
	case TYPE_ARRAY:
		type_count(type, &element);
		return alignment(&element, depth + 1);
	case TYPE_VECTOR:
		return type->size > 16 ? (unsigned)type->size : type->size == 16 ? 16 : 8;
	case TYPE_COMPLEX:
		return type->size == 32 ? 16 : 8;
	default:
		return type->size == 16 ? 16 : 8;
	}
}

/* ---- C++ classes ----------------------------------------------------------------------------- */

static bool attr_is(Dwarf_Die *die, unsigned name, uint64_t *ret_value)
{
	Dwarf_Attribute attribute;
	Dwarf_Word value;

	if (!dwarf_attr(die, name, &attribute) || dwarf_formudata(&attribute, &value) != 0)
		return false;
	*ret_value = value;
	return true;
}

/* A destructor, copy or move constructor that the source defines. */
static bool is_special(const struct type *type, Dwarf_Die *method)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = type->die;
	const char *class = debug_name(&die), *name = debug_name(method);
	struct parameter parameter;
	uint64_t defaulted;
	size_t count = 0, length;

	if (!class || !name || dwarf_hasattr(method, DW_AT_artificial) ||
	    (attr_is(method, DW_AT_defaulted, &defaulted) && defaulted == DEFAULTED_IN_CLASS))
		return false;
	if (name[0] == '~')
		return true;
	length = strcspn(class, "<");
	if (strncmp(name, class, length) != 0 || (name[length] && name[length] != '<'))
		return false;
	while (debug_next_parameter(method, &walk, &parameter)) {
		struct type target;

		if (count++ != 1)
			continue;
		type_target(&parameter.type, &target);
		if (parameter.type.kind != TYPE_REFERENCE || target.kind != TYPE_STRUCT ||
		    dwarf_dieoffset(&target.die) != dwarf_dieoffset(&die))
			return false;
	}
	return count == 2;
}

static bool is_by_address(const struct type *type, unsigned depth)
{
	struct member_walk walk = { .started = false };
	Dwarf_Die die = type->die, child;
	struct member member;
	uint64_t value;

	if ((type->kind != TYPE_STRUCT && type->kind != TYPE_UNION) || depth > DEPTH_MAX ||
	    ++steps > STEPS_MAX)
		return false;
	if (attr_is(&die, DW_AT_calling_convention, &value))
		return value == PASS_BY_REFERENCE;
	if (dwarf_hasattr(&die, DW_AT_containing_type))
		return true;
	if (dwarf_child(&die, &child) == 0) {
		do {
			if (dwarf_tag(&child) == DW_TAG_subprogram && is_special(type, &child))
				return true;
		} while (dwarf_siblingof(&child, &child) == 0);
	}
	while (type_next_member(type, &walk, &member)) {
		if (is_by_address(&member.type, depth + 1))
			return true;
	}
	return false;
}

/* ---- arguments ------------------------------------------------------------------------------- */

static void put_piece(struct abi_value *value, enum abi_where where, uint8_t reg, uint64_t offset,
		      uint64_t size)
{
	value->pieces[value->count++] = (struct abi_piece){
		.where = where, .reg = reg, .offset = (uint32_t)offset, .size = (uint32_t)size
	};
}

static void put_stack(struct abi_state *state, const struct type *type, struct abi_value *value)
{
	int32_t align = (int32_t)alignment(type, 0);

	state->stack = (state->stack + align - 1) / align * align;
	put_piece(value, ABI_STACK, 0, 0, type->size);
	value->pieces[0].disp = 8 + state->stack; /* past the return address */
	if (type->size < INT32_MAX / 4)
		state->stack += (int32_t)((type->size + 7) / 8 * 8);
}

/* A pointer to the value, where an argument of that type would be. */
static void put_address(struct abi_state *state, struct abi_value *value)
{
	struct type pointer = { .kind = TYPE_POINTER, .size = 8 };

	value->is_behind = true;
	if (state->ints < ARGUMENT_INTS)
		put_piece(value, ABI_INT, int_regs[state->ints++], 0, 8);
	else
		put_stack(state, &pointer, value);
}

static void put_registers(struct abi_state *state, const struct type *type,
			  const enum class classes[2], struct abi_value *value)
{
	for (unsigned i = 0; i < 2; i++) {
		uint64_t left = type->size - 8 * i;

		if (8 * i >= type->size)
			break;
		if (classes[i] == CLASS_INT)
			put_piece(value, ABI_INT, int_regs[state->ints++], 8 * i,
				  left < 8 ? left : 8);
		else if (classes[i] == CLASS_SSE)
			put_piece(value, ABI_SSE, (uint8_t)state->sses++, 8 * i,
				  i == 0 && classes[1] == CLASS_SSE_UP ? left :
				  left < 8			       ? left :
									 8);
	}
}

static bool fits(const struct abi_state *state, const enum class classes[2])
{
	unsigned ints = (classes[0] == CLASS_INT) + (classes[1] == CLASS_INT);
	unsigned sses = (classes[0] == CLASS_SSE) + (classes[1] == CLASS_SSE);

	return state->ints + ints <= ARGUMENT_INTS && state->sses + sses <= ARGUMENT_SSES;
}

/* A wide vector is one register, of which only the xmm part is read. */
static void put_wide(struct abi_state *state, const struct type *type, struct abi_value *value)
{
	if (state->sses < ARGUMENT_SSES)
		put_piece(value, ABI_SSE, (uint8_t)state->sses++, 0, 16);
	else
		put_stack(state, type, value);
}

static bool is_aggregate(const struct type *type)
{
	return type->kind == TYPE_STRUCT || type->kind == TYPE_UNION || type->kind == TYPE_ARRAY;
}

/* ---- Rust ------------------------------------------------------------------------------------ */

static void put_number(struct abi_state *state, const struct rust_number *number,
		       struct abi_value *value)
{
	bool is_float = number->kind == TYPE_FLOAT;

	if (is_float && state->sses < ARGUMENT_SSES) {
		put_piece(value, ABI_SSE, (uint8_t)state->sses++, number->offset, number->size);
	} else if (!is_float && state->ints < ARGUMENT_INTS) {
		put_piece(value, ABI_INT, int_regs[state->ints++], number->offset, number->size);
	} else {
		put_piece(value, ABI_STACK, 0, number->offset, number->size);
		value->pieces[value->count - 1].disp = 8 + state->stack;
		state->stack += 8;
	}
}

static bool is_by_rust_address(const struct type *type, enum rust_layout layout)
{
	return type->size > 16 || (layout == RUST_OTHER && type->size > 8);
}

static void next_rust(struct abi_state *state, const struct type *type, struct abi_value *value)
{
	struct rust_number numbers[2], word = { 0, type->size, TYPE_INT };
	enum rust_layout layout = rust_layout(type, numbers);

	state->is_lost |= layout == RUST_UNKNOWN && type->size <= 16;
	if (state->is_lost) {
		value->is_known = false;
	} else if (is_by_rust_address(type, layout)) {
		put_address(state, value);
	} else if (layout == RUST_OTHER) {
		put_number(state, &word, value);
	} else {
		put_number(state, &numbers[0], value);
		if (layout == RUST_PAIR)
			put_number(state, &numbers[1], value);
	}
}

static void rust_result(const struct type *type, struct abi_value *ret_value)
{
	struct rust_number numbers[2], word = { 0, type->size, TYPE_INT };
	enum rust_layout layout = rust_layout(type, numbers);
	struct abi_value value = { .is_known = layout != RUST_UNKNOWN || type->size > 16 };
	unsigned ints = 0, sses = 0;

	if (is_by_rust_address(type, layout)) {
		value.is_behind = true;
		put_piece(&value, ABI_INT, result_regs[0], 0, 8);
	} else if (value.is_known) {
		if (layout == RUST_OTHER)
			numbers[0] = word;
		for (unsigned i = 0; i < (layout == RUST_PAIR ? 2 : 1); i++)
			put_piece(&value, numbers[i].kind == TYPE_FLOAT ? ABI_SSE : ABI_INT,
				  numbers[i].kind == TYPE_FLOAT ? (uint8_t)sses++ :
								  result_regs[ints++],
				  numbers[i].offset, numbers[i].size);
	}
	*ret_value = value;
}

void abi_next(struct abi_state *state, const struct type *type, struct abi_value *ret_value)
{
	enum class classes[2] = { CLASS_NONE, CLASS_NONE };
	struct abi_value value = { .is_known = true };

	steps = 0;
	is_llvm = state->is_llvm;
	*ret_value = (struct abi_value){ .is_known = false };
	if (type->kind == TYPE_VOID || (type->size == 0 && !is_aggregate(type)))
		return;
	if (type->size == 0) {
		*ret_value = value; /* nothing to pass */
		return;
	}
	if (state->is_lost)
		return;
	if (state->is_rust && is_aggregate(type)) {
		next_rust(state, type, &value);
		*ret_value = value;
		return;
	}
	if (is_by_address(type, 0)) {
		put_address(state, &value);
		*ret_value = value;
		return;
	}
	if (type->kind == TYPE_VECTOR && type->size > 16) {
		put_wide(state, type, &value);
		*ret_value = value;
		return;
	}
	classify(type, 0, classes, 0);
	if (classes[0] == CLASS_NONE && classes[1] == CLASS_NONE)
		value.count = 0; /* an empty class */
	else if (classes[0] >= CLASS_X87 || classes[1] >= CLASS_X87 || !fits(state, classes))
		put_stack(state, type, &value);
	else
		put_registers(state, type, classes, &value);
	*ret_value = value;
}

void abi_start(const struct debug_function *function, struct abi_state *ret_state)
{
	struct abi_state state = { .is_rust = debug_function_is_rust(function),
				   .is_llvm = debug_function_is_llvm(function) };
	enum class classes[2] = { CLASS_NONE, CLASS_NONE };
	Dwarf_Die die = function->die;
	struct type result;

	steps = 0;
	is_llvm = state.is_llvm;
	type_of(&die, &result);
	if (state.is_rust && is_aggregate(&result)) {
		struct rust_number numbers[2];
		enum rust_layout layout = rust_layout(&result, numbers);

		state.ints = is_by_rust_address(&result, layout);
		state.is_lost = layout == RUST_UNKNOWN && result.size && result.size <= 16;
	} else if (result.kind != TYPE_VOID && !(result.kind == TYPE_VECTOR && result.size > 16)) {
		classify(&result, 0, classes, 0);
		if (is_by_address(&result, 0) || classes[0] == CLASS_MEMORY ||
		    (classes[1] == CLASS_MEMORY))
			state.ints = 1;
		/* _Complex long double exceeds the classes, but is returned in st0 and st1. */
		if (result.kind == TYPE_COMPLEX)
			state.ints = 0;
	}
	*ret_state = state;
}

void abi_result(const struct debug_function *function, const struct type *type,
		struct abi_value *ret_value)
{
	enum class classes[2] = { CLASS_NONE, CLASS_NONE };
	struct abi_value value = { .is_known = true };
	unsigned ints = 0, sses = 0;

	steps = 0;
	is_llvm = debug_function_is_llvm(function);
	*ret_value = (struct abi_value){ .is_known = false };
	if (type->kind == TYPE_VOID || (type->kind == TYPE_VECTOR && type->size > 16))
		return;
	if (type->kind == TYPE_COMPLEX && type->size == 32) {
		put_piece(&value, ABI_X87, 0, 0, 16);
		put_piece(&value, ABI_X87, 1, 16, 16);
		*ret_value = value;
		return;
	}
	if (debug_function_is_rust(function) && is_aggregate(type)) {
		rust_result(type, ret_value);
		return;
	}
	classify(type, 0, classes, 0);
	if (is_by_address(type, 0) || classes[0] == CLASS_MEMORY || classes[1] == CLASS_MEMORY) {
		value.is_behind = true;
		put_piece(&value, ABI_INT, result_regs[0], 0, 8);
	} else if (classes[0] == CLASS_X87) {
		put_piece(&value, ABI_X87, 0, 0, 10);
	} else {
		for (unsigned i = 0; i < 2 && 8 * i < type->size; i++) {
			uint64_t left = type->size - 8 * i;

			if (classes[i] == CLASS_INT)
				put_piece(&value, ABI_INT, result_regs[ints++], 8 * i,
					  left < 8 ? left : 8);
			else if (classes[i] == CLASS_SSE)
				put_piece(&value, ABI_SSE, (uint8_t)sses++, 8 * i,
					  classes[1] == CLASS_SSE_UP ? left :
					  left < 8		     ? left :
								       8);
		}
	}
	*ret_value = value;
}
