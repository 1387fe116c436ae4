/*
 * thread.c - the calling thread's slot. Signals are blocked (see agent_parts.h).
 *
 * A slot is found by its key. The usual key is ~FS base. Since thread blocks are recycled, the slot
 * also notes the place and the value of the word of the block that holds the tid: another value
 * there means another thread. The agent searches for that word:
 *
 *  - glibc and musl have it at a known offset in a block that points to itself: believed if the
 *    kernel's tid is there;
 *  - elsewhere (Go, hand-made threads) any aligned 32-bit word on the page of the FS base will do
 *    if it is the only one with that value (another page could be gone by the time the trampoline
 *    reads it). A small tid, as in a container, is easily found twice: then none is believed. A
 *    word that matched by chance and then changes costs a search. A word that matched by chance,
 *    never changes and survives its thread would give the next thread's events the wrong tid: that
 *    takes an unknown thread library and bad luck.
 *
 * A thread without such a word (FS base 0 before the first instruction of libc, a child of a bare
 * fork system call whose block still names its parent) gets a key made from its tid and always
 * takes the slow path.
 *
 * (T1) Only the slot's own thread writes a slot, with signals blocked. A slot changes hands by
 * compare-and-swap: an empty slot of its key (0 -> key), a dead thread's of its real_tid (-> 0).
 * While real_tid is 0 no other thread touches it; real_tid is stored last. A key never becomes 0
 * again, so a search may stop at the first 0.
 *
 * (T2) The controller frees the chunk and the record of a thread that it finds dead. A slot whose
 * thread is alive again, because its tid was reused, is checked against both in the slow path.
 *
 * (T6) A search for a record that finds none is noted with the number of records that had been
 * freed before it began. No thread searches again until that number has grown: a program with more
 * threads than there are records would read all of them per hit. The number grows after the record
 * is free: so a record that a search came too early for is always found by a later one.
 */
#include "agent_parts.h"

#define THREAD_TID_KEY (1ULL << 62) /* not ~ of any canonical address */
#define THREAD_GONE 0x7fffffffu /* no thread's tid: the slot may be taken */

#define GLIBC_SELF 0x10
#define GLIBC_TID 0x2d0
#define MUSL_TID 0x30
#define MUSL_OLD_TID 0x38
#define THREAD_BLOCK 0x2d8 /* bytes that hold all of these */
#define THREAD_LOOK_STEP 512

/* ---- the tid in the thread block ---------------------------------------------------------- */

struct thread_who {
	uint64_t base; /* FS base */
	uint64_t key;
	uint32_t tid;
	uint32_t block_tid; /* for the slot: the tid, or ~0 if the block doesn't hold it */
	uint64_t tid_offset;
};

static bool thread_look_known(uint64_t base, uint32_t tid, uint64_t *ret_offset)
{
	uint64_t block[THREAD_BLOCK / 8];
	const uint32_t *words = (const uint32_t *)block;
	unsigned found = 0;

	int64_t length = sys_read_self(base, block, sizeof(block));
	if (length < MUSL_OLD_TID + 4 || block[0] != base)
		return false;
	if (length >= GLIBC_TID + 4 && block[GLIBC_SELF / 8] == base &&
	    words[GLIBC_TID / 4] == tid) {
		found++;
		*ret_offset = GLIBC_TID;
	}
	if (words[MUSL_TID / 4] == tid || words[MUSL_OLD_TID / 4] == tid) {
		found++;
		*ret_offset = words[MUSL_TID / 4] == tid ? MUSL_TID : MUSL_OLD_TID;
	}
	return found == 1;
}

/* The same without a call, where a filter forbids it: reads only what must be readable, the page
 * on which the FS base lies, and all of a block of glibc's. */
static bool thread_look_here(const struct dt_control *control, uint64_t base, uint32_t tid,
			     uint64_t *ret_offset)
{
	uint64_t page_left = DT_PAGE - (base & (DT_PAGE - 1));
	bool glibc = agent_flags(control) & DT_GLIBC;

	if (base & 7 || page_left < MUSL_OLD_TID + 4 || sys_fs_long(0) != base)
		return false;
	if ((glibc || page_left >= GLIBC_TID + 4) && sys_fs_long(GLIBC_SELF) == base &&
	    sys_fs_word(GLIBC_TID) == tid)
		*ret_offset = GLIBC_TID;
	else if (!glibc && sys_fs_word(MUSL_TID) == tid)
		*ret_offset = MUSL_TID;
	else if (!glibc && sys_fs_word(MUSL_OLD_TID) == tid)
		*ret_offset = MUSL_OLD_TID;
	else
		return false;
	return true;
}

static bool thread_look_everywhere(uint64_t base, uint32_t tid, uint64_t *ret_offset)
{
	uint32_t words[THREAD_LOOK_STEP / 4];
	uint64_t page = base & ~(DT_PAGE - 1);
	unsigned found = 0;

	for (uint64_t at = page; at < page + DT_PAGE; at += THREAD_LOOK_STEP) {
		int64_t length = sys_read_self(at, words, sizeof(words));

		for (int64_t i = 0; i < length / 4; i++) {
			if (words[i] != tid)
				continue;
			*ret_offset = at + (uint64_t)i * 4 - base;
			found++;
		}
	}
	return found == 1;
}

/* No library has unaligned blocks, and reading one would trip the alignment check (H2). */
static void thread_look(const struct dt_control *control, struct thread_who *who, bool thorough)
{
	bool usable = who->base && !(who->base & 3) && !(who->base >> 47);
	bool found = false;

	if (usable && agent_flags(control) & DT_NO_READ)
		found = thread_look_here(control, who->base, who->tid, &who->tid_offset);
	else if (usable)
		found = thread_look_known(who->base, who->tid, &who->tid_offset) ||
			(thorough &&
			 thread_look_everywhere(who->base, who->tid, &who->tid_offset));
	if (found) {
		who->key = ~who->base;
		who->block_tid = who->tid;
		return;
	}
	who->key = THREAD_TID_KEY | who->tid;
	who->block_tid = ~0u;
	who->tid_offset = 0;
}

/* ---- slots -------------------------------------------------------------------------------- */

static uint64_t thread_hash_input(const struct thread_who *who)
{
	return who->block_tid == ~0u ? (uint64_t)who->tid << 12 : who->base;
}

static struct dt_slot *thread_probe(struct dt_state *state, uint64_t hash_input, uint32_t step)
{
	uint32_t home = dt_hash(hash_input) >> DT_SLOT_SHIFT;

	return &state->slots[(home + step) & (DT_SLOTS - 1)];
}

/* Uses the trampoline's hash, so that step 0 is the slot that the trampoline looks at. Also called
 * with signals not blocked. */
struct dt_slot *thread_find(struct dt_state *state, uint64_t hash_input, uint64_t key)
{
	for (uint32_t step = 0; step < DT_SLOT_PROBES; step++) {
		struct dt_slot *slot = thread_probe(state, hash_input, step);
		uint64_t there = __atomic_load_n(&slot->key, __ATOMIC_ACQUIRE);

		if (there == key)
			return slot;
		if (!there)
			return NULL;
	}
	return NULL;
}

/* (T1) Takes a slot from a dead thread; false: another thread was faster, or it is in use. */
static bool thread_seize(const struct dt_control *control, struct dt_slot *slot, uint32_t owner)
{
	if (!owner || !__atomic_compare_exchange_n(&slot->real_tid, &owner, 0, false,
						   __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	chunk_publish(control, slot, true);
	return true;
}

static bool thread_seize_dead(const struct dt_control *control, struct dt_slot *slot)
{
	uint32_t owner = __atomic_load_n(&slot->real_tid, __ATOMIC_ACQUIRE);

	if (owner != THREAD_GONE &&
	    (!owner || agent_flags(control) & DT_NO_LIVE || agent_is_quiet(control) ||
	     !sys_thread_is_dead(owner)))
		return false;
	return thread_seize(control, slot, owner);
}

static bool thread_seize_empty(struct dt_slot *slot, uint64_t key)
{
	uint64_t empty = 0;

	return __atomic_compare_exchange_n(&slot->key, &empty, key, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

/*
 * A slot for a key that is in no slot: the home position even if that means to take a dead thread's
 * slot, then the first empty slot, then any dead thread's.
 */
static struct dt_slot *thread_claim(const struct dt_control *control, const struct thread_who *who)
{
	struct dt_state *state = agent_state(control);
	uint64_t input = thread_hash_input(who);
	struct dt_slot *home = thread_probe(state, input, 0);

	if (thread_seize_empty(home, who->key) || thread_seize_dead(control, home))
		return home;
	for (uint32_t step = 1; step < DT_SLOT_PROBES; step++) {
		struct dt_slot *slot = thread_probe(state, input, step);

		if (thread_seize_empty(slot, who->key))
			return slot;
	}
	for (uint32_t step = 1; step < DT_SLOT_PROBES; step++) {
		struct dt_slot *slot = thread_probe(state, input, step);

		if (thread_seize_dead(control, slot))
			return slot;
	}
	return NULL;
}

/* ---- thread records ----------------------------------------------------------------------- */

/* Searches all records, from the hint on. The hint may be late, by a thread that was interrupted
 * before it stored it: a part of the records might all be in use then. 0: none is free. */
static uint32_t thread_claim_record(const struct dt_control *control, uint32_t tid)
{
	struct dt_pool *pool = agent_pool(control);
	uint32_t at = __atomic_load_n(&pool->thread_hint, __ATOMIC_RELAXED);
	/* pairs with pool_free_thread (T6) */
	uint64_t freed = __atomic_load_n(&pool->records_freed, __ATOMIC_ACQUIRE);

	if (__atomic_load_n(&pool->records_full, __ATOMIC_RELAXED) == freed + 1)
		return 0;

	for (uint32_t tries = 0; tries < DT_THREADS_MAX; tries++, at++) {
		uint32_t index = at % DT_THREADS_MAX;
		struct dt_thread *record = &pool->threads[index];
		uint32_t empty = 0;

		if (!index || __atomic_load_n(&record->claim, __ATOMIC_RELAXED) ||
		    !__atomic_compare_exchange_n(&record->claim, &empty, 1, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		record->pid = agent_is_quiet(control) ? agent_state(control)->pid : sys_getpid();
		record->tid = tid;
		record->process = agent_state(control)->process;
		record->chunks = 0;
		record->start = sys_clock();
		record->lost = 0;
		record->program = control->program;
		__atomic_store_n(&record->claim, 2, __ATOMIC_RELEASE);
		__atomic_store_n(&pool->thread_hint, at + 1, __ATOMIC_RELAXED);
		return index;
	}
	__atomic_store_n(&pool->records_full, freed + 1, __ATOMIC_RELAXED);
	return 0;
}

/*
 * The thread had a slot under its tid, and its block can be read now (or the other way round): the
 * new slot continues with the same record, and any thread may take the old slot.
 */
static uint32_t thread_move_record(const struct dt_control *control, struct dt_slot *from)
{
	uint32_t record = from->thread;

	chunk_publish(control, from, false);
	from->thread = 0;
	__atomic_store_n(&from->real_tid, THREAD_GONE, __ATOMIC_RELEASE);
	return record;
}

/* The calling thread's slot under its other key, or NULL. */
static struct dt_slot *thread_find_other(const struct dt_control *control,
					 const struct thread_who *who)
{
	struct thread_who other = *who;

	other.block_tid = who->block_tid == ~0u ? 0 : ~0u;
	other.key = who->block_tid == ~0u ? ~who->base : THREAD_TID_KEY | who->tid;
	struct dt_slot *slot =
		thread_find(agent_state(control), thread_hash_input(&other), other.key);
	return slot && slot->real_tid == who->tid ? slot : NULL;
}

/* (T1) Fills in a slot that was just claimed; key and real_tid last. */
static void thread_init(const struct dt_control *control, struct dt_slot *slot,
			const struct thread_who *who)
{
	struct dt_slot *other = thread_find_other(control, who);

	const struct dt_returns *returns =
		(const struct dt_returns *)__atomic_load_n(&agent_state(control)->returns,
							   __ATOMIC_ACQUIRE);

	stack_room_forget(control, slot);
	slot->flags = other ? other->flags : 0;
	slot->returns = returns ? returns->tables[slot - agent_state(control)->slots] : 0;
	slot->limit = 0;
	slot->reserve = 0;
	slot->last = 0;
	slot->chunk = 0;
	slot->events = 0;
	slot->events_published = 0;
	slot->thread = (uint16_t)(other ? thread_move_record(control, other) : 0);
	slot->tid = who->block_tid;
	slot->tid_offset = who->tid_offset;
	__atomic_store_n(&slot->key, who->key, __ATOMIC_RELEASE);
	__atomic_store_n(&slot->real_tid, who->tid, __ATOMIC_RELEASE);
}

static struct dt_slot *thread_slot_of(const struct dt_control *control,
				      const struct thread_who *who)
{
	struct dt_slot *slot =
		thread_find(agent_state(control), thread_hash_input(who), who->key);

	if (slot && slot->real_tid == who->tid) {
		slot->tid = who->block_tid;
		slot->tid_offset = who->tid_offset;
		return slot;
	}
	/* Another thread had this block, or this tid, before. */
	if (slot && thread_seize(control, slot, slot->real_tid)) {
		thread_init(control, slot, who);
		return slot;
	}
	slot = thread_claim(control, who);
	if (slot)
		thread_init(control, slot, who);
	return slot;
}

/* (T2) */
static void thread_check_belongings(const struct dt_control *control, struct dt_slot *slot)
{
	const struct dt_thread *record = &agent_pool(control)->threads[slot->thread];

	if (slot->limit && !chunk_is_held(control, slot))
		chunk_forget(slot);
	if (slot->thread && (record->claim != 2 || record->tid != slot->real_tid)) {
		chunk_publish(control, slot, false);
		slot->thread = 0;
	}
	if (!slot->thread)
		slot->thread = (uint16_t)thread_claim_record(control, slot->real_tid);
}

static uint32_t thread_tid_offset(const struct dt_control *control)
{
	return control->tid_offset ? control->tid_offset :
				     agent_state(control)->inherited.tid_offset;
}

bool thread_has_block(const struct dt_control *control)
{
	struct thread_who who = { .base = sys_fs_base(), .tid = sys_gettid() };

	thread_look(control, &who, false);
	return who.block_tid != ~0u;
}

uint64_t thread_learn_block(const struct dt_control *control)
{
	struct thread_who who = { .base = sys_fs_base() };

	if (thread_tid_offset(control) || agent_is_quiet(control))
		return 0;
	who.tid = sys_gettid();
	thread_look(control, &who, false);
	if (who.block_tid != ~0u)
		agent_state(control)->inherited.tid_offset = (uint32_t)who.tid_offset;
	return 0;
}

uint32_t thread_block_tid(const struct dt_control *control)
{
	uint64_t base = sys_fs_base();
	uint32_t offset = thread_tid_offset(control);

	if (!offset || !base || base & 7 || base >> 47 || sys_fs_long(0) != base)
		return 0;
	return sys_fs_word(offset);
}

/* Without a system call: only the thread block tells who the thread is. */
static struct dt_slot *thread_slot_quiet(const struct dt_control *control)
{
	struct thread_who who = { .base = sys_fs_base(), .key = ~sys_fs_base() };

	who.tid = who.block_tid = thread_block_tid(control);
	who.tid_offset = thread_tid_offset(control);
	return who.tid ? thread_slot_of(control, &who) : NULL;
}

struct dt_slot *thread_slot(const struct dt_control *control, uint32_t size)
{
	struct thread_who who = { .base = sys_fs_base() };
	struct dt_slot *slot = thread_find(agent_state(control), who.base, ~who.base);

	if ((!slot || !agent_slot_is_ours(slot)) && agent_is_quiet(control)) {
		slot = thread_slot_quiet(control);
	} else if (!slot || !agent_slot_is_ours(slot)) {
		who.tid = sys_gettid();
		thread_look(control, &who, false);
		if (who.block_tid == ~0u) {
			slot = thread_find(agent_state(control), thread_hash_input(&who), who.key);
			if (!slot || slot->real_tid != who.tid || !chunk_has_room(slot, size))
				thread_look(control, &who, true);
		}
		slot = thread_slot_of(control, &who);
	}
	if (slot)
		thread_check_belongings(control, slot);
	return slot;
}

/* ---- threads without a clock ---------------------------------------------------------------- */

bool thread_has_clock(const struct dt_control *control)
{
	struct dt_state *state = agent_state(control);
	uint64_t base = sys_fs_base();

	if (!state->inherited.clockless)
		return true;
	/* a thread that has no slot yet may be a child of one without a clock, as may a process */
	const struct dt_slot *slot = thread_find(state, base, ~base);
	return state->pid && slot && agent_slot_is_ours(slot);
}

uint64_t thread_lose_clock(const struct dt_control *control)
{
	struct dt_slot *slot = thread_slot(control, 0);

	agent_state(control)->inherited.clockless = 1;
	agent_pool(control)->clockless = 1;
	if (slot) {
		chunk_publish(control, slot, false);
		slot->flags |= DT_SLOT_CLOCKLESS;
		slot->tid = ~0u; /* so that trampolines come to the slow path before they read it */
	}
	return 0;
}
