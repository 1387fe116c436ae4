/*
 * view.h - the parts of dyntrace view.
 *
 * cmd_view.c is the command, which starts a reader (view_reader.h). There view_own.c reads a trace
 * of our own. Any other is for a second reader, in which view_graph.c reads it with libbabeltrace2.
 * view_own_line.c walks events of the one, view_line.c and view_field.c of the other: what a line
 * looks like is control/lines/event_line.h's. view_loss.c formats losses; view_filter.c selects
 * events. libbabeltrace2 calls back from its graph, so struct viewer keeps errors until the end.
 */
#ifndef DYNTRACE_VIEW_H
#define DYNTRACE_VIEW_H

#include <babeltrace2/babeltrace.h>
#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/lines/event_line.h"
#include "view_reader.h"

/* Indices of thread and process in a stream class's packet context; -1: absent. */
struct who_index {
	const bt_stream_class *stream_class;
	int tid, pid, process;
};

struct viewer {
	struct view_reader *reader; /* the parent's eyes */
	struct event_line line; /* and lines not written yet */
	int write_error; /* errno of a failed write; 0: none */
	bool is_damaged; /* libbabeltrace2 made a mistake, after which nothing is certain */
	struct who_index who;
	const void *trace; /* of line.frames */
	struct view_filter *filter; /* NULL: print every event */
	struct view_select *select; /* NULL: all; never so for libbabeltrace2's reader */
	bool is_placed; /* view_select_place was called, by libbabeltrace2's reader */
	struct error *select_error;
	enum { TREE_NEVER, TREE_ALWAYS, TREE_IF_EXITS } tree;
	bool all_arguments; /* in a tree */
	uint64_t done, whole; /* bytes of events that were read, and of the traces */
	bool named_only; /* leave arguments without debug information out of lists of fields */
};

/* Reads the traces in and below a directory and prints each message. */
struct error *view_graph_run(const char *path, struct viewer *viewer);

/* Appends the line of a message: an event or a loss. */
void view_line_message(struct viewer *viewer, const bt_message *message);

/* Gives the wall-clock time of a snapshot; false: unknown. */
bool view_line_ns(const bt_clock_snapshot *snapshot, int64_t *ret_ns);

/* Append the line of a loss. */
void view_loss_line(struct viewer *viewer, const char *what, uint64_t count, int64_t begin,
		    int64_t end);
void view_loss_events(struct viewer *viewer, const bt_message *message);
void view_loss_packets(struct viewer *viewer, const bt_message *message);

/* Appends the field's value. */
void view_field_value(struct viewer *viewer, const bt_field *field);
/* Appends a structure's members. */
void view_field_members(struct viewer *viewer, const bt_field *structure);

#endif
