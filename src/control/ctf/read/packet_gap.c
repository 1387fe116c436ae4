#include "packet_gap.h"

#include "shared/sorted.h"

bool packet_gaps_note(struct packet_gaps *gaps, const struct cursor_before *before,
		      const struct metadata_packet *head)
{
	uint64_t missing = head->packet_seq_num - before->sequence - 1;

	if (before->is_none || !missing)
		return true;
	gaps->packets += missing;
	return vec_push(&gaps->items,
			(struct packet_gap){ before->end, head->timestamp_begin, missing });
}

static int by_begin(const void *a, const void *b)
{
	const struct packet_gap *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void packet_gaps_join(struct packet_gaps *gaps)
{
	size_t kept = 0;

	if (!gaps->items.count)
		return;
	qsort(gaps->items.items, gaps->items.count, sizeof(*gaps->items.items), by_begin);
	for (size_t i = 1; i < gaps->items.count; i++) {
		struct packet_gap *last = &gaps->items.items[kept], *next = &gaps->items.items[i];

		if (next->begin > last->end) {
			gaps->items.items[++kept] = *next;
			continue;
		}
		last->packets += next->packets;
		last->end = next->end > last->end ? next->end : last->end;
	}
	gaps->items.count = kept + 1;
}

const struct packet_gap *packet_gaps_find(const struct packet_gaps *gaps, uint64_t from,
					  uint64_t to)
{
	size_t at = sorted_count(gaps->items.count, i, gaps->items.items[i].end < from);

	return at < gaps->items.count && gaps->items.items[at].begin <= to ?
		       &gaps->items.items[at] :
		       NULL;
}

const struct packet_gap *gap_watch_item(struct gap_watch *watch, const struct packet_gaps *gaps,
					const struct packet_cursor *cursor)
{
	const struct metadata_packet *head = &cursor->head;
	uint64_t end = watch->end;

	if (!gaps->items.count || (watch->is_begun && watch->begin == head->timestamp_begin &&
				   watch->sequence == head->packet_seq_num))
		return NULL;
	*watch = (struct gap_watch){ true, head->packet_seq_num, head->timestamp_begin,
				     head->timestamp_end };
	return packet_gaps_find(gaps, end, head->timestamp_begin);
}

const struct packet_gap *gap_watch_end(const struct gap_watch *watch,
				       const struct packet_gaps *gaps)
{
	return packet_gaps_find(gaps, watch->end, UINT64_MAX);
}
