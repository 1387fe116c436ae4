#include "top_view.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/base/plural.h"
#include "options/commands.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "top_callers.h"
#include "top_terminal.h"

#define HEAD_LINES 3 /* above the rows */
#define NAME_ROOM 15 /* that columns leave to the names */
#define CELL 8

enum top_column {
	TOP_COLUMN_RATE,
	TOP_COLUMN_TOTAL,
	TOP_COLUMN_SELF,
	TOP_COLUMN_MEAN,
	TOP_COLUMN_P50,
	TOP_COLUMN_P99,
	TOP_COLUMN_MAX,
	TOP_COLUMN_HISTORY,
};
static const char *const columns[] = { "hits/s", "total%", "self%", "mean", "p50", "p99", "max" };
/* The columns in their order, as < and > go through them. */
static const enum calls_sort sorts[] = { CALLS_BY_COUNT, CALLS_BY_TOTAL, CALLS_BY_SELF,
					 CALLS_BY_MEAN,	 CALLS_BY_P50,	 CALLS_BY_P99,
					 CALLS_BY_MAX,	 CALLS_BY_NAME };
#define SORTS (sizeof(sorts) / sizeof(sorts[0]))

void top_view_free(struct top_view *view)
{
	top_rows_free(&view->rows);
	free(view->name);
	free(view->callers);
}

/* ---- order ----------------------------------------------------------------------------------- */

static int sort_column(const struct top_view *view)
{
	int sort = view->sort == CALLS_BY_DEFAULT ? CALLS_BY_TOTAL : view->sort;

	for (size_t i = 0; i < SORTS; i++) {
		if ((int)sorts[i] == sort)
			return (int)i;
	}
	return 1;
}

static double weight_of(const struct top_row *row, int sort)
{
	switch (sort) {
	case CALLS_BY_COUNT:
		return row->rate;
	case CALLS_BY_SELF:
		return row->self_share;
	case CALLS_BY_MEAN:
		return (double)row->mean;
	case CALLS_BY_P50:
		return (double)row->p50;
	case CALLS_BY_P99:
		return (double)row->p99;
	case CALLS_BY_MAX:
		return (double)row->max;
	default:
		return row->total_share;
	}
}

static int sorting; /* qsort has no context */

static int by_weight(const void *a, const void *b)
{
	const struct top_row *x = *(const struct top_row *const *)a,
			     *y = *(const struct top_row *const *)b;
	double left = weight_of(x, sorting), right = weight_of(y, sorting);

	if (sorting != CALLS_BY_NAME && left != right)
		return left < right ? 1 : -1;
	if (sorting != CALLS_BY_NAME && x->hits != y->hits)
		return x->hits < y->hits ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The rows that are shown, in their order; the caller frees the list. */
static const struct top_row **order(const struct top_view *view, size_t *ret_count)
{
	const struct top_row **rows = calloc(view->rows.items.count + 1, sizeof(*rows));

	*ret_count = 0;
	for (size_t i = 0; rows && i < view->rows.items.count; i++) {
		const struct top_row *row = &view->rows.items.items[i];

		if (!*view->find || strcasestr(row->name, view->find))
			rows[(*ret_count)++] = row;
	}
	sorting = sorts[sort_column(view)];
	if (*ret_count)
		qsort(rows, *ret_count, sizeof(*rows), by_weight);
	return rows;
}

/* The selection stays with its row, wherever the row is now. */
static void follow_selected(struct top_view *view, const struct top_row **rows, size_t count,
			    size_t room)
{
	for (size_t i = 0; view->name && i < count; i++) {
		if (!strcmp(rows[i]->name, view->name))
			view->selected = i;
	}
	if (view->selected >= count)
		view->selected = count ? count - 1 : 0;
	if (view->selected < view->first)
		view->first = view->selected;
	if (view->selected >= view->first + room)
		view->first = view->selected - room + 1;
	if (view->first && view->first + room > count)
		view->first = count > room ? count - room : 0;
}

/* ---- columns -------------------------------------------------------------------------------- */

/* A narrow screen does without some columns, in this order. */
static bool has_column(const struct top_view *view, int column)
{
	static const int least[] = { TOP_COLUMN_HISTORY, TOP_COLUMN_P50, TOP_COLUMN_MEAN,
				     TOP_COLUMN_SELF,	 TOP_COLUMN_MAX, TOP_COLUMN_P99 };
	unsigned used = CELL * TOP_COLUMN_HISTORY + TOP_HISTORY + 1;

	for (size_t i = 0; view->width && i < sizeof(least) / sizeof(least[0]); i++) {
		if (used + NAME_ROOM <= view->width)
			return true;
		if (least[i] == column)
			return false;
		used -= least[i] == TOP_COLUMN_HISTORY ? TOP_HISTORY + 1 : CELL;
	}
	return true;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_cell(struct strbuf *lines, const char *text)
{
	quote_format(lines, "%7.7s ", text);
}

/* 999, 12.3k, 4.56M */
static void add_rate(struct strbuf *lines, double rate)
{
	static const char *const units[] = { "", "k", "M", "G" };
	size_t unit = 0;
	char text[16];

	while (rate >= 9999.5 && unit < 3) {
		rate /= 1000;
		unit++;
	}
	snprintf(text, sizeof(text), rate < 9.95 && rate > 0 ? "%.1f%s" : "%.0f%s", rate, units[unit]);
	add_cell(lines, text);
}

static void add_share(struct strbuf *lines, const struct top_row *row, double share)
{
	char text[16];

	snprintf(text, sizeof(text), "%.1f", share * 100 > 0 ? share * 100 : 0);
	add_cell(lines, row->has_times ? text : "-");
}

static void add_value(struct strbuf *lines, const struct top_view *view, const struct top_row *row,
		      int64_t value)
{
	char text[TIME_TEXT];

	if (view->rows.is_time)
		time_text(value > 0 ? (uint64_t)value : 0, text);
	else
		snprintf(text, sizeof(text), "%lld", (long long)value);
	add_cell(lines, row->has_times ? text : "-");
}

static void add_history(struct strbuf *lines, const struct top_view *view,
			const struct top_row *row)
{
	static const char *const blocks[] = { " ", "\u2581", "\u2582", "\u2583", "\u2584",
					      "\u2585", "\u2586", "\u2587", "\u2588" };
	static const char *const plain[] = { " ", ".", ":", "-", "=", "+", "*", "#", "#" };
	float most = 0;

	for (size_t i = 0; i < TOP_HISTORY; i++)
		most = row->history[i] > most ? row->history[i] : most;
	for (size_t i = 0; i < TOP_HISTORY; i++) {
		float value = row->history[i];
		size_t step = value > 0 && most > 0 ? 1 + (size_t)(value / most * 7) : 0;

		text_own(lines, view->has_blocks ? blocks[step] : plain[step]);
	}
	text_add(lines, " ");
}

static void add_row(struct strbuf *lines, const struct top_view *view, const struct top_row *row)
{
	const int64_t values[] = { row->mean, row->p50, row->p99, row->max };

	add_rate(lines, row->rate);
	add_share(lines, row, row->total_share);
	if (has_column(view, TOP_COLUMN_SELF))
		add_share(lines, row, row->self_share);
	for (int i = TOP_COLUMN_MEAN; i <= TOP_COLUMN_MAX; i++) {
		if (has_column(view, i))
			add_value(lines, view, row, values[i - TOP_COLUMN_MEAN]);
	}
	if (has_column(view, TOP_COLUMN_HISTORY))
		add_history(lines, view, row);
	text_foreign(lines, row->name);
	text_add(lines, row->is_off ? " (off)\n" : row->is_counted ? " (counted)\n" : "\n");
}

static void add_columns(struct strbuf *lines, const struct top_view *view)
{
	int sort = sort_column(view);

	for (int i = 0; i < (int)(sizeof(columns) / sizeof(columns[0])); i++) {
		char title[16];

		snprintf(title, sizeof(title), "%s%s", i == sort ? "*" : "", columns[i]);
		if (has_column(view, i))
			add_cell(lines, title);
	}
	if (has_column(view, TOP_COLUMN_HISTORY))
		quote_format(lines, "%-*s ", TOP_HISTORY, "history");
	text_add(lines, sort == (int)SORTS - 1 ? "*" : "");
	text_foreign(lines, view->key_title);
	text_add(lines, "\n");
}

static void add_head(struct strbuf *lines, const struct top_view *view, size_t shown)
{
	double seconds = (double)(now_ns() - view->begun_ns) / 1e9;

	text_foreign(lines, view->title);
	quote_format(lines, ": %.0f s, ", seconds);
	if (view->by_key)
		quote_format(lines, "%zu key%s", view->rows.functions,
			      PLURAL(view->rows.functions));
	else
		quote_format(lines, "%zu function%s, %zu called", view->rows.functions,
			      PLURAL(view->rows.functions), view->rows.items.count);
	quote_format(lines, ", %llu hit%s, %.0f/s", (unsigned long long)view->rows.hits,
		      PLURAL(view->rows.hits), view->rows.rate);
	if (view->rows.overhead >= 0)
		quote_format(lines, ", overhead %.1f%%", view->rows.overhead * 100);
	if (*view->find || view->is_typing) {
		text_add(lines, ", /");
		text_foreign(lines, view->find);
		quote_format(lines, " (%zu)", shown);
	}
	text_add(lines, view->is_paused ? ", paused\n" : "\n");
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void draw_table(struct top_view *view, unsigned height, struct strbuf *lines)
{
	size_t count, room = height > HEAD_LINES + 1 ? height - HEAD_LINES : 1;
	_cleanup_free_ const struct top_row **rows = order(view, &count);

	top_terminal_mark(lines, TOP_TITLE);
	add_head(lines, view, count);
	text_add(lines, view->is_typing ?
				"type a text to find; Enter: keep it, Esc: all rows\n" :
				"q quit  h help  / find  < > sort  space pause  Enter closely  e on/off\n");
	top_terminal_mark(lines, TOP_TITLE);
	add_columns(lines, view);
	if (!rows)
		return;
	follow_selected(view, rows, count, room);
	for (size_t i = view->first; i < count && i < view->first + room; i++) {
		if (i == view->selected)
			top_terminal_mark(lines, TOP_SELECTED);
		add_row(lines, view, rows[i]);
	}
	if (!view->name && count) /* nobody has chosen: the first row, whichever it is */
		view->selected = 0;
	if (!count)
		text_add(lines, "  no calls yet\n");
}

static void draw_detail(struct top_view *view, struct session *session,
			struct strbuf *lines)
{
	_cleanup_(distribution_free) struct distribution values = { 0 };

	top_terminal_mark(lines, TOP_TITLE);
	text_foreign(lines, view->name ? view->name : "");
	text_add(lines, "\nEsc or Enter: back, q quit\n");
	for (size_t i = 0; view->name && i < view->rows.items.count; i++) {
		if (strcmp(view->rows.items.items[i].name, view->name) != 0)
			continue;
		top_terminal_mark(lines, TOP_TITLE);
		add_columns(lines, view);
		add_row(lines, view, &view->rows.items.items[i]);
	}
	top_callers_add(view, session, lines);
	if (view->name && top_rows_values(session, view->by_key, view->name, &values) &&
	    values.count)
		calls_histogram(&values, view->rows.is_time, false, lines);
	else
		text_add(lines, "  no distribution: only hits are counted here\n");
}

static void draw_help(struct strbuf *lines)
{
	top_terminal_mark(lines, TOP_TITLE);
	text_add(lines,
		 "dyntrace top\n"
		 "\n"
		 "  up, down, page up and down   choose a row\n"
		 "  Enter                        the row closely: distribution and callers\n"
		 "  <  >                         sort by the column before or behind (marked: *)\n"
		 "  /                            only rows with a text; Esc: all again\n"
		 "  space                        pause; the target goes on, and so do its counts\n"
		 "  e                            switch the row's tracepoint off, or on again\n"
		 "  q, Ctrl-C                    quit; the target is left as it was\n"
		 "\n"
		 "hits/s, total% and self% are of the last interval; 100% is one thread all the\n"
		 "time. mean, p50, p99 and max are of all calls since top began. A call counts\n"
		 "when it returns. history: hits per second of the last intervals.\n"
		 "\n"
		 "any key: back\n");
}

void top_view_draw(struct top_view *view, struct session *session, unsigned width,
		   unsigned height, struct strbuf *lines)
{
	view->width = width;
	if (view->page == TOP_HELP)
		draw_help(lines);
	else if (view->page == TOP_DETAIL)
		draw_detail(view, session, lines);
	else
		draw_table(view, height, lines);
}

void top_view_print(struct top_view *view, unsigned most, struct strbuf *lines)
{
	size_t count;
	_cleanup_free_ const struct top_row **rows = order(view, &count);

	add_head(lines, view, count);
	add_columns(lines, view);
	for (size_t i = 0; rows && i < count && i < most; i++)
		add_row(lines, view, rows[i]);
	if (count > most)
		quote_format(lines, "(%zu more row%s; --top N shows more)\n", count - most,
			      PLURAL(count - most));
	text_add(lines, "\n");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void move(struct top_view *view, long by)
{
	size_t count;
	_cleanup_free_ const struct top_row **rows = order(view, &count);
	long to = (long)view->selected + by;

	if (!rows || !count)
		return;
	to = to < 0 ? 0 : to >= (long)count ? (long)count - 1 : to;
	view->selected = (size_t)to;
	free(view->name);
	view->name = strdup(rows[to]->name);
}

static void type(struct top_view *view, int key)
{
	size_t length = strlen(view->find);

	if (key == '\r' || key == '\n') {
		view->is_typing = false;
	} else if (key == TOP_ESCAPE) {
		view->is_typing = false;
		view->find[0] = '\0';
	} else if (key == 127 || key == 8) {
		view->find[length ? length - 1 : 0] = '\0';
	} else if (key < 256 && isprint(key) && length + 1 < sizeof(view->find)) {
		view->find[length] = (char)key;
		view->find[length + 1] = '\0';
	}
}

static void switch_row(struct top_view *view, struct session *session)
{
	size_t index, count;

	if (view->by_key)
		return;
	move(view, 0); /* names the selected row */
	if (!view->name)
		return;
	_cleanup_error_ struct error *unknown = session_find(session, view->name, &index);
	if (!unknown)
		error_free(session_switch(session, view->name,
					  !session_tracepoint(session, index).enabled, &count));
}

static void change_page(struct top_view *view, struct session *session, enum top_page page)
{
	if (view->page == TOP_DETAIL)
		top_callers_end(view, session);
	move(view, 0);
	view->page = page;
	if (page == TOP_DETAIL && view->name)
		top_callers_begin(view, session);
}

static void sort_next(struct top_view *view, int by)
{
	int column = sort_column(view) + by;

	column = column < 0 ? 0 : column >= (int)SORTS ? (int)SORTS - 1 : column;
	view->sort = (int)sorts[column];
}

bool top_view_key(struct top_view *view, struct session *session, int key, unsigned height)
{
	long page = height > HEAD_LINES ? (long)(height - HEAD_LINES) : 1;

	if (view->is_typing)
		return type(view, key), true;
	if (key == 'q' && view->page != TOP_HELP) /* from which any key leads back */
		return false;
	if (view->page != TOP_TABLE) {
		if (view->page == TOP_HELP || key == TOP_ESCAPE || key == '\r' || key == '\n')
			change_page(view, session, TOP_TABLE);
		return true;
	}
	if (key == TOP_UP || key == TOP_DOWN)
		move(view, key == TOP_UP ? -1 : 1);
	else if (key == TOP_PAGE_UP || key == TOP_PAGE_DOWN)
		move(view, key == TOP_PAGE_UP ? -page : page);
	else if (key == '<' || key == '>')
		sort_next(view, key == '<' ? -1 : 1);
	else if (key == '\r' || key == '\n')
		change_page(view, session, TOP_DETAIL);
	else if (key == 'h' || key == '?')
		change_page(view, session, TOP_HELP);
	else if (key == ' ')
		view->is_paused = !view->is_paused;
	else if (key == 'e')
		switch_row(view, session);
	else if (key == '/')
		view->is_typing = true;
	else if (key == TOP_ESCAPE)
		view->find[0] = '\0';
	return true;
}
