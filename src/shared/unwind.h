/*
 * unwind.h - how to find the caller from any instruction: .eh_frame compiled to rows of 8 bytes.
 *
 * The controller writes it into sealed memory, the agent reads it. A row is valid from its pc to
 * the next row's. The return address is always the word below the CFA.
 */
#ifndef DYNTRACE_UNWIND_H
#define DYNTRACE_UNWIND_H

#include <stdint.h>

enum dt_cfa_rule {
	DT_CFA_NONE, /* nothing is known from here on */
	DT_CFA_END, /* the outermost frame */
	DT_CFA_RSP, /* rsp + offset */
	DT_CFA_RBP, /* rbp + offset */
	DT_CFA_AT_RBP, /* the word at rbp + offset: a frame that was aligned anew */
	DT_CFA_PLT, /* an entry of the procedure linkage table */
	DT_CFA_HARD, /* a rule that a row can't express */
	DT_CFA_SIGNAL, /* the kernel's frame of a signal handler, its registers at rsp */
};

enum dt_rbp_rule {
	DT_RBP_SAME,
	DT_RBP_SAVED, /* at CFA + offset */
	DT_RBP_AT_RBP, /* at rbp + offset */
};

struct dt_unwind_row {
	uint32_t pc; /* from the module's base */
	int16_t cfa; /* offset, in words of 8 bytes */
	int8_t rbp; /* likewise */
	uint8_t cfa_rule : 4, rbp_rule : 4;
};

struct dt_unwind_module {
	uint64_t start, end; /* its code */
	uint64_t base;
	uint32_t first, count; /* of its rows */
};

/*
 * The rows are at rows_offset bytes from here. Modules that are loaded later have a table of their
 * own, which is searched first: the newest table decides about an address. An unloaded module has
 * end = start.
 */
struct dt_unwind {
	uint64_t next; /* address of the previous table; 0: none */
	uint32_t module_count; /* sorted by start */
	uint32_t rows_offset;
	struct dt_unwind_module modules[];
};

/*
 * (T4) The agent keeps rows that it has found, by address. The controller raises
 * dt_control.rows_turn after each change of the tables, before any code of a new module runs: a row
 * that was found in an earlier turn isn't believed. Turns are never used again: after DT_TURNS_MAX
 * of them rows_turn is 0, and no row is kept.
 */
#define DT_TURN_BITS 9
#define DT_TURNS_MAX ((1u << DT_TURN_BITS) - 1)

/* Offsets of registers that the kernel saves for a signal handler, from the word after the
 * handler's return address. */
#define DT_SIGNAL_RBP 120
#define DT_SIGNAL_RSP 160
#define DT_SIGNAL_RIP 168

/* Last entry of a list of frames that could not be followed further. */
#define DT_FRAME_UNKNOWN (~0ULL)

_Static_assert(sizeof(struct dt_unwind_row) == 8, "dt_unwind_row");
_Static_assert(sizeof(struct dt_unwind_module) == 32, "dt_unwind_module");

#endif
