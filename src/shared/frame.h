/*
 * frame.h - how to unwind from any instruction of a trampoline: the place in the program that the
 * instruction stands for, and the words on the stack there.
 *
 * After its code and data each trampoline has rows, and after those, at a multiple of 16, an end:
 *
 *	rows[n-1] ... rows[1] rows[0] | struct dt_frame_end
 *
 * A row is valid up to its `end`, an offset from the trampoline's start; rows[0] is the first. So
 * from a pc in a trampoline the next struct dt_frame_end upward belongs to it; a check word that
 * code doesn't contain by chance marks it. It lives and dies with the trampoline: nothing has to
 * register or remove it.
 *
 * To an unwinder the trampoline is a frame of its own, called by the instruction that it stands
 * for. The tables of codegen/x86_64/tramp_frame.c say so, as expressions that compute the same as
 * the functions below.
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
	int32_t site; /* from here to the patched code of the program */
	uint32_t start; /* from the trampoline's start to here */
	uint32_t row_count;
};

_Static_assert(sizeof(struct dt_frame_end) == DT_FRAME_ALIGN, "dt_frame_end");

/* A row: end, origin << 16, kept << 22, words << 24. */
#define DT_FRAME_END_MAX 0xffffu
#define DT_FRAME_ORIGIN_SHIFT 16
#define DT_FRAME_ORIGIN_MASK 63u /* offset from the site's start of the next instruction */
/* none: the function has returned; the next word is its stub's index or its return address */
#define DT_FRAME_RETURNS 63u
#define DT_FRAME_KEPT_SHIFT 22
#define DT_FRAME_KEPT_MASK 3u
#define DT_FRAME_WORDS_SHIFT 24 /* words on the stack + 1; 0: unknown */
#define DT_FRAME_WORDS_MAX 254

/* By `kept`, one byte each: how far rbx is saved below the program's stack pointer; 0: rbx is in
 * its register. */
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

/* Has the function returned? */
static inline int dt_frame_returns(uint32_t row)
{
	return (row >> DT_FRAME_ORIGIN_SHIFT & DT_FRAME_ORIGIN_MASK) == DT_FRAME_RETURNS;
}

/* The end of the trampoline that contains pc, in code up to `limit`. NULL: none. */
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

/* The row for pc; 0: none. */
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
