#include "top_callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/count_table.h"
#include "options/table_text.h"

#define CALLERS_MOST 256 /* different ones */
#define CALLERS_SHOWN 4
#define NAME "callers-shown-by-top"

void top_callers_begin(struct top_view *view, struct session *session)
{
	struct name_list names = { 0 };
	char location[32];
	size_t index;

	if (view->by_key || view->callers)
		return;
	_cleanup_error_ struct error *unknown = session_find(session, view->name, &index);
	if (unknown)
		return;
	snprintf(location, sizeof(location), "0x%llx",
		 (unsigned long long)session_tracepoint(session, index).address.v);
	struct tracepoint_spec spec = { .location = location,
					.kind = TRACEPOINT_ENTRY,
					.name = NAME,
					.tracer = "count",
					.by = "caller",
					.keys = CALLERS_MOST };
	_cleanup_error_ struct error *error = session_add(session, &spec, &names);

	if (!error && names.count)
		view->callers = strdup(names.items[0]);
	name_list_free(&names);
}

void top_callers_end(struct top_view *view, struct session *session)
{
	size_t count;

	if (view->callers)
		error_free(session_remove(session, view->callers, &count));
	free(view->callers);
	view->callers = NULL;
}

void top_callers_add(const struct top_view *view, const struct session *session,
		     struct strbuf *lines)
{
	_cleanup_(count_rows_free) struct count_rows rows = { 0 };
	struct question_args args = { .top = CALLERS_SHOWN };
	struct question question = { 0 };
	size_t index;

	if (!view->callers)
		return;
	_cleanup_error_ struct error *error = session_find(session, view->callers, &index);
	if (!error)
		error = count_rows_read_one(session, index, false, &rows);
	if (!error)
		error = question_parse("caller", NULL, &question);
	struct count_table how = { .question = &question, .args = &args };
	if (!error && rows.rows.count)
		count_table_add(&how, &rows, lines);
	else
		text_add(lines, "  no calls since this page was opened\n");
	question_free(&question);
}
