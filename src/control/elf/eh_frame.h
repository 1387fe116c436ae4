/*
 * eh_frame.h - the records of .eh_frame, the unwind table.
 *
 * Compilers write one FDE per function, named or not, and `strip` keeps the table. Damaged records
 * are left out; a file without the table has none.
 */
#ifndef DYNTRACE_EH_FRAME_H
#define DYNTRACE_EH_FRAME_H

#include "elf_image.h"
#include "ranges.h"

/* What FDEs have in common. */
struct eh_frame_cie {
	uint64_t offset; /* in the table */
	uint8_t code, lsda; /* encodings of their addresses (cursor.h) */
	bool has_data; /* letter z: FDEs have a block of optional data */
	bool is_signal; /* the frame of a signal handler */
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register; /* DWARF's number */
	struct bytes start; /* instructions that every FDE begins with */
};

struct eh_frame_fde {
	const struct eh_frame_cie *cie;
	uint64_t start, end; /* code: in an executable segment, not empty, doesn't wrap */
	uint64_t lsda; /* address of the list of landing pads; 0: none */
	bool is_damaged; /* behind start and end: lsda and code are empty */
	struct bytes code; /* its instructions */
};

/* Calls back with every FDE, in the table's order; found returns false to stop. The FDE and its CIE
 * are valid during the call. False: stopped. */
bool eh_frame_each(const struct elf_image *image,
		   bool (*found)(void *context, const struct eh_frame_fde *fde), void *context);

/* One range per FDE, sorted. The caller frees. */
struct error *eh_frame_read(const struct elf_image *image, struct ranges *ret_ranges);

#endif
