#include "calls_table.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"
#include "table_text.h"
#include "time_text.h"

#define CELL 24
#define NAME_WIDTH 40 /* of a name in front of numbers; longer ones get a line */

const char *const calls_sorts[] = { "default", "calls", "total", "self", "mean", "p50",
				    "p90",     "p99",	"max",	 "name", NULL };

/* ---- rows ----------------------------------------------------------------------------------- */

void calls_row_take(struct calls_row *row, const struct distribution *values)
{
	row->values = values;
	row->calls = values->count;
	row->total = values->sum;
	row->mean = distribution_mean(values);
	row->p50 = distribution_quantile(values, 0.50);
	row->p90 = distribution_quantile(values, 0.90);
	row->p99 = distribution_quantile(values, 0.99);
	row->max = values->max;
}

uint64_t calls_row_count(const struct calls_row *row)
{
	return row->has_values ? row->calls : row->hits;
}

static int64_t value_of(const struct calls_row *row, enum calls_sort sort)
{
	switch (sort) {
	case CALLS_BY_COUNT: return (int64_t)calls_row_count(row);
	case CALLS_BY_SELF: return row->self;
	case CALLS_BY_MEAN: return row->mean;
	case CALLS_BY_P50: return row->p50;
	case CALLS_BY_P90: return row->p90;
	case CALLS_BY_P99: return row->p99;
	case CALLS_BY_MAX: return row->max;
	case CALLS_BY_NAME: return 0;
	default: return row->total;
	}
}

/* As numbers, if both are. */
static int compare_names(const struct calls_row *x, const struct calls_row *y)
{
	const struct calls_name *a = x->names, *b = y->names;

	if (a->is_number && b->is_number) {
		double first = strtod(a->text, NULL), second = strtod(b->text, NULL);

		if (first < second || first > second)
			return first < second ? -1 : 1;
	}
	return strcmp(a->text, b->text);
}

static int compare_rows(const void *a, const void *b, void *context)
{
	const struct calls_row *x = a, *y = b;
	enum calls_sort sort = *(const enum calls_sort *)context;
	int64_t first = value_of(x, sort), second = value_of(y, sort);
	uint64_t count = calls_row_count(x), other = calls_row_count(y);

	if (first != second)
		return first < second ? 1 : -1;
	if (sort != CALLS_BY_NAME && count != other)
		return count < other ? 1 : -1;
	return compare_names(x, y);
}

void calls_table_sort(struct calls_row *rows, size_t count, enum calls_sort sort, bool has_values)
{
	if (sort == CALLS_BY_DEFAULT)
		sort = has_values ? CALLS_BY_TOTAL : CALLS_BY_COUNT;
	qsort_r(rows, count, sizeof(*rows), compare_rows, &sort);
}

/* ---- columns -------------------------------------------------------------------------------- */

enum shape { COUNT, NUMBER, FATE, VALUE, SELF, RATE, TIME };
enum { WIDE = 1, EXITS = 2, PLAIN = 4 /* only without values, or wide */, DATA = 8 };

static const struct column {
	const char *title;
	enum shape shape;
	unsigned when;
	unsigned needs; /* enum calls_columns */
	size_t offset;
} columns[] = {
#define AT(member) offsetof(struct calls_row, member)
	{ "calls", COUNT, 0, 0, AT(calls) },
	{ "hits", NUMBER, WIDE | EXITS, 0, AT(hits) },
	{ "lost", NUMBER, WIDE, CALLS_HAS_LOST, AT(lost) },
	{ "counted", NUMBER, 0, CALLS_HAS_COUNTED, AT(counted) },
	{ "off", TIME, WIDE, CALLS_HAS_COUNTED, AT(off) },
	{ "unseen", NUMBER, DATA, CALLS_HAS_COUNTED, AT(unseen) },
	{ "judged", NUMBER, DATA, CALLS_HAS_COUNTED, AT(judged) },
	{ "hits/s", RATE, PLAIN, CALLS_HAS_RATE, AT(rate) },
	{ "total", VALUE, EXITS, 0, AT(total) },
	{ "self", SELF, EXITS, CALLS_HAS_SELF, AT(self) },
	{ "mean", VALUE, EXITS, 0, AT(mean) },
	{ "p50", VALUE, EXITS | WIDE, 0, AT(p50) },
	{ "p90", VALUE, EXITS | WIDE, 0, AT(p90) },
	{ "p99", VALUE, EXITS, 0, AT(p99) },
	{ "max", VALUE, EXITS, 0, AT(max) },
	{ "unwound", FATE, EXITS | WIDE, CALLS_HAS_FATES, AT(unwound) },
	{ "inside", FATE, EXITS | WIDE, CALLS_HAS_FATES, AT(inside) },
	{ "missed", FATE, EXITS | WIDE, CALLS_HAS_MISSED, AT(missed) },
	{ "cut", FATE, EXITS | WIDE, CALLS_HAS_CUT, AT(cut) },
	{ "partial", FATE, EXITS | DATA, CALLS_HAS_CUT, AT(partial) },
#undef AT
};
#define DEMOTED_MAX 8
#define COLUMNS (sizeof(columns) / sizeof(columns[0]))

static bool is_shown(const struct calls_table *table, const struct column *column)
{
	if ((table->columns & column->needs) != column->needs || (column->when & DATA))
		return false;
	if ((column->when & EXITS) && !table->has_values)
		return false;
	if (column->when & PLAIN)
		return table->is_wide || !table->has_values;
	return table->is_wide || !(column->when & WIDE);
}

static const char *title_of(const struct calls_table *table, const struct column *column)
{
	return column->shape == COUNT && !table->has_values ? "hits" : column->title;
}

static uint64_t number_at(const struct calls_row *row, const struct column *column)
{
	uint64_t number;

	if (column->shape == COUNT)
		return calls_row_count(row);
	memcpy(&number, (const char *)row + column->offset, sizeof(number));
	return number;
}

/* "-" for a value that isn't known. */
static void make_cell(const struct calls_table *table, const struct calls_row *row,
		      const struct column *column, char cell[CELL])
{
	uint64_t number = number_at(row, column);
	bool is_known = row->has_values && row->calls && (column->shape != SELF || row->has_self);

	if (column->shape == RATE)
		snprintf(cell, CELL, "%.0f", row->rate);
	else if (column->shape == COUNT || column->shape == NUMBER ||
		 (column->shape == FATE && row->has_fates))
		snprintf(cell, CELL, "%" PRIu64, number);
	else if (column->shape == TIME)
		time_text(number, cell);
	else if (!is_known || column->shape == FATE)
		snprintf(cell, CELL, "-");
	else if (table->is_time)
		time_text(number, cell);
	else
		snprintf(cell, CELL, "%" PRId64, (int64_t)number);
}

/* ---- text ----------------------------------------------------------------------------------- */

/* Columns on a terminal, escaped: continuation bytes of UTF-8 take none. */
static size_t width_of(const char *name)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	size_t width = 0;

	quote_plain(&text, name, strlen(name));
	for (size_t i = 0; i < text.length; i++)
		width += ((unsigned char)text.text[i] & 0xc0) != 0x80;
	return width;
}

struct layout {
	size_t numbers[COLUMNS]; /* widths */
	size_t *names; /* NULL: names come last */
};

static void measure(const struct calls_table *table, struct layout *layout)
{
	char cell[CELL];

	for (size_t i = 0; i < COLUMNS; i++) {
		layout->numbers[i] = strlen(title_of(table, &columns[i]));
		for (size_t j = 0; is_shown(table, &columns[i]) && j < table->count; j++) {
			make_cell(table, &table->rows[j], &columns[i], cell);
			if (layout->numbers[i] < strlen(cell))
				layout->numbers[i] = strlen(cell);
		}
	}
	for (size_t i = 0; layout->names && i < table->title_count; i++) {
		layout->names[i] = width_of(table->titles[i]);
		for (size_t j = 0; j < table->count; j++) {
			size_t width = width_of(table->rows[j].names[i].text);

			if (layout->names[i] < width && width <= NAME_WIDTH)
				layout->names[i] = width;
		}
	}
}

static void add_spaces(struct strbuf *text, size_t count)
{
	for (size_t i = 0; i < count; i++)
		text_add(text, " ");
}

/* Names in front of the numbers; a long one ends its line. `row` NULL: the titles. */
static void add_first_names(const struct calls_table *table, const struct layout *layout,
			    const struct calls_row *row, struct strbuf *text)
{
	size_t before = 0;

	for (size_t i = 0; i < table->title_count; i++) {
		const char *name = row ? row->names[i].text : table->titles[i];
		size_t width = width_of(name);

		quote_format(text, "%s", name);
		before += layout->names[i] + (i > 0) * 2;
		if (width > layout->names[i]) {
			text_add(text, "\n");
			add_spaces(text, before);
		} else {
			add_spaces(text, layout->names[i] - width);
		}
		text_add(text, "  ");
	}
}

static void add_last_names(const struct calls_table *table, const struct calls_row *row,
			   struct strbuf *text)
{
	for (size_t i = 0; i < table->title_count; i++)
		quote_format(text, "  %s", row ? row->names[i].text : table->titles[i]);
}

static void add_line(const struct calls_table *table, const struct layout *layout,
		     const struct calls_row *row, struct strbuf *text)
{
	bool is_first = true;
	char cell[CELL];

	if (layout->names)
		add_first_names(table, layout, row, text);
	for (size_t i = 0; i < COLUMNS; i++) {
		if (!is_shown(table, &columns[i]))
			continue;
		if (row)
			make_cell(table, row, &columns[i], cell);
		quote_format(text, "%*s", (int)layout->numbers[i] + (is_first ? 0 : 2),
			     row ? cell : title_of(table, &columns[i]));
		is_first = false;
	}
	if (!layout->names)
		add_last_names(table, row, text);
	text_add(text, "\n");
}

void calls_table_text(const struct calls_table *table, struct strbuf *text)
{
	size_t names[CALLS_NAMES_MAX];
	struct layout layout = { .names = table->names_first ? names : NULL };

	assert(table->title_count <= CALLS_NAMES_MAX);
	if (!table->count) {
		text_add(text, "(no calls)\n");
		return;
	}
	measure(table, &layout);
	add_line(table, &layout, NULL, text);
	for (size_t i = 0; i < table->count; i++) {
		const struct calls_row *row = &table->rows[i];

		add_line(table, &layout, row, text);
		if (table->has_histograms && row->values)
			calls_histogram(row->values, table->is_time, table->is_linear, text);
	}
	if (table->left)
		quote_format(text, "(and %" PRIu64 " more: --all-rows)\n", table->left);
}

void calls_table_fates(const struct calls_fates *fates, struct strbuf *text)
{
	static const char *const meanings[] = {
		"unwound (left by an exception, longjmp or the like)",
		"inside (hadn't returned when recording ended)",
		"missed (their returns couldn't be watched)",
	};
	uint64_t counts[] = { fates->unwound, fates->inside, fates->missed };
	const char *before = "calls without an exit: ";
	size_t length = text->length;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (!counts[i])
			continue;
		quote_format(text, "%s%" PRIu64 " %s", before, counts[i], meanings[i]);
		before = ", ";
	}
	text_add(text, text->length > length ? "\n" : "");
}

unsigned calls_table_counted(const struct calls_row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].counted || rows[i].off || rows[i].judged)
			return CALLS_HAS_COUNTED;
	}
	return 0;
}

void calls_table_demoted(const struct calls_row *rows, size_t count, struct strbuf *text)
{
	uint64_t hits = 0, longest = 0, others = 0, off = 0, shown = 0, unseen = 0;
	char cell[CELL];

	for (size_t i = 0; i < count; i++) {
		if (rows[i].counted && shown++ < DEMOTED_MAX) {
			quote_format(text, "(+ %" PRIu64 " call%s counted, not recorded, of %s)\n",
				     rows[i].counted, PLURAL(rows[i].counted),
				     rows[i].names[0].text);
		} else if (rows[i].counted) {
			others++;
			hits += rows[i].counted;
		}
		off += rows[i].off > 0;
		unseen += rows[i].unseen;
		longest = rows[i].off > longest ? rows[i].off : longest;
	}
	if (others)
		quote_format(text,
			     "(+ %" PRIu64 " call%s counted, not recorded, of %" PRIu64
			     " other function%s)\n",
			     hits, PLURAL(hits), others, PLURAL(others));
	if (!off)
		return;
	time_text(longest, cell);
	quote_format(text,
		     "off for a time, at most %s: %" PRIu64
		     " function%s (--overhead), whose calls of that time aren't known",
		     cell, off, PLURAL(off));
	if (unseen)
		quote_format(text, " (about %" PRIu64 ")", unseen);
	text_add(text, "\n");
}

/* ---- for programs --------------------------------------------------------------------------- */

static bool is_data(const struct calls_table *table, const struct column *column)
{
	return column->shape != RATE && (table->columns & column->needs) == column->needs;
}

static const char *unit_of(const struct calls_table *table, const struct column *column)
{
	return column->shape == TIME ||
			       (table->is_time &&
				(column->shape == VALUE || column->shape == SELF)) ?
		       "_ns" :
		       "";
}

/* The calls' number is exact: 0 where exits aren't seen. */
static void add_number(const struct calls_row *row, const struct column *column,
		       struct strbuf *text)
{
	uint64_t number = column->shape == COUNT ? row->calls : number_at(row, column);

	if (column->shape == VALUE || column->shape == SELF)
		text_signed(text, (int64_t)number);
	else
		text_unsigned(text, number);
}

static void add_json_names(const struct calls_table *table, const struct calls_row *row,
			   struct strbuf *text)
{
	if (!table->names_first) {
		text_add_json(text, "name", row->names[0].text);
		return;
	}
	text_add(text, "\"key\":{");
	for (size_t i = 0; i < table->title_count; i++) {
		text_add(text, i ? "," : "");
		quote_json(text, table->titles[i], strlen(table->titles[i]));
		text_add(text, ":");
		if (row->names[i].is_number)
			text_own(text, row->names[i].text);
		else
			quote_json(text, row->names[i].text, strlen(row->names[i].text));
	}
	text_add(text, "}");
}

void calls_table_json(const struct calls_table *table, struct strbuf *text)
{
	text_add(text, "[");
	for (size_t i = 0; i < table->count; i++) {
		text_add(text, i ? ",\n{" : "\n{");
		add_json_names(table, &table->rows[i], text);
		for (size_t j = 0; j < COLUMNS; j++) {
			if (!is_data(table, &columns[j]))
				continue;
			quote_format(text, ",\"%s%s\":", columns[j].title,
				     unit_of(table, &columns[j]));
			add_number(&table->rows[i], &columns[j], text);
		}
		text_add(text, "}");
	}
	text_add(text, "\n]");
}

void calls_table_csv(const struct calls_table *table, struct strbuf *text)
{
	for (size_t i = 0; i < table->title_count; i++) {
		text_add(text, i ? "," : "");
		if (table->names_first)
			text_add_csv(text, table->titles[i], strlen(table->titles[i]));
		else
			text_own(text, table->titles[i]);
	}
	for (size_t j = 0; j < COLUMNS; j++)
		if (is_data(table, &columns[j]))
			quote_format(text, ",%s%s", columns[j].title, unit_of(table, &columns[j]));
	text_add(text, "\n");
	for (size_t i = 0; i < table->count; i++) {
		for (size_t j = 0; j < table->title_count; j++) {
			const char *name = table->rows[i].names[j].text;

			text_add(text, j ? "," : "");
			text_add_csv(text, name, strlen(name));
		}
		for (size_t j = 0; j < COLUMNS; j++)
			if (is_data(table, &columns[j])) {
				text_add(text, ",");
				add_number(&table->rows[i], &columns[j], text);
			}
		text_add(text, "\n");
	}
}
