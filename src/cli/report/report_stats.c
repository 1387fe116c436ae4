/*
 * report_stats.c - functions by name, and their durations.
 */
#include <stdlib.h>
#include <string.h>

#include "shared/layout.h"
#include "control/record/histogram.h"
#include "report.h"

#define STEPS (1u << REPORT_BITS)

void report_free(struct report *report)
{
	for (size_t i = 0; i < report->functions.count; i++) {
		struct report_function *function = &report->functions.items[i];

		for (unsigned row = 0; row < REPORT_ROWS; row++)
			free(function->rows[row]);
		free(function->name);
	}
	for (size_t i = 0; i < report->slow_count; i++)
		free(report->slowest[i].text);
	vec_free(&report->functions);
	vec_free(&report->nodes);
	vec_free(&report->callers);
	vec_free(&report->callees);
	free(report->names);
}

/* ---- names ---------------------------------------------------------------------------------- */

/* The place of a name in the table: its own, or an empty one. */
static size_t slot_of(const struct report *report, const char *name)
{
	size_t slot = dt_name_hash(name) & (report->names_room - 1);

	while (report->names[slot] &&
	       strcmp(report->functions.items[report->names[slot] - 1].name, name) != 0)
		slot = (slot + 1) & (report->names_room - 1);
	return slot;
}

uint32_t report_find(const struct report *report, const char *name)
{
	if (!report->names_room)
		return REPORT_NONE;
	return report->names[slot_of(report, name)] - 1; /* 0 - 1 is REPORT_NONE */
}

static bool grow_names(struct report *report)
{
	size_t room = report->names_room ? report->names_room * 2 : 64;
	uint32_t *wider = calloc(room, sizeof(*wider));

	if (!wider)
		return false;
	free(report->names);
	report->names = wider;
	report->names_room = room;
	for (size_t i = 0; i < report->functions.count; i++)
		report->names[slot_of(report, report->functions.items[i].name)] = (uint32_t)i + 1;
	return true;
}

uint32_t report_name(struct report *report, const char *name)
{
	uint32_t index = report_find(report, name);

	if (index != REPORT_NONE)
		return index;
	if (report->functions.count * 2 >= report->names_room && !grow_names(report))
		return REPORT_NONE;
	struct report_function function = { .name = strdup(name), .top = REPORT_NONE };
	if (!function.name || !vec_push(&report->functions, function)) {
		free(function.name);
		return REPORT_NONE;
	}
	index = (uint32_t)report->functions.count - 1;
	report->names[slot_of(report, name)] = index + 1;
	return index;
}

/* ---- durations ------------------------------------------------------------------------------ */

bool report_add_duration(struct report_function *function, uint64_t ns)
{
	uint32_t bucket = histogram_bucket(ns, REPORT_BITS), row = bucket / STEPS;

	if (!function->rows[row] &&
	    !(function->rows[row] = calloc(STEPS, sizeof(*function->rows[row]))))
		return false;
	function->rows[row][bucket % STEPS]++;
	function->calls++;
	function->sum += ns;
	if (ns > function->max)
		function->max = ns;
	return true;
}

uint64_t report_quantile(const struct report_function *function, double share)
{
	uint64_t rank = (uint64_t)((double)function->calls * share), seen = 0;

	for (uint32_t i = 0; i < REPORT_ROWS * STEPS; i++) {
		if (!function->rows[i / STEPS]) {
			i |= STEPS - 1;
			continue;
		}
		seen += function->rows[i / STEPS][i % STEPS];
		if (seen > rank || seen == function->calls) {
			uint64_t middle = histogram_middle(i, REPORT_BITS);

			return middle < function->max ? middle : function->max;
		}
	}
	return 0;
}

uint64_t report_in_power(const struct report_function *function, unsigned power)
{
	uint64_t from = 1ULL << power, count = 0;
	uint32_t first = power ? histogram_bucket(from, REPORT_BITS) : 0,
		 last = power == 63 ? REPORT_ROWS * STEPS - 1 :
				      histogram_bucket(2 * from - 1, REPORT_BITS);

	for (uint32_t i = first; i <= last; i++)
		count += function->rows[i / STEPS] ? function->rows[i / STEPS][i % STEPS] : 0;
	return count;
}
