/*
 * fault.c - signals in functions of the user that tracepoints call: they end the function, not the
 * process.
 *
 * The controller makes dt_fault the handler of five signals (layout.h). A signal that a thread gets
 * in such a function sends the thread to where the function would have returned to (C3), and
 * disables the tracepoint. For every other signal dt_fault performs the target's own action, which
 * the agent keeps, as the kernel would. A guard on the libc's rt_sigaction keeps dt_fault in place.
 */
#include "shared/call.h"
#include "target/agent_parts.h"
#include "fault.h"
#include "target/gather.h"
#include "front.h"
#include "handler.h"
#include "loads.h"

#define SIGABRT 6u
#define STACK_MOST (16u << 20) /* of one function; memory further away isn't its stack */

static struct dt_calls *calls_of(const struct dt_control *control)
{
	return (struct dt_calls *)control->calls;
}

/* The signal's entry of dt_calls.actions; DT_FAULTS: none. */
static uint32_t find_signal(uint64_t signal)
{
	uint32_t i = 0;

	while (i < DT_FAULTS && dt_fault_signals[i] != signal)
		i++;
	return i;
}

/* ---- called functions ------------------------------------------------------------------------ */

/* Has that piece of stack a signal frame? Then a handler of the target, which interrupted the
 * function, is running. */
static bool has_signal_frame(const struct dt_control *control, uint64_t from, uint64_t to)
{
	uint64_t words[32], restorer = calls_of(control)->restorer;

	if (!restorer || agent_is_quiet(control))
		return false;
	for (from &= ~7ULL; from < to; from += sizeof(words)) {
		uint64_t size = to - from < sizeof(words) ? to - from : sizeof(words);
		uint64_t read = safe_read(control, from, words, size) / 8;

		for (uint64_t i = 0; i < read; i++) {
			if (words[i] == restorer)
				return true;
		}
	}
	return false;
}

/* The frame of the called function that the thread is in; NULL: none. */
static struct dt_call_frame *find_frame(const struct dt_control *control,
					const struct handler_context *context)
{
	struct dt_slot *slot = slow_find_ours(control);
	uint64_t *word = slot ? call_word(control, slot) : NULL;
	struct dt_call_frame *frame = word ? (struct dt_call_frame *)*word : NULL;

	if (!frame || context->rsp >= (uint64_t)frame ||
	    (uint64_t)frame - context->rsp > STACK_MOST || frame->guard != (uint64_t)word ||
	    has_signal_frame(control, context->rsp, frame->sp))
		return NULL;
	return frame;
}

static void end_function(const struct dt_control *control, const struct dt_call_frame *frame,
			 uint32_t signal, const struct handler_info *info,
			 struct handler_context *context)
{
	const struct dt_call_site *site = (const struct dt_call_site *)frame->site;
	struct dt_call_shared *shared = (struct dt_call_shared *)site->shared;

	shared->rip = context->rip;
	shared->address = info->address;
	__atomic_store_n(&shared->enabled, 0, __ATOMIC_RELAXED);
	/* pairs with the controller's load */
	__atomic_store_n(&shared->signal, signal, __ATOMIC_RELEASE);
	chunk_wake(control);
	context->rip = site->resume;
	context->rsp = frame->sp;
	context->rbp = (uint64_t)frame;
	context->r12 = frame->hit.registers.r12;
	context->r13 = frame->hit.registers.r13;
	context->r14 = frame->hit.registers.r14;
	context->r15 = frame->hit.registers.r15;
}

/* ---- the handler ----------------------------------------------------------------------------- */

uint64_t fault_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		      struct handler_context *context)
{
	const struct dt_control *control = (const struct dt_control *)(agent - DT_AGENT_OFFSET);
	uint32_t index = find_signal(signal);
	const struct dt_call_frame *frame =
		info->code > 0 || signal == SIGABRT ? find_frame(control, context) : NULL;

	if (index >= DT_FAULTS || loads_mend(control, info, context))
		return 0;
	if (!frame) {
		front_show(control, info, context);
		return handler_chain(control, &calls_of(control)->actions[index], signal, info,
				     context);
	}
	end_function(control, frame, signal, info, context);
	return 0;
}

/* ---- guard ----------------------------------------------------------------------------------- */

bool fault_guard_action(const struct dt_control *control, const uint64_t args[4],
			uint64_t *ret_result)
{
	struct dt_calls *calls = calls_of(control);
	uint32_t index = find_signal((uint32_t)args[0]);
	struct dt_sigaction new;

	if (!calls || args[3] != 8 || agent_is_quiet(control))
		return false;
	if (!calls->restorer && handler_read(control, args[1], (uint64_t *)&new, sizeof(new) / 8))
		calls->restorer = new.restorer;
	return index < DT_FAULTS &&
	       handler_exchange(control, &calls->actions[index], calls->pid, args, ret_result);
}
