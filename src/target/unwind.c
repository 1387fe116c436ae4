/*
 * unwind.c - the callers of the probe, from the tables that the controller compiled
 * (src/shared/unwind.h).
 *
 * Reads the thread's own stack directly, where it is known. Copies other stacks piece by piece,
 * without faults, and walks in the copy: one system call serves many frames. Walks code without a
 * table by its frame pointer, if that looks like one.
 *
 * (T9) A word of the thread's own stack that is all ones is believed, unless its load fails:
 * callers keep such numbers in rbp.
 */
#include "gather.h"

#include "shared/frame.h"
#include "shared/reads.h"
#include "find.h"
#include "target/signals/loads.h"

#define FRAME_MAX (1u << 23) /* a larger distance is no frame pointer */
#define UNWIND_TAIL_CALLS 1024u

static inline bool is_own(struct dt_range own, uint64_t address)
{
	return address - own.start < own.end - own.start;
}

/* As many bytes of the stack as there is memory for, on one page (X14). */
static uint64_t piece_size(uint64_t address)
{
	uint64_t left = DT_PAGE - (address & (DT_PAGE - 1));

	return left < WINDOWS * sizeof(struct window) ? left : WINDOWS * sizeof(struct window);
}

static uint64_t word_at(struct unwind *u, uint64_t address)
{
	if (address & 7) {
		u->broken = true;
		return 0;
	}
	if (is_own(u->map.own, address)) {
		uint64_t word = loads_own_word(address);

		/* T9 */
		if (word == LOADS_NONE && loads_own_or(address, 0) != LOADS_NONE)
			u->broken = true;
		return word;
	}
	if (address - u->start >= u->size) {
		u->start = address;
		u->has_read = true;
		u->size = u->window ? safe_read(u->map.control, address, u->window,
						piece_size(address)) &
					      ~7ULL :
				      0;
	}
	if (address - u->start >= u->size) {
		u->broken = true;
		return 0;
	}
	return u->window[(address - u->start) / 8];
}

/* The caller of a signal handler: registers that the kernel saved above it. */
static void step_signal(struct unwind *u)
{
	uint64_t sp = u->at.sp;

	u->at.pc = word_at(u, sp + DT_SIGNAL_RIP);
	u->at.bp = word_at(u, sp + DT_SIGNAL_RBP);
	u->at.sp = word_at(u, sp + DT_SIGNAL_RSP);
	u->at.exact = true;
}

static uint64_t find_cfa(struct unwind *u, const struct dt_unwind_row *row)
{
	int64_t offset = (int64_t)row->cfa * 8;

	switch (row->cfa_rule) {
	case DT_CFA_RSP:
		return u->at.sp + (uint64_t)offset;
	case DT_CFA_RBP:
		return u->at.bp + (uint64_t)offset;
	case DT_CFA_AT_RBP:
		return word_at(u, u->at.bp + (uint64_t)offset);
	case DT_CFA_HARD:
		u->broken = true;
		return 0;
	default: /* DT_CFA_PLT: one more word is pushed from the entry's 11th byte on */
		return u->at.sp + 8 + ((u->at.pc & 15) >= 11 ? 8 : 0);
	}
}

/* A call whose exit is recorded returns through a stub, whose slot has the real return address, or
 * another stub's landing (a tail call). Coroutines that resume each other make chains of thousands:
 * too long to be followed at each hit. */
static void step_stubs(struct unwind *u)
{
	const struct dt_control *control = u->map.control;
	const struct dt_returns *returns = (const struct dt_returns *)control->returns;

	for (uint32_t i = 0; returns; i++) {
		uint64_t index = (u->at.pc - control->stubs) >> DT_STUB_SHIFT;

		if (index >= control->stub_count)
			return;
		if (i == UNWIND_TAIL_CALLS) {
			u->broken = true;
			return;
		}
		/* a signal interrupted the stub behind its push */
		if (u->at.exact && (u->at.pc & (DT_STUB_SIZE - 1)) > DT_STUB_LANDING)
			u->at.sp += 8;
		u->at.pc = returns->slots[index].ra;
		u->at.exact = false;
	}
}

/* Steps from code that has returned, or that a trampoline called: goes on at the word below the
 * stack pointer. */
static void step_returned(struct unwind *u)
{
	uint64_t word = word_at(u, u->at.sp - 8);

	u->at.pc = word < DT_STUBS_MAX ? u->map.stubs.start + (word << DT_STUB_SHIFT) : word;
	u->at.exact = false;
}

/* Steps from a trampoline to the instruction that it stands for. False: to the trampoline that has
 * called this code. */
static bool step_code(struct unwind *u, const struct find_frame *frame)
{
	uint64_t site = (uint64_t)frame->end + (uint64_t)(int64_t)frame->end->site;
	uint32_t origin = frame->row >> DT_FRAME_ORIGIN_SHIFT & DT_FRAME_ORIGIN_MASK;
	struct find_frame caller;

	if (frame->is_hop) {
		u->at.pc = site;
		return true;
	}
	u->at.sp += 8ULL * (frame->row >> DT_FRAME_WORDS_SHIFT) - 8;
	u->at.pc = site + origin;
	if (origin != DT_FRAME_RETURNS)
		return true;
	step_returned(u);
	return !find_frame(u->map.control, u->at.pc, &caller) || caller.is_hop;
}

/* A signal interrupted a trampoline, or code that a trampoline called: continue with the
 * instruction that the trampoline stands for. */
static void step_trampoline(struct unwind *u)
{
	struct find_frame frame;

	if (!u->at.exact || !find_frame(u->map.control, u->at.pc, &frame))
		return;
	if (step_code(u, &frame) || !find_frame(u->map.control, u->at.pc, &frame))
		return;
	u->at.exact = true;
	step_code(u, &frame);
}

static void step_table(struct unwind *u, const struct dt_unwind_row *row)
{
	uint64_t cfa = find_cfa(u, row);

	if (u->broken || (cfa <= u->at.sp && !u->at.exact)) {
		u->broken = true;
		return;
	}
	if (row->rbp_rule == DT_RBP_SAVED)
		u->at.bp = word_at(u, cfa + (uint64_t)((int64_t)row->rbp * 8));
	else if (row->rbp_rule == DT_RBP_AT_RBP)
		u->at.bp = word_at(u, u->at.bp + (uint64_t)((int64_t)row->rbp * 8));
	u->at.pc = word_at(u, cfa - 8);
	u->at.sp = cfa;
	u->at.exact = false;
}

static inline bool is_frame_pointer(const struct unwind_place *at)
{
	return at->bp >= at->sp && at->bp - at->sp <= FRAME_MAX && !(at->bp & 7);
}

static void step_frame_pointer(struct unwind *u)
{
	uint64_t bp = u->at.bp;

	if (!is_frame_pointer(&u->at)) {
		u->broken = true;
		return;
	}
	u->at.bp = word_at(u, bp);
	u->at.pc = word_at(u, bp + 8);
	u->at.sp = bp + 16;
	u->at.exact = false;
}

/* One frame up, by its row. */
static void step(struct unwind *u, const struct dt_unwind_row *row)
{
	if (row->cfa_rule == DT_CFA_SIGNAL)
		step_signal(u);
	else if (row->cfa_rule != DT_CFA_NONE)
		step_table(u, row);
	else
		step_frame_pointer(u);
	step_trampoline(u);
	step_stubs(u);
}

/* ---- usual frames ---------------------------------------------------------------------------- */

/*
 * Steps over frames of the usual kinds, whose rows are kept and whose words are on the thread's own
 * stack: the CFA is above rsp or rbp, rbp is as it was or saved below the CFA. Does what step()
 * does. Almost all frames are such, and nothing but two loads, of the row and of the return
 * address, holds the next frame up. Gives the number of frames; stops at an unusual one.
 */
static inline __attribute__((always_inline)) uint32_t
step_usual(const struct unwind_map *map, struct unwind_place *at, uint64_t *frames, uint32_t most)
{
	const struct unwind_map m = *map; /* in registers: nothing else has its address */
	uint64_t pc = at->pc, sp = at->sp, bp = at->bp, key = pc + at->exact;
	uint64_t word, cfa, saved, *to = frames, *end = frames + most;
	bool is_last = false;

	while (to < end && !is_own(m.stubs, pc)) {
		word = __atomic_load_n(&m.cache.rows[key % DT_ROWS_CACHED], __ATOMIC_RELAXED);
		if (!row_cache_is(&m.cache, word, key))
			break;
		if ((word & ROW_UNUSUAL) != DT_CFA_RSP) {
			is_last = (word & ROW_CFA_RULE) == DT_CFA_END;
			break;
		}
		cfa = sp + (word & ROW_CFA);
		if (word & ROW_FROM_RBP) {
			cfa = bp + (word & ROW_CFA);
			__asm__("" : "+r"(cfa)); /* a jump, which the processor guesses */
		}
		saved = cfa - (word >> ROW_RBP & ROW_RBP_MAX) * 8;
		if (cfa <= sp || cfa & 7 || !is_own(m.own, cfa - 8) || !is_own(m.own, saved))
			break;
		if (word & ROW_SAVES_RBP)
			bp = loads_own_word(saved);
		*to++ = pc;
		key = pc = loads_own_word(cfa - 8);
		sp = cfa;
		if (!pc)
			break;
	}
	if (is_last)
		*to++ = pc;
	at->over = is_last || to == end || (to > frames && !pc);
	at->exact &= to == frames;
	at->pc = pc, at->sp = sp, at->bp = bp;
	return (uint32_t)(to - frames);
}

/* ---- all frames ------------------------------------------------------------------------------ */

static inline void open_map(struct unwind_map *map, const struct dt_control *control,
			    uint64_t own_start, uint64_t own_end)
{
	map->control = control;
	map->own = (struct dt_range){ own_start, own_end & ~7ULL };
	map->stubs.start = control->stubs;
	map->stubs.end = control->stubs + (uint64_t)control->stub_count * DT_STUB_SIZE;
	row_cache_open(control, &map->cache);
}

/* Stores the frames behind `count`, which are there already; gives the number of all. */
static uint32_t walk(struct unwind *u, uint64_t *frames, uint32_t count, uint32_t most)
{
	u->broken = u->has_read = false;
	u->start = u->size = 0;
	while (count < most) {
		struct dt_unwind_row row;

		count += step_usual(&u->map, &u->at, frames + count, most - count);
		step_stubs(u);
		if (u->at.over || (count && !u->at.pc))
			break;
		u->broken |= u->at.pc == LOADS_NONE;
		if (!u->broken) {
			frames[count++] = u->at.pc;
			row = row_cache_find(&u->map.cache, u->at.pc + u->at.exact);
			if (row.cfa_rule == DT_CFA_END || count == most)
				break;
			step(u, &row);
		}
		if (u->broken)
			frames[count++] = DT_FRAME_UNKNOWN;
		if (u->broken || !u->at.pc)
			break;
	}
	return count;
}

uint32_t unwind_walk(struct gather *g, uint64_t *frames, uint32_t most)
{
	const struct dt_return_slot *stub = gather_stub(g);
	struct unwind *u = g->unwind;

	open_map(&u->map, g->control, g->own.start, g->own.end);
	u->window = (uint64_t *)g->windows;
	u->at.pc = stub ? stub->ra : g->program->rip;
	u->at.sp = g->regs->general[4] + (stub ? 8 : 0); /* the function has returned */
	u->at.bp = g->regs->general[5];
	u->at.exact = !stub;
	uint32_t count = walk(u, frames, 0, most);
	if (u->has_read)
		read_cache_clear(g);
	return count;
}

/* Goes on behind frames of the usual kinds. 0: the thread's own stack doesn't suffice. */
static __attribute__((noinline)) uint32_t walk_rest(const struct unwind_map *map,
						    const struct unwind_place *at,
						    uint64_t *frames, uint32_t count, uint32_t most)
{
	struct unwind u = { .map = *map, .at = *at };

	count = walk(&u, frames, count, most);
	return u.has_read ? 0 : count;
}

/* Ends a walk as walk() does at code of which nothing is known, as below a coroutine. 0: the walk
 * goes on. */
static inline uint32_t end_walk(const struct unwind_map *map, const struct unwind_place *at,
				uint64_t *frames, uint32_t count, uint32_t most)
{
	uint64_t key = at->pc + at->exact, word = map->cache.rows[key % DT_ROWS_CACHED];

	if (is_own(map->stubs, at->pc) || !row_cache_is(&map->cache, word, key) ||
	    (word & ROW_CFA_RULE) != DT_CFA_NONE || is_frame_pointer(at))
		return 0;
	frames[count++] = at->pc;
	if (count < most)
		frames[count++] = DT_FRAME_UNKNOWN;
	return count;
}

/*
 * (T7) The end of what can be read of the stack that the thread is on: its own, or memory that
 * stays. Of other stacks that is the page below `sp`: the trampoline has just written there, or a
 * push of the program's would.
 */
static inline uint64_t stack_end(const struct dt_control *control, const struct dt_slot *slot,
				 uint64_t sp, uint32_t asked)
{
	const struct dt_own_stack *own = agent_own_stack(control, slot);
	uint64_t known;

	if (!(asked & DT_READ_SHALLOW))
		return own->start + own->size + DT_STACK_ROOM;
	known = stack_room_above(control, slot, sp);
	if (!known)
		known = safe_stable(control, sp);
	return known ? sp + known : ((sp - 1) | (DT_PAGE - 1)) + 1;
}

/* As DT_READ_FRAMES of shared/reads.h wants it: a function of the C ABI. */
__attribute__((visibility("default"))) uint8_t *dt_read_frames(const struct dt_control *control,
							       const struct dt_slot *slot,
							       uint64_t pc, uint64_t sp,
							       uint64_t bp, uint8_t *field);

uint8_t *dt_read_frames(const struct dt_control *control, const struct dt_slot *slot, uint64_t pc,
			uint64_t sp, uint64_t bp, uint8_t *field)
{
	uint64_t *frames = (uint64_t *)DT_ROUND_UP((uint64_t)field + 4, 8);
	uint32_t asked = *(uint32_t *)field, most = asked & DT_READ_COUNT, count;
	struct unwind_place at = { pc, sp, bp, .exact = !(asked & DT_READ_RETURNS) };
	struct unwind_map map;

	open_map(&map, control, sp, stack_end(control, slot, sp, asked));
	count = step_usual(&map, &at, frames, most);
	if (asked & DT_READ_SHALLOW && !at.over)
		count = end_walk(&map, &at, frames, count, most);
	else if (!at.over)
		count = walk_rest(&map, &at, frames, count, most);
	if (asked & DT_READ_PART && count == most)
		return NULL;
	((uint32_t *)frames)[-1] = 0; /* between the two, if that isn't the count */
	*(uint32_t *)field = count;
	return count ? (uint8_t *)(frames + count) : NULL;
}
