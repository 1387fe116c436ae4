/*
 * counts.h - where hits are counted in the target (struct dt_cell in layout.h), and what they add
 * up to.
 *
 * Memory comes in areas, each a memfd shared with the target and its forked children: rows, one a
 * CPU, in each of which every tracepoint has its cell. Cells are never given back, so that what is
 * behind an old trampoline stays what it was. The target can write all of it: sums are only ever
 * shown, never believed.
 */
#ifndef DYNTRACE_COUNTS_H
#define DYNTRACE_COUNTS_H

#include "control/agent/agent.h"
#include "control/event/tramp_event.h"

struct counts_area {
	uint8_t *here; /* mapped, all rows */
	taddr there;
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

/* What all rows add up to; times in cycles of the clock. */
struct counts_sum {
	uint64_t hits;
	uint64_t exits;
	uint64_t total, max;
	uint64_t p50, p90, p99; /* within 0.8% */
};

/* Memory for so many cells without times and so many with, by way of a held thread. None is mapped
 * if what is there is enough. */
struct error *counts_map(struct counts *counts, struct stop *stop, struct agent *agent,
			 size_t plain, size_t timed);
/* A cell for a tracepoint, and how its trampoline finds it. false: counts_map was asked for fewer. */
bool counts_take(struct counts *counts, bool has_times, struct counts_cell *ret_cell,
		 struct tramp_count *ret_count);
/* How the trampoline finds a cell that was taken before. */
struct tramp_count counts_way(const struct counts *counts, const struct counts_cell *cell);
void counts_read(const struct counts *counts, const struct counts_cell *cell,
		 struct counts_sum *ret_sum);

/* What a cell that another controller has made adds up to: words[0].hits alone, unless it has
 * times. */
struct error *counts_collect(struct proc *proc, const struct dt_counted *from,
			     struct dt_cell *words);
/* The same, added to a cell of ours; the target may be adding to it as well. */
void counts_add(struct counts *counts, const struct counts_cell *cell, const struct dt_cell *words);
/* The memory itself is the agent's. */
void counts_free(struct counts *counts);

#endif
