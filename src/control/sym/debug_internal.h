/*
 * debug_internal.h - what is inside a struct debug; for the files of this folder only.
 *
 * (D1) ranges is sorted by start; unit is an index below units.count.
 * (D2) a unit's functions, once read, are sorted by low.
 */
#ifndef DYNTRACE_SYM_DEBUG_INTERNAL_H
#define DYNTRACE_SYM_DEBUG_INTERNAL_H

#include <libelf.h>

#include "../base/vec.h"
#include "debug.h"

#define DEBUG_DEPTH_MAX 64 /* of nested DIEs and chains of types */

struct debug_unit {
	Dwarf_Die lines; /* the unit that has the line table and the ranges */
	Dwarf_Die die; /* the one that has the functions: another one for split DWARF */
	bool functions_read;
	VEC(struct debug_function) functions;
};

struct debug_range {
	uint64_t start, end;
	uint32_t unit;
};

struct debug {
	int fd;
	char *path;
	Elf *elf;
	Dwarf *dwarf;
	VEC(struct debug_unit) units;
	VEC(struct debug_range) ranges;
	bool indexed;
};

/* debug_function.c: fills units and ranges on first use. */
bool debug_index(struct debug *debug);
/* The unit whose code holds the address; NULL: none. */
struct debug_unit *debug_unit_at(struct debug *debug, uint64_t address);
/* The functions of a unit, read on first use. */
void debug_read_functions(struct debug_unit *unit);

/* debug_find.c: opens a file of debug information that belongs to this one; -1: none. */
int debug_find_separate(Elf *elf, const char *path, char **ret_path);
/* debug_find.c: the build id, at most `room` bytes; 0: none. */
size_t debug_build_id(Elf *elf, uint8_t *bytes, size_t room);

#endif
