/*
 * view_follow.c - read a growing trace again and again, each time from where it ended.
 *
 * The writer appends whole packets to files, and may leave an empty one behind the last, which it
 * overwrites. A round ends at the last packet with events or losses. Events of a round are in the
 * order of time; what a thread delivers later comes in a later round.
 */
#include "view_follow.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/lines/frames.h"
#include "view_select.h"
#include "view_tree.h"

#define ROUND_MS 100

/* How far a file was read. */
struct place {
	char *name;
	uint64_t at;
	struct cursor_before before;
};

struct follow {
	struct viewer *viewer;
	const char *path, *filter;
	VEC(struct place) places;
	bool is_placed; /* the times of the selection are known */
	struct view_tree *tree; /* NULL: one event per line */
};

static void free_places(struct follow *follow)
{
	for (size_t i = 0; i < follow->places.count; i++)
		free(follow->places.items[i].name);
	vec_free(&follow->places);
}

/* NULL: out of memory. */
static struct place *place_of(struct follow *follow, const char *name)
{
	for (size_t i = 0; i < follow->places.count; i++)
		if (!strcmp(follow->places.items[i].name, name))
			return &follow->places.items[i];
	struct place place = { .name = strdup(name), .before = { .is_none = true } };
	if (place.name && vec_push(&follow->places, place))
		return vec_last(&follow->places);
	free(place.name);
	return NULL;
}

/* Leaves out what was read, and what may change yet. */
static struct error *limit_files(struct follow *follow, struct trace_input *input)
{
	for (size_t i = 0; i < input->files.count; i++) {
		struct trace_file *file = &input->files.items[i];
		struct place *place = place_of(follow, file->name);

		if (!place)
			return error_new(ERROR_FAILED, "out of memory");
		file->from = place->at;
		file->before = place->before;
		file->size = file->solid > place->at ? file->solid : place->at;
		place->at = file->size;
		if (file->solid == file->size)
			place->before = file->after;
	}
	return NULL;
}

static struct error *place_selection(struct follow *follow, const struct trace_input *input)
{
	int64_t first = INT64_MAX;

	for (size_t i = 0; i < input->runs.count; i++) {
		int64_t ns = trace_layout_ns(&input->layout, input->runs.items[i].begin);

		first = ns < first ? ns : first;
	}
	if (follow->is_placed || first == INT64_MAX)
		return NULL;
	follow->is_placed = true;
	return view_select_place(follow->viewer->select, first);
}

/* Types and modules are those of one round's layout. */
static struct error *print_round(struct follow *follow, struct trace_input *input)
{
	struct viewer *viewer = follow->viewer;
	_cleanup_(trace_merge_free) struct trace_merge merge = { 0 };
	struct error *error = trace_merge_begin(&merge, &input, 1);

	if (!error && follow->filter &&
	    !(viewer->filter = view_filter_create(follow->filter, &view_filter_own)))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error)
		view_own_print(viewer, &merge, follow->tree);
	if (!error && viewer->filter)
		error = error_wrap(view_filter_error(viewer->filter), "--filter");
	view_filter_destroy(viewer->filter);
	viewer->filter = NULL;
	frames_free(viewer->line.frames);
	viewer->line.frames = NULL;
	viewer->trace = NULL;
	if (!viewer->write_error)
		viewer->write_error = view_reader_flush(viewer->reader, &viewer->line.text);
	return error;
}

static void input_freep(struct trace_input **input)
{
	trace_input_free(*input);
}

/* `is_last`: nothing is written any more, so whatever is wrong stays wrong. */
static struct error *read_round(struct follow *follow, bool is_last)
{
	_cleanup_(input_freep) struct trace_input *input = NULL;
	struct error *error = trace_input_open(follow->path, &input);

	if (error && !is_last) {
		error_free(error);
		return NULL;
	}
	if (error)
		return error_new(ERROR_FAILED, "cannot follow: this is not a whole trace of dyntrace's");
	error = place_selection(follow, input);
	if (!error)
		error = limit_files(follow, input);
	return error ? error : print_round(follow, input);
}

struct error *view_follow_run(const char *path, const char *filter, struct viewer *viewer)
{
	_cleanup_(view_tree_freep) struct view_tree *tree = NULL;
	_cleanup_(free_places) struct follow follow = { .viewer = viewer, .path = path,
							.filter = filter };
	struct timespec nap = { .tv_nsec = ROUND_MS * 1000 * 1000 };
	struct traces found = { 0 };
	struct error *error = view_traces_find(path, &found);

	if (!error)
		error = view_reader_begin(viewer->reader, found.size, found.metadata);
	view_traces_free(&found);
	if (!error && viewer->tree == TREE_ALWAYS &&
	    !(follow.tree = tree = view_tree_create(viewer, viewer->all_arguments)))
		error = error_new(ERROR_FAILED, "out of memory");
	for (bool is_last = false; !error && !is_last && !viewer->write_error;) {
		is_last = view_reader_is_over(viewer->reader);
		error = read_round(&follow, is_last);
		if (viewer->is_damaged || viewer->select->shown >= viewer->select->most)
			break;
		view_reader_note(viewer->reader, false, &viewer->line.text); /* still alive */
		if (!is_last)
			clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	}
	if (!error && viewer->is_damaged)
		error = view_reader_damaged(viewer->reader, path, "stumbled");
	return error;
}
