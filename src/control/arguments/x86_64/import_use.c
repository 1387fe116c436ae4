#include "control/arguments/import_use.h"

#include <string.h>

#include "control/arguments/argument_use.h"
#include "control/arguments/register_effect.h"
#include "control/prototypes/prototypes.h"

#define STUB_MAX 2u /* instructions of an entry of the linkage table, up to its jump */

bool import_read_insn(const struct symtab *symtab, uint64_t at, struct insn *ret_insn)
{
	const struct text_range *text = symtab_text(symtab, at);

	return text && decode(text->bytes + (at - text->address), text->address + text->size - at,
			      taddr_of(at), ret_insn);
}

/* Other allocators take the place of libc's, and have no versions. */
static bool is_allocator(const char *name)
{
	static const char *const names[] = { "malloc",	       "calloc",	"realloc",
					     "free",	       "aligned_alloc", "memalign",
					     "posix_memalign", "malloc_usable_size" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

/* A function without a version may be anybody's. */
static const struct prototype *find_prototype(const struct bound_function *function)
{
	if (!function->library && !is_allocator(function->name))
		return NULL;
	return prototypes_find_shipped(function->library ? function->library : "libc.so",
				       function->name);
}

static uint8_t parameter_registers(const struct prototype *prototype)
{
	unsigned count = 0;

	for (size_t i = 0; i < prototype->count; i++) {
		const struct type *type = &prototype->parameters[i].type;

		if (type->kind != TYPE_FLOAT)
			count += type->size > 8 ? 2 : 1;
	}
	return count < ARGUMENT_REGISTERS ? (uint8_t)((1u << count) - 1) : ARGUMENTS_ALL;
}

/* The variadic functions that take one argument more at most, in the next register. */
static bool takes_one_more(const char *name)
{
	static const char *const names[] = { "open",  "open64",	 "openat", "openat64",
					     "fcntl", "fcntl64", "ioctl" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

/* __fentry__ and the like leave all registers alone: so may others without a prototype. */
static struct import_use use_of(const struct bound_function *function)
{
	const struct prototype *prototype = find_prototype(function);
	struct import_use use = { .doubts = ARGUMENTS_ALL, .results = RESULT_REGISTERS };

	if (!strcmp(function->name, "__stack_chk_fail"))
		return (struct import_use){ .clobbers = ARGUMENTS_ALL };
	if (!prototype)
		return use;
	use.clobbers = ARGUMENTS_ALL;
	use.returns = prototype->result.kind != TYPE_VOID; /* exit, abort, longjmp: void */
	use.results = prototype->result.size > 8 ? RESULT_REGISTERS : 0;
	use.reads = parameter_registers(prototype);
	use.doubts = !prototype->is_variadic	     ? 0 :
		     takes_one_more(function->name) ? use.reads + 1u :
						      ARGUMENTS_ALL & (uint8_t)~use.reads;
	return use;
}

/* call [rax]: may ask for a thread-local variable, and leave all other registers alone. A jump that
 * wasn't followed may be one of a switch, in a function that leaves registers alone. */
static bool may_leave_registers(const struct insn *insn)
{
	const ZydisDecodedOperand *operand = &insn->operands[0];

	if (insn->flow == FLOW_JUMP_INDIRECT)
		return true;
	return operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
	       operand->mem.base == ZYDIS_REGISTER_RAX &&
	       operand->mem.index == ZYDIS_REGISTER_NONE && !operand->mem.disp.value;
}

struct import_use import_use_of(const struct symtab *symtab, const struct insn *insn)
{
	const struct bound_function *function =
		insn->rip_relative ? symtab_bound(symtab, insn->rip_target.v) : NULL;

	if (function)
		return use_of(function);
	if (may_leave_registers(insn))
		return (struct import_use){ .doubts = ARGUMENTS_ALL };
	return (struct import_use){ .doubts = ARGUMENTS_ALL,
				    .clobbers = ARGUMENTS_ALL,
				    .results = RESULT_REGISTERS };
}

bool import_use_at(const struct symtab *symtab, uint64_t target, struct import_use *ret_use)
{
	struct insn insn;

	for (unsigned i = 0; i < STUB_MAX && import_read_insn(symtab, target, &insn); i++) {
		if (insn.flow == FLOW_JUMP_INDIRECT && insn.rip_relative &&
		    symtab_bound(symtab, insn.rip_target.v)) {
			*ret_use = import_use_of(symtab, &insn);
			return true;
		}
		if (insn.zydis.mnemonic != ZYDIS_MNEMONIC_ENDBR64)
			return false;
		target += insn.length;
	}
	return false;
}
