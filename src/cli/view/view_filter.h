/*
 * view_filter.h - select events by an expression over their fields, in the language of --filter.
 *
 * Names are fields (with members and indices: req.path, numbers[2]), $name, $tid and $pid. A field
 * of an enumeration can be compared with a label (state == OPEN) or with its text. An event
 * without one of the fields isn't printed. If no event has them all, view_filter_error says so.
 */
#ifndef DYNTRACE_VIEW_FILTER_H
#define DYNTRACE_VIEW_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/error.h"

struct view_filter;

/* A field's value. */
enum filter_kind { FILTER_UNSIGNED, FILTER_SIGNED, FILTER_SINGLE, FILTER_DOUBLE, FILTER_TEXT };

struct filter_value {
	enum filter_kind kind;
	uint64_t number; /* the bits of a float */
	const char *text; /* of an enumeration: its label; NULL: it has none */
	bool is_enum;
};

/* The questions of a filter to an event: libbabeltrace2's, or one of our own reader. */
struct filter_source {
	/* The field of a path; false: none, or it has no single value. */
	bool (*find)(const void *event, const char *path, struct filter_value *ret_value);
	/* Is there a field of that path, with one value or several? */
	bool (*has)(const void *event, const char *path);
	/* The value of a label of any enumeration among the event's fields, in structs, too; or two
	 * values. Returns their number. */
	unsigned (*find_label)(const void *event, const char *name, int64_t *ret_value);
	const char *(*name)(const void *event);
	/* The name of a field of its payload, by index; NULL: none. */
	const char *(*field)(const void *event, size_t index);
	const void *(*class)(const void *event); /* events of one class have the same fields */
};

extern const struct filter_source view_filter_bt; /* events are bt_events */
extern const struct filter_source view_filter_own; /* events are struct packet_cursors */

struct layout_place;
/* view_filter_own.c: the place of a field by its path, of one of our own reader's events. False:
 * none, an array, or an element of one. */
bool view_filter_place(const void *event, const char *path, struct layout_place *ret_place);

/* NULL: out of memory. The text is borrowed. */
struct view_filter *view_filter_create(const char *text, const struct filter_source *source);
/* Creates a filter of an expression that is a value, not a condition. */
struct view_filter *view_filter_create_value(const char *text, const struct filter_source *source);
void view_filter_destroy(struct view_filter *filter);
bool view_filter_wants(struct view_filter *filter, const void *event);
/* Do events of this one's class have all the fields? */
bool view_filter_fits(struct view_filter *filter, const void *event);
/* The expression's value; false: the event lacks a field. Text is the event's. */
bool view_filter_value(struct view_filter *filter, const void *event,
		       struct filter_value *ret_value);
/* After the last event: why the filter fits no event class; NULL: it fits one, or no event came.
 * Caller frees. */
struct error *view_filter_error(struct view_filter *filter);

#endif
