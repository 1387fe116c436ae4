/*
 * call.h - tracepoints that call a function of the user's (include/dyntrace/probe.h): what
 * generated code, the gate (src/control/tracers/code/x86_64/call_gate.S), the agent (src/target/call.c) and the
 * controller share.
 *
 * (C1) dt_state.calls[slot] is 0, or the address of the struct dt_call_frame on the thread's stack,
 *      from just before the function is called until just after it has returned. While it isn't 0
 *      no other function is called on that thread.
 * (C2) A thread that left the function by a jump leaves the word behind. It is known by that: the
 *      stack is shorter now than the frame, and it isn't the alternate stack of a signal handler.
 * (C3) A fault in the function goes on at the site's `resume` with rbp = the frame and rsp =
 *      frame.sp: as if it had returned.
 * (C4) The function is called only with DT_CALL_ROOM bytes left on the stack. dt_state.rooms[slot]
 *      is a piece of memory, whole pages that could all be read when they were looked at: its
 *      start, and in the lower 12 bits how many pages there are above the room. Another piece is
 *      looked at when the stack isn't in it. The first thread's stack grows, so there
 *      dt_control.stack counts. Functions of a few words that call nothing need no look.
 */
#ifndef DYNTRACE_CALL_H
#define DYNTRACE_CALL_H

#define DYNTRACE_PROBE_NO_VERSION
#include "../../include/dyntrace/probe.h"
#include "bridge.h"
#include "layout.h"

/* What the gate builds; the hit is what the function sees of it. */
struct dt_call_frame {
	struct dyntrace_hit hit;
	uint64_t image; /* the values, as the pool would have them (foreign_code.h) */
	uint64_t sp; /* rsp while the function runs: vector registers begin there */
	uint64_t guard; /* address of its word in dt_state.calls */
	uint64_t rsi; /* of the generated code */
	uint64_t site; /* struct dt_call_site */
	uint64_t error_number; /* errno */
	uint64_t flags;
};

/* In sealed memory, behind the trampoline: one for the entry, one for the exit. */
struct dt_call_site {
	uint64_t function;
	uint64_t gate, resume; /* addresses in it */
	uint64_t op; /* dt_call_op */
	uint32_t saved; /* bytes from what record_emit_save pushed to rsp at the site */
	uint32_t stride; /* of vector registers, where the gate saves them; 0: it saves none */
	struct dyntrace_hit_point tracepoint;
	uint64_t control; /* struct dt_control */
	uint64_t shared; /* struct dt_call_shared */
	uint32_t start; /* where the first field is in the image */
	uint32_t field_count;
	struct dt_bridge_field fields[]; /* then the tracepoint's name */
};

#define DT_CALL_ROOM 8192 /* two pages */
#define DT_ROOMS_OFFSET (offsetof(struct dt_state, rooms) - offsetof(struct dt_state, calls))

#define DT_CALL_GATE offsetof(struct dt_call_site, gate)

#endif
