/*
 * debug_state.h - the inside of struct debug, for dwarf/ and modules/unnamed_functions.c.
 *
 * (Y1) ranges is sorted by start; unit is an index below units.count.
 * (Y2) a unit's functions, once read, are sorted by low.
 */
#ifndef DYNTRACE_DEBUG_STATE_H
#define DYNTRACE_DEBUG_STATE_H

#include <libelf.h>

#include "control/base/vec.h"
#include "debug.h"
#include "debug_sections.h"

#define DEBUG_DEPTH_MAX 64 /* of nested DIEs and chains of types */

struct debug_unit {
	Dwarf_Die lines; /* the unit with the line table and the ranges */
	Dwarf_Die die; /* the unit with the functions: another DIE for split DWARF */
	uint64_t abbreviations; /* offset */
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
	Elf *elf; /* the file itself */
	struct sections *sections; /* the file given to libdw; NULL: libdw has the file itself */
	Dwarf *dwarf;
	struct debug_alternative {
		int fd;
		Elf *elf;
		Dwarf *dwarf;
	} alternative; /* the file shared by several files (dwz); all 0: none */
	/* partial units, which others include: names may lie outside the units searched */
	bool has_parts;
	VEC(struct debug_unit) units;
	VEC(struct debug_range) ranges;
	bool indexed;
};

/* debug_function.c: fills units and ranges on first use. */
bool debug_index(struct debug *debug);
/* The unit whose code holds the address; NULL: none. */
struct debug_unit *debug_unit_at(struct debug *debug, uint64_t address);
/* Reads all DIEs of a unit and returns its own. */
Dwarf_Die *debug_unit_die(struct debug *debug, size_t index);
/* The DIE that this one is a copy of. */
bool debug_origin(Dwarf_Die *die, Dwarf_Die *ret_origin);
/* Call before asking libdw for lines. */
void debug_need_lines(struct debug *debug);

/* debug_mention.c: marks units that may have DIEs of that name, with or without template arguments.
 * One mark per unit; the caller frees; NULL: out of memory. */
bool *debug_mention(struct debug *debug, const char *name);
/* debug_mention.c: also marks units that may refer to this DIE of another unit. */
void debug_mention_references(struct debug *debug, uint64_t offset, bool *marks);

/* debug_type.c: the type that a DIE is. */
void type_from_die(Dwarf_Die *die, struct type *ret_type);
bool debug_has_flag(Dwarf_Die *die, unsigned name);

/* debug_find.c: opens the separate file with the debug information; -1: none. */
int debug_find_separate(Elf *elf, const char *path, char **ret_path);
/* debug_find.c: opens the file shared by several files (dwz); -1: none. */
int debug_find_alternative(Dwarf *dwarf, const char *path);

#endif
