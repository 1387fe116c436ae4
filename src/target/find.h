/*
 * find.h - where a thread is that is in a trampoline.
 *
 * Takes no lock, makes no system call, and can't fault for an address that is somebody's code.
 */
#ifndef DYNTRACE_FIND_H
#define DYNTRACE_FIND_H

#include "agent_parts.h"

struct dt_frame_end;

struct find_frame {
	const struct dt_frame_end *end;
	uint32_t row; /* of shared/frame.h; not of a hop */
	bool is_hop; /* at the jump that leads to its start, outside of it */
};

/* false: pc isn't in one. */
bool find_frame(const struct dt_control *control, uint64_t pc, struct find_frame *ret_frame);

struct find_bases;
/* Of an address that an unwinder asks about: the FDE, and what it wants to know besides. 0: it
 * isn't ours. */
uint64_t find_table(const struct dt_control *control, uint64_t pc, struct find_bases *bases);

#endif
