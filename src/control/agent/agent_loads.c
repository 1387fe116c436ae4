#include "agent.h"

#include "control/proc/proc.h"

#define STEP 0x10000u /* the agent adds 1 at the same time, and must not undo it */

struct error *agent_forbid_loads(const struct agent *agent, struct proc *proc)
{
	taddr at = taddr_add(agent->state_at, (int64_t)offsetof(struct dt_state, loads));
	uint32_t loads = 0;
	struct error *error = mem_read(proc, at, &loads, sizeof(loads));

	loads += STEP;
	return error ? error : mem_write(proc, at, &loads, sizeof(loads));
}
