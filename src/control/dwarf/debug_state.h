/*
 * debug_state.h - what is inside a struct debug; for the files of this folder only.
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
	Dwarf_Die lines; /* the unit that has the line table and the ranges */
	Dwarf_Die die; /* the one that has the functions: another one for split DWARF */
	uint64_t abbreviations; /* where they are */
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
	Elf *elf; /* the file as it is */
	struct sections *sections; /* what libdw has of it; NULL: libdw has the file itself */
	Dwarf *dwarf;
	struct debug_alternative {
		int fd;
		Elf *elf;
		Dwarf *dwarf;
	} alternative; /* what several files have in common; all 0: there is none */
	/* of units that others include: names may be where they aren't looked for */
	bool has_parts;
	VEC(struct debug_unit) units;
	VEC(struct debug_range) ranges;
	bool indexed;
};

/* debug_function.c: fills units and ranges on first use. */
bool debug_index(struct debug *debug);
/* The unit whose code holds the address; NULL: none. */
struct debug_unit *debug_unit_at(struct debug *debug, uint64_t address);
/* The functions of a unit, read on first use. */
void debug_read_functions(struct debug *debug, struct debug_unit *unit);
/* A unit whose DIEs are to be looked at: they are there when it returns. */
Dwarf_Die *debug_unit_die(struct debug *debug, size_t index);
/* What a DIE says that it is a copy of. */
bool debug_origin(Dwarf_Die *die, Dwarf_Die *ret_origin);
/* Before lines or locations are asked for. */
void debug_need_lines(struct debug *debug);

/* debug_mention.c: which units may have DIEs of that name; also those whose names go on with
 * template arguments. As many as there are units, the caller's; NULL: out of memory. */
bool *debug_mention(struct debug *debug, const char *name);
/* debug_mention.c: also those that may refer to a DIE of another unit. */
void debug_mention_references(struct debug *debug, uint64_t offset, bool *marks);

/* debug_type.c: the type that a DIE is. */
void type_from_die(Dwarf_Die *die, struct type *ret_type);
bool debug_has_flag(Dwarf_Die *die, unsigned name);

/* debug_find.c: opens a file of debug information that belongs to this one; -1: none. */
int debug_find_separate(Elf *elf, const char *path, char **ret_path);
/* debug_find.c: opens the file that this one says it shares information with; -1: none. */
int debug_find_alternative(Dwarf *dwarf, const char *path);
/* debug_find.c: the build id, at most `room` bytes; 0: none. */
size_t debug_build_id(Elf *elf, uint8_t *bytes, size_t room);

#endif
