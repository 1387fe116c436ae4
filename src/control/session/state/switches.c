#include "switches.h"

#include <assert.h>
#include <string.h>

static void write_word(struct session *session, const struct site *site,
		       const struct tramp_event *event, enum tramp_switch position)
{
	assert(event->switch_offset + sizeof(uint64_t) <= site->piece.size);
	assert(event->on.v && event->off.v);
	uint8_t *code = (uint8_t *)session->agent->control;
	uint64_t *word = (uint64_t *)(code + site->piece.offset + event->switch_offset);

	/* partner: the jmp [switch] at the start of the tracepoint's code */
	__atomic_store_n(word, tramp_event_start(event, position).v, __ATOMIC_RELEASE);
}

/* Does the event belong to an earlier form of the tracepoint? Both forms share the event's name or
 * the count's cell. */
static bool is_former(const struct session *session, const struct tracepoint *tracepoint,
		      const struct tramp_event *event)
{
	const struct event_types *types = session->types;
	uint32_t id = tracepoint->probe.event.id;

	assert(!tracepoint->has_type || id < types->count);

	if (tramp_event_is_own(event)) /* its id is no tracepoint's */
		return false;
	if (tracepoint->count)
		return taddr_equal(event->count.cell, tracepoint->probe.event.count.cell);
	return tracepoint->has_type && event->id < types->count &&
	       strcmp(types->items[event->id].name, types->items[id].name) == 0;
}

void switches_write_former(struct session *session, const struct tracepoint *tracepoint,
			   enum tramp_switch position)
{
	for (size_t i = 0; i < session->garbage.count; i++) {
		const struct site *site = session->garbage.items[i];

		for (size_t j = 0; site->replaced && j < site->kept.count; j++) {
			if (is_former(session, tracepoint, &site->kept.items[j].event))
				write_word(session, site, &site->kept.items[j].event, position);
		}
	}
}

void switches_write_probe(struct session *session, struct probe *probe, enum tramp_switch position)
{
	probe->event.position = position; /* for a trampoline that is written later */
	if (probe->site && probe->site->emitted)
		write_word(session, probe->site, &probe->event, position);
}

void switches_write(struct session *session, struct tracepoint *tracepoint)
{
	enum tramp_switch position =
		tracepoint->is_off || session->stopped ? SWITCH_OFF : tracepoint->level;

	switches_write_probe(session, &tracepoint->probe, position);
	switches_write_former(session, tracepoint, position);
}
