/*
 * sym.h - the names in a file, and the files of a process.
 *
 * libelf and libdw read the files, which are hostile input: nothing here trusts an offset, a size or
 * a string in them. Addresses in a struct symtab are the file's own (vaddr); a struct module adds
 * where it is loaded.
 */
#ifndef DYNTRACE_SYM_SYM_H
#define DYNTRACE_SYM_SYM_H

#include "../proc/proc.h"

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_IFUNC, SYMBOL_OBJECT };
enum symbol_source { SOURCE_SYMTAB, SOURCE_DYNSYM, SOURCE_ENTRY, SOURCE_EH_FRAME };

struct symbol {
	const char *name; /* owned by the symtab; version suffixes (@GLIBC_2.2.5) are cut off */
	uint64_t address; /* vaddr in the file */
	uint64_t size; /* never 0 for a function where .eh_frame or the next symbol tells it */
	enum symbol_kind kind;
	enum symbol_source source;
	bool global;
};

/* Executable bytes of the file, as mapped (PT_LOAD with PF_X). */
struct text_range {
	uint64_t address; /* vaddr */
	uint64_t size;
	const uint8_t *bytes; /* a private copy, owned by the symtab */
};

struct symtab;

/* Reads it all: .symtab, .dynsym, main from the entry point (when no symbol has that name),
 * sizes from .eh_frame. `path` is for messages. */
struct error *symtab_open(int fd, const char *path, struct symtab **ret_symtab);
void symtab_close(struct symtab *symtab);

size_t symtab_count(const struct symtab *symtab);
const struct symbol *symtab_get(const struct symtab *symtab, size_t index); /* sorted by address, then name */
const struct symbol *symtab_find(const struct symtab *symtab, const char *name); /* functions first; NULL: none */
/* The function that contains the address; NULL: none. The best name: global before local, shorter before longer. */
const struct symbol *symtab_at(const struct symtab *symtab, uint64_t address);
/* Bounds of the function at this address from .eh_frame; false: no FDE covers it. */
bool symtab_fde(const struct symtab *symtab, uint64_t address, uint64_t *ret_start, uint64_t *ret_end);
/* The executable range that contains the address; NULL: none. */
const struct text_range *symtab_text(const struct symtab *symtab, uint64_t address);
/* Read-only data (PT_LOAD without PF_X or PF_W, and relro) at a vaddr, for jump tables: how many bytes were
 * copied to `to`, at most n. Relocated 64-bit words (RELATIVE relocations) are given as their addend. */
size_t symtab_data(const struct symtab *symtab, uint64_t address, void *to, size_t n);
/* Calls back with every address of text that data may hold: addends of RELATIVE and RELR relocations, values of symbols
 * that R_X86_64_64 relocations name, and, aligned, 64-bit words of any data segment (also .data) that are such an address as they
 * stand in the file (programs at fixed addresses). Needed by the planner: one address too many is fine, one too few isn't. */
void symtab_each_pointer(const struct symtab *symtab, void (*found)(void *context, uint64_t address), void *context);
uint64_t symtab_low(const struct symtab *symtab); /* lowest and highest vaddr of all PT_LOADs */
uint64_t symtab_high(const struct symtab *symtab);
uint64_t symtab_entry(const struct symtab *symtab);
bool symtab_has_text_relocations(const struct symtab *symtab);
/* Up to `max` function names near the misspelt one, best first. Returns how many. */
size_t symtab_near(const struct symtab *symtab, const char *name, const char **names, size_t max);

/* ---- modules of a process (module.c) ------------------------------------------------------------ */

struct module {
	char *path; /* as in maps */
	const char *name; /* its last component */
	taddr bias; /* added to the file's addresses */
	taddr low, high; /* what it covers in memory */
	bool is_executable; /* the program itself */
	bool is_vdso;
	struct symtab *symtab; /* opened on first use by module_symtab */
	struct error *symtab_error; /* why it couldn't be */
	int root_fd; /* -1, or where to open the path: /proc/PID/root */
	uint64_t device, inode;
};

struct modules {
	struct module **items; /* the program first, then in address order of its libraries; stable pointers */
	size_t count;
	size_t room;
};

/* From maps: each file mapped with execute permission. Files are opened through /proc/PID/map_files
 * or /proc/PID/exe or /proc/PID/root + path, so that deleted, replaced and containerised files work: the inode must be
 * the mapped one. */
struct error *modules_read(struct proc *proc, const struct maps *maps, struct modules *ret_modules);
struct error *module_symtab(struct proc *proc, struct module *module, struct symtab **ret_symtab);
void modules_free(struct modules *modules);

/* ---- locations (locate.c) ------------------------------------------------------------------------ */

/* A LOC of the command line, parsed: SYMBOL, SYMBOL+OFFSET, ADDRESS, each with @MODULE; a SYMBOL may be a glob. */
struct location {
	char *text; /* as given */
	char *symbol; /* NULL: an address */
	bool is_glob;
	uint64_t number; /* the offset or address; C-like bases */
	char *module; /* NULL: any */
};

struct error *location_parse(const char *text, struct location *ret_location);
void location_clear(struct location *location);

/* A place found. */
struct place {
	struct module *module; /* borrowed */
	const struct symbol *symbol; /* the function that contains it; NULL: none known */
	taddr address; /* in the process */
	char *name; /* "main", "main+0x10", "0x401136": what events are called after. Owned. */
};

struct places {
	struct place *items;
	size_t count;
	size_t room;
};

/*
 * Finds every place a location means. Without @MODULE a glob means the program itself; a name means
 * the program, else the first library that has it. Symbols that share an address count once. Fails with: symbol
 * not found (up to three near names), not a function (data), no such module (near names), address outside any
 * module's code, want_function and not a function's first instruction.
 */
struct error *locate(struct proc *proc, struct modules *modules, const struct location *location,
		     bool want_function, struct places *ret_places);
void places_free(struct places *places);

#endif
