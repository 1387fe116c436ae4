/*
 * view_graph.c - the babeltrace2 graph that reads a trace: one source.ctf.fs per directory with a
 * metadata file, a muxer that orders their messages by time, and a sink of our own.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "view.h"
#include "view_traces.h"

/* ---- errors of libbabeltrace2 -------------------------------------------------------------- */

/* Reports libbabeltrace2's first cause, which knows most. */
static struct error *trace_error(const char *path)
{
	const bt_error *causes = bt_current_thread_take_error();
	struct error *error;

	if (causes && bt_error_get_cause_count(causes)) {
		const char *text =
			bt_error_cause_get_message(bt_error_borrow_cause_by_index(causes, 0));

		error = error_new(
			ERROR_FAILED,
			"cannot read the trace '%s': %.*s ('babeltrace2 %s' may show more)", path,
			(int)strcspn(text, "\n"), text, path);
	} else {
		error = error_new(ERROR_FAILED, "cannot read the trace '%s'", path);
	}
	if (causes)
		bt_error_release(causes);
	return error;
}

#define GLIB_CRITICAL (1 << 3)

/* GLib says so when the library goes on after a mistake, for instance without the elements of an
 * array that was too large: what it reads from there on isn't the trace. */
static void note_mistake(const char *domain, int level, const char *message, void *data)
{
	struct viewer *viewer = data;

	viewer->is_damaged |= level & GLIB_CRITICAL;
}

/* By name: the headers of GLib aren't needed to build with libbabeltrace2. */
static void note_mistakes(struct viewer *viewer)
{
	void *(*set_handler)(void (*)(const char *, int, const char *, void *), void *);

	*(void **)&set_handler = dlsym(RTLD_DEFAULT, "g_log_set_default_handler");
	if (set_handler)
		set_handler(note_mistake, viewer);
}

/* ---- sink ---------------------------------------------------------------------------------- */

static void print_batch(struct viewer *viewer, bt_message_array_const messages, uint64_t count)
{
	for (uint64_t i = 0; i < count; i++) {
		bool is_event = bt_message_get_type(messages[i]) == BT_MESSAGE_TYPE_EVENT;

		view_line_message(viewer, messages[i]);
		bt_message_put_ref(messages[i]);
		if (viewer->line.text.length >= VIEW_READER_KEPT_MAX && !viewer->write_error)
			viewer->write_error = view_reader_flush(viewer->reader, &viewer->line.text);
		view_reader_note(viewer->reader, is_event, &viewer->line.text);
	}
}

static bt_graph_simple_sink_component_consume_func_status consume(bt_message_iterator *iterator,
								  void *data)
{
	struct viewer *viewer = data;
	bt_message_array_const messages;
	uint64_t count;
	bt_message_iterator_next_status status =
		bt_message_iterator_next(iterator, &messages, &count);

	if (status != BT_MESSAGE_ITERATOR_NEXT_STATUS_OK)
		return (bt_graph_simple_sink_component_consume_func_status)
			status; /* the same numbers */
	print_batch(viewer, messages, count);
	return viewer->write_error || viewer->is_damaged ?
		       BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_END :
		       BT_GRAPH_SIMPLE_SINK_COMPONENT_CONSUME_FUNC_STATUS_OK;
}

/* ---- graph --------------------------------------------------------------------------------- */

struct graph {
	bt_graph *graph;
	const bt_plugin *ctf, *utils;
	const bt_component_filter *muxer;
};

static void graph_clear(struct graph *graph)
{
	bt_graph_put_ref(graph->graph);
	bt_plugin_put_ref(graph->ctf);
	bt_plugin_put_ref(graph->utils);
}

static struct error *load_plugin(const char *name, const bt_plugin **ret_plugin)
{
	if (bt_plugin_find(name, BT_TRUE, BT_TRUE, BT_TRUE, BT_TRUE, BT_FALSE, ret_plugin) ==
	    BT_PLUGIN_FIND_STATUS_OK)
		return NULL;
	return error_new(
		ERROR_FAILED,
		"babeltrace2's plugin '%s' is missing (install all of libbabeltrace2)", name);
}

static void value_put(bt_value **value)
{
	bt_value_put_ref(*value);
}

/* Parameters of source.ctf.fs: { inputs = [ path ] }. */
static bool make_parameters(const char *path, bt_value **ret_map)
{
	bt_value *map = bt_value_map_create(), *inputs = NULL;

	*ret_map = map;
	return map && !bt_value_map_insert_empty_array_entry(map, "inputs", &inputs) &&
	       !bt_value_array_append_string_element(inputs, path);
}

/* The muxer grows a free input port whenever its last one is taken. */
static bool connect_source(struct graph *graph, const bt_component_source *source)
{
	for (uint64_t i = 0; i < bt_component_source_get_output_port_count(source); i++) {
		uint64_t last = bt_component_filter_get_input_port_count(graph->muxer) - 1;

		if (bt_graph_connect_ports(
			    graph->graph,
			    bt_component_source_borrow_output_port_by_index_const(source, i),
			    bt_component_filter_borrow_input_port_by_index_const(graph->muxer,
										 last),
			    NULL))
			return false;
	}
	return true;
}

static struct error *add_source(struct graph *graph, const char *path, size_t number)
{
	const bt_component_class_source *class =
		bt_plugin_borrow_source_component_class_by_name_const(graph->ctf, "fs");
	_cleanup_(value_put) bt_value *parameters = NULL;
	const bt_component_source *source;
	char name[32];

	snprintf(name, sizeof(name), "trace%zu", number);
	if (!class || !make_parameters(path, &parameters) ||
	    bt_graph_add_source_component(graph->graph, class, name, parameters,
					  BT_LOGGING_LEVEL_NONE, &source) ||
	    !connect_source(graph, source))
		return trace_error(path);
	return NULL;
}

static struct error *add_muxer_and_sink(struct graph *graph, struct viewer *viewer)
{
	const bt_component_class_filter *class =
		bt_plugin_borrow_filter_component_class_by_name_const(graph->utils, "muxer");
	const bt_component_sink *sink;

	if (!class ||
	    bt_graph_add_filter_component(graph->graph, class, "muxer", NULL, BT_LOGGING_LEVEL_NONE,
					  &graph->muxer) ||
	    bt_graph_add_simple_sink_component(graph->graph, "print", NULL, consume, NULL, viewer,
					       &sink) ||
	    bt_graph_connect_ports(
		    graph->graph,
		    bt_component_filter_borrow_output_port_by_index_const(graph->muxer, 0),
		    bt_component_sink_borrow_input_port_by_index_const(sink, 0), NULL))
		return error_new(ERROR_FAILED, "cannot set up babeltrace2's graph");
	return NULL;
}

/* Loads libbabeltrace2's plugins, which a reader without rights couldn't. */
static struct error *graph_build(struct graph *graph, struct viewer *viewer)
{
	struct error *error = load_plugin("ctf", &graph->ctf);

	note_mistakes(viewer);
	if (!error)
		error = load_plugin("utils", &graph->utils);
	if (error)
		return error;
	graph->graph = bt_graph_create(0);
	if (!graph->graph)
		return error_new(ERROR_FAILED, "out of memory");
	return add_muxer_and_sink(graph, viewer);
}

struct error *view_graph_run(const char *path, struct viewer *viewer)
{
	_cleanup_(graph_clear) struct graph graph = { 0 };
	_cleanup_(view_traces_free) struct traces traces = { 0 };
	struct error *error = view_traces_find(path, &traces);

	if (!error)
		error = graph_build(&graph, viewer);
	if (!error)
		error = view_reader_begin(viewer->reader, traces.size, traces.metadata);
	for (size_t i = 0; i < traces.paths.count && !error; i++)
		error = add_source(&graph, traces.paths.items[i], i);
	if (error)
		return error;
	if (bt_graph_run(graph.graph) != BT_GRAPH_RUN_STATUS_OK)
		return trace_error(path);
	return viewer->is_damaged ? view_reader_damaged(viewer->reader, path, "stumbled") : NULL;
}
