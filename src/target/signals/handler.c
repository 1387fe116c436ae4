#include "handler.h"

#include "front.h"
#include "loads.h"

#define SYS_RT_SIGSUSPEND 130
#define SYS_TGKILL 234
#define SYS_RT_TGSIGQUEUEINFO 297
#define SYS_PSELECT6 270
#define SYS_PPOLL 271
#define SYS_EPOLL_PWAIT 281
#define SYS_PROCESS_VM_WRITEV 311
#define SYS_IO_PGETEVENTS 333
#define SYS_EPOLL_PWAIT2 441
#define SIG_BLOCK 0
#define SIG_UNBLOCK 1
#define SIG_DFL 0
#define SIG_IGN 1
#define SIGFPE 8
#define INFO_WORDS 16u /* of siginfo_t */
#define PAGE_FAULT 14 /* numbers of exceptions; 0: a division, or none so far */
#define SA_RESETHAND 0x80000000u
#define SA_NODEFER 0x40000000u

/* ---- the target's own action ----------------------------------------------------------------- */

/* Has an instruction raised it? A program may send itself the siginfo_t of one. */
static bool is_raised(const struct handler_info *info, const struct handler_context *context)
{
	if (info->code <= 0)
		return false;
	if (context->trap == PAGE_FAULT)
		return info->address == context->cr2 || info->address == context->rip;
	return context->trap != 0 || info->signal == SIGFPE;
}

/* Will the thread get the same signal again as soon as it continues? */
static bool comes_again(uint32_t signal, const struct handler_info *info,
			struct handler_context *context)
{
	if (signal != DT_SIGTRAP)
		return is_raised(info, context);
	if (info->code != HANDLER_BY_KERNEL || *(const uint8_t *)(context->rip - 1) != 0xcc)
		return false;
	context->rip--; /* its own int3 */
	return true;
}

/* Sends the thread the same signal, with all that the kernel told of it. */
static bool send_again(const struct dt_control *control, uint32_t signal,
		       const struct handler_info *info)
{
	uint64_t words[INFO_WORDS];
	uint32_t pid;

	if (agent_flags(control) & DT_NO_INFO || !agent_begin_call(control, &pid))
		return false;
	for (uint32_t i = 0; i < INFO_WORDS; i++)
		words[i] = i < INFO_WORDS - 2 ? ((const uint64_t *)info)[i] : 0; /* front.c's */
	int64_t result = sys_call6(SYS_RT_TGSIGQUEUEINFO, sys_getpid(), sys_gettid(), signal,
				   (uint64_t)words, 0, 0);
	agent_end_call(control, pid);
	return !result;
}

/* The default action: the same signal again, without a handler. A fault in a moved instruction
 * would come again there, and not where front.c shows it. */
static void die(const struct dt_control *control, uint32_t signal, const struct handler_info *info,
		struct handler_context *context)
{
	struct dt_sigaction none = { SIG_DFL, 0, 0, 0 };
	uint64_t *back = (uint64_t *)context - 1;
	bool shown = signal != DT_SIGTRAP && *back == (uint64_t)dt_front_return;

	sys_call6(SYS_RT_SIGACTION, signal, (uint64_t)&none, 0, 8, 0, 0);
	bool again = comes_again(signal, info, context);
	if (again && !shown)
		return;
	if (send_again(control, signal, info)) {
		*back = shown ? (uint64_t)trap_return_entry : *back;
		return;
	}
	if (!again)
		sys_call3(SYS_TGKILL, sys_getpid(), sys_gettid(), signal);
}

uint64_t handler_chain(const struct dt_control *control, struct dt_sigaction *own, uint32_t signal,
		       const struct handler_info *info, struct handler_context *context)
{
	struct dt_sigaction action = *own;
	uint64_t open = 0, bit = 1ULL << (signal - 1);

	if (action.handler == SIG_IGN && info->code <= 0)
		return 0;
	if (action.handler == SIG_DFL || action.handler == SIG_IGN) {
		die(control, signal, info, context);
		return 0;
	}
	if (action.flags & SA_RESETHAND)
		own->handler = SIG_DFL;
	if (signal == DT_SIGTRAP)
		open = bit; /* it may hit a trap of dyntrace */
	else if (action.flags & SA_NODEFER)
		open = bit & ~action.mask;
	action.mask &= ~open;
	sys_call6(SYS_RT_SIGPROCMASK, SIG_BLOCK, (uint64_t)&action.mask, 0, 8, 0, 0);
	if (open)
		sys_call6(SYS_RT_SIGPROCMASK, SIG_UNBLOCK, (uint64_t)&open, 0, 8, 0, 0);
	return action.handler;
}

/* ---- calls that wait ------------------------------------------------------------------------- */

static const struct handler_wait waits[] = {
	{ SYS_RT_SIGSUSPEND, 0, 0 }, { SYS_PPOLL, 3, 0 },    { SYS_EPOLL_PWAIT, 4, 0 },
	{ SYS_EPOLL_PWAIT2, 4, 0 },  { SYS_PSELECT6, 5, 2 }, { SYS_IO_PGETEVENTS, 5, 2 },
};

const struct handler_wait *handler_find_wait(uint64_t number)
{
	for (uint32_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		if (waits[i].number == number)
			return &waits[i];
	}
	return NULL;
}

/* ---- the target's rt_sigaction --------------------------------------------------------------- */

/*
 * (X16) Actions are kept for the process that the memory belongs to: dt_state.pid, or in a forked
 * child before its first hit dt_state.owner. A child of vfork has that memory, and actions of its
 * own; it has its parent's thread block, too, which tells the two apart. The libc of a forked child
 * sets its mask before anything else.
 */
void handler_note_owner(const struct dt_control *control)
{
	struct dt_state *state = agent_state(control);
	uint32_t before;

	if (state->pid || state->owner || !agent_begin_call(control, &before))
		return;
	if (thread_has_block(control))
		state->owner = sys_getpid();
	agent_end_call(control, before);
}

bool handler_is_ours(const struct dt_control *control, uint32_t pid)
{
	const struct dt_state *state = agent_state(control);
	uint32_t before, caller;

	handler_note_owner(control);
	if (!agent_begin_call(control, &before))
		return true;
	caller = sys_getpid();
	agent_end_call(control, before);
	if (caller == pid || caller == state->pid || (!state->pid && caller == state->owner))
		return true;
	if (!state->pid && !state->owner)
		loads_close(control); /* forked by a system call of the program's own, perhaps */
	return false;
}

bool handler_read(const struct dt_control *control, uint64_t from, uint64_t *words, uint32_t count)
{
	uint32_t pid;

	if (!from)
		return false;
	if (!(agent_flags(control) & DT_NO_READ) && agent_begin_call(control, &pid)) {
		int64_t done = sys_read_self(from, words, count * 8u);

		agent_end_call(control, pid);
		return done == (int64_t)(count * 8u);
	}
	for (uint32_t i = 0; i < count; i++)
		words[i] = ((const uint64_t *)from)[i];
	return true;
}

bool handler_write(const struct dt_control *control, uint64_t to, const uint64_t *words,
		   uint32_t count)
{
	struct sys_iovec local = { (uint64_t)words, count * 8u };
	struct sys_iovec remote = { to, count * 8u };
	uint32_t pid;

	if (!(agent_flags(control) & DT_NO_READ) && agent_begin_call(control, &pid)) {
		int64_t done = sys_copy_own(SYS_PROCESS_VM_WRITEV, sys_getpid(), &local, 1, &remote,
					    1);

		agent_end_call(control, pid);
		return done == (int64_t)(count * 8u);
	}
	for (uint32_t i = 0; i < count; i++)
		((uint64_t *)to)[i] = words[i];
	return true;
}

bool handler_exchange(const struct dt_control *control, struct dt_sigaction *own, uint32_t pid,
		      const uint64_t args[4], uint64_t *ret_result)
{
	struct dt_sigaction old = *own, new;

	if (args[1] && !handler_read(control, args[1], (uint64_t *)&new, sizeof(new) / 8))
		return false;
	if (args[1] && handler_is_ours(control, pid))
		*own = new; /* not for a child of vfork, which has actions of its own */
	*ret_result = 0;
	if (args[2] && !handler_write(control, args[2], (const uint64_t *)&old, sizeof(old) / 8))
		*ret_result = (uint64_t)-HANDLER_EFAULT;
	return true;
}
