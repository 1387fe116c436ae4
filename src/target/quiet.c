/*
 * quiet.c - the slow paths where the agent makes no system call at all (H26).
 *
 * A filter may kill for rt_sigprocmask, so signals stay as they are. So these paths run on the
 * target's own stack: a handler that interrupts them gets its frame there, and not on a stack of
 * the agent's, which is too small for it. A stack of the agent's is claimed all the same, as other
 * memory, and its number stands for the thread:
 *
 * (Q2) At most one frame of a thread is in here. The entry dt_state.quiet[n] has the thread's FS
 *      base and tid. A handler that interrupted that frame and hits finds the entry: if the hit
 *      needs a slow path it is counted as lost.
 * (Q3) A frame that a handler left by a jump is gone. Each frame has a mark on the stack, of a
 *      value that no other frame ever has. If the mark's place is on the page of the next frame,
 *      and so can be read, and holds something else, the frame is gone, and the next one has its
 *      entry. Elsewhere it counts as alive.
 * (Q4) A handler's hits that need no slow path record as ever. So dt_slot.limit, which turns them
 *      away, is 0 while a chunk is published and taken: it is cleared first, and set last.
 * (Q5) An event with a program is made in the claimed memory, and gets its room in the chunk by the
 *      trampoline's own steps (B2, B3, B4) when it is complete.
 * (Q6) A filter may hold for all threads at once (SECCOMP_FILTER_FLAG_TSYNC), while another thread
 *      is about to make a call in the agent. So threads count themselves in dt_state.loud before
 *      they look whether they may. The thread that brings the filter sets dt_inherited.filtered
 *      first and waits then until nobody is counted; not for ever, since a handler may have jumped
 *      away from there. A thread that may make none isn't counted, nor for a moment: among many
 *      threads one always would be.
 * (Q7) A forked child has its parent's filters, and so its parent's dt_inherited.filtered. Nobody
 *      else's: a child that filters itself costs its siblings nothing.
 *
 * (Q8) The controller judges such a filter, and writes to that process's own page what it forbids:
 *      dt_inherited.flags first, then dt_inherited.filtered. Children that are forked later have
 *      both.
 *
 * The thread block says who the thread is (dt_control.tid_offset; of a program that has begun under
 * dyntrace, and had no thread block then, dt_inherited.tid_offset). Only the controller tells which
 * threads have ended; it looks for chunks by itself. Nothing waits.
 */
#include "gather.h"

#include "target/signals/loads.h"

#define QUIET_TRIES 100000u /* pauses while all stacks are in use: some milliseconds */
#define QUIET_DRAFT 0u
#define QUIET_GATHER 3072u
#define QUIET_UNWIND 5120u

_Static_assert(QUIET_DRAFT + DT_EVENT_SIZE_MAX <= QUIET_GATHER, "memory of quiet.c");
_Static_assert(QUIET_GATHER + sizeof(struct gather) <= QUIET_UNWIND, "memory of quiet.c");
_Static_assert(QUIET_UNWIND + sizeof(struct unwind) <= DT_STACK_SIZE, "memory of quiet.c");

#define QUIET_WAIT 20000000u /* pauses: about a second */

uint64_t quiet_wait(const struct dt_control *control)
{
	const uint32_t *loud = &agent_state(control)->loud;

	loads_forbid(control);
	loads_await(control, QUIET_WAIT);
	for (uint32_t i = 0; i < QUIET_WAIT; i++) {
		if ((int32_t)__atomic_load_n(loud, __ATOMIC_SEQ_CST) <= 0)
			break;
		sys_pause();
	}
	return 0;
}

struct quiet_frame {
	volatile uint64_t mark;
	uint32_t stack; /* its number */
};

/* (Q3) */
static bool quiet_is_gone(const struct dt_quiet *quiet, const struct quiet_frame *frame,
			  uint32_t tid)
{
	if (quiet->tid != tid)
		return true; /* another thread had this block, and ended in here */
	return (quiet->place ^ (uint64_t)&frame->mark) < DT_PAGE &&
	       *(const volatile uint64_t *)quiet->place != quiet->mark;
}

static void quiet_note(struct dt_quiet *quiet, const struct quiet_frame *frame, uint32_t tid)
{
	quiet->place = (uint64_t)&frame->mark;
	quiet->mark = frame->mark;
	quiet->tid = tid;
	__atomic_store_n(&quiet->base, sys_fs_base(), __ATOMIC_RELEASE);
}

/* A stack that no thread uses; false: none. */
static bool quiet_claim(struct dt_state *state, uint32_t *ret_stack)
{
	for (uint32_t tries = 0; tries < QUIET_TRIES; tries++) {
		uint64_t idle = ~__atomic_load_n(&state->stacks_busy, __ATOMIC_RELAXED);
		uint64_t bit = idle & -idle;

		if (!idle)
			sys_pause();
		else if (!(__atomic_fetch_or(&state->stacks_busy, bit, __ATOMIC_ACQUIRE) & bit)) {
			*ret_stack = (uint32_t)__builtin_ctzll(bit);
			return true;
		}
	}
	return false;
}

/* (Q2) False: this thread is in here already, or nobody knows the thread. */
static bool quiet_enter(const struct dt_control *control, struct quiet_frame *frame)
{
	struct dt_state *state = agent_state(control);
	uint64_t base = sys_fs_base();
	uint32_t tid = thread_block_tid(control);

	if (!tid)
		return false;
	frame->mark = __atomic_add_fetch(&state->quiet_marks, 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < DT_STACKS; i++) {
		struct dt_quiet *quiet = &state->quiet[i];

		if (__atomic_load_n(&quiet->base, __ATOMIC_ACQUIRE) != base)
			continue;
		if (!quiet_is_gone(quiet, frame, tid))
			return false;
		frame->stack = i;
		quiet_note(quiet, frame, tid);
		return true;
	}
	if (!quiet_claim(state, &frame->stack))
		return false;
	quiet_note(&state->quiet[frame->stack], frame, tid);
	return true;
}

static void quiet_leave(const struct dt_control *control, struct quiet_frame *frame)
{
	struct dt_state *state = agent_state(control);

	__atomic_store_n(&state->quiet[frame->stack].base, 0, __ATOMIC_RELEASE);
	__atomic_fetch_and(&state->stacks_busy, ~(1ULL << frame->stack), __ATOMIC_RELEASE);
	frame->mark = 0;
}

uint64_t slow_quiet(const struct dt_control *control, const struct slow_frame *slow)
{
	struct quiet_frame frame;

	if (slow->id == DT_ASK_EXEC || !quiet_enter(control, &frame))
		return slow_give_up(control, slow->id, slow->size);
	uint64_t result = slow_path(control, slow->id, slow->size, slow->r14);
	quiet_leave(control, &frame);
	return result;
}

uint64_t gather_quiet(const struct dt_control *control, const struct dt_program *program,
		      const struct dt_regs *regs)
{
	struct quiet_frame frame;

	if (!quiet_enter(control, &frame)) {
		slow_give_up(control, program->id, program->size_max);
		return 0;
	}
	uint8_t *memory = agent_state(control)->stacks[frame.stack];
	struct gather *g = (struct gather *)(memory + QUIET_GATHER);
	g->control = control;
	g->program = program;
	g->regs = regs;
	g->open = NULL;
	g->loads = false;
	g->own = (struct dt_range){ 0, 0 };
	g->draft = memory + QUIET_DRAFT;
	g->unwind = (struct unwind *)(memory + QUIET_UNWIND);
	uint64_t written = gather_run(g);
	quiet_leave(control, &frame);
	return written;
}
