/*
 * symtab.h - the symbols, the text and the read-only data of an ELF file.
 *
 * Files are hostile input: nothing here trusts an offset, a size or a string in them, and names
 * with control characters aren't names. Addresses are the file's own (vaddr); struct module
 * (modules/module.h) adds where the file is loaded.
 */
#ifndef DYNTRACE_SYMTAB_H
#define DYNTRACE_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_IFUNC, SYMBOL_OBJECT };
enum symbol_source {
	SOURCE_SYMTAB,
	SOURCE_DYNSYM,
	SOURCE_ENTRY,
	SOURCE_EH_FRAME,
	SOURCE_DEBUG,
	SOURCE_DEBUGDATA,
	SOURCE_PLT,
	SOURCE_GO /* the table for walking stacks (go_functions.h) */
};

struct symbol {
	const char *name; /* owned by the symtab; version suffixes (@GLIBC_2.2.5) are cut off */
	uint64_t address; /* vaddr in the file */
	uint64_t size; /* 0 for a function only if neither .eh_frame nor a later symbol bounds it */
	enum symbol_kind kind;
	enum symbol_source source;
	bool global;
	bool old_version; /* foo@V, kept for old programs; foo@@V is the version to link with */
};

/* True if this is the better of two names for one address: function before data, then default
 * version, then global, then shorter. */
bool symbol_is_better(const struct symbol *symbol, const struct symbol *than);

/* Executable bytes of the file, as mapped (PT_LOAD with PF_X). */
struct text_range {
	uint64_t address; /* vaddr */
	uint64_t size;
	const uint8_t *bytes; /* a private copy, owned by the symtab */
};

struct symtab;

/* Reads .symtab, .dynsym, without .symtab Go's own table, main from the entry point (if no symbol
 * has that name) and sizes from .eh_frame. `path` is for messages. */
struct error *symtab_open(int fd, const char *path, struct symtab **ret_symtab);
void symtab_close(struct symtab *symtab);

size_t symtab_count(const struct symtab *symtab);
/* Sorted by address, then name. */
const struct symbol *symtab_get(const struct symtab *symtab, size_t index);
/* Functions first, then the version to link with, then global ones. NULL: none. */
const struct symbol *symtab_find(const struct symtab *symtab, const char *name);
/* Every symbol of that name, from the lowest address on; NULL: no more. */
const struct symbol *symtab_first_named(const struct symtab *symtab, const char *name);
const struct symbol *symtab_next_named(const struct symtab *symtab, const struct symbol *symbol);
/* The function that contains the address; NULL: none. The best name: global before local, shorter
 * before longer. */
const struct symbol *symtab_at(const struct symtab *symtab, uint64_t address);
/* Bounds of the function at this address from .eh_frame; false: no FDE covers it. */
bool symtab_fde(const struct symtab *symtab, uint64_t address, uint64_t *ret_start,
		uint64_t *ret_end);
/* Calls back with the text that unwind tables cover, by address: all text except stretches of `gap`
 * bytes or more without FDEs. A file without any FDE counts as covered. */
#define SYM_UNCOVERED_MIN (512u << 10) /* a static musl libc without tables is smaller */
void symtab_each_unwind_covered(const struct symtab *symtab, uint64_t gap,
				void (*found)(void *context, uint64_t start, uint64_t end),
				void *context);
/* The executable range that contains the address; NULL: none. */
const struct text_range *symtab_text(const struct symtab *symtab, uint64_t address);
/* Copies up to n bytes at an address of text; returns how many. Unlike those of symtab_text, they
 * aren't kept: for a look at a few places of a file. */
size_t symtab_peek(const struct symtab *symtab, uint64_t address, void *to, size_t n);
struct symtab_jump {
	uint64_t to, from;
};
/* Bytes that look like direct calls of, or jumps to, the function at this address. Made on first
 * use, in one pass over all text: some may be in the middle of an instruction. */
const struct symtab_jump *symtab_jumps_to(const struct symtab *symtab, uint64_t function,
					  size_t *ret_count);
/* A function of another file. */
struct bound_function {
	const char *name;
	const char *library; /* "libc.so.6", as its version says; NULL: it has no version */
};
/* bound_names.c: the function whose address the loader stores in that word (of the global offset
 * table); NULL: none is named. */
const struct bound_function *symtab_bound(const struct symtab *symtab, uint64_t word);
/* Has the file such a word for a function of that name? */
bool symtab_binds(const struct symtab *symtab, const char *name);
/* The function to which an entry of the linkage table at the address leads; NULL: no such entry. */
const struct bound_function *symtab_linked(const struct symtab *symtab, uint64_t address);
/* Copies read-only data (PT_LOAD without PF_W, and relro) at a vaddr, for jump tables. Returns how
 * many bytes, at most n. Words with RELATIVE relocations hold their addend. */
size_t symtab_data(const struct symtab *symtab, uint64_t address, void *to, size_t n);
/* Calls back with every address of text that data may hold: addends of RELATIVE and RELR
 * relocations, values of symbols that absolute relocations name, and aligned 64-bit words of any
 * data segment (also .data) that are an address of text as they stand in the file (programs at
 * fixed addresses). For placement: one address too many is fine, one too few isn't. */
void symtab_each_pointer(const struct symtab *symtab,
			 void (*found)(void *context, uint64_t address), void *context);
/* Calls back with every landing pad of exceptions. */
void symtab_each_landing_pad(const struct symtab *symtab,
			     void (*found)(void *context, uint64_t address), void *context);
/* Calls back with the start of every function: FDEs, symbols, the entry point. */
void symtab_each_function_start(const struct symtab *symtab,
				void (*found)(void *context, uint64_t address), void *context);
/* Calls back with every restartable sequence (H11) that the file lists. */
void symtab_each_rseq(const struct symtab *symtab,
		      void (*found)(void *context, uint64_t start, uint64_t end, uint64_t abort),
		      void *context);
/* Written in Go: goroutines are parked at any instruction and no stack tells where; stacks move. */
bool symtab_is_go(const struct symtab *symtab);
/* Bounds of a section with bytes in the file; false: none of that name. */
bool symtab_section(const struct symtab *symtab, const char *name, uint64_t *ret_start,
		    uint64_t *ret_end);
/* Does the file have handlers or clean-ups for exceptions? */
bool symtab_has_handlers(const struct symtab *symtab);
/* Has the file an unwinder without a name, because it was linked with -static-libgcc and stripped?
 * *ret_find: its function _Unwind_Find_FDE; 0: not found. */
bool symtab_hidden_unwinder(const struct symtab *symtab, uint64_t *ret_find);
struct stat;
/* fstat of the file; false: failed. */
bool symtab_file(const struct symtab *symtab, struct stat *ret_stat);
/* Does the file name a dynamic loader? A static program doesn't. */
bool symtab_has_loader(const struct symtab *symtab);
/* Lowest and highest vaddr of all PT_LOADs. */
uint64_t symtab_low(const struct symtab *symtab);
uint64_t symtab_high(const struct symtab *symtab);
uint64_t symtab_entry(const struct symtab *symtab);
bool symtab_has_text_relocations(const struct symtab *symtab);
bool symtab_is_stripped(const struct symtab *symtab); /* has no symbol of .symtab */

#endif
