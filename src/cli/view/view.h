/*
 * view.h - the parts of dyntrace view.
 *
 * cmd_view.c is the command, view_graph.c reads the trace with libbabeltrace2, view_line.c makes a line
 * of each event, view_loss.c of each loss, view_field.c the text of a field. libbabeltrace2 calls
 * back from its graph, so what goes wrong there is kept in the viewer and taken at the end.
 */
#ifndef DYNTRACE_VIEW_H
#define DYNTRACE_VIEW_H

#include <babeltrace2/babeltrace.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "control/base/error.h"
#include "control/base/strbuf.h"

struct colours {
	const char *time, *name, *key, *loss, *off; /* "" where there are none */
};

/* Where the members that say who ran are in a stream class's packet context; -1: not there. */
struct who_index {
	const bt_stream_class *stream_class;
	int tid, pid;
};

struct viewer {
	bool json;
	struct colours colours;
	struct strbuf text; /* lines not written yet */
	int write_error; /* errno of a failed write; 0: none */
	bool has_last;
	int64_t last_ns; /* of the event before */
	time_t second; /* the one that `clock` is the text of */
	char clock[32];
	struct who_index who;
	const bt_trace *trace; /* that `frames` is of */
	struct frames *frames;
	uint64_t cycles; /* the clock of the event at hand */
	struct view_filter *filter; /* NULL: every event is printed */
};

/* Reads the traces in and below a directory and gives each message to the viewer. */
struct error *view_graph_run(const char *path, struct viewer *viewer);

/* Adds the line of a message, if it has one. */
void view_line_message(struct viewer *viewer, const bt_message *message);

/* Adds a time: of day for people, with its date for programs. */
void view_line_time(struct viewer *viewer, int64_t ns);
/* Wall-clock time of a snapshot; false: it can't be told. */
bool view_line_ns(const bt_clock_snapshot *snapshot, int64_t *ret_ns);

/* Adds the line of a message that says what was lost. */
void view_loss_events(struct viewer *viewer, const bt_message *message);
void view_loss_packets(struct viewer *viewer, const bt_message *message);

/* Adds the field's value. */
void view_field_value(struct viewer *viewer, const bt_field *field);
/* Adds a structure's members, separated by commas. `any`, also returned: there are some before. */
bool view_field_members(struct viewer *viewer, const bt_field *structure, bool any);

#endif
