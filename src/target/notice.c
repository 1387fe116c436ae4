/*
 * notice.c - tell the controller that the loader has changed its list of libraries, and wait for
 * its answer (N1).
 *
 * dt_slow calls it for dyntrace's own probe where the loader informs debuggers. The thread holds
 * the loader's lock: other threads that load libraries wait, too. It holds nothing of the agent's,
 * so a signal handler may run meanwhile, or jump away.
 */
#include "agent_parts.h"

#define NOTICE_WAIT_NS 50000000u
#define NOTICE_MOST 30u /* times modules_ms, for a controller that is at work */
#define R_DEBUG_STATE 24 /* of struct r_debug; 0: the list is consistent */

/* False in a forked child: the controller places nothing there. */
bool notice_is_due(const struct dt_control *control)
{
	const struct dt_state *state = agent_state(control);

	if (agent_is_quiet(control) || state->pid != control->pid)
		return false;
	return !control->r_debug ||
	       *(const volatile uint32_t *)(control->r_debug + R_DEBUG_STATE) == 0;
}

static bool notice_is_answered(const struct dt_pool *pool, uint32_t ticket)
{
	return (int32_t)(__atomic_load_n(&pool->modules_answered, __ATOMIC_ACQUIRE) - ticket) >= 0;
}

static bool notice_may_wait(const struct dt_control *control)
{
	return (__atomic_load_n(&control->flags, __ATOMIC_RELAXED) & DT_WAIT_MODULES) &&
	       !agent_is_quiet(control) && /* another thread brings a filter (Q6) */
	       !__atomic_load_n(&agent_pool(control)->modules_expired, __ATOMIC_RELAXED);
}

/* How long the thread waits. All times in ns. */
struct notice_wait {
	uint64_t most; /* no longer than until then, */
	uint64_t end; /* or then, unless the controller works: */
	uint64_t worked; /* the processor time that it has used */
};

/* Is the controller dead, or stuck, or at work for too long? */
static bool notice_is_over(const struct dt_control *control, struct notice_wait *wait)
{
	uint64_t now = sys_now_ns(), worked;

	if (agent_is_orphan(control) || now >= wait->most)
		return true;
	worked = control->controller ? sys_process_time(control->controller) : 0;
	if (worked != wait->worked) {
		wait->worked = worked;
		wait->end = now + control->modules_ms * 1000000ULL;
	}
	return now >= wait->end;
}

void notice_tell(const struct dt_control *control)
{
	struct dt_pool *pool = agent_pool(control);
	uint32_t ticket = __atomic_add_fetch(&pool->modules_asked, 1, __ATOMIC_SEQ_CST);
	uint64_t now = sys_now_ns(), patience = control->modules_ms * 1000000ULL;
	struct notice_wait wait = { now + NOTICE_MOST * patience, now + patience, 0 };

	sys_futex_wake(&pool->modules_asked);
	chunk_wake(control);
	while (notice_may_wait(control) && !notice_is_answered(pool, ticket)) {
		uint32_t answered = __atomic_load_n(&pool->modules_answered, __ATOMIC_SEQ_CST);

		if (notice_is_over(control, &wait)) {
			__atomic_store_n(&pool->modules_expired, 1, __ATOMIC_RELAXED);
			return;
		}
		/* pairs with notice_answer in the controller: it raises the word, then wakes */
		if (!notice_is_answered(pool, ticket))
			sys_futex_wait(&pool->modules_answered, answered, NOTICE_WAIT_NS);
	}
}
