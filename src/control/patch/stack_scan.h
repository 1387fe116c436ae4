/*
 * stack_scan.h - who leads where: the stacks of held threads, read conservatively (H9). Private to
 * patch/.
 *
 * Every aligned word from 128 bytes below the stack pointer upwards is taken for an address. A
 * thread that runs on an alternate stack has left another one behind: its signal frame says which,
 * and that one is read too.
 *
 * With frames_only the one word of each signal frame counts that says where the thread goes on.
 * That is right for our own code, into which no return address leads but the one of its call of the
 * agent, and a thread that is there shows it by its RIP; and it is needed there: stale return
 * addresses lie on the stacks of every thread that ever took a slow path.
 */
#ifndef DYNTRACE_STACK_SCAN_H
#define DYNTRACE_STACK_SCAN_H

#include "control/stop/stop.h"
#include "control/proc/proc.h"

/* [start, end) of addresses that matter; `owner` is the caller's. */
struct stack_scan_range {
	uint64_t start, end;
	size_t owner;
	bool hit;
};

struct stack_scan_stack {
	uint64_t start, end;
};

struct stack_scan {
	struct proc *proc;
	struct stack_scan_range *ranges; /* sorted, not overlapping */
	size_t count;
	bool frames_only;
	struct maps maps;
	uint8_t *buffer;
	VEC(struct stack_scan_stack) stacks; /* read, or to be read */
};

/* Before the stop: sorts the ranges (which stay the caller's), reads the mappings, takes memory. */
struct error *stack_scan_begin(struct stack_scan *scan, struct proc *proc, struct stack_scan_range *ranges,
			 size_t count);
void stack_scan_end(struct stack_scan *scan);

/* The range that holds the address; NULL: none does. */
struct stack_scan_range *stack_scan_find(const struct stack_scan *scan, uint64_t address);

/* While all threads are held: sets `hit` of every range that a word on a stack leads to. */
struct error *stack_scan_stacks(struct stack_scan *scan, struct stop *stop);

#endif
