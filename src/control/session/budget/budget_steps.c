/*
 * budget_steps.c - steps of the budget as events of the trace: dyntrace:overhead, with the
 * tracepoint's name, its new level, the hits that were only counted so far, and the share of CPU
 * time that tracing took before the step.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "budget_state.h"
#include "control/base/cleanup.h"
#include "control/session/recording.h"
#include "control/session/types.h"
#include "control/tracers/count/demotion.h"

struct step_event {
	uint64_t header;
	uint32_t tracepoint, level;
	uint64_t counted;
	double overhead; /* percent */
};
#define STEP_WORDS (sizeof(struct step_event) / 8)
#define AT(field) ((uint16_t)offsetof(struct step_event, field))

static const char *const levels[] = { [SWITCH_ON] = "recorded",
				      [SWITCH_COUNTED] = "counted",
				      [SWITCH_OFF] = "off" };

enum { STEP_TRACEPOINT, STEP_LEVEL, STEP_FIELDS = 4 };

static bool add_label(struct event_field *field, int64_t value, const char *name)
{
	struct field_label *labels =
		reallocarray(field->labels, field->label_count + 1, sizeof(*labels));
	char *copy = labels ? strdup(name) : NULL;

	if (labels)
		field->labels = labels;
	if (!copy)
		return false;
	labels[field->label_count++] = (struct field_label){ value, copy };
	return true;
}

/* Makes the events' type, before the first of them: an enumeration without names is no CTF. */
static struct error *declare(struct session *session, struct budget *budget)
{
	static const struct event_field fields[STEP_FIELDS] = {
		{ .name = "tracepoint", .type = FIELD_ENUM, .size = 4, .offset = AT(tracepoint) },
		{ .name = "level", .type = FIELD_ENUM, .size = 4, .offset = AT(level) },
		{ .name = "counted", .type = FIELD_UINT, .size = 8, .offset = AT(counted) },
		{ .name = "overhead", .type = FIELD_FLOAT, .size = 8, .offset = AT(overhead) },
	};
	struct event_type type = { .size = sizeof(struct step_event),
				   .name = strdup("dyntrace:overhead"),
				   .fields = calloc(STEP_FIELDS, sizeof(*fields)),
				   .field_count = STEP_FIELDS };
	bool done = type.name && type.fields;

	if (done)
		memcpy(type.fields, fields, sizeof(fields));
	for (size_t i = 0; i < 3 && done; i++)
		done = add_label(&type.fields[STEP_LEVEL], (int64_t)i, levels[i]);
	if (!done) {
		event_fields_free(type.fields, type.fields ? STEP_FIELDS : 0);
		free(type.name);
		return error_new(ERROR_FAILED, "out of memory");
	}
	struct error *error = types_add(session, &type);
	if (!error)
		budget->type = (uint32_t)session->types->count - 1;
	return error;
}

/* Gives the tracepoint a name in the enumeration, whose values are ids of events. */
static bool name_tracepoint(struct session *session, const struct budget *budget,
			    struct tracepoint *tracepoint)
{
	struct event_type *type = &session->types->items[budget->type];

	if (tracepoint->demotion->is_named)
		return true;
	tracepoint->demotion->is_named = true;
	session->types_announced = false;
	return add_label(&type->fields[STEP_TRACEPOINT], tracepoint->probe.event.id,
			 tracepoint->name);
}

struct error *budget_steps_write(struct session *session, struct budget *budget)
{
	size_t count = budget->steps.count;
	_cleanup_free_ struct step_event *events = calloc(count + 1, sizeof(*events));
	struct error *error = NULL;

	budget->steps.count = 0;
	if (!count || !session->writer || !session->reader)
		return NULL;
	if (!budget->type)
		error = declare(session, budget);
	if (error)
		return error;
	bool done = events != NULL;
	for (size_t i = 0; i < count && done; i++) {
		const struct tracepoint_step *step = &budget->steps.items[i];

		done = name_tracepoint(session, budget, step->tracepoint);
		events[i] = (struct step_event){
			.header = budget->type,
			.tracepoint = step->tracepoint->probe.event.id,
			.level = step->to,
			.counted = demotion_hits(session, step->tracepoint),
			.overhead = session->overhead * 100,
		};
	}
	if (!done)
		return error_new(ERROR_FAILED, "out of memory");
	error = recording_announce(session);
	return error ? error :
		       reader_write_own(session->reader, (uint32_t)session->proc->pid,
					(uint32_t)session->proc->inner_pid, (uint64_t *)events,
					STEP_WORDS, count);
}
