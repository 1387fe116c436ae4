/*
 * find.h - the place of a thread that is in a trampoline.
 *
 * Takes no lock, makes no system call, and can't fault for an address in mapped code.
 */
#ifndef DYNTRACE_FIND_H
#define DYNTRACE_FIND_H

#include "agent_parts.h"

struct dt_frame_end;

struct find_frame {
	const struct dt_frame_end *end;
	uint32_t row; /* of shared/frame.h; unset for a hop */
	bool is_hop; /* pc is at a jump outside that leads to the trampoline's start */
};

/* False: pc isn't in a trampoline. */
bool find_frame(const struct dt_control *control, uint64_t pc, struct find_frame *ret_frame);

struct find_bases;
/* The FDE for the address *asked that an unwinder asks about, and *bases with it. 0: not in code of
 * dyntrace; the unwinder's own answer for *asked is right, which has changed for a return stub. */
uint64_t find_table(const struct dt_control *control, uint64_t *asked, struct find_bases *bases);

#endif
