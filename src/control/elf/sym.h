/*
 * sym.h - the names in a file, and the files of a process.
 *
 * Files are hostile input: nothing here trusts an offset, a size or a string in them, and names
 * with control characters aren't names. Addresses in a struct symtab are the file's own (vaddr); a
 * struct module adds where it is loaded.
 */
#ifndef DYNTRACE_SYM_H
#define DYNTRACE_SYM_H

#include "control/proc/proc.h"

enum symbol_kind { SYMBOL_FUNCTION, SYMBOL_IFUNC, SYMBOL_OBJECT };
enum symbol_source {
	SOURCE_SYMTAB,
	SOURCE_DYNSYM,
	SOURCE_ENTRY,
	SOURCE_EH_FRAME,
	SOURCE_DEBUG,
	SOURCE_DEBUGDATA,
	SOURCE_PLT
};

struct symbol {
	const char *name; /* owned by the symtab; version suffixes (@GLIBC_2.2.5) are cut off */
	uint64_t address; /* vaddr in the file */
	uint64_t size; /* never 0 for a function where .eh_frame or the next symbol tells it */
	enum symbol_kind kind;
	enum symbol_source source;
	bool global;
	bool old_version; /* foo@V, kept for old programs, where foo@@V is the one to link with */
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

/* Reads it all: .symtab, .dynsym, main from the entry point (when no symbol has that name),
 * sizes from .eh_frame. `path` is for messages. */
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
/* Calls back with the text that compilers have described, by address: all of it, but for stretches
 * of `gap` bytes or more without an unwind table. A file that has none at all counts as described. */
#define SYM_UNCOVERED_MIN (512u << 10) /* a static musl libc without tables is smaller */
void symtab_each_unwind_covered(const struct symtab *symtab, uint64_t gap,
			   void (*found)(void *context, uint64_t start, uint64_t end),
			   void *context);
/* The executable range that contains the address; NULL: none. */
const struct text_range *symtab_text(const struct symtab *symtab, uint64_t address);
/* Read-only data (PT_LOAD without PF_W, and relro) at a vaddr, for jump tables: how many bytes were
 * copied to `to`, at most n. Relocated 64-bit words (RELATIVE relocations) are given as their
 * addend. */
size_t symtab_data(const struct symtab *symtab, uint64_t address, void *to, size_t n);
/* Calls back with every address of text that data may hold: addends of RELATIVE and RELR
 * relocations, values of symbols that R_X86_64_64 relocations name, and, aligned, 64-bit words of
 * any data segment (also .data) that are such an address as they stand in the file (programs at
 * fixed addresses). Needed by the planner: one address too many is fine, one too few isn't. */
void symtab_each_pointer(const struct symtab *symtab,
			 void (*found)(void *context, uint64_t address), void *context);
/* The same with every landing pad of exceptions (landing_pads.c), and with every function's start. */
struct error *symtab_each_landing_pad(const struct symtab *symtab,
				      void (*found)(void *context, uint64_t address),
				      void *context);
void symtab_each_function_start(const struct symtab *symtab,
				void (*found)(void *context, uint64_t address), void *context);
/* The same with every restartable sequence (H11) that the file lists. */
void symtab_each_rseq(const struct symtab *symtab,
		      void (*found)(void *context, uint64_t start, uint64_t end, uint64_t abort),
		      void *context);
/* Written in Go: goroutines are parked at any instruction, and no stack tells where. */
bool symtab_is_go(const struct symtab *symtab);
/* What the kernel says of its file. */
struct stat;
bool symtab_file(const struct symtab *symtab, struct stat *ret_stat);
/* Does it name a dynamic loader? A static program doesn't. */
bool symtab_has_loader(const struct symtab *symtab);
uint64_t symtab_low(const struct symtab *symtab); /* lowest and highest vaddr of all PT_LOADs */
uint64_t symtab_high(const struct symtab *symtab);
uint64_t symtab_entry(const struct symtab *symtab);
bool symtab_has_text_relocations(const struct symtab *symtab);
bool symtab_is_stripped(const struct symtab *symtab); /* no .symtab */
/* Up to `max` function names near the misspelt one, best first. Returns how many. */
size_t symtab_near(const struct symtab *symtab, const char *name, const char **names, size_t max);

/* ---- modules of a process (module.c) --------------------------------------------------------- */

struct module {
	char *path; /* as in maps, without " (deleted)" */
	const char *name; /* its last component; "[vdso]" for the vdso */
	taddr bias; /* added to the file's addresses */
	taddr low, high; /* what it covers in memory */
	bool is_executable; /* the program itself */
	bool is_vdso;
	struct symtab *symtab; /* opened on first use by module_symtab */
	struct error *symtab_error; /* why it couldn't be */
	bool is_deleted; /* its file has no name any more */
	taddr map_start, map_end; /* one of its mappings, as /proc/PID/map_files calls it */
	uint64_t device, inode;
	struct debug *debug; /* by module_debug */
	bool debug_read;
	struct cfi_rows *cfi; /* by module_cfi */
	struct markers *markers; /* by module_markers */
	struct unnamed_functions *unnamed; /* NULL: not read yet (unnamed_functions.h) */
};

struct modules {
	struct module **items; /* the program first, then by address; the pointers are stable */
	size_t count;
	size_t room;
};

/* From maps: each ELF file mapped with execute permission, and the vdso. */
struct error *modules_read(struct proc *proc, const struct maps *maps, struct modules *ret_modules);
/* From the maps as they are now. */
struct error *modules_of(struct proc *proc, struct modules *ret_modules);
/* module_name.c: what the user calls it: its file, but the program by the name it was started by
 * (which may be a link to the file). */
const char *module_called(const struct proc *proc, const struct module *module);
/* module_name.c: by that name, the file's, its path, or its start (libc for libc.so.6) if that is
 * the only one; NULL: there is none. */
struct module *modules_named(const struct proc *proc, const struct modules *modules,
			     const char *name);
/* The module's symbols, read on first use; owned by the module. The file is opened through
 * /proc/PID/exe, /proc/PID/map_files or /proc/PID/root + path, so that deleted, replaced and
 * containerised files work; it must be the one in memory (inode, program headers, build id), else
 * this fails and says so. */
struct error *module_symtab(struct proc *proc, struct module *module, struct symtab **ret_symtab);
/* Are these bytes anywhere in what is mapped of its file to be run? Also if that can't be read. */
struct error *module_has_code(struct proc *proc, const struct module *module,
			      const struct maps *maps, const void *bytes, size_t n,
			      bool *ret_found);
/* Its debug information (debug.h), found on first use; NULL: there is none. Owned by the module. */
struct debug;
struct error *module_debug(struct proc *proc, struct module *module, struct debug **ret_debug);
/* "START END BIAS BUILD-ID PATH", for the trace; NULL: out of memory. Caller frees. */
char *module_describe(struct proc *proc, struct module *module, uint64_t since);
/* Its unwind table (cfi.h), likewise. */
struct cfi_rows;
struct error *module_cfi(struct proc *proc, struct module *module,
			 const struct cfi_rows **ret_rows);
/* Its static markers (sdt.h), likewise; none: an empty list. */
struct markers;
struct error *module_markers(struct proc *proc, struct module *module,
			     const struct markers **ret_markers);
void modules_free(struct modules *modules);

/* ---- locations (locate.c) -------------------------------------------------------------------- */

/* A LOC of the command line, parsed: SYMBOL, SYMBOL+OFFSET, ADDRESS, FILE:LINE, PROVIDER:NAME (a
 * static marker), each with @MODULE; a SYMBOL, a PROVIDER and a NAME may be a glob. */
struct location {
	char *text; /* as given */
	char *symbol; /* NULL: an address */
	char *provider; /* of a marker, whose name is the symbol; NULL: it isn't one */
	bool is_glob;
	char *file; /* NULL: not a source line */
	int line;
	uint64_t number; /* the offset or address; C-like bases */
	char *module; /* NULL: any */
};

struct error *location_parse(const char *text, struct location *ret_location);
void location_clear(struct location *location);

/* A place found. */
struct place {
	struct module *module; /* borrowed */
	const struct symbol *symbol; /* the function named, or that contains it; NULL: none known */
	taddr address; /* in the process */
	char *name; /* "main", "main+0x10", "0x401136": what events are called after. Owned. */
	const struct marker *marker; /* a static marker; the module's; NULL: it isn't one */
	/* it is where an inlined copy of the function begins: which (debug.h); else 0 */
	uint64_t inlined;
};

struct places {
	struct place *items;
	size_t count;
	size_t room;
};

/*
 * Finds every place a location means. Without @MODULE a glob means the program itself; a name means
 * the program, else the first library that has it; a marker means all modules that have it, at each
 * of its places. Symbols that share an address count once. An address with a module is the file's
 * own. A glob leaves out functions chosen at run time (IFUNC).
 *
 * Fails with: symbol not found (up to three near names), not a function (data, IFUNC), several
 * functions of that name, no such module (near names), address outside any module's code, offset
 * beyond the function's end, want_function and not a function's first instruction.
 */
struct error *locate(struct proc *proc, struct modules *modules, const struct location *location,
		     bool want_function, struct places *ret_places);
void places_free(struct places *places);

#endif
