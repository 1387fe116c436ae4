/*
 * beacon.h - a word of the control page by which the target sees that its controller is dead.
 *
 * The kernel sets DT_OWNER_DIED in dt_control.alive when the thread that called beacon_light ends,
 * however it ends: the word is on that thread's list of robust futexes. A target in another pid
 * namespace can't ask for our pid, and a filter may forbid to ask.
 */
#ifndef DYNTRACE_BEACON_H
#define DYNTRACE_BEACON_H

#include <stddef.h>

#include "shared/layout.h"

/* Reserves memory for a control page and what follows it, with private room for the list in front
 * of it: what is in the control page the target can read. NULL: no memory. */
void *beacon_reserve(size_t size);
/* Unmaps what beacon_reserve gave, and whatever is mapped there by now. */
void beacon_release(void *reserved, size_t size);

/* `control` is mapped at a place of beacon_reserve. If the kernel has no such lists, the word stays
 * 0: the target waits its full time. Only one thread of a process may light beacons. */
void beacon_light(struct dt_control *control);
/* Tells the target that its controller is gone; without beacon_light no effect. */
void beacon_put_out(struct dt_control *control);

#endif
