/*
 * cfi.h - how to find the caller from each instruction of a file: .eh_frame, or Go's own table,
 * compiled to rows (src/shared/unwind.h).
 *
 * Rows are sorted by pc, which counts from the file's address 0; code that no FDE describes has
 * rows of DT_CFA_NONE. Damaged FDEs have no rows.
 */
#ifndef DYNTRACE_CFI_H
#define DYNTRACE_CFI_H

#include "shared/unwind.h"
#include "symtab.h"

struct cfi_rows {
	struct dt_unwind_row *items;
	size_t count;
	size_t room;
};

/* The caller frees the rows with vec_free. */
struct error *cfi_compile(const struct symtab *symtab, struct cfi_rows *ret_rows);
/* The row for an address; NULL: none. */
const struct dt_unwind_row *cfi_find(const struct cfi_rows *rows, uint64_t address);

#endif
