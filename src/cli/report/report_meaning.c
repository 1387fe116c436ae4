/* report_meaning.c - the function and the duration that events of each type tell of. */
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "report_meaning.h"

static bool is_duration(const struct layout_place *place)
{
	return place->field->array == LAYOUT_ONE && place->field->size == 8 &&
	       !strcmp(place->field->name, "duration");
}

/* Finds out where the duration of an exit is. */
static void find_duration(const struct layout_event *type, struct meaning *meaning)
{
	static const uint8_t nothing[LAYOUT_EVENT_MAX];
	struct layout_walk walk = layout_walk_event(type, nothing);
	struct layout_place place;
	bool is_steady = true;

	while (layout_walk_next(&walk, &place)) {
		if (is_duration(&place)) {
			meaning->duration = place.field->name;
			meaning->duration_at =
				is_steady || type->is_fixed ? (size_t)(place.bytes - nothing) : 0;
			return;
		}
		is_steady &= place.field->size && place.field->array != LAYOUT_COUNTED;
	}
}

/* Several traces may have the function. */
static void add_fates(struct layout_fates *sum, const struct layout_fates *one)
{
	sum->missed += one->missed;
	sum->unwound += one->unwound;
	sum->inside += one->inside;
	sum->exits += one->exits;
}

struct error *report_meaning_find(struct report *report, struct trace_input *input)
{
	for (size_t i = 0; i < input->layout.events.count; i++) {
		struct layout_event *type = input->layout.events.items[i];
		struct meaning meaning = { 0 };

		if (!type)
			continue;
		_cleanup_free_ char *name = strndup(type->name, type->stem);
		if (type->part == LAYOUT_EXIT)
			find_duration(type, &meaning);
		meaning.function = name ? report_name(report, name) : REPORT_NONE;
		type->own = malloc(sizeof(meaning));
		if (meaning.function == REPORT_NONE || !type->own)
			return error_new(ERROR_FAILED, "out of memory");
		memcpy(type->own, &meaning, sizeof(meaning));
		if (type->part == LAYOUT_EXIT)
			report->functions.items[meaning.function].has_exit = true;
		report->functions.items[meaning.function].demoted.counted += type->demoted.counted;
		report->functions.items[meaning.function].demoted.off_ns += type->demoted.off_ns;
		if (type->part == LAYOUT_ENTRY && layout_ends_unseen(&type->fates))
			add_fates(&report->functions.items[meaning.function].fates, &type->fates);
	}
	return NULL;
}

void report_meaning_free(const struct own_traces *traces)
{
	for (size_t i = 0; i < traces->inputs.count; i++) {
		const struct trace_layout *layout = &traces->inputs.items[i]->layout;

		for (size_t j = 0; j < layout->events.count; j++)
			if (layout->events.items[j]) {
				free(layout->events.items[j]->own);
				layout->events.items[j]->own = NULL;
			}
	}
}

uint64_t report_meaning_duration(const struct packet_cursor *cursor, const struct meaning *meaning)
{
	struct layout_place place;
	uint64_t ns = 0;

	if (meaning->duration_at)
		memcpy(&ns, cursor->event + meaning->duration_at, sizeof(ns));
	else if (layout_find(cursor->type, cursor->event, meaning->duration, &place))
		ns = layout_number(place.field, place.bytes);
	return ns < INT64_MAX ? ns : INT64_MAX;
}
