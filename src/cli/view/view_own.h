/*
 * view_own.h - traces of our own, by our own reader (control/ctf/read).
 *
 * view_own.c reads the traces and gives each event, in the order of time, to a function;
 * view_own_line.c walks an event, for event_line.h, as view_line.c walks one of libbabeltrace2's.
 */
#ifndef DYNTRACE_VIEW_OWN_H
#define DYNTRACE_VIEW_OWN_H

#include "control/ctf/read/trace_merge.h"
#include "view.h"
#include "view_traces.h"

/* Traces that were opened. */
struct own_traces {
	struct traces found;
	VEC(struct trace_input *) inputs;
};

/* Finds the traces, gives up all rights, and opens them. ERROR_REFUSED: one of them isn't ours, or
 * isn't whole. `other`: a second place to look for traces; NULL: none. */
struct error *view_own_open(const char *path, const char *other, struct view_reader *reader,
			    struct own_traces *ret_traces, struct own_traces *ret_others);
void view_own_close(struct own_traces *traces);

struct view_tree;

/* Prints the events of a merge, one per line, or as `tree` has them. */
bool view_own_print(struct viewer *viewer, struct trace_merge *merge, struct view_tree *tree);
/* Prints all events. */
struct error *view_own_run(const char *path, struct viewer *viewer);

/* Appends the line of an event or a loss. */
void view_own_line(struct viewer *viewer, struct trace_stream *stream);
/* Appends the value of a field, all its elements. `event` is the event's first byte. */
void view_own_value(struct viewer *viewer, const struct layout_place *place, const uint8_t *event);
/* The process's name: the packet's, without one the trace's; NULL: none. `name` is room for it. */
const char *view_own_process(const struct trace_stream *stream, char name[WRITER_PROCESS_SIZE + 1]);
/* Appends the event's fields alone, separated by commas. */
void view_own_fields(struct viewer *viewer, const struct layout_event *type, const uint8_t *event);
/* Is it a field without information? */
bool view_own_is_silent(const struct layout_place *place);
/* Is it an argument without debug information, which is any register's value? */
bool view_own_is_unnamed(const struct layout_place *place);
/* Names of functions for backtraces: reads the modules of the trace anew if it is another one. */
void view_own_modules(struct viewer *viewer, const struct trace_layout *layout);

/* Frees what a viewer without a graph holds. */
void view_own_end(struct viewer *viewer);

#endif
