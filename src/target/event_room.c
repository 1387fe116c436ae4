/*
 * event_room.c - the room of an event whose fields the agent gathers: its begin and its end.
 *
 * The event is written in place, and counts from event_room_finish on:
 *
 *	+0	header, pending until the event is complete (B4)
 *	+8	size up to the last field, and room (program.h)
 *	+16	fields, each aligned by its size
 *
 * Its room is the most that the program may need. What it doesn't need is given back (B10), and is
 * still 0: fields are written one behind the other.
 */
#include "gather.h"

/* With signals blocked: a slot with room. NULL: counted as lost, or the process is muted. */
static struct dt_slot *prepare(struct gather *g)
{
	struct dt_slot *slot = (struct dt_slot *)slow_path(g->control, g->program->id,
							   g->program->size_max, 0);

	if ((uint64_t)slot == SLOW_AGAIN)
		return (struct dt_slot *)slow_give_up(g->control, g->program->id,
						      g->program->size_max);
	return slot;
}

/* (B8) With signals open: is there room, or does nobody wait for it? A thread whose hits a
 * condition turns away never has any. */
bool event_room_may_begin(const struct dt_control *control, const struct dt_slot *slot,
			  uint32_t size)
{
	uint64_t reserve = __atomic_load_n(&slot->reserve, __ATOMIC_RELAXED);

	return !(control->flags & DT_BLOCK) || (uint64_t)(uint32_t)reserve + size <= slot->limit;
}

/* Reserves as trampolines do: the word is read before the clock (B3), and if a signal's handler has
 * reserved meanwhile, it is tried again (B2). */
static struct dt_slot *reserve(struct gather *g)
{
	uint32_t size = g->program->size_max;
	struct dt_slot *slot = g->open ? g->open : prepare(g);

	while (slot) {
		g->pid = agent_state(g->control)->pid; /* a fork makes the exchange fail */
		uint64_t was = __atomic_load_n(&slot->reserve, __ATOMIC_RELAXED);

		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		uint64_t clock = sys_clock();
		if (!g->open && clock < slot->last)
			clock = slot->last;
		if ((clock - slot->last) >> DT_CLOCK_GAP_SHIFT ||
		    (uint64_t)(uint32_t)was + size > slot->limit) {
			slot = gather_ask(g->control, g->program->id, size);
		} else if (sys_exchange(&slot->reserve, was, was + size)) {
			slot->last = g->clock = clock;
			sys_increment(&slot->events);
			g->reserved = was + size;
			return slot;
		}
	}
	return NULL;
}

static void begin_draft(struct gather *g)
{
	uint64_t *words = (uint64_t *)g->draft;

	g->slot = prepare(g);
	if (!g->slot) {
		g->over = true;
		return;
	}
	for (uint32_t i = 0; i < g->program->size_max / 8; i++)
		words[i] = 0; /* gaps between fields */
	g->event = g->draft;
}

static void begin_in_place(struct gather *g)
{
	uint32_t size = g->program->size_max;

	g->slot = reserve(g);
	if (!g->slot) {
		g->over = true;
		return;
	}
	g->event = (uint8_t *)g->control->pool + (uint32_t)(g->reserved - size);
	uint64_t *words = (uint64_t *)g->event, header = g->clock << DT_EVENT_ID_BITS;
	/* Only after a fork one of the words isn't 0 any more: the other process was here. */
	if ((!sys_exchange(words, 0, header | DT_EVENT_PENDING | g->program->id) ||
	     !sys_exchange(words + 1, 0, (uint64_t)size << DT_SPAN_SHIFT)) &&
	    event_room_is_forked(g))
		g->over = true;
}

/* The entry's values of the call that ends (R10). */
static const uint64_t *pair_values(const struct gather *g)
{
	const uint8_t *stub = (const uint8_t *)gather_stub(g);

	return *(const uint64_t *const *)(stub + DT_TIMES_AT(values));
}

/* Finds the bytes of the entry's fields. False: they weren't gathered, which was counted then. */
static bool pair_measure(const struct gather *g, uint32_t *ret_size)
{
	uint64_t end = pair_values(g)[1];

	*ret_size = g->program->pair_size;
	if (g->program->pair == DT_PAIR_PLAIN)
		return true;
	if (end < EVENT_ROOM_HEAD || end > g->program->size_max)
		return false;
	*ret_size = (uint32_t)DT_ROUND_UP(end - EVENT_ROOM_HEAD, 8);
	return *ret_size + EVENT_ROOM_HEAD + 8 <= g->program->size_max;
}

/* Begins a pair with the entry. */
static void pair_begin(struct gather *g, uint32_t size)
{
	const uint64_t *values = pair_values(g);
	uint64_t *to = (uint64_t *)(g->event + g->at);

	*to = gather_stub(g)->start;
	for (uint32_t i = 0; i < size / 8; i++)
		to[1 + i] = values[EVENT_ROOM_HEAD / 8 + i];
	g->at += 8 + size;
}

void event_room_begin(struct gather *g)
{
	bool is_pair = g->program->pair >= DT_PAIR_GATHERED;
	uint32_t size = 0;

	if (g->event || g->over)
		return;
	g->at = EVENT_ROOM_HEAD;
	g->over = is_pair && !pair_measure(g, &size);
	if (g->over)
		return;
	if (g->regs->image)
		g->event = (uint8_t *)g->regs->image;
	else if (g->draft)
		begin_draft(g);
	else
		begin_in_place(g);
	if (is_pair && !g->over)
		pair_begin(g, size);
}

/* (Q5) Takes room as a trampoline does, and fills it in. */
static void copy_draft(struct gather *g, uint32_t size)
{
	struct dt_slot *slot = g->slot;
	uint64_t reserve, header;

	for (;;) {
		reserve = __atomic_load_n(&slot->reserve, __ATOMIC_ACQUIRE);
		g->clock = sys_clock(); /* B3 */
		if ((g->clock - __atomic_load_n(&slot->last, __ATOMIC_RELAXED)) >>
			    DT_CLOCK_GAP_SHIFT ||
		    (uint32_t)reserve + (uint64_t)size >
			    __atomic_load_n(&slot->limit, __ATOMIC_RELAXED)) {
			uint64_t found = slow_path(g->control, g->program->id, size, 0);

			if (found == (uint64_t)slot)
				continue;
			if (found == SLOW_AGAIN) /* the agent may make calls again */
				slow_give_up(g->control, g->program->id, size);
			g->event = NULL; /* counted as lost */
			return;
		}
		if (__atomic_compare_exchange_n(&slot->reserve, &reserve, reserve + size, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			break; /* B2 */
	}
	__atomic_store_n(&slot->last, g->clock, __ATOMIC_RELAXED);
	__atomic_fetch_add(&slot->events, 1, __ATOMIC_RELAXED);
	uint64_t *event = (uint64_t *)(g->control->pool + (uint32_t)reserve);
	header = g->clock << DT_EVENT_ID_BITS | g->program->id;
	__atomic_store_n(event, header | DT_EVENT_PENDING, __ATOMIC_RELEASE); /* B4 */
	for (uint32_t i = 1; i < size / 8; i++)
		event[i] = ((const uint64_t *)g->event)[i];
	__atomic_store_n(event, header, __ATOMIC_RELEASE);
}

/* (B10) The word names both size and room until the rest is given back. By exchanges: the child of
 * a handler's fork, whose slot is wiped, changes nothing that its parent has changed. */
void event_room_finish(struct gather *g)
{
	uint32_t size = (uint32_t)DT_ROUND_UP(g->at, 8), rest = g->program->size_max - size;
	uint64_t room = (uint64_t)g->program->size_max << DT_SPAN_SHIFT;

	if (!g->slot && g->event && g->program->pair == DT_PAIR_ENTRY)
		((uint64_t *)g->event)[1] = g->at;
	if (!g->slot || event_room_is_forked(g))
		return;
	uint64_t *word = (uint64_t *)g->event + 1;
	if (g->draft) {
		*word = g->at;
		copy_draft(g, size);
		return;
	}
	sys_exchange(word, room, room | g->at);
	if (sys_exchange(&g->slot->reserve, g->reserved, g->reserved - rest))
		sys_exchange(word, room | g->at, g->at);
	__atomic_store_n((uint64_t *)g->event, g->clock << DT_EVENT_ID_BITS | g->program->id,
			 __ATOMIC_RELEASE);
}
