/*
 * ust_events.h - LTTng-UST's static tracepoints, as its headers leave them in a file.
 *
 * A provider of events describes itself in read-only data: a record with its name, and one record
 * per event, which points back to the provider's. Nothing else names them in a stripped file, so
 * the data is searched for such pairs. Only files that register providers are searched. This is the
 * binary interface of lttng-ust 2.13 and later (liblttng-ust.so.1).
 *
 * Records are hostile input. Addresses are the file's own.
 */
#ifndef DYNTRACE_UST_EVENTS_H
#define DYNTRACE_UST_EVENTS_H

#include "symtab.h"

struct ust_event {
	char *provider, *name;
	char *arguments; /* types and names, as the provider's source has them; "": none */
	uint64_t address; /* of the function that records it */
	int level; /* of LTTng: 0 to 14 */
};

struct ust_events {
	struct ust_event *items; /* by provider and name */
	size_t count;
	size_t room;
};

/* All static tracepoints of the file's providers. The caller frees. */
struct error *ust_events_read(const struct symtab *symtab, struct ust_events *ret_events);
void ust_events_free(struct ust_events *events);

#endif
