/*
 * slow.c - the decisions of dt_slow: which slot, or how to count the hit (B7).
 */
#include "agent_parts.h"

#include "shared/reads.h"
#include "target/signals/loads.h"

#define SLOW_WAIT_NS 50000000u

/* Its name contains the layout's version: a controller of another version doesn't find it. */
__attribute__((visibility("default"))) void DT_VERSION_SYMBOL(void);
void DT_VERSION_SYMBOL(void)
{
}

_Static_assert(CONTROL_FLAGS == offsetof(struct dt_control, flags), "slow.S");
_Static_assert(CONTROL_STATE == offsetof(struct dt_control, state), "slow.S");
_Static_assert(CONTROL_NO_SYSCALLS == DT_NO_SYSCALLS, "slow.S");
_Static_assert(STATE_FILTERED == offsetof(struct dt_state, inherited.filtered), "slow.S");
_Static_assert(STATE_LOUD == offsetof(struct dt_state, loud), "slow.S");
_Static_assert(STATE_STACKS_BUSY == offsetof(struct dt_state, stacks_busy), "slow.S");
_Static_assert(STATE_STACKS == offsetof(struct dt_state, stacks), "slow.S");
_Static_assert(STATE_SLOTS == offsetof(struct dt_state, slots), "gather.S");
_Static_assert(STATE_OWN_STACKS == offsetof(struct dt_state, own_stacks), "gather.S");
_Static_assert(STACK_ROOM == DT_STACK_ROOM, "gather.S");
_Static_assert(SLOT_TID == offsetof(struct dt_slot, tid), "gather.S");
_Static_assert(SLOT_TID_OFFSET == offsetof(struct dt_slot, tid_offset), "gather.S");
_Static_assert(SLOT_RESERVE == offsetof(struct dt_slot, reserve), "reads.S");
_Static_assert(SLOT_LIMIT == offsetof(struct dt_slot, limit), "reads.S");
_Static_assert(SLOT_LAST == offsetof(struct dt_slot, last), "reads.S");
_Static_assert(SLOT_EVENTS == offsetof(struct dt_slot, events), "reads.S");
_Static_assert(sizeof(((struct dt_control *)0)->reads) == DT_READS * 8, "reads.h");
_Static_assert(DT_PAGES == 1024 && DT_PAGE == 4096, "reads.S");
_Static_assert(DT_EVENT_ID_BITS == 24 && DT_EVENT_PENDING == 0x800000, "reads.S");
_Static_assert(DT_CLOCK_GAP_SHIFT == 39, "reads.S");
_Static_assert(1u << STATE_STACK_SHIFT == DT_STACK_SIZE && DT_STACKS == 64, "slow.S");

/* Does the call want a return stub? Then `size` is the address of its struct dt_return_site. */
static inline bool slow_is_return(uint64_t size)
{
	return size > DT_EVENT_SIZE_MAX;
}

/* Only adds, so a signal may come at any point; locked, because other threads count there, too. */
static inline uint64_t slow_lose(const struct dt_control *control, const struct dt_slot *slot,
				 uint32_t id)
{
	struct dt_pool *pool = agent_pool(control);
	uint64_t *counter = &pool->lost_homeless;

	if (slot && slot->thread)
		counter = &pool->threads[slot->thread].lost;
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
	if (id < DT_EVENTS_MAX)
		__atomic_fetch_add(&pool->tallies[id].lost, 1, __ATOMIC_RELAXED);
	return 0;
}

/* (B8) */
static inline bool slow_may_wait(const struct dt_control *control)
{
	return control->flags & DT_BLOCK && !agent_is_quiet(control) &&
	       !__atomic_load_n(&agent_pool(control)->expired, __ATOMIC_RELAXED);
}

static inline bool slow_pool_is_empty(const struct dt_control *control)
{
	const struct dt_pool *pool = agent_pool(control);

	return __atomic_load_n(&pool->small_free, __ATOMIC_RELAXED) <= 0 &&
	       __atomic_load_n(&pool->big_free, __ATOMIC_RELAXED) <= 0;
}

struct dt_slot *slow_find_ours(const struct dt_control *control)
{
	uint64_t base = sys_fs_base();
	struct dt_slot *slot = thread_find(agent_state(control), base, ~base);

	return slot && agent_slot_is_ours(slot) ? slot : NULL;
}

/*
 * The cheap cases, without a system call: a muted process, a slot that isn't at its hash, an empty
 * pool.
 */
uint64_t slow_find(const struct dt_control *control, uint64_t id, uint64_t size, uint64_t r14)
{
	if (slow_is_return(size))
		return retslot_find(control, id, size, r14);
	if (agent_state(control)->muted)
		return 0;
	if (id == DT_ASK_MODULES)
		return notice_is_due(control) ? SLOW_AGAIN : 0;
	if (id == DT_ASK_EXEC || id == DT_ASK_CLOCK || id == DT_ASK_BLOCK)
		return SLOW_NEEDED;
	if (id == DT_ASK_SHUT) {
		loads_shut(control); /* X6 */
		return 0;
	}
	if (id == DT_ASK_STILL)
		return quiet_wait(control);
	if (id == DT_ASK_CALL)
		return call_is_left(control);
	if (id == DT_ASK_ROOM)
		return call_has_room(control);
	if (!thread_has_clock(control))
		return slow_give_up(control, id, size);
	struct dt_slot *slot = slow_find_ours(control);
	if (!slot)
		return SLOW_NEEDED;
	if (!size || chunk_has_room(slot, (uint32_t)size))
		return (uint64_t)slot;
	/* A full chunk is published first: the reader may wait for it. */
	if (slot->limit == 0 && slot->thread && !(control->flags & DT_OVERWRITE) &&
	    slow_pool_is_empty(control))
		return slow_may_wait(control) ? SLOW_AGAIN : slow_lose(control, slot, (uint32_t)id);
	return SLOW_NEEDED;
}

uint64_t slow_give_up(const struct dt_control *control, uint64_t id, uint64_t size)
{
	if (slow_is_return(size))
		return retslot_miss(control, size);
	if (id == DT_ASK_EXEC)
		return exec_miss(control);
	if (!size && id < DT_EVENTS_MAX) /* an exit that can't be measured */
		__atomic_fetch_add(&agent_pool(control)->tallies[id].missed, 1, __ATOMIC_RELAXED);
	return !size ? 0 : slow_lose(control, slow_find_ours(control), (uint32_t)id);
}

/* Another thread may do the same: the first number stays. */
static void slow_number_process(const struct dt_control *control)
{
	struct dt_state *state = agent_state(control);
	uint32_t none = 0, number = 0;

	while (!number)
		number = __atomic_add_fetch(&agent_pool(control)->processes, 1, __ATOMIC_RELAXED);
	__atomic_compare_exchange_n(&state->process, &none, number, false, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
}

/*
 * A state without a pid was wiped by a fork (or its pid was never written, and it is the target's
 * own). A vfork child shares its parent's state, and so counts as its parent.
 */
static bool slow_process_is_traced(const struct dt_control *control)
{
	struct dt_state *state = agent_state(control);

	if (!state->pid) {
		uint32_t pid = state->owner		? state->owner :
			       agent_is_quiet(control) ? thread_block_tid(control) :
							 sys_getpid();

		if (!pid)
			return true;
		if (pid != control->pid && !(control->flags & DT_FOLLOW_FORK))
			state->muted = 1;
		retslot_forked(control, pid);
		slow_number_process(control);
		state->pid = pid;
	}
	return !state->muted;
}

uint64_t slow_path(const struct dt_control *control, uint64_t id, uint64_t size, uint64_t r14)
{
	if (!slow_process_is_traced(control))
		return 0;
	if (slow_is_return(size))
		return (uint64_t)retslot_take(control, id, size, r14);
	if (id == DT_ASK_EXEC)
		return exec_ask(control);
	if (id == DT_ASK_CLOCK)
		return thread_lose_clock(control);
	if (id == DT_ASK_BLOCK)
		return thread_learn_block(control);
	struct dt_slot *slot = thread_slot(control, (uint32_t)size);
	if (!size || (slot && slot->thread && chunk_prepare(control, slot, (uint32_t)size)))
		return (uint64_t)slot;
	if (slot && slot->thread && size <= DT_EVENT_SIZE_MAX && slow_may_wait(control))
		return SLOW_AGAIN;
	return slow_lose(control, slot, (uint32_t)id);
}

bool slow_must_wait(const struct dt_control *control, uint32_t size)
{
	if (!slow_may_wait(control) || !slow_process_is_traced(control) ||
	    !thread_has_clock(control))
		return false;
	struct dt_slot *slot = thread_slot(control, size);
	return slot && slot->thread && !chunk_prepare(control, slot, size) &&
	       slow_may_wait(control);
}

/*
 * Holds nothing, so a signal handler may run meanwhile, hit, wait too, or jump away. Sleeps are
 * short, to notice a killed controller.
 */
static uint64_t slow_wait_loud(const struct dt_control *control, uint64_t *deadline, uint64_t id)
{
	if (id == DT_ASK_MODULES) {
		notice_tell(control);
		return 0;
	}
	struct dt_pool *pool = agent_pool(control);
	uint64_t now = sys_now_ns();
	uint32_t room = __atomic_load_n(&pool->room, __ATOMIC_SEQ_CST);

	if (!*deadline)
		*deadline = now + control->block_ms * 1000000ULL;
	if (now >= *deadline || agent_is_orphan(control)) {
		__atomic_store_n(&pool->expired, 1, __ATOMIC_RELAXED);
		return 1;
	}
	/* Pairs with pool_tell_room: it raises `room`, then looks at `room_wanted`. */
	__atomic_store_n(&pool->room_wanted, 1, __ATOMIC_SEQ_CST);
	if (slow_pool_is_empty(control) && slow_may_wait(control))
		sys_futex_wait(&pool->room, room, SLOW_WAIT_NS);
	return 1;
}

uint64_t slow_wait(const struct dt_control *control, uint64_t *deadline, uint64_t id)
{
	uint32_t *loud = &agent_state(control)->loud;
	uint64_t again = id != DT_ASK_MODULES;

	__atomic_fetch_add(loud, 1, __ATOMIC_SEQ_CST); /* Q6 */
	if (!agent_is_quiet(control))
		again = slow_wait_loud(control, deadline, id);
	__atomic_fetch_sub(loud, 1, __ATOMIC_SEQ_CST);
	return again;
}
