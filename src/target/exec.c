/*
 * exec.c - announce an execve to the controller, which waits for the new program. Signals are
 * blocked (see agent_parts.h).
 *
 * The ids come from the kernel: a vfork child has its parent's slots, but is another process. If
 * the controller is too late, or dead, the program starts untraced.
 */
#include "agent_parts.h"

#define EXEC_WAIT_NS 20000000u

static struct dt_exec *exec_claim(struct dt_pool *pool)
{
	for (uint32_t i = 0; i < DT_EXECS_MAX; i++) {
		uint32_t empty = DT_EXEC_FREE;

		if (__atomic_compare_exchange_n(&pool->execs[i].state, &empty, DT_EXEC_FILLING,
						false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return &pool->execs[i];
	}
	return NULL;
}

uint64_t exec_miss(const struct dt_control *control)
{
	__atomic_fetch_add(&agent_pool(control)->execs_missed, 1, __ATOMIC_RELAXED);
	return 0;
}

static bool exec_is_followed(const struct dt_control *control)
{
	return !(__atomic_load_n(&control->flags, __ATOMIC_RELAXED) & DT_NO_EXECS);
}

uint64_t exec_ask(const struct dt_control *control)
{
	struct dt_exec *exec = exec_is_followed(control) ? exec_claim(agent_pool(control)) : NULL;
	uint64_t deadline = sys_now_ns() + control->block_ms * 1000000ULL;
	uint32_t asked = DT_EXEC_ASKED;

	if (!exec)
		return exec_is_followed(control) ? exec_miss(control) : 0;
	exec->pid = sys_getpid();
	exec->tid = sys_gettid();
	exec->process = agent_state(control)->process;
	/* Pairs with exec_call_look in the controller. */
	__atomic_store_n(&exec->state, DT_EXEC_ASKED, __ATOMIC_RELEASE);
	chunk_wake(control);
	while (__atomic_load_n(&exec->state, __ATOMIC_ACQUIRE) == DT_EXEC_ASKED) {
		/* not while another thread brings a filter (Q6) */
		bool waits = exec_is_followed(control) && !agent_is_quiet(control);

		if (waits && sys_now_ns() < deadline && !agent_is_orphan(control)) {
			sys_futex_wait(&exec->state, DT_EXEC_ASKED, EXEC_WAIT_NS);
			continue;
		}
		if (__atomic_compare_exchange_n(&exec->state, &asked, DT_EXEC_FREE, false,
						__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			return exec_is_followed(control) ? exec_miss(control) : 0;
	}
	return 0;
}
