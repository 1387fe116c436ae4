/*
 * agent.h - what the files of the agent share.
 *
 * dt_slow (slow.S) first asks slow_find, on the target's own stack and with signals as they are;
 * what that can't settle goes to slow_path, on a stack of ours and with every signal blocked. So
 * all of thread.c and chunk.c runs alone on its thread: nobody else writes the thread's slot
 * meanwhile.
 *
 * Everything but the law in README.md can be read in src/shared/layout.h.
 */
#ifndef DYNTRACE_AGENT_PARTS_H
#define DYNTRACE_AGENT_PARTS_H

#define SLOW_NEEDED 1 /* slow_find: go the long way */
#define SLOW_AGAIN 2 /* there is no room: slow_wait, and from the start */
#define SLOW_STACK_TRIES 1000 /* how often to yield for a stack before the hit is given up */

/* Offsets that slow.S needs; slow.c asserts them. */
#define CONTROL_FLAGS 12
#define CONTROL_STATE 32
#define CONTROL_NO_SYSCALLS 2
#define CONTROL_POOL 40
#define STATE_STACKS_BUSY 0
#define STATE_PID 8
#define STATE_FILTERED 16
#define POOL_FILTERED 76
#define STATE_STACKS 0x81000
#define STATE_STACK_SHIFT 13

#ifndef __ASSEMBLER__

#include <stdbool.h>

#include "shared/returns.h"
#include "target/x86_64/sys.h"

#pragma GCC poison malloc free printf errno

/* What dt_slow was asked, as layout.h has it: an event's id and size, or the place and the site of
 * a call that wants a return stub. */
/* slow.c: a slot, 0 (counted or muted: skip the hit), SLOW_NEEDED or SLOW_AGAIN. */
uint64_t slow_find(const struct dt_control *control, uint64_t id, uint64_t size);
/* slow.c: a slot, 0 or SLOW_AGAIN. */
uint64_t slow_path(const struct dt_control *control, uint64_t id, uint64_t size);
/* slow.c: waits a while for room, with signals as they are. *deadline is 0 at first, and kept for
 * the same hit. 0: that was all. */
uint64_t slow_wait(const struct dt_control *control, uint64_t *deadline, uint64_t id);
/* slow.c: the hit can't go the long way: count it. Gives 0. */
uint64_t slow_give_up(const struct dt_control *control, uint64_t id, uint64_t size);
/* slow.c: the slot of the calling thread, if it has one that its thread block confirms. */
struct dt_slot *slow_find_ours(const struct dt_control *control);

/* retslot.c: a return stub that was taken for the call, or SLOW_NEEDED. */
uint64_t retslot_find(const struct dt_control *control, uint64_t place, uint64_t site);
/* retslot.c: the same the long way; NULL: counted. */
struct dt_return_slot *retslot_take(const struct dt_control *control, uint64_t place,
				    uint64_t site);
/* retslot.c: counts a call for which there is none. Gives 0. */
uint64_t retslot_miss(const struct dt_control *control, uint64_t site);
/* retslot.c: the first hit in a forked child. */
void retslot_forked(const struct dt_control *control, uint32_t pid);

/* call.c: the slot's word in dt_state.calls. */
uint64_t *call_word(const struct dt_control *control, const struct dt_slot *slot);
/* call.c: the calling thread's slot, if it left the function that its word tells of (C2); else 0. */
uint64_t call_is_left(const struct dt_control *control);

/* call.c: the calling thread's slot, if its stack has room for a function (C4); else 0. */
uint64_t call_has_room(const struct dt_control *control);

/* exec.c: tells the controller that this thread is about to begin a program, and waits until it is
 * there. Gives 0. */
uint64_t exec_ask(const struct dt_control *control);
/* exec.c: it can't be told. Gives 0. */
uint64_t exec_miss(const struct dt_control *control);

/* thread.c: the slot whose key that is, or NULL. */
struct dt_slot *thread_find(struct dt_state *state, uint64_t fs_base, uint64_t key);
/* thread.c: the calling thread's slot, claimed if need be; NULL: there is none to be had. Its
 * `thread` is 0 when there was no thread record. `size`: of the event, to see whether it will be
 * back soon. */
struct dt_slot *thread_slot(const struct dt_control *control, uint32_t size);

/* register.c: when ld.so has loaded it. */
void register_program(uint64_t argc, const uint64_t *argv, const uint64_t *envp);

/* notice.c: is there something to tell of libraries, and may it be told? */
bool notice_is_due(const struct dt_control *control);
/* notice.c: tells it, and waits for the answer if it is to. */
void notice_tell(const struct dt_control *control);

/* chunk.c: there is something for the controller. */
void chunk_wake(const struct dt_control *control);
/* chunk.c: is there room for that many bytes, and is the clock where it should be? */
bool chunk_has_room(const struct dt_slot *slot, uint32_t size);
/* chunk.c: does the slot's thread still own the chunk? The controller takes it from a thread it
 * believes dead. */
bool chunk_is_held(const struct dt_control *control, const struct dt_slot *slot);
/* chunk.c: tells the controller that there is something to do. */
void chunk_wake(const struct dt_control *control);
/* chunk.c: the slot has no chunk any more, without publishing it. */
void chunk_forget(struct dt_slot *slot);
/* chunk.c: makes it so; false: no free chunk. */
bool chunk_prepare(const struct dt_control *control, struct dt_slot *slot, uint32_t size);
/* chunk.c: publishes the slot's chunk, if it has one. `dead`: on behalf of a thread that is gone. */
void chunk_publish(const struct dt_control *control, struct dt_slot *slot, bool dead);

static inline struct dt_state *agent_state(const struct dt_control *control)
{
	return (struct dt_state *)control->state;
}

static inline struct dt_pool *agent_pool(const struct dt_control *control)
{
	return (struct dt_pool *)control->pool;
}

/* May no system call be made (H26)? */
static inline bool agent_is_filtered(const struct dt_control *control)
{
	return control->flags & DT_NO_SYSCALLS || agent_state(control)->filtered ||
	       agent_pool(control)->filtered;
}

/* Does the thread block still say what it said when the slot was claimed? */
static inline bool agent_slot_is_ours(const struct dt_slot *slot)
{
	return slot->tid != ~0u && sys_fs_word(slot->tid_offset) == slot->tid;
}

#endif
#endif
