/*
 * agent_fill.c - allocates the pool's memory, apart from the tallies that few traces need.
 */
#include <errno.h>
#include <fcntl.h>

#include "agent.h"
#include "huge_pool.h"

#define AGENT_FILL_STEP (4ULL << 20)

static struct error *fill_range(struct agent *agent, uint64_t from, uint64_t to)
{
	int number = 0;

	for (uint64_t at = from; at < to && !agent->pool_shared && !number;
	     at += AGENT_FILL_STEP) {
		uint64_t left = to - at;

		/* A signal makes posix_fallocate fail and undo its work. */
		do
			number = posix_fallocate(
				agent->pool_fd, (off_t)at,
				(off_t)(left < AGENT_FILL_STEP ? left : AGENT_FILL_STEP));
		while (number == EINTR);
	}
	if (!number)
		return NULL;
	return error_errno(number, "cannot get %llu MiB of memory for event buffers",
			   (unsigned long long)agent->pool_size >> 20);
}

/* The range of the tallies that few traces need. */
#define TALLIES_FROM DT_ROUND_UP(offsetof(struct dt_pool, tallies[DT_EVENTS_FIRST]), DT_PAGE)
#define TALLIES_TO (offsetof(struct dt_pool, tallies[DT_EVENTS_MAX]) & ~(DT_PAGE - 1))

struct error *agent_fill_pool(struct agent *agent)
{
	if (!agent->pool_shared)
		huge_pool_collapse(agent->pool_fd, agent->pool, TALLIES_TO, agent->pool_size);
	struct error *error = fill_range(agent, 0, TALLIES_FROM);

	return error ? error : fill_range(agent, TALLIES_TO, agent->pool_size);
}

struct error *agent_fill_tallies(struct agent *agent, uint32_t count)
{
	if (count <= DT_EVENTS_FIRST || agent->tallies_filled)
		return NULL;
	struct error *error = fill_range(agent, TALLIES_FROM, TALLIES_TO);
	agent->tallies_filled = !error;
	return error;
}
