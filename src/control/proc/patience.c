#include "patience.h"

#include "control/base/now.h"

#define TURN_NS 200000000u /* a thread that has run for so long has had its chance */

void patience_begin(struct patience *ret_patience, const struct proc *proc, unsigned least_ms,
		    unsigned most_ms)
{
	uint64_t now = now_ms();

	*ret_patience = (struct patience){ .least = now + least_ms, .most = now + most_ms };
	run_times_note(proc, &ret_patience->since);
}

bool patience_ends(const struct patience *patience, const struct proc *proc)
{
	uint64_t now = now_ms();

	return now >= patience->least &&
	       (now >= patience->most || !run_times_starve(proc, &patience->since, TURN_NS));
}

void patience_free(struct patience *patience)
{
	run_times_free(&patience->since);
}
