/*
 * handler.h - the agent's signal handlers, in front of the target's own: declarations that trap.c
 * and fault.c share.
 *
 * The kernel calls dt_trap, dt_fault and dt_front (handler.S), which call trap_handle, fault_handle
 * and front_handle. For a
 * signal that isn't the agent's, handler_chain performs the target's own action, which the agent
 * keeps, as the kernel would.
 */
#ifndef DYNTRACE_HANDLER_H
#define DYNTRACE_HANDLER_H

#include "target/agent_parts.h"

#define SYS_RT_SIGACTION 13
#define SYS_IO_URING_ENTER 426

/* The used parts of siginfo_t and ucontext_t. */
struct handler_info {
	int32_t signal, error, code, pad;
	uint64_t address;
};
struct handler_context {
	uint64_t before[5]; /* flags, link, stack (3) */
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, flags;
	uint64_t segments, error, trap, mask, cr2;
};

#define HANDLER_BY_KERNEL 0x80 /* si_code of an int3 */
#define HANDLER_EFAULT 14

/* Return the address of a handler to continue at as if the kernel had called it; 0: return to the
 * interrupted code. */
uint64_t trap_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		     struct handler_context *context);
uint64_t fault_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		      struct handler_context *context);
uint64_t front_handle(uint64_t agent, uint32_t signal, struct handler_info *info,
		      struct handler_context *context);
/* At the return from a handler that was shown another place (front.c). */
void front_back(uint64_t agent, struct handler_context *context);

/* dt_front. */
extern const uint8_t front_entry[] __attribute__((visibility("hidden")));

/* Performs the target's own action; the result is as for trap_handle. */
uint64_t handler_chain(const struct dt_control *control, struct dt_sigaction *own, uint32_t signal,
		       const struct handler_info *info, struct handler_context *context);

/* Is the caller process `pid`, or a forked child, and not a child of vfork, which has this memory
 * but actions of its own? If no system call may be made: yes. */
bool handler_is_ours(const struct dt_control *control, uint32_t pid);
/* Before a system call that sets the caller's mask. */
void handler_note_owner(const struct dt_control *control);

/* A system call that waits with another mask, and the argument with the mask's address.
 * SYS_IO_URING_ENTER isn't among them: its argument has two forms. */
struct handler_wait {
	uint32_t number;
	uint8_t arg;
	uint8_t words; /* of the struct that holds the address; 0: the argument is the address */
};
/* NULL: the call is none. */
const struct handler_wait *handler_find_wait(uint64_t number);

/* Reads words at an address from the target. If no system call may be made, it is believed. */
bool handler_read(const struct dt_control *control, uint64_t from, uint64_t *words, uint32_t count);

/* Writes words likewise. */
bool handler_write(const struct dt_control *control, uint64_t to, const uint64_t *words,
		   uint32_t count);

/* The target's rt_sigaction with those arguments, on an action kept for process `pid`. False: leave
 * it to the kernel to refuse it. */
bool handler_exchange(const struct dt_control *control, struct dt_sigaction *own, uint32_t pid,
		      const uint64_t args[4], uint64_t *ret_result);

#endif
