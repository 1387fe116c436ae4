/*
 * module.h - the ELF files and the vdso that a process has mapped.
 *
 * A module finds its file, checks that it is the one in memory, and reads symbols, debug
 * information, the unwind table and markers on first use. The module owns what it has read. One
 * thread at a time.
 */
#ifndef DYNTRACE_MODULE_H
#define DYNTRACE_MODULE_H

#include "control/elf/symtab.h"
#include "control/proc/proc.h"

struct module {
	char *path; /* as in maps, without " (deleted)" */
	const char *name; /* its last component; "[vdso]" for the vdso */
	taddr bias; /* added to the file's addresses */
	taddr low, high; /* bounds in memory */
	bool is_executable; /* the program itself */
	bool is_vdso;
	bool is_piece; /* the file's start isn't mapped where it belongs */
	struct symtab *symtab; /* opened on first use by module_symtab */
	struct error *symtab_error; /* why module_symtab failed */
	bool is_deleted; /* the file has lost its name */
	taddr map_start, map_end; /* one mapping, as named in /proc/PID/map_files */
	uint64_t device, inode;
	taddr dynamic; /* its dynamic section, in memory; 0: none */
	char *soname; /* by module_soname */
	bool soname_read;
	struct debug *debug; /* by module_debug */
	bool debug_read;
	struct cfi_rows *cfi; /* by module_cfi */
	struct markers *markers; /* by module_markers */
	struct ust_events *ust_events; /* by module_ust_events */
	bool is_new; /* static_points_tell hasn't told its markers yet */
	struct argument_uses *uses; /* by module_argument_uses */
	struct unnamed_functions *unnamed; /* by module_unnamed_functions (unnamed_functions.h) */
};

struct modules {
	struct module **items; /* the program first, then by address; the pointers are stable */
	size_t count;
	size_t room;
};

/* Lists each ELF file that maps has with execute permission, and the vdso. */
struct error *modules_read(struct proc *proc, const struct maps *maps, struct modules *ret_modules);
/* Lists the modules by the current maps of the process. */
struct error *modules_of(struct proc *proc, struct modules *ret_modules);
/* The module whose bounds hold the address; NULL: none. */
struct module *modules_at(const struct modules *modules, taddr address);
/* module_name.c: the name for users: of the file; of the program, the name it was started by (which
 * may be a link to the file). */
const char *module_called(const struct proc *proc, const struct module *module);
/* module_soname.c: the name that programs are linked with (libpcap.so.0.8, in libpcap.so.1.10.3),
 * as ldd shows it; read from memory on first use. NULL: none. Owned by the module. */
const char *module_soname(struct proc *proc, struct module *module);
/* module_file.c: does the path, in the target's root, lead to the module's file, links followed? */
bool module_file_is(struct proc *proc, const struct module *module, const char *path);
/* module_name.c: finds a module by that name, the file's name, its path, its soname, an address in
 * it, the start of one of these names if only one file's is (libc for libc.so.6), or a link to its
 * file: by its path, or by its name in the same folder. NULL: none. */
struct module *modules_named(struct proc *proc, const struct modules *modules, const char *name);
/* module_name.c: all modules that the name means, in their order; the pointers are borrowed. A file
 * may be loaded several times (H37), and files of different folders may have one name. */
struct error *modules_all_named(struct proc *proc, const struct modules *modules, const char *name,
				struct modules *ret_modules);
/* module_name.c: are they two loaded copies of one file (dlmopen, LD_AUDIT)? */
bool module_is_copy(const struct module *module, const struct module *other);
/* module_name.c: does a file's name fit what was typed after the @: the name, its beginning up to a
 * dot, or a glob? */
bool module_name_fits(const char *name, const char *wanted);
/* module_name.c: does the process have another copy of the file? */
bool modules_have_copy(const struct modules *modules, const struct module *module);
/* The module's symbols, read on first use; owned by the module. Opens the file through
 * /proc/PID/exe, /proc/PID/map_files or /proc/PID/root + path, so that deleted, replaced and
 * containerised files work. Fails if the file isn't the one in memory (inode, program headers,
 * build id). */
struct error *module_symtab(struct proc *proc, struct module *module, struct symtab **ret_symtab);
/* Forgets why module_symtab failed: a later command reads these files again, which may only have
 * found no descriptor or no memory left. */
void modules_try_again(struct modules *modules);
/* Are these bytes anywhere in the executable mappings of the file? True also if unreadable. */
struct error *module_has_code(struct proc *proc, const struct module *module,
			      const struct maps *maps, const void *bytes, size_t n,
			      bool *ret_found);
/* The debug information (debug.h), found on first use; NULL: none. Owned by the module. */
struct debug;
struct error *module_debug(struct proc *proc, struct module *module, struct debug **ret_debug);
/* "START END BIAS @SINCE [%PROGRAM] BUILD-ID PATH", for the trace (lines/frames.h). NULL: out of
 * memory. The caller frees. */
char *module_describe(struct proc *proc, struct module *module, uint64_t since, uint32_t program);
/* The unwind table (cfi.h), read on first use. Owned by the module. */
struct cfi_rows;
struct error *module_cfi(struct proc *proc, struct module *module,
			 const struct cfi_rows **ret_rows);
/* The argument registers that the function at an address of the file may read (argument_use.h), a
 * bit each; all of them if the file can't be read. */
uint8_t module_argument_uses(struct proc *proc, struct module *module, uint64_t address);
/* The static markers (sdt.h), read on first use; an empty list if none. Owned by the module. */
struct markers;
struct error *module_markers(struct proc *proc, struct module *module,
			     const struct markers **ret_markers);
/* LTTng's static tracepoints (ust_events.h), read on first use. Owned by the module. */
struct ust_events;
struct error *module_ust_events(struct proc *proc, struct module *module,
				const struct ust_events **ret_events);
void modules_free(struct modules *modules);

#endif
