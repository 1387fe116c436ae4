/*
 * counts.h - cells in the target that count hits (struct dt_cell in layout.h), and their sums.
 *
 * Memory comes in areas, each a memfd shared with the target and its forked children: one row per
 * CPU, and in each row one cell per tracepoint. Cells are never reused, so an old trampoline keeps
 * counting in its own cell. The target can write all of it: sums are only shown, never trusted.
 */
#ifndef DYNTRACE_COUNTS_H
#define DYNTRACE_COUNTS_H

#include "control/agent/agent.h"
#include "control/event/tramp_event.h"

struct counts_area {
	uint8_t *here; /* mapped, all rows */
	taddr there;
	int fd; /* the agent's */
	uint64_t row_size; /* a power of two */
	uint32_t rows; /* likewise */
	uint64_t used; /* bytes of each row */
};

struct counts {
	VEC(struct counts_area) areas;
};

/* A tracepoint's cell. */
struct counts_cell {
	size_t area;
	uint64_t offset; /* in each row */
	bool has_times;
};

/* Sums over all rows; times in cycles of the clock. */
struct counts_sum {
	uint64_t hits;
	uint64_t exits;
	uint64_t total, max; /* total: with at least one call on the thread's stack */
	uint64_t durations; /* of all calls */
	uint64_t inside; /* of other counted calls inside them */
	uint64_t p50, p90, p99; /* within 0.8% */
};

/* Maps memory for `plain` cells without times, `timed` cells with, and `keyed` bytes, by way of a
 * held thread, if the last area has too little room. */
struct error *counts_map(struct counts *counts, struct stop *stop, struct agent *agent,
			 size_t plain, size_t timed, uint64_t keyed);
/* Takes bytes of each row, at a page; the cell has no times. */
bool counts_take_bytes(struct counts *counts, uint64_t size, struct counts_cell *ret_cell);
/* Takes a cell; *ret_count is the trampoline's way to it. False: counts_map was asked for fewer. */
bool counts_take(struct counts *counts, bool has_times, struct counts_cell *ret_cell,
		 struct tramp_count *ret_count);
/* The trampoline's way to a cell taken before. */
struct tramp_count counts_way(const struct counts *counts, const struct counts_cell *cell);
void counts_read(const struct counts *counts, const struct counts_cell *cell,
		 struct counts_sum *ret_sum);

/* The hits alone. Of a cell with times this gives memory to pages that have none. */
uint64_t counts_hits(const struct counts *counts, const struct counts_cell *cell);
/* Has any of the cell's pages memory? Those of a cell that was ever used have. */
bool counts_are_touched(const struct counts *counts, const struct counts_cell *cell);

/* Adds the sums to `words`, of which cells without times use only `hits`. */
void counts_gather(const struct counts *counts, const struct counts_cell *cell,
		   struct dt_cell *words);
/* The sums of cells that were gathered. */
void counts_sum_up(const struct dt_cell *words, bool has_times, struct counts_sum *ret_sum);

/* Sums up a cell that another controller has made. Without times only words->hits is set. */
struct error *counts_collect(struct proc *proc, const struct dt_counted *from,
			     struct dt_cell *words);
/* Adds such sums to a cell of ours, to which the target may be adding as well. */
void counts_add(struct counts *counts, const struct counts_cell *cell, const struct dt_cell *words);
/* The agent owns the memory of the areas. */
void counts_free(struct counts *counts);

#endif
