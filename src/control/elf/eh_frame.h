/*
 * eh_frame.h - where functions begin and end, by the unwind table.
 *
 * Compilers write it for every function, named or not, and `strip` keeps it.
 */
#ifndef DYNTRACE_EH_FRAME_H
#define DYNTRACE_EH_FRAME_H

#include "elf_image.h"
#include "ranges.h"

/* One range an FDE, in executable segments only, sorted. What is damaged is left out; a file
 * without the table gives no range. */
struct error *eh_frame_read(const struct elf_image *image, struct ranges *ret_ranges);

/* Where the landing pads of a function are listed. */
struct lsda {
	uint64_t function;
	uint64_t address;
};

struct lsdas {
	struct lsda *items;
	size_t count;
	size_t room;
};

/* One a function that has any; caller frees. */
struct error *eh_frame_lsdas(const struct elf_image *image, struct lsdas *ret_lsdas);

#endif
