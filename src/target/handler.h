/*
 * handler.h - our handlers of signals, in front of the target's own: what trap.c and fault.c share.
 *
 * The kernel calls dt_trap and dt_fault (handler.S), which call trap_handle and fault_handle. What
 * is no affair of ours goes to the target's own action, which we keep for it, and is done as the
 * kernel would do it.
 */
#ifndef DYNTRACE_HANDLER_H
#define DYNTRACE_HANDLER_H

#include "agent_parts.h"

#define SYS_RT_SIGACTION 13

/* The parts of siginfo_t and ucontext_t that matter. */
struct handler_info {
	int32_t signal, error, code, pad;
	uint64_t address;
};
struct handler_context {
	uint64_t before[5]; /* flags, link, stack (3) */
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

#define HANDLER_BY_KERNEL 0x80 /* the code of an int3 */

/* What a handler returns: where to go on as if the kernel had called that; 0: back to what was
 * interrupted. */
uint64_t trap_handle(uint64_t agent, uint32_t signal, const struct handler_info *info,
		     struct handler_context *context);
uint64_t fault_handle(uint64_t agent, uint32_t signal, const struct handler_info *info,
		      struct handler_context *context);

/* The target's own action; the result is the handler's. */
uint64_t handler_chain(struct dt_sigaction *own, uint32_t signal, const struct handler_info *info,
		       struct handler_context *context);

/* Words that the target gave the address of. Where no call can be made, it is believed. */
bool handler_read(const struct dt_control *control, uint64_t from, uint64_t *words, uint32_t count);

/* Its rt_sigaction with those arguments, on an action that we keep for process `pid`. False: it is
 * the kernel that must refuse it. */
bool handler_exchange(const struct dt_control *control, struct dt_sigaction *own, uint32_t pid,
		      const uint64_t args[4], uint64_t *ret_result);

#endif
