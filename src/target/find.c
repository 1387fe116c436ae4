/*
 * find.c - the unwind table for an address in code of dyntrace.
 *
 * Called by the hook in an unwinder, and by unwind.c. Everything it reads is in sealed memory that
 * stays while a thread is in it, so nothing can fault, lock or change.
 */
#include "find.h"

#include "gather.h"
#include "shared/frame.h"
#include "shared/sorted.h"

/* struct dwarf_eh_bases of libgcc: two bases that these tables don't need, and the function's
 * start. */
struct find_bases {
	uint64_t text, data, function;
};

/* The part of libgcc's struct _Unwind_Context that ends with the bases; unchanged since GCC 3. */
struct find_context {
	uint64_t cfa, ra, lsda;
	struct find_bases bases;
};

#define FIND_JUMP 0xe9
#define FIND_JUMP_LENGTH 5

/* The end of the code window that contains the address; 0: none. */
static uint64_t find_window_end(const struct dt_control *control, uint64_t pc)
{
	uint32_t count = __atomic_load_n(&control->window_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < DT_WINDOWS_MAX; i++) {
		uint64_t size = control->windows[i].pages * DT_PAGE;

		if (control->windows[i].address && pc - control->windows[i].address < size)
			return control->windows[i].address + size;
	}
	return 0;
}

/* May five bytes be read there? Unwinders also ask about words that are no addresses. */
static bool find_is_readable(const struct dt_control *control, uint64_t pc)
{
	return safe_stable(control, pc) > FIND_JUMP_LENGTH ||
	       find_window_end(control, pc) >= pc + FIND_JUMP_LENGTH;
}

/* The trampoline whose start is the target of a jump at pc, in a slot or a hop; NULL: none. */
static const struct dt_frame_end *find_behind_jump(const struct dt_control *control, uint64_t pc)
{
	const uint8_t *code = (const uint8_t *)pc;
	int32_t distance;

	if (!find_is_readable(control, pc) || code[0] != FIND_JUMP)
		return 0;
	__builtin_memcpy(&distance, code + 1, sizeof(distance));
	uint64_t to = pc + FIND_JUMP_LENGTH + (uint64_t)(int64_t)distance;
	uint64_t limit = find_window_end(control, to);
	const struct dt_frame_end *end = limit ? dt_frame_find(to, limit) : 0;
	/* the program's own table is right at the site itself */
	return end && (uint64_t)end - end->start == to &&
			       (uint64_t)end + (uint64_t)(int64_t)end->site != pc ?
		       end :
		       0;
}

bool find_frame(const struct dt_control *control, uint64_t pc, struct find_frame *ret_frame)
{
	uint64_t limit = find_window_end(control, pc);
	const struct dt_frame_end *end = limit ? dt_frame_find(pc, limit) : 0;
	uint32_t row = end ? dt_frame_row_at(end, pc) : 0;

	ret_frame->is_hop = !end;
	if (!end)
		end = find_behind_jump(control, pc);
	else if (!(row >> DT_FRAME_WORDS_SHIFT))
		return false;
	if (!end)
		return false;
	ret_frame->end = end;
	ret_frame->row = row;
	return true;
}

/* ---- the agent's own functions --------------------------------------------------------------- */

extern const uint8_t __ehdr_start[] __attribute__((visibility("hidden")));

#define FIND_PT_EH_FRAME 0x6474e550u
#define FIND_HEADER_VERSION 1u
/* encodings in the header, as linkers make it: 32 bits, rows sorted and relative to it */
#define FIND_ENCODINGS 0x3b031bu

struct find_program_header {
	uint32_t type, flags;
	uint64_t offset, address, physical, file_size, memory_size, align;
};

/* A row of the sorted table: distances from the header to the function and to its FDE. */
struct find_row {
	int32_t function, fde;
};

static const uint8_t *find_header(void)
{
	uint16_t count;
	uint64_t offset;

	__builtin_memcpy(&offset, __ehdr_start + 32, sizeof(offset));
	__builtin_memcpy(&count, __ehdr_start + 56, sizeof(count));
	const struct find_program_header *headers =
		(const struct find_program_header *)(__ehdr_start + offset);
	for (uint16_t i = 0; i < count; i++) {
		if (headers[i].type == FIND_PT_EH_FRAME)
			return __ehdr_start + headers[i].address;
	}
	return 0;
}

static uint64_t find_own(uint64_t pc, uint64_t *ret_function)
{
	const uint8_t *header = find_header();
	uint32_t count;

	if (!header || header[0] != FIND_HEADER_VERSION ||
	    (header[1] | (uint32_t)header[2] << 8 | (uint32_t)header[3] << 16) != FIND_ENCODINGS)
		return 0;
	const struct find_row *rows = (const struct find_row *)(header + 12);
	__builtin_memcpy(&count, header + 8, sizeof(count));
	size_t n = sorted_count(count, i,
				(uint64_t)header + (uint64_t)(int64_t)rows[i].function <= pc);
	if (!n)
		return 0;
	*ret_function = (uint64_t)header + (uint64_t)(int64_t)rows[n - 1].function;
	return (uint64_t)header + (uint64_t)(int64_t)rows[n - 1].fde;
}

/* ---- answers to the hook --------------------------------------------------------------------- */

#define FIND_STACK (64u << 10) /* a context further up the stack isn't the asker's */
#define FIND_TAIL_CALLS 64u

/* Where a call that returns through stubs ends up; 0: `ra` is no stub's landing. */
static uint64_t find_behind_stubs(const struct dt_control *control, uint64_t ra)
{
	const struct dt_returns *returns = (const struct dt_returns *)control->returns;

	for (uint32_t i = 0; returns && i < FIND_TAIL_CALLS; i++) {
		uint64_t offset = ra - control->stubs;

		if (offset >> DT_STUB_SHIFT >= control->stub_count)
			return i ? ra : 0;
		if (offset % DT_STUB_SIZE != DT_STUB_LANDING)
			return 0;
		ra = returns->slots[offset >> DT_STUB_SHIFT].ra;
	}
	return 0;
}

/*
 * Removes stubs from the frames that libgcc sees (R8). libgcc asks for the table of each frame with
 * the bases inside of its context, whose return address this function changes to the caller's. So
 * _Unwind_GetCFA, _Unwind_GetIP and the personality routine say what they would say untraced.
 */
static void find_skip_stubs(const struct dt_control *control, uint64_t *pc,
			    struct find_bases *bases)
{
	struct find_context *context =
		(struct find_context *)((uint8_t *)bases - offsetof(struct find_context, bases));
	uint64_t here = (uint64_t)__builtin_frame_address(0);
	uint64_t ra = find_behind_stubs(control, *pc + 1);

	if (!ra || (uint64_t)context - here > FIND_STACK || context->ra != *pc + 1)
		return;
	context->ra = ra;
	*pc = ra - 1;
}

uint64_t find_table(const struct dt_control *control, uint64_t *asked, struct find_bases *bases)
{
	uint64_t function = 0, fde = 0;
	struct find_frame frame;

	find_skip_stubs(control, asked, bases);
	uint64_t pc = *asked;
	if (control->stub_fde && (pc - control->stubs) >> DT_STUB_SHIFT < DT_STUBS_MAX) {
		function = control->stubs;
		fde = control->stub_fde;
	} else if (pc - control->agent < DT_AGENT_SIZE) {
		fde = find_own(pc, &function);
	} else if (find_frame(control, pc, &frame)) {
		function = frame.is_hop ? pc : (uint64_t)frame.end - frame.end->start;
		fde = frame.is_hop ? control->hop_fde : control->frame_fde;
	}
	if (fde)
		*bases = (struct find_bases){ .function = function };
	return fde;
}
