/*
 * loads.c - plain loads of memory that may go away, and what mends them (H44).
 *
 * A load that faults raises SIGSEGV or SIGBUS. dt_front, the handler in front of the program's own,
 * knows the loads by their addresses and leads the thread on behind them. A fault kills if its
 * signal is blocked, has another handler, or finds no room for its frame. So:
 *
 * (X3) A thread loads only while dt_own_stack.open is dt_state.loads: it was seen with both signals
 *      open, on its own stack, with room for a frame there or on its alternate stack. Every system
 *      call of a module that might change its mask or its alternate stack has a guard (trap.c),
 *      which makes the word another.
 * (X9) A program that has its libc inside (a static one) has guards at its own system calls, and no
 *      plain loads if it has code that its file doesn't show.
 * (X4) dt_front stays the handler of both signals, whatever action the program sets, and blocks all
 *      signals: no handler of the program's runs on top of a load's fault, with the signals
 *      blocked. For a fault of the program's own it sets the mask that the kernel would have
 *      set.
 * (X5) A handler that comes between a guard and its system call mustn't find the signals open,
 *      which the call is about to block: a thread doesn't look while it is there, and nobody does
 *      while a thread is that has no slot yet. A thread that waits with another mask (sigsuspend)
 *      is never believed open if one of its two masks has the signals blocked.
 * (X6) A handler of the program's for another signal, whose mask has the signals blocked, begins
 *      without us. So its first instruction has a probe of ours, by which the thread is no longer
 *      known to be open (DT_ASK_SHUT). The handler of a signal that this mask has open may begin
 *      before that instruction, with the same signals blocked, and needs a probe, too. A process
 *      makes no plain loads while it has such a handler without a probe (dt_fronts.closed). Where
 *      there are traps (trap.c), dt_trap begins the handler of SIGTRAP, and shuts the thread.
 *
 * (X18) On a stack that nobody knows, as a coroutine has, a fault's frame may find no room. But it
 *      comes to lie on the thread's alternate stack, if there is one, the thread isn't on it, and
 *      the program has a handler of one of the two signals at least, and none without SA_ONSTACK.
 *
 * (X19) A handler on the alternate stack may go to another stack and come back, and a fault's frame
 *      would overwrite its own. So a thread makes no plain loads from when we begin a handler there
 *      until the handler ends or has jumped away: until the thread is on its own stack, no deeper
 *      than where the handler came, if that was there. And where the stack is unknown, a fault goes
 *      to no alternate stack that has been written to when its thread is first looked at, and to
 *      none at all from when a handler of another signal has SA_ONSTACK, which begins without us.
 *
 * (X17) The end of a handler has a guard, too: a thread that was seen open inside a handler isn't
 *      known to be so behind it, unless the frame's mask says so.
 *
 * (X20) A handler that has interrupted a load, or a guard (X5), may jump away: nobody is to wait
 *      for the thread then. So it notes where on its own stack it is; when it is above the frame
 *      that a handler there would have, it has left. Of handlers on top of each other, one may
 *      jump to another: so the outermost place counts. On an alternate stack inside of the
 *      thread's own, handlers are above: a thread that has one makes no plain loads.
 *
 * (X10) Other modules than the libc make harmless system calls only (sigtrap_guards.c). A call of
 *      the libc's whose number nobody knew before may be one that no guard makes safe: the process
 *      makes no plain loads from there on. So may its clone.
 * (X8) A process that asks for AMX's tiles, whose threads have larger frames then, makes no plain
 *      loads from there on.
 *
 * (X12) A signal that the program ignores has no handler of ours, which would interrupt calls that
 *      wait, and which execve wouldn't hand on as ignored: such a process makes no plain loads.
 * (X13) dt_state.stays has pages only that nothing unmaps or protects while the process lives
 *      (dt_control.stable): no load there faults. So trampolines load from them whatever the
 *      thread's mask and its stack are. Variables aren't among them: programs make guard pages and
 *      barriers of static arrays. Pages of dt_control.heap are, from when they could be
 *      read first (X15).
 *
 * The program's masks, actions and alternate stacks stay what it wants: nothing is changed but the
 * two actions, which nobody is told of. Only pages that process_vm_readv has read are loaded from:
 * so a bad pointer is no fault, and neither are registers of devices read. Where a filter forbids
 * that call, every address is tried.
 */
#include "loads.h"

#include "shared/frame.h"
#include "shared/reads.h"
#include "shared/tiles.h"
#include "target/find.h"
#include "target/gather.h"

_Static_assert(offsetof(struct dt_state, opened) - offsetof(struct dt_state, stays) == 0x2000 &&
		       offsetof(struct dt_state, no_opened) - offsetof(struct dt_state, pages) ==
			       0x2000 &&
		       offsetof(struct dt_opened, size) == 8,
	       "reads.S");

#define SIG_UNBLOCK 1
#define SIG_SETMASK 2
#define URING_MASK 4 /* the argument with a mask, or a struct, which isn't looked at */
#define PAUSES_MOST 11u /* each twice as long as the one before, up to 2,047 hits */
#define CLONE_VM 0x100u
#define CLONE_VFORK 0x4000u
#define CLONE_OWN 0x80800u /* CLONE_SETTLS, CLONE_SIGHAND */
#define PR_SET_SECCOMP 22u
#define PR_SET_DISPATCH 59u
#define DRAIN 2000u /* pauses, in which stores of other processors reach memory (X7) */
#define WAIT 4000000u /* pauses: some tenths of a second at most */
#define WAIT_LONG 20000000u /* about a second */
#define LONG_JUMP 0xe9u /* what a site begins with */
#define SHORT_JUMP 0xebu
#define BREAKPOINT 0xccu

/* What we read of a signal's frame, above its handler's return address: the kernel's ucontext. */
struct frame_end {
	uint64_t flags, link;
	struct sys_altstack alternate; /* when the handler began */
	uint64_t registers[32], mask;
};
_Static_assert(offsetof(struct frame_end, mask) == 296, "the kernel's layout");
#define FRAME_LEAST 1024 /* the red zone, registers, siginfo_t, and the least of vector registers */
#define FRAME_RSP 15u /* of its registers */
#define STACK_WINDOW 64u /* words of an alternate stack that are looked at together */

static struct dt_fronts *fronts_of(const struct dt_control *control)
{
	return (struct dt_fronts *)control->fronts;
}

static bool is_on(const struct dt_control *control)
{
	return __atomic_load_n(&control->flags, __ATOMIC_RELAXED) & DT_LOADS && control->fronts;
}

static bool is_allowed(const struct dt_control *control)
{
	const struct dt_fronts *fronts = fronts_of(control);

	return is_on(control) && !control->calls && fronts->full == DT_LOADS_FULL &&
	       !__atomic_load_n(&fronts->closed, __ATOMIC_RELAXED);
}

/* ---- threads --------------------------------------------------------------------------------- */

/* (X19) */
static bool is_zero(uint64_t from, uint64_t end)
{
	uint64_t words[STACK_WINDOW], all = 0;

	for (uint64_t at = from; at < end; at += sizeof(words)) {
		uint64_t size = end - at < sizeof(words) ? end - at : sizeof(words);

		words[(size - 1) / 8] = 0;
		if (sys_read_self(at, words, size) != (int64_t)size)
			return false;
		for (uint64_t i = 0; i < (size + 7) / 8; i++)
			all |= words[i];
	}
	return !all;
}

/* (X19) Had nobody written where a fault's frame would come to lie, when the thread was first seen
 * with that alternate stack? Faults of loads write there. */
static bool is_unused(const struct dt_control *control, struct dt_own_stack *own,
		      const struct sys_altstack *stack)
{
	uint64_t end = stack->start + stack->size;

	if (agent_flags(control) & DT_NO_READ)
		return false;
	if (own->looked != end)
		own->used = !is_zero(end - fronts_of(control)->frame, end);
	own->looked = end;
	return !own->used;
}

/* (X19) Is a handler on that alternate stack that we have begun? */
static bool is_taken(const struct dt_own_stack *own, const struct sys_altstack *stack)
{
	return own->used > 1 && own->looked == stack->start + stack->size;
}

/* (X20) Is the alternate stack inside of the thread's own? */
static bool is_inside(const struct dt_own_stack *own, const struct sys_altstack *stack)
{
	uint64_t end = own->start + own->size + DT_STACK_ROOM;

	return own->size && stack->start < end && own->start < stack->start + stack->size;
}

/* (X3) Has the alternate stack room for a frame? The kernel kills where it hasn't. (X18) Notes from
 * where frames come to lie on it: the range, which wraps, is all but the stack and a page below. */
static bool has_frame_room(const struct dt_control *control, struct dt_own_stack *own)
{
	const struct dt_fronts *fronts = fronts_of(control);
	struct sys_altstack other = { 0, SYS_SS_DISABLE, 0, 0 };

	if (sys_call3(SYS_SIGALTSTACK, 0, (uint64_t)&other, 0))
		return false;
	own->elsewhere_size = 0;
	if (other.flags & SYS_SS_DISABLE)
		return true;
	if (other.size < fronts->frame || is_taken(own, &other) || is_inside(own, &other))
		return false;
	own->elsewhere = other.start + other.size + 1;
	if (__atomic_load_n(&fronts->elsewhere, __ATOMIC_SEQ_CST) == DT_ELSEWHERE_YES &&
	    is_unused(control, own, &other))
		own->elsewhere_size = 0 - (other.size + DT_PAGE);
	return true;
}

static uint64_t mask_now(void)
{
	uint64_t mask = ~0ULL;

	return sys_call6(SYS_RT_SIGPROCMASK, SIG_SETMASK, 0, (uint64_t)&mask, 8, 0, 0) ? ~0ULL :
											 mask;
}

/* A child of vfork has the slot of its parent, and another mask. */
static bool is_open(const struct dt_control *control, const struct dt_slot *slot,
		    struct dt_own_stack *own, uint64_t mask)
{
	return !(mask & DT_LOADS_BITS) && sys_gettid() == slot->real_tid &&
	       has_frame_room(control, own);
}

static bool is_open_now(const struct dt_control *control, const struct dt_own_stack *own)
{
	return own->open == __atomic_load_n(&agent_state(control)->loads, __ATOMIC_RELAXED);
}

void loads_forbid(const struct dt_control *control)
{
	__atomic_fetch_add(&agent_state(control)->loads, 1, __ATOMIC_SEQ_CST);
}

void loads_close(const struct dt_control *control)
{
	fronts_of(control)->closed = DT_CLOSED;
	loads_forbid(control);
}

/* Signals are as they are: a handler that comes meanwhile leaves the mask as it was. Or they are
 * blocked, and will be as in *mask again. */
static bool look(const struct dt_control *control, const struct dt_slot *slot,
		 struct dt_own_stack *own, const uint64_t *mask)
{
	uint32_t pid;

	/* before is_allowed: whoever forbids loads changes the word last */
	uint32_t loads = __atomic_load_n(&agent_state(control)->loads, __ATOMIC_SEQ_CST);
	if (!is_allowed(control) || agent_is_quiet(control))
		return false;
	if (own->pause) {
		own->pause--;
		return false;
	}
	if (own->shut || own->passing || own->loading ||
	    __atomic_load_n(&agent_state(control)->passing, __ATOMIC_SEQ_CST) || /* X5 */
	    agent_flags(control) & DT_NO_ALTSTACK || !agent_begin_call(control, &pid))
		return false;
	bool open = is_open(control, slot, own, mask ? *mask : mask_now());
	agent_end_call(control, pid);
	if (!open) {
		own->pauses += own->pauses < PAUSES_MOST;
		own->pause = (uint16_t)((1u << own->pauses) - 1);
		return false;
	}
	own->pauses = 0;
	own->open = loads;
	return true;
}

/* (X20) The program isn't as far below the place on its own stack where it was interrupted as the
 * handler's frame would reach. */
static bool has_left(uint32_t place, uint64_t sp)
{
	return place > 1 && (int32_t)((uint32_t)sp - place) > -FRAME_LEAST;
}

/* (X19) On its own stack: the handler on the alternate one has jumped away. Of one that came on a
 * stack that nobody knows nobody can tell, so faults go there from stacks of that kind no more. */
static void note_back(const struct dt_control *control, const struct dt_slot *slot,
		      struct dt_own_stack *own, uint64_t sp)
{
	bool is_known = own->used > 1 && stack_room_above(control, slot, own->used);

	if (own->used <= 1 || (is_known && own->used > sp + DT_RED_ZONE))
		return;
	own->used = !is_known;
	own->pause = 0;
}

bool loads_enter(const struct dt_control *control, struct dt_slot *slot, uint64_t sp,
		 uint32_t *ret_before)
{
	struct dt_own_stack *own = agent_own_stack(control, slot);

	note_back(control, slot, own, sp);
	if (has_left(own->passing, sp))
		own->passing = 0;
	if (has_left(own->loading, sp))
		own->loading = 0;
	if (!is_allowed(control) || (!is_open_now(control, own) && !look(control, slot, own, NULL)))
		return false;
	*ret_before = own->loading;
	if (!own->loading)
		__atomic_store_n(&own->loading, (uint32_t)(uint64_t)__builtin_frame_address(0) | 1,
				 __ATOMIC_SEQ_CST);
	/* Q6; and who takes the handlers away forbids loads first, and waits for those that load */
	if (is_allowed(control) && !agent_is_quiet(control))
		return true;
	own->loading = *ret_before;
	return false;
}

/* (X20) Before a system call of the program's. */
static void note_left(const struct dt_control *control, uint64_t sp)
{
	struct dt_slot *slot = slow_find_ours(control);
	struct dt_own_stack *own = slot ? agent_own_stack(control, slot) : NULL;

	if (!own || !stack_room_above(control, slot, sp))
		return;
	if (has_left(own->loading, sp))
		__atomic_store_n(&own->loading, 0, __ATOMIC_RELEASE);
	if (has_left(own->passing, sp))
		own->passing = 0;
}

void loads_leave(const struct dt_control *control, const struct dt_slot *slot, uint32_t before)
{
	__atomic_store_n(&agent_own_stack(control, slot)->loading, before, __ATOMIC_RELEASE);
}

void loads_look(const struct dt_control *control, uint64_t mask)
{
	const struct dt_slot *slot = slow_find_ours(control);
	struct dt_own_stack *own = slot ? agent_own_stack(control, slot) : NULL;

	if (own && is_allowed(control) && !is_open_now(control, own))
		look(control, slot, own, &mask);
}

void loads_shut(const struct dt_control *control)
{
	struct dt_slot *slot = slow_find_ours(control);

	if (slot)
		__atomic_store_n(&agent_own_stack(control, slot)->open, DT_NOT_OPEN,
				 __ATOMIC_RELAXED);
}

/* (X19) A handler of another signal uses alternate stacks. */
static void keep_off(const struct dt_control *control)
{
	uint32_t *elsewhere = &fronts_of(control)->elsewhere;

	if (__atomic_load_n(elsewhere, __ATOMIC_SEQ_CST) >= DT_ELSEWHERE_NEVER)
		return;
	__atomic_store_n(elsewhere, DT_ELSEWHERE_NEVER, __ATOMIC_SEQ_CST);
	loads_forbid(control); /* threads look again */
}

/* A thread that has looked since isn't in such a load: handlers on top of one don't look. */
static bool is_loading(const struct dt_state *state, uint32_t slot)
{
	const struct dt_own_stack *own = &state->own_stacks[slot];

	return __atomic_load_n(&own->loading, __ATOMIC_ACQUIRE) &&
	       __atomic_load_n(&own->open, __ATOMIC_ACQUIRE) !=
		       __atomic_load_n(&state->loads, __ATOMIC_ACQUIRE);
}

/* Each is waited for by itself: among many, one always counts as loading for a moment. */
bool loads_await(const struct dt_control *control, uint32_t pauses)
{
	const struct dt_state *state = agent_state(control);

	for (uint32_t i = 0; i < DRAIN; i++)
		sys_pause();
	for (uint32_t i = 0; i < DT_SLOTS && control->flags & DT_LOADS; i++) {
		for (; is_loading(state, i); pauses--) {
			if (!pauses)
				return false;
			sys_pause();
		}
	}
	return true;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static uint64_t *page_of(const struct dt_control *control, uint64_t address)
{
	return &agent_state(control)->pages[address / DT_PAGE % DT_PAGES];
}

uint64_t loads_known(const struct dt_control *control, uint64_t from)
{
	uint64_t end = (from | (DT_PAGE - 1)) + 1;

	if (agent_flags(control) & DT_NO_READ)
		return end - from;
	if (*page_of(control, from) != end)
		return 0;
	if (*page_of(control, end) == end + DT_PAGE)
		end += DT_PAGE;
	return end - from;
}

/* (X15) A page of the heap was read: takes over how far the heap is open, or asks. */
static void note_heap(const struct dt_control *control, uint64_t at)
{
	struct dt_opened *opened = &agent_state(control)->opened;
	uint64_t open = __atomic_load_n(&control->heap.open, __ATOMIC_RELAXED);
	uint64_t size = open - control->heap.start;

	if (at >= open)
		agent_pool(control)->heap_asked = 1;
	if (size <= opened->size || opened->start != control->heap.start)
		return;
	__atomic_store_n(&opened->size, size, __ATOMIC_RELAXED);
	__atomic_store_n(&opened->words, size - 7, __ATOMIC_RELAXED);
}

/* (X13) The page was read. */
static void note_stable(const struct dt_control *control, uint64_t page)
{
	uint64_t *end = &agent_state(control)->stays[page % DT_PAGES], at = page * DT_PAGE;

	if (*end == at + DT_PAGE)
		return;
	if (safe_may_be_heap(control, at))
		note_heap(control, at);
	if (safe_stable(control, at) >= DT_PAGE || safe_is_heap(control, at))
		*end = at + DT_PAGE;
}

void loads_note(const struct dt_control *control, uint64_t from, uint64_t size)
{
	for (uint64_t page = from / DT_PAGE; size && page <= (from + size - 1) / DT_PAGE; page++) {
		uint64_t *end = page_of(control, page * DT_PAGE);

		if (*end != (page + 1) * DT_PAGE)
			*end = (page + 1) * DT_PAGE;
		note_stable(control, page);
	}
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* x86_64/loads.S: where each load is, and where the thread goes on from its fault, as distances
 * from the table; 0 ends it. */
extern const int32_t loads_mends[] __attribute__((visibility("hidden")));

/* loads_own_word: the same for each of its copies, as distances from the two words. */
struct own_load {
	int32_t at, fixed;
};
extern const struct own_load __start_loads_own[] __attribute__((visibility("hidden")));
extern const struct own_load __stop_loads_own[] __attribute__((visibility("hidden")));

/* A load in a trampoline (reads.h); 0: it is none. */
static uint64_t fixed_in_trampoline(const struct dt_control *control, uint64_t rip)
{
	const uint8_t *mark = (const uint8_t *)rip - DT_READ_MARK_LENGTH;
	uint32_t code = 0, distance = 0;
	struct find_frame frame;

	if (!find_frame(control, rip, &frame) || frame.is_hop ||
	    (uint64_t)mark < (uint64_t)frame.end - frame.end->start ||
	    !(dt_frame_kept(frame.row) || dt_frame_returns(frame.row)))
		return 0;
	for (uint32_t i = 0; i < 4; i++) {
		code |= i < 3 ? (uint32_t)mark[i] << 8 * i : 0;
		distance |= (uint32_t)mark[3 + i] << 8 * i;
	}
	return code == DT_READ_MARK ? rip + (uint64_t)(int64_t)(int32_t)distance : 0;
}

/* 0: it is none of the loads. */
static uint64_t fixed_of(uint64_t rip)
{
	for (const int32_t *at = loads_mends; *at; at += 2) {
		if (rip - (uint64_t)loads_mends == (uint64_t)(int64_t)at[0])
			return (uint64_t)loads_mends + (uint64_t)(int64_t)at[1];
	}
	for (const struct own_load *own = __start_loads_own; own < __stop_loads_own; own++) {
		if (rip - (uint64_t)&own->at == (uint64_t)(int64_t)own->at)
			return (uint64_t)&own->fixed + (uint64_t)(int64_t)own->fixed;
	}
	return 0;
}

bool loads_mend(const struct dt_control *control, const struct handler_info *info,
		struct handler_context *context)
{
	bool is_fault = info->code > 0 && (info->signal == dt_front_signals[DT_FRONT_BUS] ||
					   info->signal == dt_front_signals[DT_FRONT_SEGV]);
	uint64_t fixed = is_fault ? fixed_of(context->rip) : 0;

	if (is_fault && !fixed)
		fixed = fixed_in_trampoline(control, context->rip);
	if (!fixed)
		return false;
	context->rip = fixed;
	*page_of(control, info->address) = 0;
	agent_state(control)->stays[info->address / DT_PAGE % DT_PAGES] = 0;
	return true;
}

/* ---- guards ---------------------------------------------------------------------------------- */

/* The mask of a wait, with that of the thread; all signals where it can't be read. */
static uint64_t both_masks(const struct dt_control *control, uint64_t at, bool in_struct)
{
	uint64_t mask = ~0ULL, own = ~0ULL;
	uint32_t pid;

	if (in_struct && !handler_read(control, at, &at, 1))
		return ~0ULL;
	if (!at)
		return 0; /* the thread keeps its mask */
	if (!handler_read(control, at, &mask, 1) || !agent_begin_call(control, &pid))
		return ~0ULL;
	sys_call6(SYS_RT_SIGPROCMASK, SIG_SETMASK, 0, (uint64_t)&own, 8, 0, 0);
	agent_end_call(control, pid);
	return mask | own;
}

/* Does the thread wait with another mask, of which one of the two has the signals blocked? */
static bool waits_shut(const struct dt_control *control, uint64_t number, const uint64_t args[6])
{
	const struct handler_wait *wait = handler_find_wait(number);

	if (number == SYS_IO_URING_ENTER)
		return args[URING_MASK];
	return wait && args[wait->arg] &&
	       both_masks(control, args[wait->arg], wait->words) & DT_LOADS_BITS;
}

/* (X5) */
static void pass_wait(const struct dt_control *control, uint64_t number, const uint64_t args[6])
{
	struct dt_slot *slot;

	if (!waits_shut(control, number, args))
		return;
	slot = slow_find_ours(control);
	if (!slot) {
		loads_close(control);
		return;
	}
	agent_own_stack(control, slot)->shut = 1;
	agent_own_stack(control, slot)->open = DT_NOT_OPEN;
}

/* Does a clone make something that runs beside its caller in the same memory, and has the caller's
 * thread block, or actions of its own? Threads don't, and a child of vfork runs alone. */
static bool is_sharer(uint64_t flags, uint64_t stack)
{
	return flags & CLONE_VM && !(flags & CLONE_VFORK && stack) &&
	       (flags & CLONE_OWN) != CLONE_OWN;
}

/* (X10) Two threads with one slot, a filter that nobody notices. */
static bool is_unsafe(uint64_t number, const uint64_t args[6])
{
	return number == SYS_CLONE3 || number == SYS_VFORK || number == SYS_SECCOMP ||
	       (number == SYS_CLONE && is_sharer(args[0], args[1])) ||
	       (number == SYS_PRCTL && ((uint32_t)args[0] == PR_SET_SECCOMP ||
					(uint32_t)args[0] == PR_SET_DISPATCH));
}

/* Whatever was seen in the handler is so behind it as well. */
static bool keeps(const struct frame_end *frame)
{
	const struct sys_altstack *then = &frame->alternate;
	struct sys_altstack now;

	if (frame->mask & DT_LOADS_BITS || sys_call3(SYS_SIGALTSTACK, 0, (uint64_t)&now, 0))
		return false;
	return then->start == now.start && then->size == now.size &&
	       !(now.size && (then->flags ^ now.flags) & (SYS_SS_DISABLE | SYS_SS_AUTODISARM));
}

/* (X19) Does that handler on the alternate stack, the first one there, return from it? */
static bool gives_back(const struct dt_own_stack *own, uint64_t sp, const struct frame_end *frame)
{
	const struct sys_altstack *stack = &frame->alternate;

	return own && own->used > 1 && sp - stack->start < stack->size &&
	       frame->registers[FRAME_RSP] - stack->start - 1 >= stack->size;
}

/*
 * The end of a handler (X17): the thread gets the mask and the alternate stack of its frame. Where
 * the mask has the signals blocked, which the handler had open, or where the stack is another one,
 * or is free then, no other handler may come before the call: one that hits would see what the call
 * takes back.
 */
static void pass_return(const struct dt_control *control, uint64_t sp)
{
	uint64_t all = ~0ULL & ~(control->traps ? DT_SIGTRAP_BIT : 0);
	struct dt_slot *slot = slow_find_ours(control);
	struct dt_own_stack *own = slot ? agent_own_stack(control, slot) : NULL;
	struct frame_end frame;
	uint32_t pid;
	bool is_read = handler_read(control, sp, (uint64_t *)&frame, sizeof(frame) / 8);
	bool kept = false, given = is_read && gives_back(own, sp, &frame);

	if (agent_begin_call(control, &pid)) {
		kept = is_read && !given && keeps(&frame);
		if (!kept)
			sys_call6(SYS_RT_SIGPROCMASK, SIG_SETMASK, (uint64_t)&all, 0, 8, 0, 0);
		agent_end_call(control, pid);
	}
	if (!kept)
		loads_shut(control);
	if (given)
		own->used = own->pause = 0;
}

void loads_pass_end(const struct dt_control *control, uint64_t frame)
{
	if (!is_on(control) || agent_is_quiet(control))
		return;
	pass_return(control, frame);
}

/* (X5) The calling thread, with that stack pointer, is about to change its mask or its alternate
 * stack. */
static void begin_pass(const struct dt_control *control, uint64_t sp,
		       struct loads_passing *ret_passing)
{
	struct dt_slot *slot = slow_find_ours(control);
	struct dt_own_stack *own = slot ? agent_own_stack(control, slot) : NULL;

	*ret_passing = (struct loads_passing){ own, own && own->passing };
	if (!own) {
		__atomic_fetch_add(&agent_state(control)->passing, 1, __ATOMIC_SEQ_CST);
		return;
	}
	if (!own->passing)
		own->passing = stack_room_above(control, slot, sp) ? (uint32_t)sp | 1 : 1;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	own->open = DT_NOT_OPEN; /* X3 */
	own->shut = 0;
	own->pause = 0;
}

/* (X19) A handler of the program's begins with that frame: on the alternate stack, and not on top
 * of another one there? */
static void note_handler(const struct dt_control *control, const struct handler_context *context)
{
	const struct sys_altstack *stack = (const struct sys_altstack *)&context->before[2];
	struct dt_slot *slot = slow_find_ours(control);

	if (!slot || (uint64_t)context - stack->start >= stack->size ||
	    context->rsp - stack->start - 1 < stack->size)
		return;
	agent_own_stack(control, slot)->looked = stack->start + stack->size;
	agent_own_stack(control, slot)->used = context->rsp;
}

void loads_pass_handler(const struct dt_control *control, const struct handler_context *context)
{
	loads_shut(control);
	note_handler(control, context);
}

bool loads_pass_trap(const struct dt_control *control, const struct handler_context *context,
		     struct loads_passing *ret_passing)
{
	if (!is_on(control) || agent_is_quiet(control))
		return false;
	begin_pass(control, (uint64_t)context, ret_passing);
	note_handler(control, context);
	return true;
}

bool loads_pass(const struct dt_control *control, uint64_t number, const uint64_t args[6],
		uint64_t sp, struct loads_passing *ret_passing)
{
	if (is_on(control) && is_unsafe(number, args))
		loads_close(control); /* X10 */
	if (is_on(control) && number == SYS_ARCH_PRCTL && args[0] == ARCH_REQ_XCOMP_PERM)
		loads_close(control); /* X8 */
	if (!is_on(control) || agent_is_quiet(control))
		return false;
	note_left(control, sp);
	if (number == SYS_RT_SIGRETURN) {
		loads_pass_end(control, sp);
		return false;
	}
	if (!(number == SYS_RT_SIGPROCMASK && args[1] && (int32_t)args[0] != SIG_UNBLOCK) &&
	    !(number == SYS_SIGALTSTACK && args[0])) {
		pass_wait(control, number, args);
		return false;
	}
	begin_pass(control, sp, ret_passing);
	return true;
}

/* A handler may have forked: the child has other memory. */
void loads_passed(const struct dt_control *control, const struct loads_passing *passing)
{
	uint32_t *count = &agent_state(control)->passing;

	if (!passing->own && __atomic_load_n(count, __ATOMIC_SEQ_CST))
		__atomic_fetch_sub(count, 1, __ATOMIC_SEQ_CST);
	else if (passing->own && !passing->is_inner)
		passing->own->passing = 0;
}

void loads_end(const struct dt_control *control, uint32_t index)
{
	struct dt_fronts *fronts = fronts_of(control);

	if (!(fronts->full >> index & 1))
		return;
	loads_close(control);
	if (loads_await(control, WAIT_LONG))
		__atomic_fetch_and(&fronts->full, ~(1u << index), __ATOMIC_SEQ_CST);
}

/* Where a thread changed an action when this one began to, each may undo what the other one
 * noted. */
bool loads_pass_stack(const struct dt_control *control)
{
	struct dt_fronts *fronts = fronts_of(control);
	uint32_t was = __atomic_load_n(&fronts->elsewhere, __ATOMIC_SEQ_CST), now;

	do
		now = was < DT_ELSEWHERE_CHANGES  ? DT_ELSEWHERE_CHANGES :
		      was == DT_ELSEWHERE_CHANGES ? DT_ELSEWHERE_NEVER :
						    was;
	while (!__atomic_compare_exchange_n(&fronts->elsewhere, &was, now, false, __ATOMIC_SEQ_CST,
					    __ATOMIC_SEQ_CST));
	if (was == DT_ELSEWHERE_NO || was == DT_ELSEWHERE_OVER ||
	    (was == DT_ELSEWHERE_YES && dt_all_go_elsewhere(fronts)))
		return true;
	loads_forbid(control);
	if (!loads_await(control, WAIT))
		return false;
	if (was == DT_ELSEWHERE_NEVER)
		__atomic_compare_exchange_n(&fronts->elsewhere, &was, DT_ELSEWHERE_OVER, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	return true;
}

void loads_passed_stack(const struct dt_control *control)
{
	struct dt_fronts *fronts = fronts_of(control);
	uint32_t was = DT_ELSEWHERE_CHANGES;
	uint32_t now = dt_all_go_elsewhere(fronts) ? DT_ELSEWHERE_YES : DT_ELSEWHERE_NO;

	if (__atomic_compare_exchange_n(&fronts->elsewhere, &was, now, false, __ATOMIC_SEQ_CST,
					__ATOMIC_SEQ_CST) && now)
		loads_forbid(control); /* threads look again */
}

/* Has the handler a probe of ours? A library may have gone, and another one have its place. */
static bool is_watched(const struct dt_control *control, uint64_t handler)
{
	const struct dt_fronts *fronts = fronts_of(control);
	uint64_t code = 0;
	uint32_t i = 0;

	while (i < fronts->watched_count && i < DT_WATCHED_MAX && fronts->watched[i] != handler)
		i++;
	if (i == fronts->watched_count || i == DT_WATCHED_MAX ||
	    !handler_read(control, handler, &code, 1))
		return false;
	code &= 0xff;
	return code == LONG_JUMP || code == SHORT_JUMP || code == BREAKPOINT;
}

/* (X6) Is the thread never believed open in that handler, nor in one that begins on top of it? */
static bool is_seen_through(const struct dt_control *control, uint64_t signal,
			    const struct dt_sigaction *action)
{
	uint64_t spared = fronts_of(control)->spared;

	if (dt_spared_by(action, (uint32_t)signal) & ~spared)
		return false; /* the controller knows which of these signals have handlers */
	return (!(action->mask & DT_LOADS_BITS) && !(spared >> (signal - 1) & 1)) ||
	       is_watched(control, action->handler);
}

void loads_pass_action(const struct dt_control *control, uint64_t signal,
		       const struct dt_sigaction *action)
{
	bool is_own = signal == dt_front_signals[DT_FRONT_BUS] ||
		      signal == dt_front_signals[DT_FRONT_SEGV];
	uint32_t open = 0, pid;

	if (is_own || action->handler <= 1 || !control->fronts || signal - 1 >= DT_SIGNALS)
		return;
	if (action->flags & DT_SA_ONSTACK)
		keep_off(control); /* X19 */
	if (is_seen_through(control, signal, action))
		return;
	__atomic_compare_exchange_n(&fronts_of(control)->closed, &open, DT_CLOSED_HANDLER, false,
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); /* X6 */
	loads_forbid(control);
	__atomic_store_n(&agent_pool(control)->handlers_asked, 1, __ATOMIC_RELEASE);
	if (agent_begin_call(control, &pid)) {
		chunk_wake(control);
		agent_end_call(control, pid);
	}
}
