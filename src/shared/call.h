/*
 * call.h - tracepoints that call a function of the user (include/dyntrace/probe.h): layout shared
 * by generated code, the gate (control/tracers/code/x86_64/call_gate.S), the agent (target/call.c)
 * and the controller.
 *
 * (C1) dt_state.calls[slot] is 0, or the address of the struct dt_call_frame on the thread's stack,
 *      from just before the call of the function until just after its return. While the word isn't
 *      0 the thread calls no other function.
 * (C2) A thread that leaves the function by a jump leaves the word behind. The agent recognises
 *      this: the stack is shorter now than the frame, and isn't the alternate stack of a signal
 *      handler.
 * (C3) After a fault in the function the thread continues at the site's `resume` with rbp = the
 *      frame and rsp = frame.sp: as if the function had returned.
 * (C4) The function is called only with DT_CALL_ROOM bytes left on the stack. dt_state.rooms[slot]
 *      is a range of whole pages that were all readable when checked: its start, and in the lower
 *      12 bits the number of pages above the room. If the stack isn't in the range, the agent
 *      checks another. The first thread's stack grows, so dt_control.stack counts there. Functions
 *      with a frame of a few words that call nothing need no check.
 */
#ifndef DYNTRACE_CALL_H
#define DYNTRACE_CALL_H

#define DYNTRACE_PROBE_NO_VERSION
#include "../../include/dyntrace/probe.h"
#include "bridge.h"
#include "layout.h"

/* Built by the gate; the function sees `hit`. */
struct dt_call_frame {
	struct dyntrace_hit hit;
	uint64_t image; /* address of the values, laid out as in the pool (foreign_code.h) */
	uint64_t sp; /* rsp while the function runs: address of the saved vector registers */
	uint64_t guard; /* address of the thread's word in dt_state.calls */
	uint64_t rsi; /* of the generated code */
	uint64_t site; /* struct dt_call_site */
	uint64_t error_number; /* errno */
	uint64_t flags;
};

/* In sealed memory, after the trampoline: one for the entry, one for the exit. */
struct dt_call_site {
	uint64_t function;
	uint64_t gate, resume; /* addresses in the trampoline */
	uint64_t op; /* dt_call_op */
	uint32_t saved; /* bytes from the registers pushed by record_emit_save to the site's rsp */
	uint32_t stride; /* bytes per saved vector register; 0: the gate saves none */
	struct dyntrace_hit_point tracepoint;
	uint64_t control; /* struct dt_control */
	uint64_t shared; /* struct dt_call_shared */
	uint32_t start; /* offset of the first field in the image */
	uint32_t field_count;
	struct dt_bridge_field fields[]; /* then the tracepoint's name */
};

#define DT_CALL_ROOM 8192 /* two pages */
#define DT_ROOMS_OFFSET (offsetof(struct dt_state, rooms) - offsetof(struct dt_state, calls))

#define DT_CALL_GATE offsetof(struct dt_call_site, gate)

#endif
