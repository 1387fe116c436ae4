/*
 * stack_memory.h - the memory of stacks while all threads are held. Private to patch/.
 *
 * (H9) Where a stack ends is asked while the threads are held: a heap with stacks of coroutines, or
 * with alternate stacks, may have grown a moment before.
 *
 * (P10) Pages that don't exist aren't read. They hold nothing, and for a page that the program
 * brings itself (userfaultfd) dyntrace would wait for ever, as the thread that brings it is held.
 */
#ifndef DYNTRACE_STACK_MEMORY_H
#define DYNTRACE_STACK_MEMORY_H

#include "control/proc/proc.h"

struct stack_memory {
	struct proc *proc;
	int maps_fd, pagemap_fd; /* of /proc/PID; -1: can't be opened */
	/* the mappings, where the kernel can't be asked for one (before Linux 6.11); empty: not
	 * read in this stop */
	struct maps maps;
};

struct stack_range {
	uint64_t start, end;
	bool is_anonymous; /* pages that don't exist hold nothing */
};

/* Before the stop. */
void stack_memory_open(struct stack_memory *memory, struct proc *proc);
void stack_memory_close(struct stack_memory *memory);

/* Forgets what was known from an earlier stop. */
void stack_memory_begin(struct stack_memory *memory);
/* The mapping that has the address; empty: none has. */
struct error *stack_memory_find(struct stack_memory *memory, uint64_t at,
				struct stack_range *ret_mapping);

/* The first pages of a range in a row that can be read; empty: there are none, and the range's end
 * is returned twice. */
struct stack_range stack_memory_used(const struct stack_memory *memory,
				     const struct stack_range *range);

#endif
