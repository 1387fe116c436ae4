/*
 * cpu_samples.h - in which code the threads of some processes spend their CPU time: the kernel
 * looks where each of them is, every CPU_SAMPLES_PERIOD of its CPU time (perf_event_open).
 *
 * Changes nothing in the processes. A sample takes about two microseconds of its thread's time: a
 * thousandth. But a thread that sleeps and wakes pays each time, in a virtual machine 8 us: nginx
 * took 7% more CPU time per request. So samples are for short times. A sample in the kernel counts
 * for the instruction of the program that led there, if we may see the kernel's.
 *
 * Fails where that isn't allowed: without rights (perf_event_paranoid), in most containers.
 */
#ifndef DYNTRACE_CPU_SAMPLES_H
#define DYNTRACE_CPU_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/base/error.h"

#define CPU_SAMPLES_PERIOD 1999993u /* ns; odd, so that nothing keeps step with it */
#define CPU_SAMPLES_THREADS 64u /* at most */

struct cpu_samples;

struct cpu_samples_sum {
	uint64_t cpu_ns; /* that the threads used meanwhile */
	uint64_t taken; /* samples */
	uint64_t inside; /* of these, in the code that was asked for */
	uint64_t lost; /* samples for which there was no room */
};

/* Begins, for threads that the processes have now: all, or as many as are allowed. Read them within
 * two seconds. */
struct error *cpu_samples_begin(const pid_t *pids, size_t count, struct cpu_samples **ret_samples);
/* Adds up the samples since the last reading. `is_inside` is asked about each one's instruction. */
struct cpu_samples_sum cpu_samples_read(struct cpu_samples *samples,
					bool (*is_inside)(const void *context, uint64_t address),
					const void *context);
/* Stops, if `samples` isn't NULL. */
void cpu_samples_free(struct cpu_samples *samples);
/* The share of the CPU time that was spent inside; 0 without any. */
double cpu_samples_share(const struct cpu_samples_sum *sum);

#endif
