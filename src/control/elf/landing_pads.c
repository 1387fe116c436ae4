/*
 * landing_pads.c - addresses that code reaches by something else than its own branches.
 *
 * Landing pads: a function with clean-ups or handlers has a table of its calls (LSDA). It gives,
 * for each range of code, where the unwinder continues when an exception leaves the range.
 *
 *	u8 encoding, then the base of landing pads (omitted: the function's start)
 *	u8 encoding, then uleb: the types, not needed here
 *	u8 encoding, uleb length of the table
 *	entries: start, length, landing pad (0: none), uleb action
 *
 * Restartable sequences: struct rseq_cs in section __rseq_cs gives the code that the kernel
 * restarts after an interruption, and where it continues.
 */
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "cursor.h"
#include "eh_frame.h"
#include "go_functions.h"
#include "symtab_state.h"

struct rseq_cs {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

/* As take_encoded; ULEB128 is allowed too. */
static uint64_t take_number(struct cursor *c, uint8_t encoding)
{
	return (encoding & ENCODING_FORMAT) == ENCODING_ULEB ? take_uleb(c) :
							       take_encoded(c, encoding);
}

struct pads {
	const struct symtab *symtab;
	void (*found)(void *context, uint64_t address);
	void *context;
};

static bool read_lsda(void *context, const struct eh_frame_fde *fde)
{
	const struct pads *pads = context;
	const struct elf_image *image = &pads->symtab->image;
	struct segment *segment = fde->lsda ? elf_image_segment(image, fde->lsda) : NULL;
	const uint8_t *all = segment ? elf_image_segment_bytes(image, segment) : NULL;

	if (!all)
		return true;
	const uint8_t *lsda = all + (fde->lsda - segment->address);
	struct cursor c = { lsda, all + segment->file_size, false };
	uint64_t base = fde->start;
	uint8_t encoding = (uint8_t)take(&c, 1);

	if (encoding != ENCODING_OMIT) {
		uint64_t here = fde->lsda + (uint64_t)(c.at - lsda);

		base = take_encoded(&c, encoding);
		if ((encoding & ENCODING_BASE) == ENCODING_PC_RELATIVE)
			base += here;
	}
	if (take(&c, 1) != ENCODING_OMIT)
		skip_leb(&c);
	encoding = (uint8_t)take(&c, 1);
	c = take_block(&c);
	while (c.at < c.end && !c.failed) {
		take_number(&c, encoding);
		take_number(&c, encoding);
		uint64_t pad = take_number(&c, encoding);

		skip_leb(&c);
		if (pad && !c.failed)
			pads->found(pads->context, base + pad);
	}
	return true;
}

void symtab_each_landing_pad(const struct symtab *symtab,
			     void (*found)(void *context, uint64_t address), void *context)
{
	struct pads pads = { symtab, found, context };

	eh_frame_each(&symtab->image, read_lsda, &pads);
}

void symtab_each_function_start(const struct symtab *symtab,
				void (*found)(void *context, uint64_t address), void *context)
{
	const struct ranges *fdes = symtab_fdes(symtab);

	for (size_t i = 0; i < fdes->count; i++)
		found(context, fdes->items[i].start);
	for (size_t i = 0; i < symtab_count(symtab); i++) {
		if (symtab_get(symtab, i)->kind != SYMBOL_OBJECT)
			found(context, symtab_get(symtab, i)->address);
	}
	found(context, symtab_entry(symtab));
}

void symtab_each_rseq(const struct symtab *symtab,
		      void (*found)(void *context, uint64_t start, uint64_t end, uint64_t abort),
		      void *context)
{
	const Elf64_Shdr *section = elf_image_section(&symtab->image, "__rseq_cs");
	uint64_t end = section ? section->sh_addr + section->sh_size : 0;

	for (uint64_t at = section ? section->sh_addr : 0; at + sizeof(struct rseq_cs) <= end;
	     at += sizeof(struct rseq_cs)) {
		uint64_t start, length, abort;

		if (relocs_read_word(symtab, at + offsetof(struct rseq_cs, start), &start) &&
		    relocs_read_word(symtab, at + offsetof(struct rseq_cs, length), &length) &&
		    relocs_read_word(symtab, at + offsetof(struct rseq_cs, abort), &abort))
			found(context, start, start + length, abort);
	}
}

bool symtab_has_loader(const struct symtab *symtab)
{
	return symtab->image.has_interpreter;
}

static bool find_go(const struct symtab *symtab)
{
	return go_functions_exist(symtab) || elf_image_section(&symtab->image, ".gopclntab") ||
	       elf_image_section(&symtab->image, ".note.go.buildid") ||
	       elf_image_section(&symtab->image, ".data.rel.ro.gopclntab") ||
	       symtab_find(symtab, "runtime.asyncPreempt") ||
	       symtab_find(symtab, "runtime.morestack");
}

/* Asked for each function. */
bool symtab_is_go(const struct symtab *symtab)
{
	if (!symtab->is_go_known) {
		symtab_lazy(symtab)->is_go = find_go(symtab);
		symtab_lazy(symtab)->is_go_known = true;
	}
	return symtab->is_go;
}

bool symtab_has_handlers(const struct symtab *symtab)
{
	return elf_image_section(&symtab->image, ".gcc_except_table");
}
