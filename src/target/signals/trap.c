/*
 * trap.c - one-byte traps, the last way to place a probe (H10).
 *
 * The handler sends a thread that hit a trap of dyntrace to its trampoline. For every other SIGTRAP
 * it performs the target's own action, which the agent keeps, as the kernel would.
 *
 * A trap that is hit while SIGTRAP is blocked, or has no handler, kills the process. So while traps
 * exist neither may happen. Each `syscall` instruction of the target's libc that might cause it has
 * a guard, which calls dt_guard first: it removes SIGTRAP from every mask, and only notes a new
 * action. The target notices nothing, unless it waits for a SIGTRAP that another process sends:
 * that one is never blocked.
 *
 * Runs on the target's own stack with its signals as they are, except that a guard's system call is
 * made from here with another mask. Calls that wait aren't made here, since a thread would stay in
 * the agent: they get a pointer to a mask that stays in place.
 */
#include "target/agent_parts.h"
#include "fault.h"
#include "front.h"
#include "handler.h"
#include "loads.h"

#define SIG_UNBLOCK 1
#define SA_RESTORER 0x04000000u
#define URING_EXT_ARG 8u

/* The registers of a system call, as dt_guard pushes them. */
struct trap_call {
	uint64_t number;
	uint64_t args[6]; /* rdi rsi rdx r10 r8 r9 */
};

/* Bytes between the registers and the program's stack: two more words that dt_guard has pushed, its
 * return address, and the red zone, which the trampoline leaves alone. */
#define TRAP_CALL_TO_STACK (3 * sizeof(uint64_t) + DT_RED_ZONE)

uint64_t trap_guard(const struct dt_control *control, struct trap_call *call);

static struct dt_traps *traps_of(const struct dt_control *control)
{
	return (struct dt_traps *)control->traps;
}

/* ---- guards ---------------------------------------------------------------------------------- */

static uint64_t guard_action(const struct dt_control *control, struct trap_call *call)
{
	struct dt_sigaction new;

	if (call->args[3] != 8)
		return 0; /* EINVAL */
	if ((uint32_t)call->args[0] == DT_SIGTRAP)
		return handler_exchange(control, &traps_of(control)->action, traps_of(control)->pid,
					call->args, &call->number);
	if (!handler_read(control, call->args[1], (uint64_t *)&new, 4) ||
	    !(new.mask &DT_SIGTRAP_BIT))
		return 0;
	new.mask &= ~DT_SIGTRAP_BIT;
	call->number = (uint64_t)sys_call6(SYS_RT_SIGACTION, call->args[0], (uint64_t) & new,
					   call->args[2], 8, 0, 0);
	return 1;
}

static uint64_t guard_mask(const struct dt_control *control, struct trap_call *call)
{
	uint64_t mask;

	if ((int32_t)call->args[0] == SIG_UNBLOCK || call->args[3] != 8 ||
	    !handler_read(control, call->args[1], &mask, 1) || !(mask & DT_SIGTRAP_BIT))
		return 0;
	mask &= ~DT_SIGTRAP_BIT;
	call->number = (uint64_t)sys_call6(SYS_RT_SIGPROCMASK, call->args[0], (uint64_t)&mask,
					   call->args[2], 8, 0, 0);
	return 1;
}

/* The address of a lasting copy of these words; `otherwise` if there is no room. */
static uint64_t keep_words(struct dt_traps *traps, const uint64_t words[3], uint64_t otherwise)
{
	uint32_t count = __atomic_load_n(&traps->mask_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < DT_MASKS_MAX; i++) {
		const uint64_t *kept = traps->masks[i];

		if (kept[0] == words[0] && kept[1] == words[1] && kept[2] == words[2])
			return (uint64_t)kept;
	}
	uint32_t index = __atomic_fetch_add(&traps->mask_count, 1, __ATOMIC_ACQ_REL);
	if (index >= DT_MASKS_MAX) {
		__atomic_store_n(&traps->mask_count, DT_MASKS_MAX, __ATOMIC_RELEASE);
		return otherwise;
	}
	for (int i = 0; i < 3; i++)
		traps->masks[index][i] = words[i];
	return (uint64_t)traps->masks[index];
}

/* The address of a copy of the mask without SIGTRAP. */
static uint64_t keep_mask(const struct dt_control *control, uint64_t at)
{
	uint64_t words[3] = { 0, 0, 0 };

	if (!handler_read(control, at, words, 1) || !(words[0] & DT_SIGTRAP_BIT))
		return at;
	words[0] &= ~DT_SIGTRAP_BIT;
	return keep_words(traps_of(control), words, at);
}

/* A struct that begins with the address of a mask. */
static uint64_t keep_struct(const struct dt_control *control, uint64_t at, uint32_t count)
{
	uint64_t words[3] = { 0, 0, 0 };

	if (!handler_read(control, at, words, count))
		return at;
	uint64_t mask = keep_mask(control, words[0]);
	if (mask == words[0])
		return at;
	words[0] = mask;
	return keep_words(traps_of(control), words, at);
}

static void guard_wait(const struct dt_control *control, struct trap_call *call)
{
	const struct handler_wait *wait = handler_find_wait(call->number);

	if (wait) {
		uint64_t *arg = &call->args[wait->arg];

		*arg = wait->words ? keep_struct(control, *arg, wait->words) :
				     keep_mask(control, *arg);
	}
	if (call->number == SYS_IO_URING_ENTER)
		call->args[4] = call->args[3] & URING_EXT_ARG ?
					keep_struct(control, call->args[4], 3) :
					keep_mask(control, call->args[4]);
}

static uint64_t guard(const struct dt_control *control, struct trap_call *call)
{
	if (control->calls && call->number == SYS_RT_SIGACTION &&
	    fault_guard_action(control, call->args, &call->number))
		return 1;
	if (call->number == SYS_RT_SIGACTION &&
	    !(control->traps && (uint32_t)call->args[0] == DT_SIGTRAP) &&
	    front_guard_action(control, call->args, &call->number))
		return 1;
	if (!control->traps)
		return 0; /* no traps yet, or no longer */
	if (call->number == SYS_RT_SIGPROCMASK)
		return guard_mask(control, call);
	if (call->number == SYS_RT_SIGACTION)
		return guard_action(control, call);
	guard_wait(control, call);
	return 0;
}

uint64_t trap_guard(const struct dt_control *control, struct trap_call *call)
{
	call->number = (uint32_t)call->number; /* the kernel looks at no more of it */
	if (call->number == SYS_RT_SIGPROCMASK)
		handler_note_owner(control);
	struct loads_passing passing;
	bool passes = loads_pass(control, call->number, call->args,
				 (uint64_t)(call + 1) + TRAP_CALL_TO_STACK, &passing);
	uint64_t made = guard(control, call);

	if (passes && !made) {
		call->number = (uint64_t)sys_call6(call->number, call->args[0], call->args[1],
						   call->args[2], call->args[3], call->args[4],
						   call->args[5]);
		made = 1;
	}
	if (passes)
		loads_passed(control, &passing);
	return made;
}

/* ---- the handler ----------------------------------------------------------------------------- */

static uint64_t find_trap(const struct dt_control *control, uint64_t address)
{
	for (uint32_t i = 0; i < DT_TRAP_REACH; i++) {
		const struct dt_trap *trap =
			&control->trap_table[(dt_trap_hash(address) + i) & (DT_TRAPS_MAX - 1)];

		if (__atomic_load_n(&trap->address, __ATOMIC_ACQUIRE) == address)
			return trap->to;
	}
	return 0;
}

/* The program's own action. Its handler returns as the program wants, through the guard of
 * rt_sigreturn (X17). */
static uint64_t begin_own(const struct dt_control *control, uint32_t signal,
			  struct handler_info *info, struct handler_context *context)
{
	struct dt_sigaction *own = &traps_of(control)->action, action = *own;
	uint64_t *back = (uint64_t *)context - 1;

	front_show(control, info, context);
	struct loads_passing passing;
	bool passes = action.handler > 1 && loads_pass_trap(control, context, &passing);
	uint64_t handler = handler_chain(control, own, signal, info, context);
	if (passes)
		loads_passed(control, &passing);
	if (handler && action.flags & SA_RESTORER && *back == (uint64_t)trap_return_entry)
		*back = action.restorer;
	return handler;
}

uint64_t trap_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		     struct handler_context *context)
{
	const struct dt_control *control = (const struct dt_control *)(agent - DT_AGENT_OFFSET);
	uint64_t to = info->code == HANDLER_BY_KERNEL ? find_trap(control, context->rip - 1) : 0;

	if (!to)
		return begin_own(control, signal, info, context);
	context->rip = to;
	return 0;
}
