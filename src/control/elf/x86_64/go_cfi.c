/*
 * go_cfi.c - see go_cfi.h.
 *
 * A function has a list of steps: how far rsp has moved since the function's start, up to which
 * address. Each is two numbers: the change of the distance, zigzag (the lowest bit is the sign),
 * and the bytes of code from the step before. The distance is -1 before the first; a change of 0
 * ends the list.
 *
 * Compiled functions save rbp in the first word below the return address, once they have a frame.
 */
#include "control/elf/go_cfi.h"

#include "control/base/vec.h"
#include "control/elf/cursor.h"
#include "control/elf/go_functions.h"

#define ROWS_MOST 16 /* per function, on average: real programs have 6; files may be hostile */
#define CFA_MOST INT16_MAX /* words */

struct adding {
	struct cfi_rows *rows;
	uint64_t most;
};

static bool put(const struct adding *adding, struct dt_unwind_row row)
{
	return adding->rows->count < adding->most && vec_push(adding->rows, row);
}

static bool add_row(const struct adding *adding, uint64_t pc, enum dt_cfa_rule rule)
{
	struct dt_unwind_row row = { .pc = (uint32_t)pc, .cfa_rule = rule };

	return put(adding, row);
}

/* rsp has moved by `moved` bytes. */
static bool add_frame(const struct adding *adding, const struct go_frame *frame, uint64_t pc,
		      int64_t moved)
{
	struct dt_unwind_row row = { .pc = (uint32_t)pc,
				     .cfa_rule = DT_CFA_RSP,
				     .cfa = (int16_t)(moved / 8 + 1) };

	if (moved < 0 || moved % 8 || moved / 8 >= CFA_MOST)
		return add_row(adding, pc, DT_CFA_HARD);
	if (moved && frame->is_compiled)
		row.rbp_rule = DT_RBP_SAVED, row.rbp = -2;
	return put(adding, row);
}

/* A place in a function's list. A function that sets rsp (runtime.systemstack) is known at its
 * start alone. */
struct steps {
	const struct go_frame *frame;
	struct cursor at;
	uint64_t pc, next; /* the step is from pc on */
	int64_t moved;
};

static struct steps begin(const struct go_frame *frame)
{
	return (struct steps){ .frame = frame,
			       .at = { frame->steps, frame->steps + frame->size, false },
			       .next = frame->start,
			       .moved = -1 };
}

static bool next_step(struct steps *steps)
{
	const struct go_frame *frame = steps->frame;
	bool first = steps->next == frame->start;

	steps->pc = steps->next;
	if (steps->pc >= frame->end || (!first && frame->sets_rsp))
		return false;
	uint64_t change = take_uleb(&steps->at), bytes = take_uleb(&steps->at);
	if (steps->at.failed || !bytes || bytes > frame->end - steps->pc || (!change && !first))
		return false;
	steps->moved += (int64_t)(change >> 1) ^ -(int64_t)(change & 1);
	steps->next += frame->sets_rsp ? 1 : bytes;
	return true;
}

static bool add_steps(const struct adding *adding, const struct go_frame *frame)
{
	struct steps steps = begin(frame);

	while (next_step(&steps)) {
		if (!add_frame(adding, frame, steps.pc, steps.moved))
			return false;
	}
	return add_row(adding, steps.pc, DT_CFA_NONE);
}

static bool add_function(const struct adding *adding, const struct go_frame *frame)
{
	enum dt_cfa_rule rule = frame->ends_signal ? DT_CFA_SIGNAL : DT_CFA_END;

	if (!frame->is_outermost && !frame->ends_signal)
		return add_steps(adding, frame);
	/* the byte before a return address is looked up */
	if (frame->ends_signal && !add_row(adding, frame->start - 1, rule))
		return false;
	return add_row(adding, frame->start, rule) && add_row(adding, frame->end, DT_CFA_NONE);
}

bool go_cfi_add(const struct symtab *symtab, struct cfi_rows *rows)
{
	uint64_t count = go_functions_count(symtab);
	struct adding adding = { rows, rows->count + ROWS_MOST * count };
	struct go_frame frame;

	for (uint64_t i = 0; i < count; i++) {
		if (go_functions_frame(symtab, i, &frame) && !add_function(&adding, &frame))
			return false;
	}
	return true;
}

bool go_cfi_deepest(const struct symtab *symtab, uint64_t address, uint64_t *ret_bytes)
{
	struct go_frame frame;
	uint64_t index, most = 0;

	if (!go_functions_index(symtab, address, &index) ||
	    !go_functions_frame(symtab, index, &frame))
		return false;
	for (struct steps steps = begin(&frame); next_step(&steps);)
		most = steps.moved > (int64_t)most ? (uint64_t)steps.moved : most;
	*ret_bytes = most;
	return true;
}
