/*
 * exits_slots.h - a copy of the return slots of one process. Private to exits/.
 *
 * The copy is valid only while all threads of the process are stopped. Its contents are the
 * target's and may be anything, except `count`, which is at most DT_STUBS_MAX.
 */
#ifndef DYNTRACE_EXITS_SLOTS_H
#define DYNTRACE_EXITS_SLOTS_H

#include "shared/returns.h"
#include "control/proc/proc.h"

struct session;

struct exits_slots {
	struct session *session;
	struct proc *proc;
	struct dt_return_slot *items;
	uint32_t count;
	bool stray; /* a thread returned through a free stub (R7) */
};

struct error *exits_slots_read(struct exits_slots *slots);
/* Writes one slot back to the process. */
struct error *exits_slots_write(const struct exits_slots *slots, uint32_t index);
void exits_slots_free(struct exits_slots *slots);

/* The address of a slot in the process. */
taddr exits_slots_at(const struct exits_slots *slots, uint32_t index);
/* The stub that an address belongs to; 0: none. */
uint32_t exits_slots_stub(const struct exits_slots *slots, uint64_t word);
/* The address of the call's stack word; of a Go function's call, as its stack is now (R11). */
uint64_t exits_slots_place(const struct exits_slots *slots, uint32_t index);

/* exits_open.c: forgets the calls that exits_open_look has noted, before a process is left. */
void exits_open_settle(struct session *session, const struct proc *proc);
/* exits_open.c: notes the call of a slot in use, if it would be recorded by now (R10). */
void exits_open_note(const struct exits_slots *slots, uint32_t index);

/* Is it the slot of a late stub (R9)? */
bool exits_slots_is_late(const struct dt_return_slot *slot);
/* Is the call of a late stub in use inside its function, which has its own return address? */
bool exits_slots_is_inside(const struct exits_slots *slots, uint32_t index);
/* Gives up the call of a late stub in use that is inside its function: its tracepoint is removed,
 * and nobody will see it return. Counted as missed. */
void exits_slots_give_up(struct exits_slots *slots, uint32_t index);

/* Has the call of a slot in use vanished: is its stack word another's (R2)? */
bool exits_slots_is_gone(const struct exits_slots *slots, uint32_t index);
/* Frees a slot in use whose call vanished (R2), and counts the call as unwound. False: the call is
 * inside. */
bool exits_slots_forget_vanished(struct exits_slots *slots, uint32_t index);

#endif
