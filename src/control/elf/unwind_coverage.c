/*
 * unwind_coverage.c - which text has unwind tables.
 *
 * Assembly and the C libraries of some systems have none, here and there. What is long and has none
 * was put there by a program: the built-in functions of a JavaScript engine, say, which it walks
 * over in its own way.
 */
#include "symtab_state.h"

struct stretch {
	uint64_t start, end; /* described, as far as it has been followed */
	uint64_t limit; /* of the segment */
	uint64_t gap;
	void (*found)(void *context, uint64_t start, uint64_t end);
	void *context;
};

static void follow(struct stretch *stretch, const struct range *fde)
{
	if (fde->start >= stretch->end && fde->start - stretch->end >= stretch->gap) {
		if (stretch->end > stretch->start)
			stretch->found(stretch->context, stretch->start, stretch->end);
		stretch->start = fde->start;
	}
	if (fde->end > stretch->end)
		stretch->end = fde->end;
}

static void each_in_segment(const struct ranges *fdes, struct stretch *stretch)
{
	for (size_t i = 0; i < fdes->count; i++) {
		const struct range *fde = &fdes->items[i];

		if (fde->start >= stretch->start && fde->end <= stretch->limit)
			follow(stretch, fde);
	}
	if (stretch->limit - stretch->end < stretch->gap || !fdes->count)
		stretch->end = stretch->limit;
	if (stretch->end > stretch->start)
		stretch->found(stretch->context, stretch->start, stretch->end);
}

void symtab_each_unwind_covered(const struct symtab *symtab, uint64_t gap,
			   void (*found)(void *context, uint64_t start, uint64_t end),
			   void *context)
{
	const struct ranges *fdes = symtab_fdes(symtab);

	for (size_t i = 0; i < symtab->image.segment_count; i++) {
		const struct segment *segment = &symtab->image.segments[i];
		struct stretch stretch = { .start = segment->address,
					   .end = segment->address,
					   .limit = segment->address + segment->size,
					   .gap = gap,
					   .found = found,
					   .context = context };

		if (segment->flags & PF_X)
			each_in_segment(fdes, &stretch);
	}
}
