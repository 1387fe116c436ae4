/*
 * symtab_state.h - the inside of struct symtab, for elf/ and for readers of ELF tables in modules/
 * and names/.
 *
 * Parts that not every user needs (unwind ranges, relocations, the hash of names, the segments'
 * bytes) are read on first use: a const struct symtab has constant answers, but not constant
 * members. One thread at a time.
 *
 * (I3) symbols are sorted by address, then name; no two have the same address and name.
 * (I4) a symbol of kind FUNCTION or IFUNC starts in an executable segment's bytes and ends in it.
 * (I5) reach[i] is the highest end of the functions 0..i.
 */
#ifndef DYNTRACE_SYMTAB_STATE_H
#define DYNTRACE_SYMTAB_STATE_H

#include "control/base/vec.h"
#include "elf_image.h"
#include "ranges.h"
#include "symtab.h"

struct relocation {
	uint64_t address;
	uint64_t addend;
};

struct relocations {
	struct relocation *items; /* RELATIVE, sorted by address */
	size_t count;
	size_t room;
};

struct format;

/* go_functions.c: Go's table of functions. */
struct go_table {
	const struct format *format; /* NULL: none */
	uint64_t address; /* of the table */
	struct bytes bytes, names, functions; /* all of it, its names, its list and records */
	uint64_t functions_at; /* offset of the latter */
	uint64_t count;
	uint64_t text; /* addresses of functions count from there */
};

struct bound_name {
	uint64_t word; /* its address */
	struct bound_function function;
};

struct symtab {
	struct elf_image image;
	struct {
		struct symbol *items;
		size_t count;
		size_t room;
	} symbols;
	VEC(char *) cut_names; /* copies without versions; other names lie in the image */
	uint64_t *reach;
	uint32_t *buckets; /* hash of names: index + 1 of the first symbol */
	uint32_t *chain; /* ... of the next */
	size_t bucket_mask;
	struct ranges fdes;
	bool fdes_read;
	struct relocations relocations;
	bool relocations_read;
	VEC(struct symtab_jump) jumps; /* sorted by target, then place; see symtab_jumps_to */
	bool jumps_read;
	VEC(struct bound_name) bound; /* sorted by word; see symtab_bound_name */
	bool bound_read;
	struct go_table go;
	bool go_read;
	bool is_go, is_go_known; /* see symtab_is_go */
	uint64_t unwinder_find; /* see symtab_hidden_unwinder */
	bool has_hidden_unwinder, unwinder_known;
	struct text_range *texts; /* returned by symtab_text, one per segment */
};

/* For filling in a part on first use. */
static inline struct symtab *symtab_lazy(const struct symtab *symtab)
{
	return (struct symtab *)symtab;
}

/* symbols.c: reads the tables into `symbols` and makes I3 true. */
struct error *symbols_read(struct symtab *symtab);
/* symbols.c: gives sizes to functions without one; makes I4 and I5 true. */
struct error *symbols_measure(struct symtab *symtab);

/* symtab.c: code of all FDEs. */
const struct ranges *symtab_fdes(const struct symtab *symtab);

/* entry.c: the address of main, as the start code passes it; false: not found. */
bool entry_find_main(const struct symtab *symtab, uint64_t *ret_address);

/* relocs.c: all relocations of the dynamic table, those of the PLT included. */
void relocs_each(const struct symtab *symtab, void (*found)(void *context, const Elf64_Rela *rela),
		 void *context);
/* A 64-bit word of any segment, as if the file were loaded at 0. */
bool relocs_read_word(const struct symtab *symtab, uint64_t address, uint64_t *ret_word);

#endif
