/*
 * exits_slots.h - the return slots of one process, copied to be judged. Private to session/.
 *
 * What is read is only worth something while all threads of the process are stopped.
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
	bool stray; /* something returned through a stub that wasn't in use */
};

struct error *exits_slots_read(struct exits_slots *slots);
/* One slot, back to the process. */
struct error *exits_slots_write(const struct exits_slots *slots, uint32_t index);
void exits_slots_free(struct exits_slots *slots);

/* Where a slot is in the process. */
taddr exits_slots_at(const struct exits_slots *slots, uint32_t index);
/* The stub that an address belongs to; 0: none. */
uint32_t exits_slots_stub(const struct exits_slots *slots, uint64_t word);
/* The stack word of a call. */
uint64_t exits_slots_place(const struct dt_return_slot *slot);

/* A slot in use whose call vanished (R2) is free, and the call counted as unwound. False: the call
 * is inside. */
bool exits_slots_forget_vanished(struct exits_slots *slots, uint32_t index);

#endif
