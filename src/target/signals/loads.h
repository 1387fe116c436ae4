/*
 * loads.h - plain loads of memory that may go away (X3 to X20, loads.c).
 *
 * Between loads_enter and loads_leave a thread may use loads_word and loads_copy. After a fault in
 * one of them the thread goes on behind the load, and the function says so.
 */
#ifndef DYNTRACE_LOADS_H
#define DYNTRACE_LOADS_H

#include "handler.h"

/* x86_64/loads.S. False: the word can't be read. */
bool loads_word(uint64_t address, uint64_t *ret_word);
/* x86_64/loads.S: copies; gives the number of bytes that are left, from the first one on that can't
 * be read. */
uint64_t loads_copy(void *to, uint64_t from, uint64_t count);

/* A word of the thread's own stack. `none`: the program has taken that page away for a while, or
 * the word is so. At the cost of a load; loads_own has its place, and the one behind it. */
static inline uint64_t loads_own_or(uint64_t address, uint64_t none)
{
	uint64_t word = none;

	__asm__ volatile("1:	movq %1, %0\n"
			 "2:\n"
			 "	.pushsection loads_own, \"a\"\n"
			 "	.long 1b - ., 2b - .\n"
			 "	.popsection"
			 : "+r"(word)
			 : "m"(*(const uint64_t *)address));
	return word;
}

#define LOADS_NONE UINT64_MAX
static inline uint64_t loads_own_word(uint64_t address)
{
	return loads_own_or(address, LOADS_NONE);
}

/* May the calling thread, on its own stack, make plain loads? Then loads_leave follows, with
 * *ret_before. `sp`: the program's stack pointer. */
bool loads_enter(const struct dt_control *control, struct dt_slot *slot, uint64_t sp,
		 uint32_t *ret_before);
void loads_leave(const struct dt_control *control, const struct dt_slot *slot, uint32_t before);

/* Bytes from there on that are worth a plain load: their pages have been read before. */
uint64_t loads_known(const struct dt_control *control, uint64_t from);
/* These bytes have been read. */
void loads_note(const struct dt_control *control, uint64_t from, uint64_t size);
/* After loads_forbid: waits, for so many pauses at most, until each thread has been seen where it
 * makes no plain loads (Q6): it makes none of those that were allowed before. False: one hasn't. */
bool loads_await(const struct dt_control *control, uint32_t pauses);

/* A fault of one of the loads: leads the thread on, and is true. */
bool loads_mend(const struct dt_control *control, const struct handler_info *info,
		struct handler_context *context);
/* No thread of this process is known to be open any more. The reason must be there before. */
void loads_forbid(const struct dt_control *control);
/* The same, for as long as the process lives. */
void loads_close(const struct dt_control *control);
/* With all signals blocked, in place of that mask: looks whether the calling thread may make plain
 * loads from a trampoline. */
void loads_look(const struct dt_control *control, uint64_t mask);
/* Before dt_front begins a handler of the program's on that frame. */
void loads_pass_handler(const struct dt_control *control, const struct handler_context *context);
/* Before the rt_sigreturn that ends the handler of that frame. */
void loads_pass_end(const struct dt_control *control, uint64_t frame);
/* The calling thread's mask isn't known any more. */
void loads_shut(const struct dt_control *control);

/* A thread in a guard: NULL, if it has no slot; was it in another one already? */
struct loads_passing {
	struct dt_own_stack *own;
	bool is_inner;
};

/* Before a system call of the target's, with that stack pointer. True: the agent has to make it;
 * loads_passed follows. */
bool loads_pass(const struct dt_control *control, uint64_t number, const uint64_t args[6],
		uint64_t sp, struct loads_passing *ret_passing);
void loads_passed(const struct dt_control *control, const struct loads_passing *passing);
/* (X6) Before dt_trap sets the mask for a handler of the program's on that frame. True:
 * loads_passed follows. */
bool loads_pass_trap(const struct dt_control *control, const struct handler_context *context,
		     struct loads_passing *ret_passing);
/* The program is about to ignore the signal of that index (X12), or gets its own handler back
 * (H42): ends plain loads, and the agent handles it no more, unless some thread doesn't leave a
 * load. */
void loads_end(const struct dt_control *control, uint32_t index);
/* (X18) Before the kernel gets another action of one of the two signals, which is in
 * dt_fronts.actions already. False: some thread doesn't leave a load whose fault goes to its
 * alternate stack, so faults have to go on going there. loads_passed_stack follows. */
bool loads_pass_stack(const struct dt_control *control);
void loads_passed_stack(const struct dt_control *control);
/* Before an rt_sigaction of the target's, with that new action. */
void loads_pass_action(const struct dt_control *control, uint64_t signal,
		       const struct dt_sigaction *action);

#endif
