/*
 * late.c - late stubs (R9): find the one of a call, take a free one, give up calls whose frames are
 * gone.
 *
 * A call is known by its tracepoint and the place of its return address, or in a Go function its
 * goroutine and the distance from the stack's end (R11). Chains only grow, and any
 * thread takes a slot of any chain. late_take and late_leave run with signals as they are: every
 * change of a shared word is one cmpxchg.
 */
#include "agent_parts.h"

#define LATE_SEARCH_FROM 8u /* shorter chains aren't searched for frames that are gone */

/* Little is on the stack of what slow_find calls (slow.S), so the slow part stays apart. */
#define LATE_APART __attribute__((noinline))

static inline struct dt_returns *late_returns(const struct dt_control *control)
{
	return (struct dt_returns *)control->returns;
}

static inline uint32_t *late_head(const struct retslot_call *call)
{
	uint64_t place = call->late_sp + ((uint64_t)call->late_tail << 2);

	return &call->returns->late[dt_late_index(place, call->site->id)];
}

static inline struct dt_return_slot *late_stub(const struct dt_control *control, uint32_t index)
{
	return &late_returns(control)->slots[index];
}

/* The slot in use of that call; NULL: none. */
static struct dt_return_slot *late_find(const struct retslot_call *call)
{
	uint32_t index = __atomic_load_n(late_head(call), __ATOMIC_ACQUIRE);

	while (index) {
		struct dt_return_slot *stub = &call->returns->slots[index];
		uint64_t sp = __atomic_load_n(&stub->sp, __ATOMIC_ACQUIRE);

		if ((sp & ~DT_RETURN_INHERITED) == call->late_sp && stub->tail == call->late_tail &&
		    stub->id == call->site->id)
			return stub;
		index = __atomic_load_n(&stub->next, __ATOMIC_ACQUIRE);
	}
	return 0;
}

/* The call of the slot is over without a return. False: it was over before. */
static bool late_end(const struct dt_control *control, struct dt_return_slot *stub, uint64_t to,
		     bool jumps)
{
	struct dt_pool *pool = agent_pool(control);
	struct dt_tally *tally = &pool->tallies[stub->id];
	uint64_t sp = __atomic_load_n(&stub->sp, __ATOMIC_ACQUIRE);

	if (!sp || sp & DT_RETURN_BUSY ||
	    !__atomic_compare_exchange_n(&stub->sp, &sp, to, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	if (sp & DT_RETURN_INHERITED)
		return true;
	__atomic_fetch_add(jumps ? &tally->missed : &tally->unwound, 1, __ATOMIC_RELAXED);
	if (jumps)
		__atomic_fetch_add(&pool->jumped, 1, __ATOMIC_RELAXED);
	return true;
}

static void late_give_up(const struct dt_control *control, struct dt_return_slot *stub, bool jumps)
{
	if (late_end(control, stub, 0, jumps))
		__atomic_store_n(&stub->use, -1, __ATOMIC_RELEASE);
}

/* ---- entries -------------------------------------------------------------------------------- */

static bool late_claim(struct dt_return_slot *stub, uint64_t sp)
{
	int16_t is_free = -1;

	if (!__atomic_compare_exchange_n(&stub->use, &is_free, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	stub->sp = sp | DT_RETURN_BUSY;
	return true;
}

static struct dt_return_slot *late_fill(const struct retslot_call *call,
					struct dt_return_slot *stub, const struct dt_slot *slot)
{
	stub->ra = call->ra;
	stub->body = call->site->body;
	stub->exit = call->site->exit;
	stub->id = call->site->id;
	stub->tail = call->late_tail;
	stub->thread =
		(uint16_t)(((uint64_t)slot - (uint64_t)agent_state(call->control)->slots) / 8);
	return stub;
}

/* The frame of a call with the same place and tracepoint is gone: its slot, or a free one. */
struct dt_return_slot *late_take(const struct retslot_call *call, const struct dt_slot *slot)
{
	const uint32_t *head = late_head(call);
	struct dt_return_slot *stub = late_find(call);

	if (stub && late_end(call->control, stub, call->late_sp | DT_RETURN_BUSY, false))
		return late_fill(call, stub, slot);
	for (uint32_t index = __atomic_load_n(head, __ATOMIC_ACQUIRE); index;
	     index = __atomic_load_n(&stub->next, __ATOMIC_ACQUIRE)) {
		stub = &call->returns->slots[index];
		if (late_claim(stub, call->late_sp))
			return late_fill(call, stub, slot);
	}
	return 0;
}

/* (R9) */
static bool late_is_gone(const struct dt_control *control, uint32_t index, uint64_t place)
{
	uint64_t word = 0, stub = control->stubs + (uint64_t)index * DT_STUB_SIZE;

	if (sys_read_self(place, &word, sizeof(word)) != sizeof(word))
		return true;
	return word != late_stub(control, index)->ra && word != index &&
	       word - stub >= DT_STUB_SIZE;
}

/* (R11) The end of a goroutine's stack; 0: unknown. */
static uint64_t late_stack_end(uint64_t goroutine)
{
	uint64_t end = 0;

	return sys_read_self(goroutine + DT_GO_STACK_END, &end, sizeof(end)) == sizeof(end) ? end :
											      0;
}

/* (R11) A goroutine on another thread may move its stack meanwhile: then nothing is known. */
static bool late_is_gone_go(const struct dt_control *control, uint32_t index, uint64_t goroutine)
{
	uint64_t end = late_stack_end(goroutine);

	return late_is_gone(control, index, dt_go_place(end, late_stub(control, index)->tail)) &&
	       late_stack_end(goroutine) == end;
}

/* Whenever a chain has grown to a power of two, gives up its calls whose frames are gone. */
static void late_search(const struct dt_control *control, uint32_t first)
{
	struct dt_return_slot *slots = late_returns(control)->slots;
	uint32_t length = 0;

	for (uint32_t index = first; index; index = slots[index].next)
		length++;
	if (length < LATE_SEARCH_FROM || length & (length - 1) ||
	    agent_flags(control) & DT_NO_READ || agent_is_quiet(control))
		return;
	for (uint32_t index = first; index; index = slots[index].next) {
		uint64_t sp = __atomic_load_n(&slots[index].sp, __ATOMIC_ACQUIRE);
		uint64_t place = sp & ~DT_RETURN_MARKS;

		if (sp && !(sp & DT_RETURN_BUSY) &&
		    (slots[index].tail ? late_is_gone_go(control, index, place) :
					 late_is_gone(control, index, place)))
			late_give_up(control, &slots[index], false);
	}
}

static struct dt_return_slot *late_add(const struct dt_control *control, uint64_t sp,
				       uint32_t *head)
{
	uint32_t index = retslot_fresh(control), next = __atomic_load_n(head, __ATOMIC_ACQUIRE);
	struct dt_return_slot *stub = late_stub(control, index);

	if (!index)
		return 0;
	stub->use = 0;
	stub->sp = sp | DT_RETURN_BUSY;
	stub->length = DT_RETURN_LATE;
	stub->hint = (uint32_t)offsetof(struct dt_returns, late_hint);
	do
		stub->next = next;
	while (!__atomic_compare_exchange_n(head, &next, index, false, __ATOMIC_ACQ_REL,
					    __ATOMIC_ACQUIRE));
	return stub;
}

LATE_APART struct dt_return_slot *late_make(const struct retslot_call *call,
					    const struct dt_slot *slot)
{
	uint32_t *head = late_head(call);

	late_search(call->control, __atomic_load_n(head, __ATOMIC_ACQUIRE));
	struct dt_return_slot *stub = late_take(call, slot);
	if (stub)
		return stub;
	stub = late_add(call->control, call->late_sp, head);
	return stub ? late_fill(call, stub, slot) : 0;
}

/* ---- ends ----------------------------------------------------------------------------------- */

uint64_t late_leave(const struct retslot_call *call)
{
	struct dt_return_slot *stub = late_find(call);
	uint32_t flags = call->site->flags;

	if (!stub)
		return 0;
	if (flags & DT_SITE_RETURN && stub->ra == call->ra)
		return call->control->stubs +
		       (uint64_t)(stub - call->returns->slots) * DT_STUB_SIZE + DT_STUB_LANDING;
	/* a jump, or not that call's frame */
	late_give_up(call->control, stub, flags & DT_SITE_JUMP);
	return 0;
}
