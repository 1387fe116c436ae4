/*
 * budget_scale.h - how much more a hit costs in this target than trampolines that run in a loop
 * (trampoline/hit_timing.h).
 *
 * Other programs, the kernel and the target itself use the caches between two hits of a tracepoint.
 * So a hit takes up to some twenty times as long as in a loop, and nobody knows beforehand. What
 * the target gets done tells: where levels were lowered, hits of tracepoints that are still counted
 * come as much faster as the others have cost before, per CPU time of the target.
 *
 * With the timed cost of all hits as a share x of the CPU time, hits per CPU time are in proportion
 * to 1 - scale * x. Two times with different levels give the scale. The less they tell (few hits,
 * small shares), the less the scale changes.
 *
 * While no level changes, samples tell in which code the target spends its CPU time
 * (proc/cpu_samples.h). They see the time in trampolines, and not by how much these slow the
 * target's own code down. So the samples' scale is the least that it can be.
 *
 * Pure.
 */
#ifndef DYNTRACE_BUDGET_SCALE_H
#define DYNTRACE_BUDGET_SCALE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct budget_scale {
	double scale; /* 1 to BUDGET_SCALE_MAX: by what the target gets done */
	double doubt; /* its variance */
	bool is_measured;
	/* Of the samples: their scale, 0 if they are too few; sums, of which older ones count less:
	 * samples in trampolines, the time in trampolines and as timed. */
	double sampled;
	double samples, sampled_ns, timed_ns;
	/* ns of all the time: as timed; by `scale`; in samples */
	double all_timed, all_measured, all_sampled;
};
#define BUDGET_SCALE_MAX 40

/* Hits of one tracepoint in two times, between which levels have changed. */
struct budget_pace {
	uint64_t before, after;
};

/* The cost of one of these times. */
struct budget_span {
	double cpu; /* ns of the target's CPU time, with all costs */
	double cost; /* ns, as timed: without the scale */
};

/* The samples of some time. */
struct budget_sample {
	double share; /* of the CPU time in our code */
	uint64_t inside; /* samples there */
};

/* The scale to use from now on. */
double budget_scale_now(const struct budget_scale *scale);
/* The scale of all costs so far. */
double budget_scale_so_far(const struct budget_scale *scale);
/* Adds the cost of some time, and its samples (NULL: none were taken; it costs what others did). */
void budget_scale_spend(struct budget_scale *scale, const struct budget_span *span,
			const struct budget_sample *sample);

void budget_scale_init(struct budget_scale *scale);
/* Time passes: what was measured tells less and less. */
void budget_scale_age(struct budget_scale *scale, double seconds);
/* Compares two times. Sorts `paces`. True: the scale was measured. */
bool budget_scale_compare(struct budget_scale *scale, struct budget_pace *paces, size_t count,
			  struct budget_span before, struct budget_span after);

#endif
