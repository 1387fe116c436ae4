/*
 * realtime.h - give the calling thread real-time priority while it holds a target.
 *
 * Measured with 64 spinning threads on two cores: stop and release took up to 180 ms, because the
 * controller waited for a CPU itself; 0.4 to 3 ms under SCHED_FIFO. Does nothing where that isn't
 * permitted. Per thread; pairs nest.
 *
 * (S20) The priority is the highest that the caller may have. With a lower one a target stood still
 *      for as long as real-time threads of others wanted all processors: the kernel keeps 5% of the
 *      time for threads that aren't real-time, and for those alone.
 */
#ifndef DYNTRACE_REALTIME_H
#define DYNTRACE_REALTIME_H

void realtime_begin(void);
void realtime_end(void);

#endif
