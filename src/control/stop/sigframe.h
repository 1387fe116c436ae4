/*
 * sigframe.h - the frame on which a remote call runs: with it the thread finds its way back even if
 * the controller is killed (H14).
 *
 * Pure: builds bytes. The frame is the one that the kernel would write to deliver a signal, placed
 * below the thread's red zone:
 *
 *	rsp of the thread ->
 *	                      red zone, 128 bytes
 *	xstate, 64-aligned    x87, SSE, AVX, ... with the marks that rt_sigreturn looks for
 *	rsp of the call   ->  restorer's address
 *	                      ucontext: registers to go on with, signal mask
 *	                      siginfo
 *	                      results of calls made in one go (remote/ahead.h)
 *	                      scratch: memory for a call's arguments
 *	low
 *
 * `syscall; ret` runs with rsp at the restorer's address. If no controller catches the thread after
 * the system call, `ret` takes it to the restorer, and rt_sigreturn back to where it was.
 */
#ifndef DYNTRACE_SIGFRAME_H
#define DYNTRACE_SIGFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#include "shared/taddr.h"

#define FRAME_SCRATCH 512u
#define FRAME_RESULTS 32u /* of 8 bytes each */
#define FRAME_RED_ZONE 128u
#define FRAME_XSTATE_MAX 16384u
#define FRAME_MAX (FRAME_XSTATE_MAX + FRAME_SCRATCH + 8 * FRAME_RESULTS + 1024u)

struct sigframe {
	uint64_t low; /* address of bytes[0] */
	uint64_t size;
	uint64_t rsp; /* for the call */
	uint64_t results;
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

/* Bytes below `top` that any frame with that much xstate needs. */
uint64_t sigframe_room(size_t xstate_size);
/* Bytes of the kernel's largest signal frame that hold AMX's tiles: only processes that have asked
 * for tiles (arch_prctl) have such frames. 0: nobody has tiles here. */
uint32_t sigframe_tile_bytes(void);
void sigframe_build(const struct sigframe_input *input, struct sigframe *ret_frame);

#endif
