#include "budget_scale.h"

#include <math.h>
#include <stdlib.h>

#define DOUBT 9.0 /* at first, and at most */
#define DOUBT_PER_SECOND 1.0
#define NOISE 0.1 /* of hits per CPU time: the load changes, and what others do to the caches */
#define HITS_LEAST 4 /* of a tracepoint, in both times */
#define TOLD_LEAST 0.02 /* a difference of shares that tells nothing */
/* Samples in trampolines: an error of a fifth, and of a tenth. */
#define SAMPLES_LEAST 25
#define SAMPLES_RECENT 200

void budget_scale_init(struct budget_scale *scale)
{
	*scale = (struct budget_scale){ .scale = 1, .doubt = DOUBT };
}

void budget_scale_age(struct budget_scale *scale, double seconds)
{
	scale->doubt += DOUBT_PER_SECOND * seconds;
	if (scale->doubt > DOUBT)
		scale->doubt = DOUBT;
}

static double within_limits(double scale)
{
	return scale < 1 ? 1 : scale > BUDGET_SCALE_MAX ? BUDGET_SCALE_MAX : scale;
}

double budget_scale_now(const struct budget_scale *scale)
{
	return scale->sampled > scale->scale ? scale->sampled : scale->scale;
}

double budget_scale_so_far(const struct budget_scale *scale)
{
	double most = scale->all_sampled > scale->all_measured ? scale->all_sampled :
								  scale->all_measured;

	return scale->all_timed > 0 ? within_limits(most / scale->all_timed) : 1;
}

static void add_samples(struct budget_scale *scale, const struct budget_span *span,
			const struct budget_sample *sample)
{
	if (scale->samples >= SAMPLES_RECENT) {
		scale->samples /= 2;
		scale->sampled_ns /= 2;
		scale->timed_ns /= 2;
	}
	scale->samples += (double)sample->inside;
	scale->sampled_ns += sample->share * span->cpu;
	scale->timed_ns += span->cost;
	scale->all_sampled += sample->share * span->cpu;
	if (scale->samples >= SAMPLES_LEAST && scale->timed_ns > 0)
		scale->sampled = within_limits(scale->sampled_ns / scale->timed_ns);
}

void budget_scale_spend(struct budget_scale *scale, const struct budget_span *span,
			const struct budget_sample *sample)
{
	scale->all_timed += span->cost;
	scale->all_measured += span->cost * scale->scale;
	if (sample)
		add_samples(scale, span, sample);
	else
		scale->all_sampled += span->cost * (scale->sampled > 0 ? scale->sampled : 1);
}

static double ratio(const struct budget_pace *pace)
{
	return (double)pace->after / (double)pace->before;
}

static int by_ratio(const void *a, const void *b)
{
	double x = ratio(a), y = ratio(b);

	return x < y ? -1 : x > y;
}

/* The ratio that half of all hits are below of. NULL: there are too few hits. */
static const struct budget_pace *find_median(struct budget_pace *paces, size_t count)
{
	uint64_t sum = 0, seen = 0;
	size_t used = 0;

	for (size_t i = 0; i < count; i++) {
		if (paces[i].before < HITS_LEAST || paces[i].after < HITS_LEAST)
			continue;
		paces[used] = paces[i];
		sum += paces[used++].before;
	}
	if (!used)
		return NULL;
	qsort(paces, used, sizeof(*paces), by_ratio);
	for (size_t i = 0;; i++) {
		seen += paces[i].before;
		if (2 * seen >= sum)
			return &paces[i];
	}
}

bool budget_scale_compare(struct budget_scale *scale, struct budget_pace *paces, size_t count,
			  struct budget_span before, struct budget_span after)
{
	const struct budget_pace *median = find_median(paces, count);

	if (!median || before.cpu <= 0 || after.cpu <= 0)
		return false;
	double quicker = ratio(median) * before.cpu / after.cpu;
	double share = before.cost / before.cpu, share_after = after.cost / after.cpu;
	double told = quicker * share - share_after;
	if (fabs(told) < TOLD_LEAST)
		return false;
	double noise = NOISE * NOISE + 1.0 / (double)median->before + 1.0 / (double)median->after;
	double by = quicker * (share - share_after) / (told * told); /* the derivative */
	double part = scale->doubt / (scale->doubt + noise * by * by);
	double found = scale->scale + part * ((quicker - 1) / told - scale->scale);
	scale->scale = within_limits(found);
	if (!scale->is_measured) /* the first measurement is that of all hits before, too */
		scale->all_measured = scale->all_timed * scale->scale;
	scale->doubt *= 1 - part;
	scale->is_measured = true;
	return true;
}
