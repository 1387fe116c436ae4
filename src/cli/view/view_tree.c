#include "view_tree.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "shared/sorted.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "control/lines/frames.h"

#define TIME_WIDTH 10
#define INDENT_MAX 60
#define DEPTH_MAX (1u << 20)

struct tree_call {
	const char *name; /* of the tree's names */
	bool ends_unseen; /* (O10) of report.h */
	bool is_shown;
	enum layout_fate fate, fate_at_end; /* if it has no exit */
};

struct tree_thread {
	uint32_t pid, tid;
	VEC(struct tree_call) stack; /* open calls */
	struct gap_watch watch;
	const struct trace_input *input; /* of its last event */
	bool is_leaf; /* its exit, the next event, was printed with its entry */
};

struct view_tree {
	struct viewer *viewer;
	bool all_arguments;
	VEC(struct tree_thread *) threads; /* by process and thread */
	VEC(char *) names; /* of functions, sorted: they outlive the types of a round of view -f */
	uint32_t pid; /* of the last line */
	bool has_pid;
};

struct view_tree *view_tree_create(struct viewer *viewer, bool all_arguments)
{
	struct view_tree *tree = calloc(1, sizeof(*tree));

	if (tree) {
		tree->viewer = viewer;
		tree->all_arguments = all_arguments;
		viewer->line.has_fields = true; /* no line has braces around its values */
	}
	return tree;
}

void view_tree_free(struct view_tree *tree)
{
	if (!tree)
		return;
	for (size_t i = 0; i < tree->threads.count; i++) {
		vec_free(&tree->threads.items[i]->stack);
		free(tree->threads.items[i]);
	}
	vec_free(&tree->threads);
	for (size_t i = 0; i < tree->names.count; i++)
		free(tree->names.items[i]);
	vec_free(&tree->names);
	free(tree);
}

bool view_tree_has_exits(const struct own_traces *traces)
{
	for (size_t i = 0; i < traces->inputs.count; i++) {
		const struct trace_layout *layout = &traces->inputs.items[i]->layout;

		for (size_t j = 0; j < layout->events.count; j++) {
			const struct layout_event *type = layout->events.items[j];

			if (type && type->part == LAYOUT_EXIT)
				return true;
		}
	}
	return false;
}

/* ---- threads -------------------------------------------------------------------------------- */

static bool is_before(const struct tree_thread *thread, uint32_t pid, uint32_t tid)
{
	return thread->pid != pid ? thread->pid < pid : thread->tid < tid;
}

static struct tree_thread *find_thread(struct view_tree *tree, uint32_t pid, uint32_t tid)
{
	size_t at = sorted_count(tree->threads.count, i,
				 is_before(tree->threads.items[i], pid, tid));

	if (at < tree->threads.count && tree->threads.items[at]->pid == pid &&
	    tree->threads.items[at]->tid == tid)
		return tree->threads.items[at];
	struct tree_thread *thread = calloc(1, sizeof(*thread));
	if (!thread || !vec_push(&tree->threads, NULL)) {
		free(thread);
		return NULL;
	}
	*thread = (struct tree_thread){ .pid = pid, .tid = tid };
	memmove(&tree->threads.items[at + 1], &tree->threads.items[at],
		(tree->threads.count - 1 - at) * sizeof(thread));
	return tree->threads.items[at] = thread;
}

/* ---- names ---------------------------------------------------------------------------------- */

static int compare_name(const char *name, const struct layout_event *type)
{
	int order = strncmp(name, type->name, type->stem);

	return order ? order : name[type->stem] != '\0';
}

/* The function of an event, which stays as long as the tree; NULL: out of memory. */
static const char *name_of(struct view_tree *tree, const struct layout_event *type)
{
	size_t at = sorted_count(tree->names.count, i,
				 compare_name(tree->names.items[i], type) < 0);

	if (at < tree->names.count && !compare_name(tree->names.items[at], type))
		return tree->names.items[at];
	char *name = strndup(type->name, type->stem);
	if (!name || !vec_push(&tree->names, NULL)) {
		free(name);
		return NULL;
	}
	memmove(&tree->names.items[at + 1], &tree->names.items[at],
		(tree->names.count - 1 - at) * sizeof(name));
	return tree->names.items[at] = name;
}

/* ---- lines ---------------------------------------------------------------------------------- */

/* The process, where another one's line was before. */
static unsigned add_process(struct view_tree *tree, uint32_t pid, const char *name)
{
	if (tree->has_pid && tree->pid == pid)
		return 0;
	tree->has_pid = true;
	tree->pid = pid;
	quote_format(&tree->viewer->line.text, "# %s (pid %u)\n", name ? name : "process", pid);
	return 1;
}

static void add_head(struct view_tree *tree, const struct tree_thread *thread, bool is_ended,
		     uint64_t duration, size_t depth)
{
	struct viewer *viewer = tree->viewer;
	char time[TIME_TEXT] = "";

	if (is_ended)
		time_text(duration, time);
	text_own(&viewer->line.text, viewer->line.colours.time);
	quote_format(&viewer->line.text, "%*s [%u] ", TIME_WIDTH, time, thread->tid);
	text_own(&viewer->line.text, viewer->line.colours.off);
	text_add(&viewer->line.text, "| ");
	for (size_t i = 0; i < depth && i < INDENT_MAX; i++)
		text_add(&viewer->line.text, "  ");
}

static void add_name(struct view_tree *tree, const char *name, size_t length)
{
	text_own(&tree->viewer->line.text, tree->viewer->line.colours.name);
	quote_plain(&tree->viewer->line.text, name, length);
	text_own(&tree->viewer->line.text, tree->viewer->line.colours.off);
}

static void add_arguments(struct view_tree *tree, const struct layout_event *type,
			  const uint8_t *event)
{
	struct layout_walk walk = layout_walk_event(type, event);
	struct strbuf *text = &tree->viewer->line.text;
	struct layout_place place;
	bool any = false;

	while (layout_walk_next(&walk, &place)) {
		if (view_own_is_silent(&place) || place.field->role == LAYOUT_BACKTRACE ||
		    (view_own_is_unnamed(&place) && !tree->all_arguments))
			continue;
		text_add(text, any ? ", " : "");
		text_own(text, tree->viewer->line.colours.key);
		text_foreign(text, place.field->name);
		text_own(text, tree->viewer->line.colours.off);
		text_add(text, " = ");
		view_own_value(tree->viewer, &place, event);
		any = true;
	}
}

/* Appends a line per frame of a backtrace. */
static unsigned add_backtrace(struct view_tree *tree, const struct tree_thread *thread,
			      const struct layout_event *type, const uint8_t *event, size_t depth)
{
	struct layout_walk walk = layout_walk_event(type, event);
	struct layout_place place;
	unsigned lines = 0;

	while (layout_walk_next(&walk, &place)) {
		if (place.field->role != LAYOUT_BACKTRACE)
			continue;
		for (uint32_t i = 0; i < place.count; i++) {
			uint64_t address = layout_number(place.field, place.bytes + (size_t)i * 8);

			add_head(tree, thread, false, 0, depth + 2);
			text_add(&tree->viewer->line.text, "at ");
			frames_print(tree->viewer->line.frames, address,
				     &tree->viewer->line.event, i > 0, &tree->viewer->line.text);
			text_add(&tree->viewer->line.text, "\n");
			lines++;
		}
	}
	return lines;
}

/* Appends " = RESULT", where there is one. */
static void add_result(struct view_tree *tree, const struct layout_event *type,
		       const uint8_t *event)
{
	struct layout_place place;

	if (!layout_find(type, event, "ret", &place))
		return;
	text_add(&tree->viewer->line.text, " = ");
	view_own_value(tree->viewer, &place, event);
}

static uint64_t duration_of(const struct layout_event *type, const uint8_t *event)
{
	struct layout_place place;

	return layout_find(type, event, "duration", &place) ?
		       layout_number(place.field, place.bytes) :
		       0;
}

/* ---- calls without an exit ------------------------------------------------------------------ */

static const char *const fates[] = {
	[FATE_UNWOUND] = " (ended without an exit)",
	[FATE_INSIDE] = " (hadn't returned)",
	[FATE_MISSED] = " (its return couldn't be watched)",
	[FATE_UNKNOWN] = " (no exit recorded)",
};

/* Takes calls off, down to a depth, that ended without an exit. */
static unsigned drop_to(struct view_tree *tree, struct tree_thread *thread, size_t depth,
			bool is_end, bool is_shown)
{
	unsigned lines = 0;

	while (thread->stack.count > depth) {
		const struct tree_call *call = &thread->stack.items[--thread->stack.count];

		if (!is_shown || (is_end && !call->is_shown))
			continue;
		lines += add_process(tree, thread->pid, NULL);
		add_head(tree, thread, false, 0, thread->stack.count);
		text_add(&tree->viewer->line.text, "} ");
		add_name(tree, call->name, strlen(call->name));
		text_own(&tree->viewer->line.text, fates[is_end ? call->fate_at_end : call->fate]);
		text_add(&tree->viewer->line.text, "\n");
		lines++;
	}
	return lines;
}

/* (O10) Ends the call of a function that is called again, if nothing shows that it goes on. */
static unsigned drop_unseen(struct view_tree *tree, struct tree_thread *thread,
			    const struct layout_event *entry, bool is_shown)
{
	size_t at = thread->stack.count;

	while (at && thread->stack.items[at - 1].ends_unseen &&
	       compare_name(thread->stack.items[at - 1].name, entry))
		at--;
	return at && !compare_name(thread->stack.items[at - 1].name, entry) ?
		       drop_to(tree, thread, at - 1, false, is_shown) :
		       0;
}

/* ---- events --------------------------------------------------------------------------------- */

static unsigned take_entry(struct view_tree *tree, struct tree_thread *thread,
			   const struct trace_stream *stream, bool is_shown)
{
	const struct packet_cursor *cursor = &stream->cursor;
	struct strbuf *text = &tree->viewer->line.text;
	const struct layout_event *next_type;
	const uint8_t *next;
	/* calls inside it may be in other packets that overlap with this one */
	bool has_next = !stream->input->has_overlaps &&
			packet_cursor_peek(cursor, &next_type, &next);
	bool ends_unseen = layout_ends_unseen(&cursor->type->fates);
	bool is_over = ends_unseen && (layout_never_exits(&cursor->type->fates) ||
				       (has_next && next_type == cursor->type));
	bool is_call = layout_exit_of(cursor->layout, cursor->type) != NULL && !is_over;
	enum layout_fate fate = layout_fate(&cursor->type->fates, false);
	unsigned lines = ends_unseen ?
				 drop_unseen(tree, thread, cursor->type, is_shown) :
				 0;
	size_t depth = thread->stack.count;

	thread->is_leaf = has_next && layout_is_exit_of(cursor->type, next_type);
	if (is_shown) {
		add_head(tree, thread, thread->is_leaf,
			 thread->is_leaf ? duration_of(next_type, next) : 0, depth);
		add_name(tree, cursor->type->name, cursor->type->stem);
		text_add(text, "(");
		add_arguments(tree, cursor->type, cursor->event);
		text_add(text, ")");
		if (thread->is_leaf)
			add_result(tree, next_type, next);
		else
			text_own(text, is_call ? " {" :
				 is_over ? fates[fate] : "");
		text_add(text, "\n");
		lines += 1 + add_backtrace(tree, thread, cursor->type, cursor->event, depth);
	}
	if (is_call && !thread->is_leaf && depth < DEPTH_MAX) {
		struct tree_call call = { name_of(tree, cursor->type), ends_unseen, is_shown, fate,
					  layout_fate(&cursor->type->fates, true) };

		text->failed |= !call.name || !vec_push(&thread->stack, call);
	}
	return lines;
}

/* Appends the end of a call. */
static unsigned add_end(struct view_tree *tree, const struct tree_thread *thread,
			const struct packet_cursor *cursor, const char *note)
{
	struct strbuf *text = &tree->viewer->line.text;

	add_head(tree, thread, true, duration_of(cursor->type, cursor->event),
		 thread->stack.count);
	text_add(text, "} ");
	add_name(tree, cursor->type->name, cursor->type->stem);
	add_result(tree, cursor->type, cursor->event);
	text_own(text, note);
	text_add(text, "\n");
	return 1;
}

static unsigned take_exit(struct view_tree *tree, struct tree_thread *thread,
			  const struct packet_cursor *cursor, bool is_shown)
{
	size_t at = thread->stack.count;
	unsigned lines;

	if (thread->is_leaf) {
		thread->is_leaf = false;
		return 0;
	}
	while (at && compare_name(thread->stack.items[at - 1].name, cursor->type))
		at--;
	if (!at)
		return is_shown ? add_end(tree, thread, cursor, " (its entry isn't in the trace)") :
				  0;
	lines = drop_to(tree, thread, at, false, is_shown);
	thread->stack.count--;
	return lines + (is_shown ? add_end(tree, thread, cursor, "") : 0);
}

/* A step of --overhead: the calls that the tree doesn't have (session/budget). */
static void add_counted(struct strbuf *text, const struct packet_cursor *cursor)
{
	struct layout_place place;

	if (strcmp(cursor->type->name, "dyntrace:overhead") != 0 ||
	    !layout_find(cursor->type, cursor->event, "counted", &place))
		return;
	uint64_t counted = layout_number(place.field, place.bytes);
	if (counted)
		quote_format(text, " (+ %" PRIu64 " call%s counted)", counted,
			     counted == 1 ? "" : "s");
}

static unsigned take_bare(struct view_tree *tree, struct tree_thread *thread,
			  const struct packet_cursor *cursor, bool is_shown)
{
	struct strbuf *text = &tree->viewer->line.text;

	if (!is_shown)
		return 0;
	add_head(tree, thread, false, 0, thread->stack.count);
	add_name(tree, cursor->type->name, cursor->type->stem);
	size_t before = text->length;
	text_add(text, " { ");
	size_t start = text->length;
	add_arguments(tree, cursor->type, cursor->event);
	if (text->length == start)
		text->length = before;
	else
		text_add(text, " }");
	add_counted(text, cursor);
	text_add(text, "\n");
	return 1 + add_backtrace(tree, thread, cursor->type, cursor->event, thread->stack.count);
}

/* A loss ends all open calls: nobody knows which of them go on. */
static unsigned take_loss(struct view_tree *tree, struct tree_thread *thread, uint64_t lost,
			  const char *what, bool is_shown)
{
	struct viewer *viewer = tree->viewer;
	bool had_calls = thread->stack.count > 0;

	thread->stack.count = 0;
	thread->is_leaf = false;
	if (!is_shown)
		return 0;
	add_head(tree, thread, false, 0, 0);
	text_own(&viewer->line.text, viewer->line.colours.loss);
	text_add(&viewer->line.text, "[lost ");
	text_unsigned(&viewer->line.text, lost);
	text_own(&viewer->line.text, what);
	text_add(&viewer->line.text, had_calls ? ": open calls are cut here]" : "]");
	text_own(&viewer->line.text, viewer->line.colours.off);
	text_add(&viewer->line.text, "\n");
	return 1;
}

unsigned view_tree_take(struct view_tree *tree, struct trace_stream *stream, bool is_shown)
{
	const struct packet_cursor *cursor = &stream->cursor;
	struct tree_thread *thread = find_thread(tree, cursor->head.pid, cursor->head.tid);
	char process[WRITER_PROCESS_SIZE + 1];
	unsigned lines = 0;

	if (!thread) {
		tree->viewer->line.text.failed = true;
		return 0;
	}
	bool is_event = stream->item == CURSOR_EVENT;
	enum layout_part part = is_event ? cursor->type->part : LAYOUT_BARE;
	const struct packet_gap *gap =
		gap_watch_item(&thread->watch, &stream->input->gaps, cursor);
	thread->input = stream->input;
	if (is_shown && (is_event || gap || stream->item == CURSOR_LOST_EVENTS) &&
	    !(part == LAYOUT_EXIT && thread->is_leaf && !gap))
		lines = add_process(tree, thread->pid, view_own_process(stream, process));
	if (gap)
		lines += take_loss(tree, thread, gap->packets,
				   gap->packets == 1 ? " packet of this thread or another" :
						       " packets of this thread or others",
				   is_shown);
	if (stream->item == CURSOR_LOST_EVENTS)
		lines += take_loss(tree, thread, cursor->lost,
				   cursor->lost == 1 ? " event" : " events", is_shown);
	if (!is_event)
		return lines;
	view_own_modules(tree->viewer, &stream->input->layout);
	tree->viewer->line.event = (struct frames_event){ cursor->head.pid, cursor->cycles };
	if (part == LAYOUT_ENTRY)
		return lines + take_entry(tree, thread, stream, is_shown);
	if (part == LAYOUT_EXIT)
		return lines + take_exit(tree, thread, cursor, is_shown);
	return lines + take_bare(tree, thread, cursor, is_shown);
}

void view_tree_end(struct view_tree *tree)
{
	for (size_t i = 0; i < tree->threads.count; i++) {
		struct tree_thread *thread = tree->threads.items[i];

		/* where packets are missing at the end, nobody knows which calls went on */
		if (!thread->input || !gap_watch_end(&thread->watch, &thread->input->gaps))
			drop_to(tree, thread, 0, true, true);
	}
}
