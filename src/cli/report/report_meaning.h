/*
 * report_meaning.h - the meaning of a type of events: whose call they tell of, and its duration.
 */
#ifndef DYNTRACE_REPORT_MEANING_H
#define DYNTRACE_REPORT_MEANING_H

#include "report.h"

/* The function that the events of a type belong to, and the duration of an exit's call. */
struct meaning {
	uint32_t function;
	const char *duration; /* the field's name */
	size_t duration_at; /* its offset in every event; 0: it varies */
};

/* Gives each type of an event of the trace its meaning (layout_event.own), and the report the
 * functions. */
struct error *report_meaning_find(struct report *report, struct trace_input *input);
/* Takes the meanings of all types away. */
void report_meaning_free(const struct own_traces *traces);
/* The duration of the call that the cursor's exit ends. */
uint64_t report_meaning_duration(const struct packet_cursor *cursor, const struct meaning *meaning);

#endif
