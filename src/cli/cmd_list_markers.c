/*
 * cmd_list_markers.c - dyntrace list-markers TARGET|FILE [GLOB]: static markers.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_helper.h"
#include "control/base/cleanup.h"
#include "control/elf/sdt.h"
#include "control/elf/ust_events.h"
#include "options/commands.h"
#include "options/table_text.h"
#include "target_arg.h"

static struct {
	bool json;
} args;

static const struct option_spec options[] = {
	{ 0, "json", NULL, "a JSON array with one object per place of a marker",
	  .flag = &args.json },
	{ 0 },
};

/* A place of a marker, or a static tracepoint of LTTng. */
struct item {
	struct marker marker;
	bool is_lttng;
	int level; /* of LTTng */
};

struct listing {
	const char *glob; /* NULL: all markers */
	struct strbuf text;
	size_t count; /* places listed */
	size_t markers; /* markers read */
	void (*add)(struct listing *list, const struct target_arg_module *module,
		    const struct item *item);
};

static void list_json(struct listing *list, const struct target_arg_module *module,
		      const struct item *item)
{
	const struct marker *marker = &item->marker;
	struct strbuf *text = &list->text;

	quote_format(text, "%s\n{", list->count ? "," : "[");
	text_add_json(text, "kind", item->is_lttng ? "lttng" : "sdt");
	text_add(text, ",");
	text_add_json(text, "provider", marker->provider);
	text_add(text, ",");
	text_add_json(text, "name", marker->name);
	text_add(text, ",");
	text_add_json(text, "arguments", marker->arguments);
	text_add(text, ",");
	text_add_json(text, "module", module->name);
	quote_format(text, ",\"address\":%llu,\"semaphore\":",
		      (unsigned long long)(marker->address + module->bias));
	if (marker->semaphore)
		quote_format(text, "%llu",
			      (unsigned long long)(marker->semaphore + module->bias));
	else
		text_add(text, "null");
	if (item->is_lttng)
		quote_format(text, ",\"loglevel\":%d", item->level);
	text_add(text, "}");
}

static void list_line(struct listing *list, const struct target_arg_module *module,
		      const struct item *item)
{
	const struct marker *marker = &item->marker;
	_cleanup_(strbuf_free) struct strbuf name = { 0 };

	quote_format(&name, "%s:%s", marker->provider, marker->name);
	quote_format(&list->text, "0x%012llx  %-20s %-10s %-40s %s\n",
		      (unsigned long long)(marker->address + module->bias), module->name,
		      item->is_lttng	? "lttng" :
		      marker->semaphore ? "semaphore" :
					  "-",
		      name.text ? name.text : "",
		      marker->arguments);
	/* Trim blanks at the end of the line. */
	while (list->text.length > 1 && list->text.text[list->text.length - 2] == ' ') {
		list->text.text[list->text.length - 2] = '\n';
		list->text.text[--list->text.length] = '\0';
	}
}

static void list_item(struct listing *list, const struct target_arg_module *module,
		      const struct item *item)
{
	const struct marker *marker = &item->marker;

	(void)list;
	if (item->is_lttng) /* struct dyntrace_marker has no room for what it is */
		return;
	struct wire_out *out = api_helper_begin_item();
	wire_text(out, WIRE_PROVIDER, marker->provider);
	wire_text(out, WIRE_NAME, marker->name);
	wire_text(out, WIRE_ARGUMENT, marker->arguments);
	wire_text(out, WIRE_MODULE, module->name);
	wire_number(out, WIRE_ADDRESS, marker->address + module->bias);
	wire_number(out, WIRE_SEMAPHORE, marker->semaphore ? marker->semaphore + module->bias : 0);
	api_helper_end_item();
}

/* Matches the glob against PROVIDER:NAME as a whole. */
static bool matches(const struct listing *list, const struct marker *marker)
{
	_cleanup_free_ char *name = NULL;

	if (!list->glob)
		return true;
	if (asprintf(&name, "%s:%s", marker->provider, marker->name) < 0)
		return false;
	return fnmatch(list->glob, name, 0) == 0;
}

static void list_item_of(struct listing *list, const struct target_arg_module *module,
			 const struct item *item)
{
	list->markers++;
	if (!matches(list, &item->marker))
		return;
	list->add(list, module, item);
	list->count++;
}

static struct error *list_markers(struct listing *list, const struct target_arg_module *module)
{
	struct markers markers = { 0 };
	struct error *error = sdt_read(module->symtab, &markers);

	for (size_t i = 0; i < markers.count; i++)
		list_item_of(list, module, &(struct item){ .marker = markers.items[i] });
	markers_free(&markers);
	return error;
}

static struct error *list_ust_events(struct listing *list, const struct target_arg_module *module)
{
	struct ust_events events = { 0 };
	struct error *error = ust_events_read(module->symtab, &events);

	for (size_t i = 0; i < events.count; i++) {
		const struct ust_event *event = &events.items[i];
		struct item item = { { event->provider, event->name, event->arguments,
				       event->address, 0 },
				     true,
				     event->level };

		list_item_of(list, module, &item);
	}
	ust_events_free(&events);
	return error;
}

static struct error *list_module(void *context, const struct target_arg_module *module)
{
	struct listing *list = context;
	struct error *error = list_markers(list, module);

	if (!error)
		error = list_ust_events(list, module);
	if (!error && !text_flush(&list->text))
		error = error_errno(errno, "cannot write the list");
	return error;
}

static struct error *run(const struct words *words, int *ret_status)
{
	struct listing list = { 0 };

	if (words->count < 1 || words->count > 2)
		return error_new(ERROR_USAGE, "give one TARGET or FILE, and at most one GLOB");
	list.glob = words->count > 1 ? words->items[1] : NULL;
	list.add = api_helper_is_on() ? list_item : args.json ? list_json : list_line;

	struct error *error =
		target_arg_each(words->items[0], TARGET_ARG_PLAIN, list_module, &list);
	strbuf_free(&list.text);
	if (args.json && (list.count || !error))
		cli_print(list.count ? "\n]\n" : "[]\n");
	if (!error && !list.count && list.markers)
		return error_new(ERROR_FAILED, "no marker of '%s' matches '%s' (it has %zu)",
				 words->items[0], list.glob, list.markers);
	if (!error && !list.count && !args.json && !api_helper_is_on())
		cli_note("'%s' has no static markers", words->items[0]);
	return error;
}

const struct command command_list_markers = {
	.name = "list-markers",
	.summary = "list the static markers (SDT, LTTng-UST) of a process or a file",
	.usage = "[OPTIONS] TARGET|FILE [GLOB]",
	.details =
		"TARGET is a pid, or the name of a process or of its executable. FILE is a program or a\n"
		"library: a word with a slash, or one that names no process. GLOB (quote it) selects markers\n"
		"by PROVIDER:NAME.\n"
		"\n"
		"A marker with several places has one line per place. Arguments are SIZE@PLACE in assembler\n"
		"syntax; a negative size is a signed number. 'semaphore' means that the program passes the\n"
		"marker only while it is traced. 'lttng' is a static tracepoint of LTTng-UST, with the types and\n"
		"names of its arguments: LTTng's sessions record it ('lttng enable-event -u PROVIDER:NAME').",
	.example = "dyntrace list-markers postgres 'postgresql:query*'\n"
		   "dyntrace list-markers /usr/bin/python3\n"
		   "dyntrace trace -p postgres --marker 'postgresql:query__*'",
	.options = options,
	.run = run,
};
