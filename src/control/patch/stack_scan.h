/*
 * stack_scan.h - find addresses on the stacks of held threads, conservatively (H9). Private to
 * patch/.
 *
 * Every aligned word from 128 bytes below the stack pointer upwards is taken for an address. A
 * thread on an alternate stack has left another stack behind: its signal frame says which, and that
 * stack is read too.
 *
 * With frames_only, only the saved RIP of each signal frame counts. That is enough for our own
 * code: the only return addresses into it are those of its calls of the agent and of shared code,
 * and a thread in such a call shows it by its RIP. It is also necessary: every thread that ever hit
 * a probe has stale return addresses into our code on its stack.
 */
#ifndef DYNTRACE_STACK_SCAN_H
#define DYNTRACE_STACK_SCAN_H

#include "control/stop/stop.h"
#include "stack_memory.h"

/* [start, end) of addresses to look for; `owner` is the caller's. */
struct stack_scan_range {
	uint64_t start, end;
	size_t owner;
	bool is_called; /* as in struct patch_range; is never hit itself */
	bool hit;
};

struct stack_scan_stacks {
	struct stack_range *items;
	size_t count, room;
};

struct stack_scan {
	struct proc *proc;
	struct stack_scan_range *ranges; /* sorted, not overlapping */
	size_t count;
	bool frames_only;
	struct stack_memory memory;
	uint8_t *buffer;
	/* read already, and being read (both sorted, not overlapping); to be read next */
	struct stack_scan_stacks covered, current, found;
};

/* Before the stop: sorts the ranges (which stay the caller's), takes memory. */
struct error *stack_scan_begin(struct stack_scan *scan, struct proc *proc,
			       struct stack_scan_range *ranges, size_t count);
void stack_scan_end(struct stack_scan *scan);

/* The range that holds the address; NULL: none. */
struct stack_scan_range *stack_scan_find(const struct stack_scan *scan, uint64_t address);

/* The range that a thread with these registers is in, or returns to from a range that is called;
 * NULL: none. */
struct stack_scan_range *stack_scan_find_thread(const struct stack_scan *scan, uint64_t rip,
						uint64_t rsp);

/* While all threads are held: sets `hit` of the ranges that a word on a stack points into, and
 * clears it of the others. */
struct error *stack_scan_stacks(struct stack_scan *scan, struct stop *stop);

#endif
