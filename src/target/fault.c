/*
 * fault.c - signals in functions of the user's that tracepoints call: the function ends, and not the process.
 *
 * The controller has made us the handler of five signals (layout.h). One that a thread got in such a function sends it back
 * to where the function would have returned to (C3), and the tracepoint is off from then on. Every other one is the target's own
 * affair: its own action, which we keep for it, is done as the kernel would do it. A guard on the libc's rt_sigaction
 * keeps it that way.
 */
#include "../shared/call.h"
#include "agent.h"
#include "fault.h"
#include "gather.h"

#define SYS_RT_SIGACTION 13
#define SYS_TGKILL 234
#define SYS_PROCESS_VM_WRITEV 311
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_DFL 0
#define SIG_IGN 1
#define SIGABRT 6u
#define SA_RESETHAND 0x80000000u
#define SA_NODEFER 0x40000000u
#define EFAULT 14
#define STACK_MOST (16u << 20) /* of one function; what is further away isn't its stack */

/* The parts of siginfo_t and ucontext_t that matter. */
struct fault_info {
	int32_t signal, error, code, pad;
	uint64_t address;
};
struct fault_context {
	uint64_t before[5]; /* flags, link, stack (3) */
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

uint64_t fault_handle(uint64_t agent, uint32_t signal, const struct fault_info *info, struct fault_context *context);

static struct dt_calls *calls_of(const struct dt_control *control)
{
	return (struct dt_calls *)control->calls;
}

/* Its entry of dt_calls.actions; DT_FAULTS: none. */
static uint32_t find_signal(uint64_t signal)
{
	uint32_t i = 0;

	while (i < DT_FAULTS && dt_fault_signals[i] != signal)
		i++;
	return i;
}

/* ---- in a function of the user's ------------------------------------------------------------------------ */

/* Is there a signal frame in that piece of stack? Then what runs is a handler of the target's, which interrupted the function. */
static bool has_signal_frame(const struct dt_control *control, uint64_t from, uint64_t to)
{
	uint64_t words[32], restorer = calls_of(control)->restorer;

	if (!restorer || agent_is_filtered(control))
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

/* The frame of the function that the thread is in; NULL: it is in none. */
static struct dt_call_frame *find_frame(const struct dt_control *control, const struct fault_context *context)
{
	struct dt_slot *slot = slow_find_ours(control);
	uint64_t *word = slot ? call_word(control, slot) : NULL;
	struct dt_call_frame *frame = word ? (struct dt_call_frame *)*word : NULL;

	if (!frame || context->rsp >= (uint64_t)frame || (uint64_t)frame - context->rsp > STACK_MOST ||
	    frame->guard != (uint64_t)word || has_signal_frame(control, context->rsp, frame->sp))
		return NULL;
	return frame;
}

static void end_function(const struct dt_control *control, const struct dt_call_frame *frame, uint32_t signal,
			 const struct fault_info *info, struct fault_context *context)
{
	const struct dt_call_site *site = (const struct dt_call_site *)frame->site;
	struct dt_call_shared *shared = (struct dt_call_shared *)site->shared;

	shared->rip = context->rip;
	shared->address = info->address;
	__atomic_store_n(&shared->enabled, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&shared->signal, signal, __ATOMIC_RELEASE); /* pairs with the controller's look at it */
	chunk_wake(control);
	context->rip = site->resume;
	context->rsp = frame->sp;
	context->rbp = (uint64_t)frame;
	context->r12 = frame->hit.registers.r12;
	context->r13 = frame->hit.registers.r13;
	context->r14 = frame->hit.registers.r14;
	context->r15 = frame->hit.registers.r15;
}

/* ---- the target's own ------------------------------------------------------------------------------------ */

/* As if there were no handler: the same again, without ours. */
static void die(uint32_t signal, const struct fault_info *info)
{
	struct dt_sigaction none = { SIG_DFL, 0, 0, 0 };

	sys_call6(SYS_RT_SIGACTION, signal, (uint64_t)&none, 0, 8, 0, 0);
	if (info->code <= 0)
		sys_call3(SYS_TGKILL, sys_getpid(), sys_gettid(), signal);
}

static uint64_t chain(struct dt_calls *calls, uint32_t index, const struct fault_info *info)
{
	struct dt_sigaction action = calls->actions[index];
	uint32_t signal = dt_fault_signals[index];
	uint64_t bit = 1ULL << (signal - 1);

	if (action.handler == SIG_IGN && info->code <= 0)
		return 0;
	if (action.handler == SIG_DFL || action.handler == SIG_IGN) {
		die(signal, info);
		return 0;
	}
	if (action.flags & SA_RESETHAND)
		calls->actions[index].handler = SIG_DFL;
	sys_call6(SYS_RT_SIGPROCMASK, SIG_BLOCK, (uint64_t)&action.mask, 0, 8, 0, 0);
	if (action.flags & SA_NODEFER)
		sys_call6(SYS_RT_SIGPROCMASK, SIG_UNBLOCK, (uint64_t)&bit, 0, 8, 0, 0);
	return action.handler;
}

uint64_t fault_handle(uint64_t agent, uint32_t signal, const struct fault_info *info, struct fault_context *context)
{
	const struct dt_control *control = (const struct dt_control *)(agent - DT_AGENT_OFFSET);
	uint32_t index = find_signal(signal);
	const struct dt_call_frame *frame =
		info->code > 0 || signal == SIGABRT ? find_frame(control, context) : NULL;

	if (index >= DT_FAULTS)
		return 0;
	if (!frame)
		return chain(calls_of(control), index, info);
	end_function(control, frame, signal, info, context);
	return 0;
}

/* ---- guard -------------------------------------------------------------------------------------------------- */

static bool write_words(uint64_t to, const void *words, uint64_t size)
{
	struct sys_iovec local = { (uint64_t)words, size }, remote = { to, size };

	return sys_call6(SYS_PROCESS_VM_WRITEV, sys_getpid(), (uint64_t)&local, 1, (uint64_t)&remote, 1, 0) ==
	       (int64_t)size;
}

bool fault_guard_action(const struct dt_control *control, const uint64_t args[4], uint64_t *ret_result)
{
	struct dt_calls *calls = calls_of(control);
	uint32_t index = find_signal(args[0]);
	struct dt_sigaction new, old;
	bool reads;

	if (!calls || args[3] != 8 || agent_is_filtered(control))
		return false;
	reads = args[1] && sys_read_self(args[1], &new, sizeof(new)) == (int64_t)sizeof(new);
	if (reads && new.restorer && !calls->restorer)
		calls->restorer = new.restorer;
	if (index >= DT_FAULTS || (args[1] && !reads))
		return false; /* or EFAULT */
	old = calls->actions[index];
	if (reads && (sys_getpid() == calls->pid || !agent_state(control)->pid))
		calls->actions[index] = new; /* not by a child of vfork, which has actions of its own */
	*ret_result = args[2] && !write_words(args[2], &old, sizeof(old)) ? (uint64_t)-EFAULT : 0;
	return true;
}
