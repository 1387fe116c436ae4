/*
 * room_check.c - is there memory for a trace in the cgroups of the target and of the controller?
 */
#include "room_check.h"

#include <inttypes.h>
#include <unistd.h>

#include "control/proc/memory_room.h"

#define AGENT_NEEDS (1u << 20) /* bytes, at most: docs/limits.md */
#define OWN_NEEDS (1u << 20) /* bytes beside the buffer, to begin to record */

struct error *room_check_target(const struct session *session)
{
	uint64_t need = session->agent ? 0 : AGENT_NEEDS, page = UINT64_MAX, room;

	for (size_t i = 0; i < planner_site_count(session->planner); i++) {
		const struct site *site = planner_site(session->planner, i);

		need += !site->emitted && site->address.v / DT_PAGE != page ? DT_PAGE : 0;
		page = site->address.v / DT_PAGE;
	}
	if (!need || !memory_room_of(session->proc->pid, &room) || room >= need)
		return NULL;
	return error_new(ERROR_FAILED,
			 "process %d has %" PRIu64 " KiB left in its memory cgroup, and tracing may "
			 "take %" PRIu64 " KiB of it (raise the cgroup's limit)",
			 session->proc->pid, room / 1024, need / 1024);
}

struct error *room_check_own(const struct session *session)
{
	uint64_t size = session->options.buffer_size ? session->options.buffer_size :
						       DT_POOL_DEFAULT;
	uint64_t room;

	if (session->agent || session->parent || !memory_room_of(getpid(), &room) ||
	    room >= size + OWN_NEEDS)
		return NULL;
	return error_new(ERROR_FAILED,
			 "dyntrace has %" PRIu64 " KiB left in its own memory cgroup, and its "
			 "buffer takes %" PRIu64
			 " KiB (raise the cgroup's limit, or choose a smaller --buffer-size)",
			 room / 1024, (size + OWN_NEEDS) / 1024);
}
