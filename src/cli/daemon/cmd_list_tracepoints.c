/*
 * cmd_list_tracepoints.c - dyntrace list-tracepoints TARGET [-a]
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/plural.h"
#include "daemon_call.h"
#include "options/count_table.h"
#include "options/time_text.h"
#include "tracepoint_rows.h"

static struct {
	bool all;
	bool details;
	bool json;
	bool reset;
	struct question_args question;
} args;

static const struct option_spec options[] = {
	{ 'a', "details", NULL,
	  "also address, hits, losses, placement, fields, contexts, filter and code size",
	  .flag = &args.details },
	DAEMON_JSON_OPTION(&args.json,
			   "a JSON array with one object per tracepoint, with all details"),
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,

	OPTION_GROUP("Counts by key (add ... count --by KEY)"),
	QUESTION_SHOWS(args.question),
	{ 0, "reset", NULL, "counts by key begin at 0 again; no hit is lost or counted twice",
	  .flag = &args.reset },
	{ 0 },
};

static const char *const shapes[] = {
	[WIRE_BARE] = "bare", [WIRE_ENTRY] = "entry", [WIRE_FUNCTION] = "entry and exit"
};

/* Durations in ns; the first row is their number. */
static const struct {
	const char *name, *json;
	enum wire_tag tag;
} times[] = {
	{ "calls", "calls", WIRE_CALLS }, { "total", "total_ns", WIRE_TOTAL },
	{ "self", "self_ns", WIRE_SELF },
	{ "p50", "p50_ns", WIRE_P50 },	  { "p90", "p90_ns", WIRE_P90 },
	{ "p99", "p99_ns", WIRE_P99 },	  { "max", "max_ns", WIRE_LONGEST },
};

/* A tracepoint of LTTng's own, which dyntrace neither places nor counts. */
static bool is_static(const struct wire_message *item)
{
	return wire_get_number(item, WIRE_STATIC, 0);
}

/* Self time isn't always known. */
static bool is_known(const struct wire_message *item, enum wire_tag tag)
{
	return wire_get_number(item, tag, UINT64_MAX) != UINT64_MAX;
}

static const char *shape_of(const struct wire_message *item)
{
	uint64_t shape = wire_get_number(item, WIRE_SHAPE, WIRE_BARE);

	if (is_static(item))
		return "static";
	return shape <= WIRE_FUNCTION ? shapes[shape] : "";
}

static const char *level_of(const struct wire_message *item)
{
	static const char *const levels[] = { "recorded", "counted", "off" };
	uint64_t level = wire_get_number(item, WIRE_LEVEL, 0);

	return level < sizeof(levels) / sizeof(levels[0]) ? levels[level] : "";
}

static bool was_demoted(const struct wire_message *item)
{
	return wire_get_number(item, WIRE_LEVEL, UINT64_MAX) != UINT64_MAX;
}

static void add_json_budget(struct strbuf *text, const struct wire_message *item)
{
	daemon_call_json_number(text, "cost_ns", daemon_call_number_of(item, WIRE_COST));
	daemon_call_json_flag(text, "cost_measured",
			      daemon_call_number_of(item, WIRE_COST_MEASURED));
	if (!was_demoted(item))
		return;
	daemon_call_json_text(text, "level", level_of(item));
	daemon_call_json_number(text, "counted", daemon_call_number_of(item, WIRE_COUNTED));
	daemon_call_json_number(text, "off_ns", daemon_call_number_of(item, WIRE_OFF_NS));
	daemon_call_json_number(text, "unseen", daemon_call_number_of(item, WIRE_UNSEEN));
}

/* The cost of the tracepoint's hits to the target, and its level under the daemon's --overhead. */
static void add_budget(struct strbuf *text, const struct wire_message *item)
{
	char cost[TIME_TEXT], off[TIME_TEXT];

	time_text(daemon_call_number_of(item, WIRE_COST), cost);
	quote_format(text, "    %-10s%s %s of the target's CPU time\n", "cost",
		     daemon_call_number_of(item, WIRE_COST_MEASURED) ? "about" : "at least", cost);
	if (!was_demoted(item))
		return;
	time_text(daemon_call_number_of(item, WIRE_OFF_NS), off);
	quote_format(text, "    %-10s%s now (--overhead); %llu hit%s only counted, off for %s",
		     "level", level_of(item), daemon_call_number_of(item, WIRE_COUNTED),
		     PLURAL(daemon_call_number_of(item, WIRE_COUNTED)), off);
	if (daemon_call_number_of(item, WIRE_UNSEEN))
		quote_format(text, " with about %llu more",
			     daemon_call_number_of(item, WIRE_UNSEEN));
	text_add(text, "\n");
}

static void add_json(struct strbuf *text, const struct wire_message *item)
{
	text_add(text, "{");
	if (daemon_call_number_of(item, WIRE_PID))
		daemon_call_json_number(text, "pid", daemon_call_number_of(item, WIRE_PID));
	daemon_call_json_text(text, "name", wire_get_text(item, WIRE_NAME));
	daemon_call_json_text(text, "location", wire_get_text(item, WIRE_LOCATION));
	daemon_call_json_text(text, "kind", shape_of(item));
	daemon_call_json_text(text, "tracer", wire_get_text(item, WIRE_TRACER));
	daemon_call_json_text(text, "tracer_argument", wire_get_text(item, WIRE_ARGUMENT));
	daemon_call_json_text(text, "state", client_tracepoint_state(item));
	daemon_call_json_text(text, "why", wire_get_text(item, WIRE_STATE));
	daemon_call_json_number(text, "address", daemon_call_number_of(item, WIRE_ADDRESS));
	daemon_call_json_text(text, "module", wire_get_text(item, WIRE_MODULE));
	if (daemon_call_number_of(item, WIRE_COPY))
		daemon_call_json_number(text, "module_address",
					daemon_call_number_of(item, WIRE_COPY));
	daemon_call_json_number(text, "hits", daemon_call_number_of(item, WIRE_HITS));
	daemon_call_json_number(text, "lost", daemon_call_number_of(item, WIRE_LOST));
	add_json_budget(text, item);
	daemon_call_json_number(text, "nested", daemon_call_number_of(item, WIRE_NESTED));
	daemon_call_json_text(text, "fault", wire_get_text(item, WIRE_FAULT));
	daemon_call_json_text(text, "placed", wire_get_text(item, WIRE_HOW));
	daemon_call_json_text(text, "filter", wire_get_text(item, WIRE_FILTER));
	daemon_call_json_texts(text, "contexts", item, WIRE_CONTEXT_TYPE);
	daemon_call_json_texts(text, "fields", item, WIRE_FIELD);
	daemon_call_json_number(text, "bytes", daemon_call_number_of(item, WIRE_BYTES));
	daemon_call_json_number(text, "hits_per_second",
				daemon_call_number_of(item, WIRE_HIT_RATE));
	for (size_t i = 0;
	     daemon_call_number_of(item, WIRE_CALLS) && i < sizeof(times) / sizeof(times[0]); i++) {
		if (is_known(item, times[i].tag))
			daemon_call_json_number(text, times[i].json,
					daemon_call_number_of(item, times[i].tag));
	}
	daemon_call_json_text(text, "by", wire_get_text(item, WIRE_BY));
	daemon_call_json_text(text, "of", wire_get_text(item, WIRE_OF));
} /* finish_rows ends the object */

/* The user's LOC, and which copy of a library it is in if the process has several. */
static void add_location(struct strbuf *text, const struct wire_message *item)
{
	_cleanup_(strbuf_free) struct strbuf cell = { 0 };
	unsigned long long copy = daemon_call_number_of(item, WIRE_COPY);

	text_foreign(&cell, daemon_call_text_of(item, WIRE_LOCATION));
	if (copy)
		quote_format(&cell, " (copy at 0x%llx)", copy);
	text_cell(text, cell.text ? cell.text : "");
}

static void add_line(struct daemon_call_list *list, const struct wire_message *item)
{
	if (!list->count)
		text_add(&list->text, "NAME\tLOCATION\tTRACER\tSTATE\tHITS\n");
	text_cell(&list->text, daemon_call_text_of(item, WIRE_NAME));
	add_location(&list->text, item);
	text_cell(&list->text, daemon_call_text_of(item, WIRE_TRACER));
	text_cell(&list->text, client_tracepoint_state(item));
	if (is_static(item))
		text_cell(&list->text, "-");
	else
		text_cell_number(&list->text, daemon_call_number_of(item, WIRE_HITS));
	text_end_row(&list->text);
}

static void add_all_of(struct strbuf *text, const char *head, const struct wire_message *item,
		       enum wire_tag tag)
{
	struct wire_value value;
	bool first = true;

	for (size_t at = 0; wire_next(item, &at, &value);) {
		if (value.tag != tag)
			continue;
		if (first)
			quote_format(text, "    %-10s", head);
		quote_format(text, "%s%s", first ? "" : ", ", value.text);
		first = false;
	}
	if (!first)
		text_add(text, "\n");
}

/* Durations of the calls that have returned. */
static void add_times(struct strbuf *text, const struct wire_message *item)
{
	if (!daemon_call_number_of(item, WIRE_CALLS))
		return;
	quote_format(text, "    %-10s%llu:", "calls", daemon_call_number_of(item, WIRE_CALLS));
	for (size_t i = 1; i < sizeof(times) / sizeof(times[0]); i++) {
		char time[16];

		if (!is_known(item, times[i].tag))
			continue;
		time_text(daemon_call_number_of(item, times[i].tag), time);
		quote_format(text, "%s %s %s", i > 1 ? "," : "", times[i].name, time);
	}
	text_add(text, "\n");
}

static void add_details(struct strbuf *text, const struct wire_message *item)
{
	quote_format(text, "    %-10s0x%llx (%s), %s\n", "address",
		      daemon_call_number_of(item, WIRE_ADDRESS),
		      daemon_call_text_of(item, WIRE_MODULE), shape_of(item));
	if (is_static(item)) {
		add_all_of(text, "fields", item, WIRE_FIELD);
		return;
	}
	quote_format(text, "    %-10s%llu (%llu per second), lost %llu\n", "hits",
		      daemon_call_number_of(item, WIRE_HITS),
		      daemon_call_number_of(item, WIRE_HIT_RATE),
		      daemon_call_number_of(item, WIRE_LOST));
	add_budget(text, item);
	if (daemon_call_number_of(item, WIRE_NESTED))
		quote_format(
			text,
			"    %-10s%llu, not called: hits inside probe functions of the tracer call\n",
			"nested", daemon_call_number_of(item, WIRE_NESTED));
	add_times(text, item);
	if (wire_get_text(item, WIRE_HOW))
		quote_format(text, "    %-10s%s, %llu bytes of code\n", "placed",
			      daemon_call_text_of(item, WIRE_HOW),
			      daemon_call_number_of(item, WIRE_BYTES));
	if (wire_get_text(item, WIRE_STATE))
		quote_format(text, "    %-10s%s\n", "why", daemon_call_text_of(item, WIRE_STATE));
	add_all_of(text, "failed", item, WIRE_FAULT);
	add_all_of(text, "argument", item, WIRE_ARGUMENT);
	add_all_of(text, "fields", item, WIRE_FIELD);
	add_all_of(text, "contexts", item, WIRE_CONTEXT_TYPE);
	add_all_of(text, "filter", item, WIRE_FILTER);
	add_all_of(text, "by", item, WIRE_BY);
	add_all_of(text, "of", item, WIRE_OF);
}

/* ---- rows by key ----------------------------------------------------------------------------- */

struct listing {
	struct daemon_call_list list;
	struct strbuf tables; /* of counts by key; behind the list */
	/* of the tracepoint that came last */
	bool is_open;
	char *name, *by, *of;
	unsigned long long pid;
	struct count_rows rows;
};

static void add_title(struct listing *listing)
{
	quote_format(&listing->tables, "\n%s", listing->name ? listing->name : "");
	if (listing->pid && args.all)
		quote_format(&listing->tables, " (%llu)", listing->pid);
	if (listing->by)
		quote_format(&listing->tables, " by %s", listing->by);
	if (listing->of)
		quote_format(&listing->tables, "%s %s", listing->by ? ", of" : " of", listing->of);
	text_add(&listing->tables, ":\n");
}

static struct error *add_rows(struct listing *listing)
{
	struct question question = { 0 };
	struct error *error = question_parse(listing->by, listing->of, &question);
	bool is_json = listing->list.json;
	struct count_table how = { .question = &question,
				   .args = &args.question,
				   .form = is_json ? COUNT_JSON : COUNT_TEXT,
				   .is_wide = args.details };

	if (error)
		return error;
	if (is_json)
		text_add(&listing->list.text, ",\"rows\":");
	else
		add_title(listing);
	if (!count_table_add(&how, &listing->rows,
			     is_json ? &listing->list.text : &listing->tables))
		error = error_new(ERROR_FAILED, "out of memory");
	question_free(&question);
	return error;
}

/* Ends the tracepoint that came last. */
static struct error *finish_rows(struct listing *listing)
{
	struct error *error = NULL;

	if (!listing->is_open)
		return NULL;
	if (listing->by || listing->of)
		error = add_rows(listing);
	if (listing->list.json)
		text_add(&listing->list.text, "}");
	count_rows_free(&listing->rows);
	listing->rows = (struct count_rows){ 0 };
	free(take_ptr(&listing->name));
	free(take_ptr(&listing->by));
	free(take_ptr(&listing->of));
	listing->is_open = false;
	return error;
}

static void free_listing(struct listing *listing)
{
	strbuf_free(&listing->list.text);
	strbuf_free(&listing->tables);
	count_rows_free(&listing->rows);
	free(listing->name);
	free(listing->by);
	free(listing->of);
}

static bool copy_text(const struct wire_message *item, enum wire_tag tag, char **ret_text)
{
	const char *text = wire_get_text(item, tag);

	*ret_text = text ? strdup(text) : NULL;
	return *ret_text || !text;
}

static struct error *take_item(void *context, const struct wire_message *item)
{
	struct listing *listing = context;
	struct daemon_call_list *list = &listing->list;

	if (tracepoint_rows_is_one(item))
		return tracepoint_rows_take(&listing->rows, item);
	struct error *error = finish_rows(listing);
	if (error)
		return error;
	listing->is_open = true;
	listing->pid = daemon_call_number_of(item, WIRE_PID);
	if (!copy_text(item, WIRE_NAME, &listing->name) ||
	    !copy_text(item, WIRE_BY, &listing->by) || !copy_text(item, WIRE_OF, &listing->of))
		return error_new(ERROR_FAILED, "out of memory");
	if (list->json) {
		text_add(&list->text, list->count ? ",\n" : "[\n");
		add_json(&list->text, item);
	} else {
		add_line(list, item);
	}
	if (!list->json && args.details)
		add_details(&list->text, item);
	list->count++;
	return NULL;
}

static struct error *ask(const struct words *words, struct listing *listing)
{
	_cleanup_client_ struct client *client = NULL;
	struct question none = { 0 };
	struct error *error = daemon_call_check_words(words, DAEMON_ONE_TARGET);

	if (!error)
		error = question_options_read(&args.question, &none);
	if (!error)
		error = daemon_call_connect(&client);
	if (error)
		return error;
	struct wire_out *out =
		daemon_call_begin(client, WIRE_TRACEPOINTS, words->items[0], args.all);
	wire_number(out, WIRE_ROWS, 1);
	wire_number(out, WIRE_STATIC, 1);
	if (args.reset)
		wire_number(out, WIRE_RESET, 1);
	error = daemon_call_finish(client, take_item, listing);
	return error ? error : finish_rows(listing);
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_(free_listing) struct listing listing = { .list.json = args.json };
	struct daemon_call_list *list = &listing.list;
	struct error *error = ask(words, &listing);

	(void)ret_status;
	if (error)
		return error;
	if (list->json)
		text_add(&list->text, list->count ? "\n]\n" : "[]\n");
	else
		text_align(&list->text);
	if (!text_flush(&list->text) || !text_flush(&listing.tables))
		return error_errno(errno, "cannot write the list");
	return NULL;
}

const struct command command_list_tracepoints = {
	.name = "list-tracepoints",
	.summary = "list the tracepoints of a process, with their hits",
	.usage = "[OPTIONS] TARGET",
	.details =
		"HITS are current. A waiting tracepoint is placed when its library is loaded or a program of\n"
		"that name starts. Below the list, tracepoints that count by key show a row per key.\n"
		"\n"
		"A static tracepoint is LTTng's own, compiled into the program or a library of it; sessions of\n"
		"LTTng record it ('lttng enable-event --userspace NAME').",
	.example = "dyntrace list-tracepoints redis-server\n"
		   "dyntrace list-tracepoints -a redis-server\n"
		   "dyntrace list-tracepoints app --top 10 --hist --reset",
	.options = options,
	.run = run,
};
