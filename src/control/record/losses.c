#include "losses.h"

#include <unistd.h>

#include "control/base/now.h"

uint64_t losses_possible(uint64_t since)
{
	long processors = sysconf(_SC_NPROCESSORS_CONF);

	return (now_ns() - since) / LOSSES_NS * (uint64_t)(processors > 0 ? processors : 1);
}

uint64_t losses_believe(struct losses *losses, uint64_t from, uint64_t to)
{
	if (to <= from)
		return from;
	uint64_t possible = losses_possible(losses->since), more = to - from;
	uint64_t room = possible > losses->believed ? possible - losses->believed : 0;

	if (more > room) {
		more = room;
		losses->damaged = true;
	}
	losses->believed += more;
	return from + more;
}
