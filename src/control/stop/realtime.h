/*
 * realtime.h - give the calling thread real-time priority while it holds a target.
 *
 * Measured with 64 spinning threads on two cores: stop and release took up to 180 ms, because the
 * controller waited for a CPU itself; 0.4 to 3 ms under SCHED_FIFO. Does nothing where that isn't
 * permitted. Per thread; pairs nest.
 */
#ifndef DYNTRACE_REALTIME_H
#define DYNTRACE_REALTIME_H

void realtime_begin(void);
void realtime_end(void);

#endif
