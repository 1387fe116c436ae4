/*
 * realtime.h - run before others while a target is held.
 *
 * Measured with 64 spinning threads on two cores: stop and release took up to 180 ms, because the
 * stopper waited for a CPU itself; 0.4 to 3 ms under SCHED_FIFO. Where that isn't permitted nothing
 * happens. Per thread; pairs nest.
 */
#ifndef DYNTRACE_REALTIME_H
#define DYNTRACE_REALTIME_H

void realtime_begin(void);
void realtime_end(void);

#endif
