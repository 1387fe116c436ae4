#include "count_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "table_text.h"

static void fill_row(const struct count_table *how, const struct count_rows *rows,
		     const struct count_row *from, struct calls_name *names,
		     struct calls_row *row)
{
	size_t count = how->question->key_count ? how->question->key_count : 1;

	for (size_t i = 0; i < count; i++) {
		names[i].text = from->names[i] ? from->names[i] : i ? "" : "(other keys)";
		names[i].is_number = from->is_number[i];
	}
	*row = (struct calls_row){ .names = names,
				   .has_values = rows->has_values,
				   .hits = from->hits };
	if (!rows->has_values)
		return;
	calls_row_take(row, &from->values);
	row->total = from->total;
	row->self = from->self;
	row->has_self = rows->is_time;
}

/* Joins the rows from `first` on into one, for --top. */
static struct calls_row join_rest(const struct count_rows *rows, struct calls_row *sorted,
				  size_t first, size_t count, struct distribution *values,
				  struct calls_name *names, char *text, size_t size)
{
	struct calls_row rest = { .names = names, .has_values = rows->has_values };
	int64_t total = 0, self = 0;

	for (size_t i = first; i < count; i++) {
		rest.hits += sorted[i].hits;
		total += sorted[i].total;
		self += sorted[i].self;
		if (sorted[i].values)
			distribution_merge(values, sorted[i].values);
	}
	bool is_open = rows->rows.items[count - 1].is_other; /* how many those are is unknown */
	snprintf(text, size, "(other keys: %s%zu)", is_open ? "over " : "", count - first - is_open);
	memset(names, 0, CALLS_NAMES_MAX * sizeof(*names));
	for (size_t i = 0; i < CALLS_NAMES_MAX; i++)
		names[i].text = i ? "" : text;
	if (!rows->has_values)
		return rest;
	calls_row_take(&rest, values);
	rest.total = total;
	rest.self = self;
	rest.has_self = rows->is_time;
	return rest;
}

static void add_table(const struct count_table *how, const struct calls_table *table,
		      struct strbuf *text)
{
	if (how->form == COUNT_JSON)
		calls_table_json(table, text);
	else if (how->form == COUNT_CSV)
		calls_table_csv(table, text);
	else
		calls_table_text(table, text);
}

static void add_rows(const struct count_table *how, const struct count_rows *rows,
		     struct calls_row *sorted, struct calls_name *names, struct strbuf *text)
{
	static const char *const one[] = { "function" };
	const char *titles[QUESTION_KEYS_MAX];
	const struct question_args *args = how->args;
	_cleanup_(distribution_free) struct distribution rest = { 0 };
	struct calls_name rest_names[CALLS_NAMES_MAX];
	char rest_text[48];
	size_t count = rows->rows.count, key_count = how->question->key_count;

	for (size_t i = 0; i < key_count; i++)
		titles[i] = how->question->keys[i].text;
	for (size_t i = 0; i < count; i++)
		fill_row(how, rows, &rows->rows.items[i], names + i * QUESTION_KEYS_MAX,
			 &sorted[i]);
	size_t others = count && rows->rows.items[count - 1].is_other;
	calls_table_sort(sorted, count - others, (enum calls_sort)args->sort, rows->has_values);
	struct calls_table table = { .titles = key_count ? titles : one,
				     .title_count = key_count ? key_count : 1,
				     .names_first = true,
				     .columns = rows->is_time ? CALLS_HAS_SELF : 0,
				     .has_values = rows->has_values,
				     .is_time = rows->is_time,
				     .is_wide = how->is_wide,
				     .has_histograms = args->hist,
				     .is_linear = args->linear,
				     .rows = sorted,
				     .count = count };
	if (args->top && count > args->top) {
		sorted[args->top] = join_rest(rows, sorted, args->top, count, &rest, rest_names,
					      rest_text, sizeof(rest_text));
		table.count = args->top + 1;
	} else if (!args->top && !how->all_rows && how->form == COUNT_TEXT &&
		   count > CALLS_ROWS_USUAL) {
		table.left = count - CALLS_ROWS_USUAL;
		table.count = CALLS_ROWS_USUAL;
	}
	add_table(how, &table, text);
}

bool count_table_add(const struct count_table *how, const struct count_rows *rows,
		     struct strbuf *text)
{
	_cleanup_free_ struct calls_row *sorted = calloc(rows->rows.count + 1, sizeof(*sorted));
	_cleanup_free_ struct calls_name *names =
		calloc((rows->rows.count + 1) * QUESTION_KEYS_MAX, sizeof(*names));

	if (!sorted || !names)
		return false;
	add_rows(how, rows, sorted, names, text);
	return !text->failed;
}
