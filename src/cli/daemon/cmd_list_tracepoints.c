/*
 * cmd_list_tracepoints.c - dyntrace list-tracepoints TARGET [-a]
 */
#include <string.h>

#include "daemon_call.h"
#include "options/time_text.h"

static struct {
	bool all;
	bool details;
	bool json;
} args;

static const struct option_spec options[] = {
	{ 'a', "details", NULL,
	  "also address, hits, losses, placement, fields, contexts, filter and code size",
	  .flag = &args.details },
	DAEMON_JSON_OPTION(&args.json,
			   "a JSON array with one object per tracepoint, with all details"),
	DAEMON_ALL_OPTION(&args.all),
	DAEMON_SOCKET_OPTION,
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

/* Self time isn't always known. */
static bool is_known(const struct wire_message *item, enum wire_tag tag)
{
	return wire_get_number(item, tag, UINT64_MAX) != UINT64_MAX;
}

static const char *shape_of(const struct wire_message *item)
{
	uint64_t shape = wire_get_number(item, WIRE_SHAPE, WIRE_BARE);

	return shape <= WIRE_FUNCTION ? shapes[shape] : "";
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
	text_add(text, "}");
}

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
	quote_format(text, "    %-10s%llu (%llu per second), lost %llu\n", "hits",
		      daemon_call_number_of(item, WIRE_HITS),
		      daemon_call_number_of(item, WIRE_HIT_RATE),
		      daemon_call_number_of(item, WIRE_LOST));
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
}

static void add_tracepoint(struct daemon_call_list *list, const struct wire_message *item)
{
	if (list->json) {
		add_json(&list->text, item);
		return;
	}
	add_line(list, item);
	if (args.details)
		add_details(&list->text, item);
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct daemon_call_list list = { .json = args.json, .add = add_tracepoint };

	(void)ret_status;
	return daemon_call_list(words, DAEMON_ONE_TARGET, WIRE_TRACEPOINTS, args.all, &list);
}

const struct command command_list_tracepoints = {
	.name = "list-tracepoints",
	.summary = "list the tracepoints of a process, with their hits",
	.usage = "[OPTIONS] TARGET",
	.details =
		"HITS are current. A waiting tracepoint is placed when its library is loaded or a program of\n"
		"that name starts.",
	.example = "dyntrace list-tracepoints redis-server\n"
		   "dyntrace list-tracepoints -a redis-server",
	.options = options,
	.run = run,
};
