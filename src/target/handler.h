/*
 * handler.h - the agent's signal handlers, in front of the target's own: declarations that trap.c
 * and fault.c share.
 *
 * The kernel calls dt_trap and dt_fault (handler.S), which call trap_handle and fault_handle. For a
 * signal that isn't the agent's, handler_chain performs the target's own action, which the agent
 * keeps, as the kernel would.
 */
#ifndef DYNTRACE_HANDLER_H
#define DYNTRACE_HANDLER_H

#include "agent_parts.h"

#define SYS_RT_SIGACTION 13

/* The used parts of siginfo_t and ucontext_t. */
struct handler_info {
	int32_t signal, error, code, pad;
	uint64_t address;
};
struct handler_context {
	uint64_t before[5]; /* flags, link, stack (3) */
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
};

#define HANDLER_BY_KERNEL 0x80 /* si_code of an int3 */

/* Return the address of a handler to continue at as if the kernel had called it; 0: return to the
 * interrupted code. */
uint64_t trap_handle(uint64_t agent, uint32_t signal, const struct handler_info *info,
		     struct handler_context *context);
uint64_t fault_handle(uint64_t agent, uint32_t signal, const struct handler_info *info,
		      struct handler_context *context);

/* Performs the target's own action; the result is as for trap_handle. */
uint64_t handler_chain(struct dt_sigaction *own, uint32_t signal, const struct handler_info *info,
		       struct handler_context *context);

/* Reads words at an address from the target. If no system call may be made, it is believed. */
bool handler_read(const struct dt_control *control, uint64_t from, uint64_t *words, uint32_t count);

/* The target's rt_sigaction with those arguments, on an action kept for process `pid`. False: leave
 * it to the kernel to refuse it. */
bool handler_exchange(const struct dt_control *control, struct dt_sigaction *own, uint32_t pid,
		      const uint64_t args[4], uint64_t *ret_result);

#endif
