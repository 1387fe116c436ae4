/*
 * filtered.h - may this process make system calls? For slow.S and gather.S.
 */
#ifndef DYNTRACE_FILTERED_H
#define DYNTRACE_FILTERED_H

/*
 * Jumps to \no if the process filters its system calls, or was forked a moment ago (no pid yet) and
 * may be the child of one that does (H26). rbx = dt_control; scratch is lost, and so are the flags.
 */
.macro unless_filtered scratch, no
	testl	$CONTROL_NO_SYSCALLS, CONTROL_FLAGS(%rbx)
	jnz	\no
	movq	CONTROL_STATE(%rbx), \scratch
	cmpl	$0, STATE_FILTERED(\scratch)
	jne	\no
	cmpl	$0, STATE_PID(\scratch)
	jne	1f
	movq	CONTROL_POOL(%rbx), \scratch
	cmpl	$0, POOL_FILTERED(\scratch)
	jne	\no
1:
.endm

#endif
