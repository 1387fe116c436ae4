/*
 * stack_room.c - where is a thread's own stack?
 *
 * Events are gathered on the thread's own stack (gather.h), which needs a few KiB. Stacks of
 * coroutines, goroutines and signal handlers may have less, and nothing tells how much: the memory
 * below them is readable, and somebody else's. So only two stacks count, whose ends are known:
 *
 *	the first thread's	dt_control.stack
 *	a thread's of glibc	its thread block, on top of the stack, names the stack's start and
 *				size and its guard, whoever gave the memory
 *
 * A thread that has an alternate stack inside of its own stack is never believed to have room.
 *
 * (T3) dt_state.own_stacks is written by the slot's own thread alone, with signals blocked. A size
 * of 0 is written first and the size last, so a hit reads a size that fits the start. A thread
 * looks once.
 */
#include "gather.h"

#pragma GCC diagnostic ignored "-Wframe-larger-than="

#define NEVER UINT64_MAX /* as a start */

/* The part of glibc's struct pthread that has the stack's words, whose offset varies. */
#define BLOCK_SELF 0x10u
#define BLOCK_FIRST 0x300u
#define BLOCK_END 0x900u
#define BLOCK_SURE 0x700u /* bytes that every glibc's struct has, those words among them */
#define ABOVE_LEAST 0x400u /* bytes of the stack above the block's start: its struct */
#define ABOVE_MOST 0x4000u

static void note(struct dt_own_stack *own, uint64_t start, uint64_t size)
{
	__atomic_store_n(&own->size, 0, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&own->start, start, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&own->size, size, __ATOMIC_RELAXED); /* T3 */
}

void stack_room_forget(const struct dt_control *control, const struct dt_slot *slot)
{
	struct dt_own_stack *own = agent_own_stack(control, slot);

	note(own, 0, 0);
	own->open = DT_NOT_OPEN; /* X3 */
	own->loading = own->passing = 0;
	own->shut = own->pauses = 0;
	own->pause = 0;
	own->looked = own->used = 0; /* X19 */
}

uint64_t stack_room_above(const struct dt_control *control, const struct dt_slot *slot,
			  uint64_t from)
{
	const struct dt_own_stack *own = agent_own_stack(control, slot);
	uint64_t size = own->size ? own->size + DT_STACK_ROOM : 0, below = from - own->start;

	return below < size ? size - below : 0;
}

/* Are these glibc's stackblock, stackblock_size and guardsize? */
static bool is_stack(const uint64_t words[3], uint64_t block)
{
	uint64_t start = words[0], size = words[1], guard = words[2];

	return start < block && size < block && guard < size && !(guard & (DT_PAGE - 1)) &&
	       start + size - block >= ABOVE_LEAST && start + size - block <= ABOVE_MOST &&
	       start + size > block;
}

static uint64_t read_block(const struct dt_control *control, uint64_t from, uint64_t *words,
			   uint64_t count)
{
	if (!(agent_flags(control) & DT_NO_READ))
		return safe_read(control, sys_fs_base() + from, words, count * 8) / 8;
	for (uint64_t i = 0; i < count; i++)
		words[i] = sys_fs_long(from + i * 8);
	return count;
}

/* The words that can be read. Where a filter forbids to ask, only glibc's own are sure to be. */
static uint64_t readable_words(const struct dt_control *control)
{
	uint64_t block = sys_fs_base(), page_left = DT_PAGE - (block & (DT_PAGE - 1));
	uint64_t sure = page_left > BLOCK_SURE ? page_left : BLOCK_SURE;

	if (!(agent_flags(control) & DT_NO_READ))
		return (BLOCK_END - BLOCK_FIRST) / 8;
	if (!(agent_flags(control) & DT_GLIBC) || !block || block & 7 || block >> 47)
		return 0;
	return ((sure < BLOCK_END ? sure : BLOCK_END) - BLOCK_FIRST) / 8;
}

/* From its thread block; an end of 0: unknown. */
static struct dt_range find_in_block(const struct dt_control *control)
{
	uint64_t words[(BLOCK_END - BLOCK_FIRST) / 8], self[BLOCK_SELF / 8 + 1];
	uint64_t block = sys_fs_base(), most = readable_words(control);
	struct dt_range found = { 0, 0 };

	if (!most ||
	    read_block(control, 0, self, BLOCK_SELF / 8 + 1) != BLOCK_SELF / 8 + 1 ||
	    self[0] != block || self[BLOCK_SELF / 8] != block)
		return found;
	uint64_t count = read_block(control, BLOCK_FIRST, words, most);
	for (uint64_t i = 0; i + 3 <= count; i++) {
		if (!is_stack(words + i, block))
			continue;
		if (found.end)
			return (struct dt_range){ 0, 0 };
		found = (struct dt_range){ words[i] + words[i + 2], block };
	}
	return found;
}

static struct dt_range find(const struct dt_control *control, const struct dt_slot *slot)
{
	struct dt_range found = find_in_block(control);

	if (!found.end && slot->real_tid == agent_state(control)->pid)
		found = control->stack;
	if (found.end < found.start + DT_STACK_ROOM)
		found.end = 0;
	return found;
}

bool stack_room_look_first(const struct dt_control *control)
{
	const struct dt_slot *slot = slow_find_ours(control);

	if (!(agent_flags(control) & DT_NO_READ) ||
	    (slot && agent_own_stack(control, slot)->start))
		return false;
	stack_room_look(control);
	slot = slow_find_ours(control);
	return slot && agent_own_stack(control, slot)->size;
}

void stack_room_look(const struct dt_control *control)
{
	struct sys_altstack other = { 0, SYS_SS_DISABLE, 0, 0 };
	const struct dt_slot *slot = slow_find_ours(control);

	/* an event that a condition turned away has needed none; a new slot reads the clock */
	if (!slot && thread_has_clock(control) && slow_path(control, 0, 0, 0))
		slot = slow_find_ours(control);
	struct dt_own_stack *own = slot ? agent_own_stack(control, slot) : NULL;

	if (!own || own->start || agent_flags(control) & DT_NO_ALTSTACK)
		return;
	struct dt_range stack = find(control, slot);
	bool fails = !stack.end || sys_call3(SYS_SIGALTSTACK, 0, (uint64_t)&other, 0);
	if (fails || (!(other.flags & SYS_SS_DISABLE) && other.start < stack.end &&
		      stack.start < other.start + other.size))
		note(own, NEVER, 0);
	else
		note(own, stack.start, stack.end - stack.start - DT_STACK_ROOM);
}
