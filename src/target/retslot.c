/*
 * retslot.c - return stubs: find a free stub for a call, bind new stubs, release stubs whose frames
 * are gone.
 *
 * The invariants R1 to R11 are in src/shared/returns.h. Trampolines take the stub that their hint
 * names. They come here if the hint led nowhere: at the first call from a place, at one deeper
 * recursion, if two keys share a hint, at a thread's first call at all.
 *
 * retslot_find runs with signals as they are, and only walks and takes (R3, R5 make that safe).
 * Binding and growing happen in retslot_take, with signals blocked: so no other code changes the
 * thread's own table and chains.
 *
 * Length of chains. An entry sets its hint to the next stub of the chain, an exit to its own:
 * nested calls find the first free stub at once, and a hint of 0 means "all stubs are in use". That
 * can be wrong (coroutines, longjmp): whenever a chain's length reaches a power of two,
 * retslot_take searches it from the start and releases frames that are gone. So a chain is at most
 * twice as long as calls were ever inside at once.
 *
 * Tracepoints that come and go use the same stubs again: a stub stays bound to its return address
 * and tracepoint (R1), and a tracepoint that comes back has its old id.
 */
#include "gather.h"

#include "target/signals/loads.h"

#define RETSLOT_SEARCH_FROM 4u /* shorter chains are not searched */
#define RETSLOT_TAIL_CALLS 64u /* stubs that may share one stack word */
#define RETSLOT_FORK_TRIES 10000u

_Static_assert(offsetof(struct dt_returns, no_hints) == offsetof(struct dt_return_table, hints),
	       "the empty table has one hint");
_Static_assert(sizeof(struct dt_returns) < 1u << 31,
	       "offsets in it are 32 bits, stubs reach all of it");

static struct dt_returns *retslot_returns(const struct dt_control *control)
{
	return (struct dt_returns *)control->returns;
}

static struct retslot_call retslot_call(const struct dt_control *control, uint64_t place,
					uint64_t site, uint64_t r14)
{
	struct retslot_call call = { .control = control,
				     .returns = retslot_returns(control),
				     .site = (const struct dt_return_site *)site,
				     .place = place,
				     .ra = *(const uint64_t *)place,
				     .late_sp = place };

	/* (R11) the function itself has read, or will read, what its goroutine points to; 0: it has
	 * given its thread away (runtime.dropm) */
	if (call.site->flags & DT_SITE_GO) {
		call.late_sp = r14;
		call.late_tail =
			r14 ? dt_go_depth(*(const uint64_t *)(r14 + DT_GO_STACK_END), place) : 0;
	}
	return call;
}

/* ---- tables --------------------------------------------------------------------------------- */

static uint32_t *retslot_table_word(const struct retslot_call *call, const struct dt_slot *slot)
{
	return &call->returns->tables[slot - agent_state(call->control)->slots];
}

static struct dt_return_table *retslot_table(const struct retslot_call *call,
					     const struct dt_slot *slot)
{
	uint32_t offset = *retslot_table_word(call, slot) & ~(DT_RETURN_TABLE_ALIGN - 1);

	return (struct dt_return_table *)((uint8_t *)call->returns + offset);
}

static uint32_t retslot_offset(const struct dt_returns *returns, const void *in)
{
	return (uint32_t)((uint64_t)in - (uint64_t)returns);
}

static uint32_t *retslot_hint(struct dt_returns *returns, const struct dt_return_slot *stub)
{
	return (uint32_t *)((uint8_t *)returns + stub->hint);
}

static uint32_t *retslot_heads(struct dt_return_table *table)
{
	return table->hints + (1u << table->bits);
}

static uint32_t *retslot_withins(struct dt_return_table *table)
{
	return table->hints + (2u << table->bits);
}

static uint32_t retslot_length(const struct dt_return_slot *first)
{
	return first->length & ~(DT_RETURN_VANISHED | DT_RETURN_RETIRED);
}

static bool retslot_has_key(const struct dt_return_slot *stub, uint64_t ra, uint32_t id)
{
	return stub->ra == ra && stub->id == id;
}

/* The entry of heads for the key's first stub, used or still empty; NULL: none (the empty table of
 * threads without a table). */
static uint32_t *retslot_head(struct dt_returns *returns, struct dt_return_table *table,
			      uint64_t ra, uint32_t id)
{
	uint32_t *heads = retslot_heads(table);
	uint32_t at = dt_return_index(ra, id, table->bits), entries = 1u << table->bits;

	if (!table->bits)
		return 0;
	for (uint32_t tries = 0; tries < entries; tries++, at++) {
		uint32_t *head = &heads[at & (entries - 1)];
		uint32_t index = __atomic_load_n(head, __ATOMIC_ACQUIRE);

		if (!index || retslot_has_key(&returns->slots[index], ra, id))
			return head;
	}
	return 0;
}

/* Zeroed memory, of a multiple of DT_RETURN_TABLE_ALIGN; NULL: the heap is full. */
static void *retslot_allocate(struct dt_returns *returns, uint32_t size)
{
	if (__atomic_load_n(&returns->heap_used, __ATOMIC_RELAXED) + size > DT_RETURN_HEAP_SIZE)
		return 0;
	uint32_t at = __atomic_fetch_add(&returns->heap_used, size, __ATOMIC_RELAXED);
	if (at + size > DT_RETURN_HEAP_SIZE) {
		__atomic_fetch_sub(&returns->heap_used, size, __ATOMIC_RELAXED);
		return 0;
	}
	return returns->heap + at;
}

static struct dt_return_table *retslot_new_table(struct dt_returns *returns, uint32_t bits)
{
	uint32_t size = (uint32_t)DT_ROUND_UP(sizeof(struct dt_return_table) +
						      (3 * sizeof(uint32_t) << bits),
					      DT_RETURN_TABLE_ALIGN);
	struct dt_return_table *table = retslot_allocate(returns, size);

	if (table)
		table->bits = bits;
	return table;
}

/* ---- times ---------------------------------------------------------------------------------- */

/* The entry of withins for the id, used or still empty; NULL: none. */
static uint32_t *retslot_within_entry(struct dt_returns *returns, struct dt_return_table *table,
				      uint32_t id)
{
	uint32_t *withins = retslot_withins(table), entries = 1u << table->bits;
	uint32_t at = dt_return_index(0, id, table->bits);

	for (uint32_t tries = 0; tries < entries; tries++, at++) {
		uint32_t *entry = &withins[at & (entries - 1)];
		const struct dt_return_within *within =
			(const struct dt_return_within *)((uint8_t *)returns + *entry);

		if (!*entry || within->id == id)
			return entry;
	}
	return 0;
}

/* The word `within` of a thread and a tracepoint; NULL: the heap is full. */
static struct dt_return_within *retslot_within(struct dt_returns *returns,
					       struct dt_return_table *table, uint32_t id)
{
	uint32_t *entry = retslot_within_entry(returns, table, id);
	struct dt_return_within *within;

	if (entry && !*entry && !table->spares) {
		uint8_t *more = retslot_allocate(returns, DT_RETURN_TABLE_ALIGN);

		table->spare = more ? retslot_offset(returns, more) : 0;
		table->spares = more ? DT_RETURN_TABLE_ALIGN / sizeof(*within) : 0;
	}
	if (!entry || (!*entry && !table->spares))
		return 0;
	if (!*entry) {
		*entry = table->spare;
		table->spare += sizeof(*within);
		table->spares--;
		((struct dt_return_within *)((uint8_t *)returns + *entry))->id = id;
	}
	return (struct dt_return_within *)((uint8_t *)returns + *entry);
}

static void retslot_move_withins(struct dt_returns *returns, struct dt_return_table *from,
				 struct dt_return_table *to)
{
	const uint32_t *withins = retslot_withins(from);

	for (uint32_t i = 0; from->bits && !(i >> from->bits); i++) {
		const struct dt_return_within *within =
			(const struct dt_return_within *)((uint8_t *)returns + withins[i]);
		uint32_t *entry = withins[i] ? retslot_within_entry(returns, to, within->id) : 0;

		if (entry)
			*entry = withins[i];
	}
	to->spare = from->spare;
	to->spares = from->spares;
}

/* (R10) Gives the stub room for the values of an entry. False: the heap is full. */
static bool retslot_hold_values(struct dt_returns *returns, const struct dt_return_slot *stub,
				uint32_t size)
{
	struct dt_return_times *times = &returns->times[stub - returns->slots];
	uint64_t *values = (uint64_t *)times->values;

	if (!size || (values && values[0] >= size))
		return true;
	values = retslot_allocate(returns, (uint32_t)DT_ROUND_UP(size, DT_RETURN_TABLE_ALIGN));
	if (!values)
		return false;
	values[0] = size;
	times->values = (uint64_t)values;
	return true;
}

/* Binds the stub's words: at any moment both addresses are valid. False: there is no memory for
 * the entry's values. */
static bool retslot_bind_times(const struct retslot_call *call, const struct dt_slot *slot,
			       struct dt_return_table *table, struct dt_return_slot *stub)
{
	struct dt_returns *returns = call->returns;
	struct dt_return_times *times = &returns->times[stub - returns->slots];
	struct dt_return_within *within =
		call->site->flags & DT_TIMED ? retslot_within(returns, table, call->site->id) : 0;

	uint32_t keys = call->site->flags >> DT_TIMED_KEYS;
	times->within = within ? (uint64_t)&within->time : (uint64_t)&times->own;
	if (keys) {
		if (within && within->keys < keys) {
			within->time = (uint64_t)retslot_allocate(
				returns, (uint32_t)DT_ROUND_UP(keys * sizeof(uint64_t),
							       DT_RETURN_TABLE_ALIGN));
			within->keys = within->time ? keys : 0;
		}
		times->within = within ? within->time : 0;
	}
	times->covered =
		(uint64_t)&returns->covered[slot - agent_state(call->control)->slots];
	return retslot_hold_values(returns, stub, call->site->values);
}

/* ---- growing --------------------------------------------------------------------------------- */

/* Moves every chain of `from` to `to`, with the hints of its stubs. */
static void retslot_move(struct dt_returns *returns, struct dt_return_table *from,
			 struct dt_return_table *to)
{
	uint32_t *heads = retslot_heads(from);

	for (uint32_t i = 0; from->bits && !(i >> from->bits); i++) {
		struct dt_return_slot *first = &returns->slots[heads[i]];

		if (!heads[i])
			continue;
		uint32_t *hint = &to->hints[dt_return_index(first->ra, first->id, to->bits)];
		*retslot_head(returns, to, first->ra, first->id) = heads[i];
		*hint = heads[i];
		for (uint32_t at = heads[i]; at; at = returns->slots[at].next)
			returns->slots[at].hint = retslot_offset(returns, hint);
		to->keys++;
	}
	retslot_move_withins(returns, from, to);
}

/* The thread's table, with room for one more key; NULL: the heap is full. */
static struct dt_return_table *retslot_own_table(const struct retslot_call *call,
						 const struct dt_slot *slot)
{
	struct dt_return_table *table = retslot_table(call, slot);
	uint32_t bits = table->bits ? table->bits + 2 : DT_RETURN_TABLE_FIRST;

	if (table->bits && table->keys < 1u << (table->bits - 2))
		return table;
	struct dt_return_table *bigger =
		bits <= DT_RETURN_TABLE_MAX ? retslot_new_table(call->returns, bits) : 0;
	if (!bigger)
		return table->bits && table->keys < (1u << table->bits) - 1 ? table : 0;
	retslot_move(call->returns, table, bigger);
	__atomic_store_n(retslot_table_word(call, slot),
			 retslot_offset(call->returns, bigger) | bits, __ATOMIC_RELEASE);
	return bigger;
}

/* ---- stubs ---------------------------------------------------------------------------------- */

/* (R3) */
static bool retslot_claim(struct dt_return_slot *stub, uint64_t place)
{
	bool mine;

	if (__atomic_load_n(&stub->use, __ATOMIC_ACQUIRE) >= 0)
		return false;
	__asm__ volatile("incw %0" : "+m"(stub->use), "=@ccz"(mine) : : "memory");
	if (mine)
		stub->sp = place | DT_RETURN_BUSY;
	else
		__asm__ volatile("decw %0" : "+m"(stub->use) : : "cc", "memory");
	return mine;
}

/* The first free stub from `index` on; sets the hint for the next call. */
static struct dt_return_slot *retslot_walk(const struct retslot_call *call, uint32_t index)
{
	while (index) {
		struct dt_return_slot *stub = &call->returns->slots[index];

		if (retslot_claim(stub, call->place)) {
			*retslot_hint(call->returns, stub) = stub->next;
			return stub;
		}
		index = __atomic_load_n(&stub->next, __ATOMIC_ACQUIRE);
	}
	return 0;
}

/* The stub of an address from the stack; 0: none. */
/* A hint of 0: all stubs of the chain are in use, and a long chain isn't walked in vain. But
 * another key may have the same hint: then the first stub, which the outermost call takes, tells.
 */
static bool retslot_has_free(const struct retslot_call *call, const struct dt_return_slot *first)
{
	return *retslot_hint(call->returns, first) ||
	       __atomic_load_n(&first->use, __ATOMIC_ACQUIRE) < 0;
}

static uint32_t retslot_of_word(const struct dt_control *control, uint64_t word)
{
	uint64_t offset = word - control->stubs;

	return offset < (uint64_t)control->stub_count * DT_STUB_SIZE
		       ? (uint32_t)(offset >> DT_STUB_SHIFT)
		       : 0;
}

/* (R2) Is the frame of a stub in use gone? `sp` is its sp as read before. */
static bool retslot_is_gone(const struct retslot_call *call, uint32_t index, uint64_t sp)
{
	uint64_t word = 0;

	if (!safe_stable(call->control, sp) || !loads_word(sp, &word)) {
		if (agent_flags(call->control) & DT_NO_READ || agent_is_quiet(call->control))
			return false; /* nobody can tell */
		if (sys_read_self(sp, &word, sizeof(word)) != sizeof(word))
			return true;
	}
	if (word == index)
		return false;
	for (uint32_t steps = 0; steps < RETSLOT_TAIL_CALLS; steps++) {
		uint32_t other = retslot_of_word(call->control, word);

		if (other == index)
			return false;
		if (!other || (call->returns->slots[other].sp & ~DT_RETURN_MARKS) != sp)
			return true;
		word = call->returns->slots[other].ra;
	}
	return false;
}

/* Releases the chain's stubs whose frames are gone; gives one of them to this call. */
static struct dt_return_slot *retslot_reclaim(const struct retslot_call *call, uint32_t index)
{
	struct dt_pool *pool = agent_pool(call->control);
	bool found = false;
	uint32_t first = index;

	if (__atomic_load_n(&call->returns->stray, __ATOMIC_RELAXED))
		return 0; /* (R7) */
	for (; index; index = call->returns->slots[index].next) {
		struct dt_return_slot *stub = &call->returns->slots[index];
		uint64_t sp = __atomic_load_n(&stub->sp, __ATOMIC_ACQUIRE);

		if (!sp || sp & DT_RETURN_BUSY ||
		    !retslot_is_gone(call, index, sp & ~DT_RETURN_MARKS) ||
		    !__atomic_compare_exchange_n(&stub->sp, &sp, 0, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		if (!(sp & DT_RETURN_INHERITED))
			__atomic_fetch_add(&pool->tallies[stub->id].unwound, 1, __ATOMIC_RELAXED);
		stub->length |= DT_RETURN_VANISHED;
		__asm__ volatile("decw %0" : "+m"(stub->use) : : "cc", "memory");
		found = true;
	}
	return found ? retslot_walk(call, first) : 0;
}

/* (R5) A stub of a chain whose tracepoint was removed and is back. */
static struct dt_return_slot *retslot_revive(const struct retslot_call *call,
					     const struct dt_slot *slot,
					     struct dt_return_table *table, uint32_t index)
{
	struct dt_return_slot *first = &call->returns->slots[index];

	for (; index && first->length & DT_RETURN_RETIRED;
	     index = call->returns->slots[index].next) {
		struct dt_return_slot *stub = &call->returns->slots[index];

		if (stub->body || !retslot_bind_times(call, slot, table, stub))
			continue;
		stub->exit = call->site->exit;
		stub->body = call->site->body;
		stub->sp = call->place | DT_RETURN_BUSY; /* its use is 0: taken already */
		*retslot_hint(call->returns, stub) = stub->next;
		return stub;
	}
	first->length &= ~DT_RETURN_RETIRED;
	return 0;
}

uint32_t retslot_fresh(const struct dt_control *control)
{
	struct dt_returns *returns = retslot_returns(control);
	uint32_t limit = __atomic_load_n(&control->stub_count, __ATOMIC_ACQUIRE);
	uint32_t index = __atomic_load_n(&returns->used, __ATOMIC_RELAXED);

	do {
		if (index >= limit)
			return 0;
	} while (!__atomic_compare_exchange_n(&returns->used, &index, index + 1, false,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	return index;
}

/* (R1) Binds one more stub for the key, at the chain's end, and gives it to this call. */
static struct dt_return_slot *retslot_bind(const struct retslot_call *call,
					   const struct dt_slot *slot,
					   struct dt_return_table *table, uint32_t *head)
{
	struct dt_return_slot *slots = call->returns->slots;
	uint32_t id = call->site->id, index = retslot_fresh(call->control);
	struct dt_return_slot *stub = &slots[index];

	if (!index || !retslot_bind_times(call, slot, table, stub))
		return 0;
	stub->ra = call->ra;
	stub->body = call->site->body;
	stub->exit = call->site->exit;
	stub->id = id;
	stub->use = 0;
	stub->thread =
		(uint16_t)(((uint64_t)slot - (uint64_t)agent_state(call->control)->slots) / 8);
	stub->next = 0;
	stub->hint = retslot_offset(call->returns,
				    &table->hints[dt_return_index(call->ra, id, table->bits)]);
	stub->sp = call->place | DT_RETURN_BUSY;
	*retslot_hint(call->returns, stub) = 0;
	if (*head) {
		__atomic_store_n(&slots[slots[*head].tail].next, index, __ATOMIC_RELEASE); /* R5 */
		slots[*head].tail = index;
		slots[*head].length++;
		return stub;
	}
	stub->tail = index;
	stub->length = 1;
	__atomic_store_n(head, index, __ATOMIC_RELEASE);
	table->keys++;
	return stub;
}

/* (R6) */
static bool retslot_may_have(const struct retslot_call *call)
{
	const struct dt_control *control = call->control;
	uint32_t count = __atomic_load_n(&control->caller_count, __ATOMIC_ACQUIRE);

	if (call->site->flags & DT_SITE_GO) /* R11 */
		return false;
	/* the agent: a handler that dt_front called */
	if (retslot_of_word(control, call->ra) || call->ra - control->agent < DT_AGENT_SIZE)
		return true;
	for (uint32_t i = 0; i < count && i < DT_CALLERS_MAX; i++) {
		if (call->ra - control->callers[i].start <
		    control->callers[i].end - control->callers[i].start)
			return true;
	}
	return false;
}

/* ---- entry points ---------------------------------------------------------------------------- */

uint64_t retslot_miss(const struct dt_control *control, uint64_t site)
{
	uint32_t id = ((const struct dt_return_site *)site)->id;

	__atomic_fetch_add(&agent_pool(control)->tallies[id].missed, 1, __ATOMIC_RELAXED);
	return 0;
}

static uint64_t retslot_leave(const struct retslot_call *call, uint64_t site)
{
	__atomic_fetch_add(&agent_pool(call->control)->foreign, 1, __ATOMIC_RELAXED);
	return retslot_miss(call->control, site);
}

/* May the call have a late stub (R9)? */
static bool retslot_is_late(const struct retslot_call *call)
{
	return __atomic_load_n(&call->site->flags, __ATOMIC_ACQUIRE) & DT_SITE_LATE;
}

/* Sets the words of a late stub, which is another thread's the next time. False: the thread has no
 * word `within` yet. */
static bool retslot_find_times(const struct retslot_call *call, const struct dt_slot *slot,
			       struct dt_return_table *table, struct dt_return_times *times)
{
	uint32_t *entry = 0, keys = call->site->flags >> DT_TIMED_KEYS;
	const struct dt_return_within *within;

	if (call->site->flags & DT_TIMED) {
		entry = table->bits ?
				retslot_within_entry(call->returns, table, call->site->id) :
				0;
		if (!table->bits || (entry && !*entry))
			return false;
	}
	within = entry ? (const struct dt_return_within *)((uint8_t *)call->returns + *entry) : 0;
	if (keys && within && within->keys < keys)
		return false; /* nor the array of them */
	if (times)
		times->within = keys   ? within ? within->time : 0 :
				within ? (uint64_t)&within->time :
					 (uint64_t)&times->own;
	if (times)
		times->covered =
			(uint64_t)&call->returns
				->covered[slot - agent_state(call->control)->slots];
	return true;
}

/* Gives a late stub room for the entry's values, or gives the stub up. */
static struct dt_return_slot *retslot_late_values(const struct retslot_call *call,
						  struct dt_return_slot *stub)
{
	if (retslot_hold_values(call->returns, stub, call->site->values)) {
		uint64_t *values =
			(uint64_t *)call->returns->times[stub - call->returns->slots].values;

		/* another tracepoint's, which may have had the stub before */
		for (uint32_t i = 1; i < call->site->values / 8; i++)
			values[i] = 0;
		return stub;
	}
	stub->sp = 0;
	__atomic_store_n(&stub->use, -1, __ATOMIC_RELEASE);
	retslot_miss(call->control, (uint64_t)call->site);
	return 0;
}

/* A call that keeps its return address (R6): a late stub, or none. */
static uint64_t retslot_keep(const struct retslot_call *call, const struct dt_slot *slot,
			     struct dt_return_table *table)
{
	struct dt_return_slot *stub = 0;

	if (!retslot_is_late(call))
		return retslot_leave(call, (uint64_t)call->site);
	if (retslot_find_times(call, slot, table, 0))
		stub = late_take(call, slot);
	if (!stub)
		return SLOW_NEEDED;
	retslot_find_times(call, slot, table, &call->returns->times[stub - call->returns->slots]);
	return (uint64_t)retslot_late_values(call, stub);
}

/* The same with all signals blocked. */
static struct dt_return_slot *retslot_keep_slowly(const struct retslot_call *call,
						  const struct dt_slot *slot,
						  struct dt_return_table *table)
{
	struct dt_return_slot *stub;

	if (!retslot_is_late(call)) {
		retslot_leave(call, (uint64_t)call->site);
		return 0;
	}
	if (!retslot_find_times(call, slot, table, 0))
		table->keys++; /* the table grows by its words, too */
	stub = late_make(call, slot);
	if (!stub) {
		retslot_miss(call->control, (uint64_t)call->site);
		return 0;
	}
	retslot_bind_times(call, slot, table, stub);
	return retslot_late_values(call, stub);
}

uint64_t retslot_find(const struct dt_control *control, uint64_t place, uint64_t site, uint64_t r14)
{
	struct retslot_call call = retslot_call(control, place, site, r14);

	if (call.site->flags & (DT_SITE_RETURN | DT_SITE_JUMP | DT_SITE_AGAIN))
		return call.late_sp ? late_leave(&call) : 0; /* a call that nobody knows */
	if (!call.late_sp || !thread_has_clock(control))
		return retslot_miss(control, site);
	struct dt_slot *slot = slow_find_ours(control);

	if (!slot)
		return SLOW_NEEDED;
	struct dt_return_table *table = retslot_table(&call, slot);
	uint32_t *head = retslot_head(call.returns, table, call.ra, call.site->id);
	if (!head || !*head)
		return retslot_may_have(&call) ? SLOW_NEEDED : retslot_keep(&call, slot, table);
	const struct dt_return_slot *first = &call.returns->slots[*head];
	if (retslot_length(first) >= RETSLOT_SEARCH_FROM && !retslot_has_free(&call, first))
		return SLOW_NEEDED;
	struct dt_return_slot *stub = retslot_walk(&call, *head);
	return stub ? (uint64_t)stub : SLOW_NEEDED;
}

struct dt_return_slot *retslot_take(const struct dt_control *control, uint64_t place, uint64_t site,
				    uint64_t r14)
{
	struct retslot_call call = retslot_call(control, place, site, r14);
	struct dt_slot *slot = thread_slot(control, sizeof(uint64_t));
	struct dt_return_table *table = slot ? retslot_own_table(&call, slot) : 0;
	uint32_t *head = table ? retslot_head(call.returns, table, call.ra, call.site->id) : 0;
	struct dt_return_slot *stub = 0;

	if (head && !*head && !retslot_may_have(&call))
		return retslot_keep_slowly(&call, slot, table);
	if (!head) {
		retslot_miss(control, site);
		return 0;
	}
	slot->returns = *retslot_table_word(&call, slot);
	if (*head) {
		const struct dt_return_slot *first = &call.returns->slots[*head];
		uint32_t length = retslot_length(first);
		bool search = !(length & (length - 1));

		if (search || retslot_has_free(&call, first))
			stub = retslot_walk(&call, *head);
		if (!stub && search && length >= RETSLOT_SEARCH_FROM)
			stub = retslot_reclaim(&call, *head);
		if (!stub)
			stub = retslot_revive(&call, slot, table, *head);
	}
	if (!stub)
		stub = retslot_bind(&call, slot, table, head);
	if (!stub)
		retslot_miss(control, site);
	return stub;
}

/* In a forked child: inherited frames return to where they should, but are its parent's calls. */
void retslot_forked(const struct dt_control *control, uint32_t pid)
{
	struct dt_returns *returns = retslot_returns(control);
	bool quiet = agent_is_quiet(control);
	uint64_t mark = 0;
	uint32_t idle = 0;

	/* The control page may have the address of memory that was mapped after the fork, or isn't
	 * mapped yet. The fork has wiped dt_state, and so the process's own note of it. */
	if (!returns || (quiet && !(control->flags & DT_RETURNS)) ||
	    (!quiet &&
	     (sys_read_self((uint64_t)&returns->mark, &mark, sizeof(mark)) != sizeof(mark) ||
	      mark != DT_PRIVATE_MARK)))
		return;
	__atomic_store_n(&agent_state(control)->returns, (uint64_t)returns, __ATOMIC_RELEASE);
	if (__atomic_load_n(&returns->pid, __ATOMIC_ACQUIRE) == pid)
		return;
	if (__atomic_compare_exchange_n(&returns->rebuilding, &idle, 1, false, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		for (uint32_t i = 1; i < returns->used; i++) {
			uint64_t place = returns->slots[i].sp & ~DT_RETURN_MARKS;

			returns->slots[i].sp = place ? place | DT_RETURN_INHERITED : 0;
		}
		__atomic_store_n(&returns->pid, pid, __ATOMIC_RELEASE);
		__atomic_store_n(&returns->rebuilding, 0, __ATOMIC_RELEASE);
		return;
	}
	for (uint32_t tries = 0; tries < RETSLOT_FORK_TRIES; tries++) {
		if (__atomic_load_n(&returns->pid, __ATOMIC_ACQUIRE) == pid)
			return;
		if (quiet)
			sys_pause();
		else
			sys_call3(SYS_SCHED_YIELD, 0, 0, 0);
	}
}
