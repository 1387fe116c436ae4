/*
 * sigframe.h - the frame on which a remote call runs, so that it ends well whatever becomes of us
 * (H14).
 *
 * Pure: builds bytes. It is what the kernel would have written to deliver a signal, placed below
 * the thread's red zone:
 *
 *	rsp of the thread ->
 *	                      red zone, 128 bytes
 *	xstate, 64-aligned    x87, SSE, AVX, ... as they are, with the marks that rt_sigreturn looks for
 *	rsp of the call   ->  restorer's address | ucontext: registers to go on with, signal mask | siginfo
 *	                      scratch: what a call's arguments point to
 *	low
 *
 * `syscall; ret` runs with rsp at the restorer's address. Nobody there to catch the thread behind
 * the system call? Then `ret` takes it to the restorer, and rt_sigreturn back to where it was.
 */
#ifndef DYNTRACE_SIGFRAME_H
#define DYNTRACE_SIGFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "shared/taddr.h"

#define FRAME_SCRATCH 512u
#define FRAME_RED_ZONE 128u
#define FRAME_XSTATE_MAX 16384u
#define FRAME_MAX (FRAME_XSTATE_MAX + FRAME_SCRATCH + 1024u)

struct sigframe {
	uint64_t low; /* where the bytes go */
	uint64_t size;
	uint64_t rsp; /* for the call */
	uint64_t scratch;
	uint8_t bytes[FRAME_MAX];
};

struct sigframe_input {
	uint64_t top; /* nothing is written at or above it */
	struct user_regs_struct regs; /* to go on with */
	uint64_t mask; /* of blocked signals */
	uint64_t restorer;
	const uint8_t *xstate; /* as PTRACE_GETREGSET NT_X86_XSTATE gives it */
	size_t xstate_size;
};

/* How much room below `top` any frame with that much xstate needs. */
uint64_t sigframe_room(size_t xstate_size);
void sigframe_build(const struct sigframe_input *input, struct sigframe *ret_frame);

#endif
