/*
 * front.c - faults in moved instructions (H30).
 *
 * A program's handler of SIGSEGV may look up the address of the instruction (OCaml, JVMs), skip the
 * instruction, or repair its cause and return. So dt_front is the handler that the kernel knows,
 * with the flags and the mask that the program wants, and goes on to the program's own. It makes no
 * system call, and leaves signals outside of trampolines as they are.
 *
 * For a signal in a trampoline it changes the context on the stack to what it would be without
 * dyntrace: the instruction that the trampoline stands for there (shared/frame.h), and the
 * registers that the trampoline has saved. Most of these signals come from a moved instruction; a
 * stack overflow may also come from the trampoline's own pushes, or from those of dt_slow. Then
 * nothing has been recorded yet.
 *
 * When the handler returns, dt_front_return takes the change back:
 *
 *	the context's rip	continues at
 *	as it was shown		where the signal came from; after a push of ours, at the first
 *				instruction of the trampoline for that instruction
 *	inside of the site	the copy of that instruction
 *	any other		that address
 *
 * The two addresses that this needs are in the last words of siginfo_t, which the kernel leaves 0.
 */
#include "front.h"

#include "target/find.h"
#include "loads.h"
#include "shared/frame.h"

#define CONTEXT_SIZE 304u /* of the kernel's struct ucontext; siginfo_t follows */
#define INFO_NOTE 112u
#define SLOW_WORDS 14u /* that dt_slow has pushed at most, with the addresses that it returns to */
#define SA_RESETHAND 0x80000000u
#define SA_RESTORER 0x04000000u
#define SA_RESTART 0x10000000u
#define SA_SIGINFO 4u
#define SA_KNOWN 0xdc000807u /* the flags that the kernel keeps */
#define NEVER_BLOCKED (1ULL << (9 - 1) | 1ULL << (19 - 1)) /* SIGKILL, SIGSTOP */
#define SIG_IGN 1
#define SIG_SETMASK 2
#define SIGNAL_TRAP 5
#define CODE_BREAKPOINT 1 /* TRAP_BRKPT */
#define FLAGS_OF 0x800u
#define FLAGS_AH 0xd5u /* that lahf loads */
#define KEPT_EXIT 0x30u /* dt_frame_kept of a trampoline that also saves rsi */

struct front_note {
	uint64_t resume, shown;
};

struct front_place {
	const struct dt_frame_end *end;
	uint32_t row;
	uint64_t pc, sp; /* in the trampoline */
};

static struct dt_fronts *fronts_of(const struct dt_control *control)
{
	return (struct dt_fronts *)control->fronts;
}

static uint32_t origin_of(uint32_t row)
{
	return row >> DT_FRAME_ORIGIN_SHIFT & DT_FRAME_ORIGIN_MASK;
}

/* ---- where a signal came from ---------------------------------------------------------------- */

static bool find_in(const struct dt_control *control, uint64_t pc, uint64_t sp,
		    struct front_place *ret_place)
{
	struct find_frame frame;

	if (!find_frame(control, pc, &frame) || frame.is_hop ||
	    origin_of(frame.row) == DT_FRAME_RETURNS)
		return false;
	*ret_place = (struct front_place){ frame.end, frame.row, pc, sp };
	return true;
}

/* In shared code of trampolines: its return address leads to the trampoline. */
static bool find_caller(const struct dt_control *control, const struct handler_context *context,
			struct front_place *ret_place)
{
	struct find_frame frame;
	uint64_t sp, word;

	if (!find_frame(control, context->rip, &frame) || frame.is_hop ||
	    origin_of(frame.row) != DT_FRAME_RETURNS)
		return false;
	sp = context->rsp + 8ULL * (frame.row >> DT_FRAME_WORDS_SHIFT) - 8;
	return handler_read(control, sp - 8, &word, 1) && find_in(control, word, sp, ret_place);
}

/* In dt_slow: its return address leads to the trampoline, or to code that the trampoline called. */
static bool find_place(const struct dt_control *control, const struct handler_context *context,
		       struct front_place *ret_place)
{
	uint64_t words[SLOW_WORDS];

	if (find_in(control, context->rip, context->rsp, ret_place) ||
	    find_caller(control, context, ret_place))
		return true;
	if (context->rip - control->slow >= FRONT_SLOW_SIZE ||
	    !handler_read(control, context->rsp, words, SLOW_WORDS))
		return false;
	for (uint32_t i = 0; i < SLOW_WORDS; i++) {
		if (find_in(control, words[i], context->rsp + 8 * (i + 1), ret_place))
			return true;
	}
	return false;
}

/* Where the trampoline's code for the instruction at that offset of the site begins; 0: none. */
static uint64_t find_copy(const struct dt_frame_end *end, uint32_t origin)
{
	const uint32_t *rows = (const uint32_t *)end;
	uint64_t start = (uint64_t)end - end->start, at = start;

	for (uint32_t i = 1; i <= end->row_count; i++) {
		uint32_t row = rows[-(int64_t)i];

		if (origin_of(row) == origin)
			return at;
		at = start + (row & DT_FRAME_END_MAX);
	}
	return 0;
}

/* The kept of the first later row for the same instruction that has one: the trampoline has saved
 * everything there. */
static uint32_t find_kept(const struct front_place *place)
{
	const uint32_t *rows = (const uint32_t *)place->end;
	uint64_t offset = place->pc - ((uint64_t)place->end - place->end->start);

	for (uint32_t i = 1; i <= place->end->row_count; i++) {
		uint32_t row = rows[-(int64_t)i];

		if (offset < (row & DT_FRAME_END_MAX) && dt_frame_kept(row))
			return origin_of(row) == origin_of(place->row) ? dt_frame_kept(row) : 0;
	}
	return 0;
}

/* ---- registers ------------------------------------------------------------------------------- */

static void restore_flags(struct handler_context *context, uint64_t saved)
{
	context->flags &= ~(uint64_t)(FLAGS_AH | FLAGS_OF);
	context->flags |= (saved >> 8 & FLAGS_AH) | (saved & 0xff ? FLAGS_OF : 0);
}

/* `sp`: the program's stack pointer. False: the stack can't be read. */
static bool restore(const struct dt_control *control, const struct front_place *place, uint64_t sp,
		    struct handler_context *context)
{
	uint32_t kept = dt_frame_kept(place->row);
	uint64_t words[5], rsi = context->rsi; /* flags, rbx, rdx, rcx, rax */

	if (!kept) {
		/* after the last push but that of the flags, which have been loaded into rax */
		kept = find_kept(place);
		return sp - place->sp != kept || !kept ||
		       handler_read(control, sp - kept + 24, &context->rax, 1);
	}
	if (!handler_read(control, sp - kept - 8, words, 5) ||
	    (kept == KEPT_EXIT && !handler_read(control, sp - 8, &rsi, 1)))
		return false;
	restore_flags(context, words[0]);
	context->rbx = words[1];
	context->rdx = words[2];
	context->rcx = words[3];
	context->rax = words[4];
	context->rsi = rsi;
	return true;
}

/* Did the instruction itself raise the signal? Others come at any instruction: a signal that was
 * sent, and a step, branch or hardware breakpoint (SIGTRAP). After these the trampoline must go on
 * where it was: from its beginning, a program that steps itself would never leave it. */
static bool is_fault(const struct handler_info *info)
{
	if (info->signal == SIGNAL_TRAP)
		return info->code == HANDLER_BY_KERNEL || info->code == CODE_BREAKPOINT;
	return info->code > 0;
}

/* (H30) Where a push of the program's own would have failed: at the next word, or at the first
 * below it on the page that can't be touched. Rust's runtime and JVMs look whether it is in their
 * guard pages. OCaml's looks whether it is near rsp, and not for its page. */
static uint64_t overflow_address(const struct dt_control *control, uint64_t touched, uint64_t sp)
{
	uint64_t first = (touched | (DT_PAGE - 1)) - 7;
	bool is_near = agent_flags(control) & DT_NEAR_FAULTS;

	return first < sp - 8 && !is_near ? first : sp - 8;
}

void front_show(const struct dt_control *control, struct handler_info *info,
		struct handler_context *context)
{
	struct front_note *note = (struct front_note *)((uint8_t *)info + INFO_NOTE);
	struct handler_context before = *context;
	struct front_place place;

	if ((uint64_t)info - (uint64_t)context != CONTEXT_SIZE || !is_fault(info) ||
	    !find_place(control, context, &place))
		return;
	uint64_t site = (uint64_t)place.end + (uint64_t)(int64_t)place.end->site;
	uint64_t sp = place.sp + 8ULL * (place.row >> DT_FRAME_WORDS_SHIFT) - 8;
	if (sp != context->rsp && !restore(control, &place, sp, context)) {
		*context = before;
		return;
	}
	note->resume = sp == before.rsp ? before.rip : find_copy(place.end, origin_of(place.row));
	note->shown = site + origin_of(place.row);
	if (info->address == before.rip)
		info->address = note->shown;
	else if (sp != before.rsp)
		info->address = context->cr2 = overflow_address(control, info->address, sp);
	context->rip = note->shown;
	context->rsp = sp;
	((uint64_t *)context)[-1] = (uint64_t)dt_front_return;
}

/* ---- the actions ----------------------------------------------------------------------------- */

static uint32_t find_signal(uint32_t signal)
{
	uint32_t i = 0;

	while (i < DT_FRONTS && dt_front_signals[i] != signal)
		i++;
	return i;
}

/* The action that the kernel gets. */
static struct dt_sigaction in_front(const struct dt_control *control, uint32_t index)
{
	const struct dt_fronts *fronts = fronts_of(control);
	struct dt_sigaction ours = fronts->actions[index];
	bool is_handled = ours.handler > 1;

	ours.handler = (uint64_t)front_entry;
	ours.flags |= SA_SIGINFO; /* the kernel writes no siginfo_t without */
	if (control->traps)
		ours.mask &= ~DT_SIGTRAP_BIT;
	if (!(fronts->full >> index & 1))
		return ours;
	ours.mask = ~0ULL; /* X4 */
	ours.flags &= ~(uint64_t)(SA_RESETHAND | DT_SA_NODEFER);
	if (is_handled)
		return ours;
	ours.flags = SA_SIGINFO | SA_RESTORER | SA_RESTART;
	ours.flags |= dt_goes_elsewhere(fronts, index) ? DT_SA_ONSTACK : 0;
	ours.restorer = (uint64_t)trap_return_entry;
	return ours;
}

/* As the kernel would have it. */
static struct dt_sigaction as_kept(struct dt_sigaction action)
{
	action.flags &= SA_KNOWN;
	action.mask &= ~NEVER_BLOCKED;
	return action;
}

static int64_t set(uint32_t index, const struct dt_sigaction *action, struct dt_sigaction *ret_old)
{
	return sys_call6(SYS_RT_SIGACTION, dt_front_signals[index], (uint64_t)action,
			 (uint64_t)ret_old, 8, 0, 0);
}

/* Ours in front of the program's own, which is there. */
static int64_t put_in_front(const struct dt_control *control, uint32_t index, uint64_t more_flags,
			    struct dt_sigaction *ret_old)
{
	struct dt_sigaction ours = in_front(control, index), now;

	ours.flags |= more_flags;
	int64_t result = set(index, &ours, ret_old);
	/* (H42) the controller gave the others back when the thread was here already, or in another
	 * process: here there may still be probes, whose loads have to end first (X4) */
	if (agent_flags(control) & DT_FRONTS_GONE && !set(index, NULL, &now) &&
	    now.handler == (uint64_t)front_entry) {
		loads_end(control, index);
		set(index, &fronts_of(control)->actions[index], NULL);
	}
	return result;
}

/* The program's own is about to be another one. */
static int64_t set_own(const struct dt_control *control, uint32_t index, struct dt_sigaction own,
		       struct dt_sigaction *ret_old)
{
	struct dt_sigaction *at = &fronts_of(control)->actions[index], was = *at;

	*at = as_kept(own);
	int64_t result = put_in_front(control, index, 0, ret_old);
	if (result < 0)
		*at = was;
	else
		fronts_of(control)->last[index] = own.handler;
	return result;
}

/* The same for a signal of loads. (X18) The default action of the other one is due on the same
 * stack as the handler of this one. */
static int64_t set_own_of_loads(const struct dt_control *control, uint32_t index,
				struct dt_sigaction own, struct dt_sigaction *ret_old)
{
	struct dt_fronts *fronts = fronts_of(control);
	struct dt_sigaction *at = &fronts->actions[index], was = *at;
	uint32_t other = DT_FRONT_BUS + DT_FRONT_SEGV - index;

	*at = as_kept(own);
	uint64_t more = loads_pass_stack(control) ? 0 : DT_SA_ONSTACK;
	int64_t result = put_in_front(control, index, more, ret_old);
	if (result < 0)
		*at = was;
	else
		fronts->last[index] = own.handler > 1 ? own.handler : 0;
	if (fronts->full >> other & 1 && fronts->actions[other].handler <= 1)
		put_in_front(control, other, more, NULL);
	loads_passed_stack(control);
	return result;
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* (X18) As the kernel does it for SA_RESETHAND: where faults go may change. */
static void take_away(const struct dt_control *control, uint32_t index)
{
	struct dt_fronts *fronts = fronts_of(control);
	struct dt_sigaction none = fronts->actions[index];

	none.handler = 0;
	if (handler_is_ours(control, fronts->pid))
		set_own_of_loads(control, index, none, NULL);
	else /* a child of vfork (X16) */
		set(index, &none, NULL);
}

/* (X4) The program's own handler, with the mask that the kernel would have set. A process that may
 * make no system call keeps all signals blocked until the handler returns. */
static uint64_t begin_handler(const struct dt_control *control, uint32_t index,
			      const struct handler_context *context)
{
	struct dt_sigaction *own = &fronts_of(control)->actions[index], action = *own;
	uint64_t mask = context->mask | action.mask;
	uint32_t pid;

	if (!(action.flags & DT_SA_NODEFER))
		mask |= 1ULL << (dt_front_signals[index] - 1);
	if (control->traps)
		mask &= ~DT_SIGTRAP_BIT; /* it may hit a trap of dyntrace */
	loads_pass_handler(control, context);
	if (agent_begin_call(control, &pid)) {
		if (action.flags & SA_RESETHAND)
			take_away(control, index);
		sys_call6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (uint64_t)&mask, 0, 8, 0, 0);
		agent_end_call(control, pid);
	} else if (action.flags & SA_RESETHAND) {
		own->handler = 0;
	}
	return action.handler;
}

uint64_t front_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		      struct handler_context *context)
{
	const struct dt_control *control = (const struct dt_control *)(agent - DT_AGENT_OFFSET);
	struct dt_fronts *fronts = fronts_of(control);
	uint32_t index = find_signal(signal);

	if (index >= DT_FRONTS || !fronts)
		return 0;
	if (loads_mend(control, info, context)) {
		/* the program's own may be for handlers that never return */
		((uint64_t *)context)[-1] = (uint64_t)trap_return_entry;
		return 0;
	}
	front_show(control, info, context);
	bool is_full = fronts->full >> index & 1;
	uint64_t handler = fronts->actions[index].handler;
	if (handler <= 1 && !is_full && fronts->last[index])
		handler = fronts->last[index]; /* it was taken away since the signal came */
	if (handler <= 1)
		return handler_chain(control, &fronts->actions[index], signal, info, context);
	if (is_full)
		return begin_handler(control, index, context);
	loads_pass_handler(control, context);
	return handler;
}

void front_back(uint64_t agent, struct handler_context *context)
{
	const struct dt_control *control = (const struct dt_control *)(agent - DT_AGENT_OFFSET);
	const struct front_note *note =
		(const struct front_note *)((uint8_t *)context + CONTEXT_SIZE + INFO_NOTE);
	struct find_frame frame;

	loads_pass_end(control, (uint64_t)context); /* X17 */
	if (context->rip == note->shown) {
		context->rip = note->resume;
		return;
	}
	if (!find_frame(control, note->resume, &frame) || frame.is_hop)
		return;
	uint64_t site = (uint64_t)frame.end + (uint64_t)(int64_t)frame.end->site;
	if (context->rip == site || context->rip - site >= DT_FRAME_RETURNS)
		return;
	uint64_t copy = find_copy(frame.end, (uint32_t)(context->rip - site));
	if (copy)
		context->rip = copy;
}

/* ---- guard ----------------------------------------------------------------------------------- */

bool front_guard_action(const struct dt_control *control, const uint64_t args[4],
			uint64_t *ret_result)
{
	struct dt_fronts *fronts = fronts_of(control);
	uint32_t signal = (uint32_t)args[0], index = find_signal(signal);
	struct dt_sigaction new, old;
	bool sets = args[1] != 0, keeps = false;
	int64_t result;

	if (!fronts || args[3] != 8 ||
	    (args[1] && !handler_read(control, args[1], (uint64_t *)&new, sizeof(new) / 8)))
		return false;
	if (sets)
		loads_pass_action(control, signal, &new);
	if (index >= DT_FRONTS)
		return false;
	struct dt_sigaction *own = &fronts->actions[index], was = *own;
	/* a child of vfork has actions of its own, at first its parent's, but this memory (X16) */
	if (sets)
		keeps = handler_is_ours(control, fronts->pid);
	if (sets && !keeps)
		loads_shut(control);
	if (keeps && new.handler == SIG_IGN)
		loads_end(control, index); /* X12 */
	if (keeps && fronts->full >> index & 1) {
		result = set_own_of_loads(control, index, new, &old);
	} else if (keeps && new.handler > 1 && !(new.flags & SA_RESETHAND)) {
		result = set_own(control, index, new, &old);
	} else {
		result = set(index, sets ? &new : NULL, &old);
		if (result >= 0 && keeps)
			own->handler = 0;
	}
	if (result >= 0 && args[2] &&
	    !handler_write(control, args[2],
			   (const uint64_t *)(old.handler == (uint64_t)front_entry ? &was : &old),
			   sizeof(old) / 8))
		result = -HANDLER_EFAULT;
	*ret_result = (uint64_t)result;
	return true;
}
