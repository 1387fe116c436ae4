#include "view_own.h"

#include <string.h>

#include "control/base/cleanup.h"
#include "view_filter.h"
#include "control/lines/frames.h"
#include "view_select.h"
#include "view_tree.h"

void view_own_close(struct own_traces *traces)
{
	for (size_t i = 0; i < traces->inputs.count; i++)
		trace_input_free(traces->inputs.items[i]);
	vec_free(&traces->inputs);
	view_traces_free(&traces->found);
}

/* Two copies of one trace: libbabeltrace2 knows an order for their events. */
static bool has_copies(const struct own_traces *traces)
{
	for (size_t i = 0; i < traces->inputs.count; i++)
		for (size_t j = 0; j < i; j++)
			if (!memcmp(traces->inputs.items[i]->layout.uuid,
				    traces->inputs.items[j]->layout.uuid, 16))
				return true;
	return false;
}

static struct error *open_all(const char *path, struct own_traces *traces)
{
	for (size_t i = 0; i < traces->found.paths.count; i++) {
		struct trace_input *input;
		_cleanup_error_ struct error *why =
			trace_input_open(traces->found.paths.items[i], &input);

		if (why)
			return error_new(ERROR_REFUSED, "%s", error_text(why));
		if (!vec_push(&traces->inputs, input)) {
			trace_input_free(input);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	if (has_copies(traces))
		return error_new(ERROR_REFUSED, "%s: there are two copies of one trace", path);
	return NULL;
}

struct error *view_own_open(const char *path, const char *other, struct view_reader *reader,
			    struct own_traces *ret_traces, struct own_traces *ret_others)
{
	_cleanup_(view_own_close) struct own_traces traces = { 0 }, others = { 0 };
	struct error *error = view_traces_find(path, &traces.found);

	if (!error && other)
		error = view_traces_find(other, &others.found);
	if (!error)
		error = view_reader_begin(reader, traces.found.size + others.found.size,
					  traces.found.metadata + others.found.metadata);
	if (!error)
		error = open_all(path, &traces);
	if (!error && other)
		error = open_all(other, &others);
	if (error)
		return error;
	*ret_traces = traces;
	traces = (struct own_traces){ 0 };
	if (other) {
		*ret_others = others;
		others = (struct own_traces){ 0 };
	}
	return NULL;
}

void view_own_end(struct viewer *viewer)
{
	strbuf_free(&viewer->line.text);
	frames_free(viewer->line.frames);
	viewer->line.frames = NULL;
}

/* The first event's time, and the others' of that day. */
static int64_t first_time(const struct own_traces *traces)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < traces->inputs.count; i++) {
		const struct trace_input *input = traces->inputs.items[i];

		for (size_t j = 0; j < input->runs.count; j++) {
			int64_t ns = trace_layout_ns(&input->layout, input->runs.items[j].begin);

			first = ns < first ? ns : first;
		}
	}
	return first == INT64_MAX ? 0 : first;
}

static bool is_wanted(const struct viewer *viewer, const struct trace_stream *stream)
{
	const struct packet_cursor *cursor = &stream->cursor;

	if (viewer->select && !view_select_wants(viewer->select, stream->ns, cursor->head.tid,
						 cursor->head.pid))
		return false;
	return stream->item != CURSOR_EVENT || !viewer->filter ||
	       view_filter_wants(viewer->filter, cursor);
}

/* Appends the lines of an event or a loss. */
static void print_one(struct viewer *viewer, struct view_tree *tree, struct trace_stream *stream)
{
	bool is_shown = is_wanted(viewer, stream);
	unsigned lines = 0;

	if (tree) {
		lines = view_tree_take(tree, stream, is_shown);
	} else if (is_shown) {
		view_own_line(viewer, stream);
		lines = 1;
	}
	if (viewer->select)
		viewer->select->shown += lines;
}

bool view_own_print(struct viewer *viewer, struct trace_merge *merge, struct view_tree *tree)
{
	for (struct trace_stream *stream; (stream = trace_merge_next(merge));) {
		if (stream->item == CURSOR_DAMAGED)
			viewer->is_damaged = true;
		if (viewer->is_damaged ||
		    (viewer->select && view_select_is_done(viewer->select, stream->ns)))
			return false;
		print_one(viewer, tree, stream);
		if (viewer->line.text.length >= VIEW_READER_KEPT_MAX)
			viewer->write_error = view_reader_flush(viewer->reader, &viewer->line.text);
		view_reader_note(viewer->reader, stream->item == CURSOR_EVENT, &viewer->line.text);
		viewer->done += stream->item == CURSOR_EVENT ? stream->cursor.size : 0;
		view_reader_progress(viewer->reader, viewer->done, viewer->whole);
		if (viewer->write_error)
			return false;
	}
	return true;
}

struct error *view_own_run(const char *path, struct viewer *viewer)
{
	_cleanup_(view_own_close) struct own_traces traces = { 0 };
	_cleanup_(trace_merge_free) struct trace_merge merge = { 0 };
	struct error *error = view_own_open(path, NULL, viewer->reader, &traces, NULL);

	if (!error)
		error = trace_merge_begin(&merge, traces.inputs.items, traces.inputs.count);
	if (!error && viewer->select)
		error = view_select_place(viewer->select, first_time(&traces));
	if (error)
		return error;
	_cleanup_(view_tree_freep) struct view_tree *tree = NULL;
	if ((viewer->tree == TREE_ALWAYS ||
	     (viewer->tree == TREE_IF_EXITS && view_tree_has_exits(&traces))) &&
	    !(tree = view_tree_create(viewer, viewer->all_arguments)))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < traces.inputs.count; i++)
		viewer->whole += traces.inputs.items[i]->size;
	if (view_own_print(viewer, &merge, tree) && tree)
		view_tree_end(tree);
	return viewer->is_damaged ? view_reader_damaged(viewer->reader, path, "stumbled") : NULL;
}
