#include "resume.h"

/* The record of the thread that wrote the packet; 0: none. Of several records with the same ids
 * takes the one claimed last before the packet: the others belong to threads that had the ids
 * earlier. */
static uint32_t resume_find(const struct dt_pool *pool, const struct packet_seen *packet)
{
	uint32_t best = 0;

	for (uint32_t i = 1; i < DT_THREADS_MAX; i++) {
		const struct dt_thread *record = &pool->threads[i];

		if (record->claim != 2 || record->tid != packet->inner_tid ||
		    record->pid != packet->inner_pid || record->start > packet->end)
			continue;
		if (!best || record->start > pool->threads[best].start)
			best = i;
	}
	return best;
}

void resume_see(void *context, const struct packet_seen *packet)
{
	const struct resume *resume = context;
	uint32_t thread = resume_find(resume->pool, packet);

	if (!thread)
		return;
	struct reader_resume *has = &resume->threads[thread];
	uint64_t *end = packet->is_pairs ? &has->pairs_end : &has->end;
	if (packet->has_events && *end < packet->end) /* W4 */
		*end = packet->end;
	has->told += packet->lost;
}
