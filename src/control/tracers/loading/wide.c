#include "wide.h"

#include "shared/layout.h"
#include "control/code/decode.h"

#define TEXT_MAX (16u << 20)

/* Decodes instruction by instruction; bytes that are no instruction may be data and hide others. */
static bool is_wide_range(const struct text_range *text)
{
	struct insn insn;

	for (uint64_t at = 0; at < text->size; at += insn.length) {
		insn.length = 1;
		/* padding between sections; compilers emit no instruction that begins with 0 */
		if (!text->bytes[at])
			continue;
		if (!decode_quick(text->bytes + at, text->size - at, taddr_of(text->address + at),
				  &insn))
			return true;
		if (insn.zydis.encoding != ZYDIS_INSTRUCTION_ENCODING_LEGACY)
			return true;
	}
	return false;
}

struct error *wide_look(struct proc *proc, struct module *module, bool *ret_is_wide)
{
	struct symtab *symtab;
	struct error *error = module_symtab(proc, module, &symtab);
	bool is_wide = false;

	if (error)
		return error;
	if (symtab_high(symtab) - symtab_low(symtab) > TEXT_MAX)
		is_wide = true;
	for (uint64_t at = symtab_low(symtab) / DT_PAGE * DT_PAGE, next;
	     !is_wide && at < symtab_high(symtab); at = next) {
		const struct text_range *text = symtab_text(symtab, at);

		next = text ? DT_ROUND_UP(text->address + text->size, DT_PAGE) : at + DT_PAGE;
		is_wide = text && is_wide_range(text);
	}
	*ret_is_wide = is_wide;
	return NULL;
}
