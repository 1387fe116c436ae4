/*
 * report_stats.c - functions by name.
 */
#include <stdlib.h>
#include <string.h>

#include "shared/layout.h"
#include "report.h"

void report_free(struct report *report)
{
	for (size_t i = 0; i < report->functions.count; i++) {
		struct report_function *function = &report->functions.items[i];

		distribution_free(&function->durations);
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
