/*
 * agent_parts.h - declarations that the files of the agent share.
 *
 * dt_slow (slow.S) first calls slow_find, on the target's own stack and with signals as they are.
 * If that doesn't suffice, dt_slow calls slow_path, on a stack of the agent's and with every signal
 * blocked. So all of thread.c and chunk.c runs alone on its thread: no other code writes the
 * thread's slot meanwhile.
 *
 * README.md has the law of this folder, src/shared/layout.h the memory and its rules.
 */
#ifndef DYNTRACE_AGENT_PARTS_H
#define DYNTRACE_AGENT_PARTS_H

#define SLOW_NEEDED 1 /* slow_find: call slow_path */
#define SLOW_AGAIN 2 /* no room: slow_wait, then start again */
#define SLOW_ELSEWHERE 3 /* dt_gather: start again on the thread's own stack */
#define SLOW_STACK_TRIES 5000 /* pauses for a stack before the hit counts as lost: a second */
#define SLOW_STACK_PAUSE_NS 100000

#define FRONT_SLOW_SIZE 64 /* of dt_slow's code, up to where it has touched its stack */

/* Offsets that slow.S needs; slow.c asserts them. */
#define CONTROL_FLAGS 12
#define CONTROL_STATE 32
#define CONTROL_NO_SYSCALLS 2
#define STATE_STACKS_BUSY 0
#define STATE_LOUD 48
#define STATE_STACKS 0x81000
#define STATE_STACK_SHIFT 13
#define STATE_SLOTS 64
#define STATE_FILTERED 0x101000
#define STATE_OWN_STACKS 0x162800
#define STACK_ROOM 16384
#define SLOT_RESERVE 8
#define SLOT_LIMIT 16
#define SLOT_TID 20
#define SLOT_TID_OFFSET 24
#define SLOT_LAST 32
#define SLOT_EVENTS 40

#ifndef __ASSEMBLER__

#include <stdbool.h>

#include "shared/returns.h"
#include "target/x86_64/sys.h"

#pragma GCC poison malloc free printf errno

/* `id` and `size` are the arguments of dt_slow (layout.h): an event's id and size, or the place and
 * the site of a call that wants a return stub. */
/* slow.c: a slot, 0 (counted or muted: skip the hit), SLOW_NEEDED or SLOW_AGAIN. `r14` is the
 * target's: in a Go function its goroutine (R11). */
uint64_t slow_find(const struct dt_control *control, uint64_t id, uint64_t size, uint64_t r14);
/* slow.c: in block mode, is there no room for an event of that size? If there is some, the thread
 * has it. */
bool slow_must_wait(const struct dt_control *control, uint32_t size);
/* slow.c: a slot, 0 or SLOW_AGAIN. */
uint64_t slow_path(const struct dt_control *control, uint64_t id, uint64_t size, uint64_t r14);
/* slow.c: waits a while for room, with signals as they are. *deadline is 0 at first, and kept for
 * the same hit. 0: the request is done. */
uint64_t slow_wait(const struct dt_control *control, uint64_t *deadline, uint64_t id);
/* slow.c: counts a hit for which slow_path can't be called. Gives 0. */
uint64_t slow_give_up(const struct dt_control *control, uint64_t id, uint64_t size);
/* slow.c: the calling thread's slot, if its thread block confirms it; else NULL. */
struct dt_slot *slow_find_ours(const struct dt_control *control);

/* quiet.c: waits until no thread makes a system call in the agent (Q6). Gives 0. */
uint64_t quiet_wait(const struct dt_control *control);
/* The words on dt_slow's stack (slow.S), as slow_quiet gets them. */
struct slow_frame {
	uint64_t r14; /* in the place of the result */
	uint64_t deadline, size, id;
};
/* quiet.c: slow_path without a system call. */
uint64_t slow_quiet(const struct dt_control *control, const struct slow_frame *frame);
/* quiet.c: gather_event without a system call. */
struct dt_program;
struct dt_regs;
uint64_t gather_quiet(const struct dt_control *control, const struct dt_program *program,
		      const struct dt_regs *regs);

/* retslot.c: takes a return stub for the call; SLOW_NEEDED: call retslot_take. */
uint64_t retslot_find(const struct dt_control *control, uint64_t place, uint64_t site,
		      uint64_t r14);
/* retslot.c: the same from slow_path; NULL: counted as missed. */
struct dt_return_slot *retslot_take(const struct dt_control *control, uint64_t place,
				    uint64_t site, uint64_t r14);
/* retslot.c: a stub that was never used; 0: no more stubs. */
uint32_t retslot_fresh(const struct dt_control *control);
/* A call that wants a stub, or ends. */
struct retslot_call {
	const struct dt_control *control;
	struct dt_returns *returns;
	const struct dt_return_site *site;
	uint64_t place; /* address of its return address */
	uint64_t ra;
	/* dt_return_slot.sp, without marks, and dt_return_slot.tail of its late stub */
	uint64_t late_sp;
	uint32_t late_tail;
};
/* late.c: takes a late stub for the call (R9); NULL: none is free at hand. */
struct dt_return_slot *late_take(const struct retslot_call *call, const struct dt_slot *slot);
/* late.c: the same with all signals blocked: also looks for frames that are gone, and adds one. */
struct dt_return_slot *late_make(const struct retslot_call *call, const struct dt_slot *slot);
/* late.c: the landing for a call that returns now; 0: none. */
uint64_t late_leave(const struct retslot_call *call);
/* retslot.c: counts a call without a stub. Gives 0. */
uint64_t retslot_miss(const struct dt_control *control, uint64_t site);
/* retslot.c: the first hit in a forked child. */
void retslot_forked(const struct dt_control *control, uint32_t pid);

/* call.c: the slot's word in dt_state.calls. */
uint64_t *call_word(const struct dt_control *control, const struct dt_slot *slot);
/* call.c: the calling thread's slot, if it left its called function by a jump (C2); else 0. */
uint64_t call_is_left(const struct dt_control *control);

/* call.c: the calling thread's slot, if its stack has room for a function (C4); else 0. */
uint64_t call_has_room(const struct dt_control *control);

/* exec.c: announces this thread's execve to the controller, and waits until it has seized the
 * thread. Gives 0. */
uint64_t exec_ask(const struct dt_control *control);
/* exec.c: counts an execve that the controller misses. Gives 0. */
uint64_t exec_miss(const struct dt_control *control);

/* thread.c: the slot with that key, or NULL. */
struct dt_slot *thread_find(struct dt_state *state, uint64_t fs_base, uint64_t key);
/* thread.c: the calling thread's slot, claimed if needed; NULL: no slot is free. Its `thread` is 0
 * if no thread record was free. `size`: of the event. */
struct dt_slot *thread_slot(const struct dt_control *control, uint32_t size);

/* thread.c: may the thread read the clock? Else its hits are lost. */
bool thread_has_clock(const struct dt_control *control);
/* thread.c: the thread is about to lose the clock. Gives 0. */
uint64_t thread_lose_clock(const struct dt_control *control);
/* thread.c: finds out where a thread block has the tid, while the agent may make calls. Gives 0. */
uint64_t thread_learn_block(const struct dt_control *control);
/* thread.c: the calling thread's tid by its thread block; 0: unknown. */
uint32_t thread_block_tid(const struct dt_control *control);
/* thread.c: has the caller a thread block of its own, as a libc makes it? Makes system calls. */
bool thread_has_block(const struct dt_control *control);
/* stack_room.c: finds the calling thread's own stack, once, and notes it for its next hits. On a
 * stack of the agent's, with signals blocked. */
void stack_room_look(const struct dt_control *control);
/* stack_room.c: the same before the thread's first event, where no call reads memory: values and
 * frames can be had only on that stack then. False: nothing new. */
bool stack_room_look_first(const struct dt_control *control);
/* stack_room.c: the slot has a new thread. */
void stack_room_forget(const struct dt_control *control, const struct dt_slot *slot);
/* stack_room.c: from `from` to the end of the thread's own stack, if `from` is on it and the agent
 * has looked; else 0. */
uint64_t stack_room_above(const struct dt_control *control, const struct dt_slot *slot,
			  uint64_t from);

/* register.c: called by ld.so when it has loaded the agent. */
void register_program(uint64_t argc, const uint64_t *argv, const uint64_t *envp);

/* notice.c: has the list of libraries changed, and may the controller be told? */
bool notice_is_due(const struct dt_control *control);
/* notice.c: tells the controller, and waits for its answer (N1). */
void notice_tell(const struct dt_control *control);

/* chunk.c: has the chunk room for that many bytes, and does the clock fit its last event (B6)? */
bool chunk_has_room(const struct dt_slot *slot, uint32_t size);
/* chunk.c: does the slot's thread still own the chunk? The controller takes it from a thread that
 * it believes dead. */
bool chunk_is_held(const struct dt_control *control, const struct dt_slot *slot);
/* chunk.c: wakes the controller. */
void chunk_wake(const struct dt_control *control);
/* chunk.c: clears the chunk of the slot, without publishing it. */
void chunk_forget(struct dt_slot *slot);
/* chunk.c: provides a chunk with room for that many bytes; false: no chunk is free. */
bool chunk_prepare(const struct dt_control *control, struct dt_slot *slot, uint32_t size);
/* chunk.c: publishes the slot's chunk, if it has one. `dead`: on behalf of a dead thread. */
void chunk_publish(const struct dt_control *control, struct dt_slot *slot, bool dead);

static inline struct dt_state *agent_state(const struct dt_control *control)
{
	return (struct dt_state *)control->state;
}

/* The slot's entry of dt_state.own_stacks: the stack and the mask of its thread. */
static inline struct dt_own_stack *agent_own_stack(const struct dt_control *control,
						   const struct dt_slot *slot)
{
	struct dt_state *state = agent_state(control);

	return &state->own_stacks[slot - state->slots];
}

static inline struct dt_pool *agent_pool(const struct dt_control *control)
{
	return (struct dt_pool *)control->pool;
}

/* Is the controller dead? Asks nobody. */
static inline bool agent_is_orphan(const struct dt_control *control)
{
	return __atomic_load_n(&control->alive, __ATOMIC_RELAXED) & DT_OWNER_DIED;
}

/* Must the agent make no system call (H26)? As unless_filtered in own_stack.h. */
static inline bool agent_is_quiet(const struct dt_control *control)
{
	return control->flags & DT_NO_SYSCALLS || agent_state(control)->inherited.filtered;
}

/* DT_NO_READ and the like, and DT_GLIBC: those of all processes, and those of this one (Q8). */
static inline uint32_t agent_flags(const struct dt_control *control)
{
	return control->flags | agent_state(control)->inherited.flags;
}

/* Counts this thread (Q6) around a system call that is made with signals as they are; false: the
 * agent may make none. A handler may fork meanwhile: the child's count is wiped, and so is its
 * pid. */
static inline bool agent_begin_call(const struct dt_control *control, uint32_t *ret_pid)
{
	struct dt_state *state = agent_state(control);

	*ret_pid = state->pid;
	if (agent_is_quiet(control))
		return false;
	__atomic_fetch_add(&state->loud, 1, __ATOMIC_SEQ_CST);
	if (!agent_is_quiet(control))
		return true;
	__atomic_fetch_sub(&state->loud, 1, __ATOMIC_SEQ_CST);
	return false;
}

static inline void agent_end_call(const struct dt_control *control, uint32_t pid)
{
	struct dt_state *state = agent_state(control);

	if (state->pid == pid)
		__atomic_fetch_sub(&state->loud, 1, __ATOMIC_SEQ_CST);
}

/* Is the word of the thread block the same as when the slot was claimed? */
static inline bool agent_slot_is_ours(const struct dt_slot *slot)
{
	return slot->tid != ~0u && sys_fs_word(slot->tid_offset) == slot->tid;
}

#endif
#endif
