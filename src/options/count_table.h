/*
 * count_table.h - the table of counts by key: rows of the tracer count, grouped by --by KEY.
 *
 * One form for `trace --tracer count`, `list-tracepoints` and `top`. Prints nothing: appends to a
 * strbuf, whose failure is sticky.
 */
#ifndef DYNTRACE_COUNT_TABLE_H
#define DYNTRACE_COUNT_TABLE_H

#include "control/tracers/count/count_rows.h"
#include "question_options.h"

enum count_form { COUNT_TEXT, COUNT_JSON, COUNT_CSV };

struct count_table {
	const struct question *question;
	const struct question_args *args;
	enum count_form form;
	bool is_wide;
	bool all_rows; /* also those beyond the usual number */
};

/* Appends the rows, sorted, and those beyond --top as one. False: out of memory. */
bool count_table_add(const struct count_table *how, const struct count_rows *rows,
		     struct strbuf *text);

#endif
