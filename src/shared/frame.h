/*
 * frame.h - how to unwind from any instruction of a trampoline: the place in the program that it
 * stands for, and what it has on the stack meanwhile.
 *
 * Behind its code and data each trampoline has rows, and behind those, at a multiple of 16, an end:
 *
 *	rows[n-1] ... rows[1] rows[0] | struct dt_frame_end
 *
 * A row holds up to its `end`, which is an offset from the trampoline's start; rows[0] is the
 * first. So from a pc in a trampoline the next struct dt_frame_end further up is its own: a word
 * that no code has by chance says which one is. It lives and dies with the trampoline: nobody has
 * to be told of either.
 *
 * To an unwinder the trampoline is a frame of its own, called by the instruction that it stands
 * for; that is what the tables say which codegen/x86_64/tramp_frame.c makes, as expressions that do what is
 * done here.
 */
#ifndef DYNTRACE_FRAME_H
#define DYNTRACE_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define DT_FRAME_CHECK 0x9d3f61a7u /* ^ the lower half of its own address */
#define DT_FRAME_ALIGN 16u
#define DT_FRAME_SCAN (1u << 17) /* no trampoline is longer */

struct dt_frame_end {
	uint32_t check;
	int32_t site; /* from here to the program's code that it stands for */
	uint32_t start; /* from the trampoline's start to here */
	uint32_t row_count;
};

_Static_assert(sizeof(struct dt_frame_end) == DT_FRAME_ALIGN, "dt_frame_end");

/* A row: end, origin << 16, kept << 22, words << 24. */
#define DT_FRAME_END_MAX 0xffffu
#define DT_FRAME_ORIGIN_SHIFT 16
#define DT_FRAME_ORIGIN_MASK 63u /* from the site's start: the instruction that comes next */
/* none: the function has returned, and its stub's index or its return address is the next word */
#define DT_FRAME_RETURNS 63u
#define DT_FRAME_KEPT_SHIFT 22
#define DT_FRAME_KEPT_MASK 3u
#define DT_FRAME_WORDS_SHIFT 24 /* on the stack, and 1: 0 is "unknown" */
#define DT_FRAME_WORDS_MAX 254

/* By `kept`: how far below the program's stack pointer rbx is; 0: it is in its register. A byte
 * each. */
#define DT_FRAME_KEPT 0xa0302000u

static inline uint32_t dt_frame_row(uint32_t end, uint32_t origin, uint32_t kept, uint32_t words)
{
	return end | origin << DT_FRAME_ORIGIN_SHIFT | kept << DT_FRAME_KEPT_SHIFT |
	       words << DT_FRAME_WORDS_SHIFT;
}

static inline uint32_t dt_frame_kept(uint32_t row)
{
	return DT_FRAME_KEPT >> 8 * (row >> DT_FRAME_KEPT_SHIFT & DT_FRAME_KEPT_MASK) & 0xff;
}

/* The end of the trampoline that pc is in, of code that goes up to `limit`. NULL: it is in none. */
static inline const struct dt_frame_end *dt_frame_find(uint64_t pc, uint64_t limit)
{
	uint64_t at = (pc + DT_FRAME_ALIGN - 1) & ~(uint64_t)(DT_FRAME_ALIGN - 1);

	if (limit > pc + DT_FRAME_SCAN)
		limit = pc + DT_FRAME_SCAN;
	for (; at + sizeof(struct dt_frame_end) <= limit; at += DT_FRAME_ALIGN) {
		const struct dt_frame_end *end = (const struct dt_frame_end *)at;

		if ((end->check ^ (uint32_t)at) == DT_FRAME_CHECK)
			return at - pc <= end->start ? end : 0;
	}
	return 0;
}

/* The row that holds at pc; 0: none. */
static inline uint32_t dt_frame_row_at(const struct dt_frame_end *end, uint64_t pc)
{
	const uint32_t *rows = (const uint32_t *)end;
	uint64_t offset = pc - ((uint64_t)end - end->start);

	for (uint32_t i = 1; i <= end->row_count; i++) {
		if (offset < (rows[-(int64_t)i] & DT_FRAME_END_MAX))
			return rows[-(int64_t)i];
	}
	return 0;
}

#endif
