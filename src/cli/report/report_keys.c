/*
 * report_keys.c - rows by key as text, JSON and CSV.
 */
#include "report_keys.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "options/table_text.h"

#define OTHERS_COUNTED (1u << 18)

/* ---- names ---------------------------------------------------------------------------------- */

/* An address as its function: without the offset, which tells calls of one caller apart. */
static void add_function(struct viewer *viewer, uint64_t address, const struct frames_event *when,
			 bool is_return, struct strbuf *text)
{
	size_t before = text->length;

	frames_print(viewer->line.frames, address, when, is_return, text);
	char *offset = text->text ? strstr(text->text + before, "+0x") : NULL;
	if (offset && offset > text->text + before)
		text->length = (size_t)(offset - text->text);
}

static void add_frames(struct viewer *viewer, const uint8_t *bytes, size_t size,
		       const struct frames_event *when, struct strbuf *text)
{
	for (size_t i = 0; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
		uint64_t address;

		memcpy(&address, bytes + i, sizeof(address));
		if (i)
			text_add(text, " < ");
		frames_print(viewer->line.frames, address, when, i > 0, text);
	}
}

static void add_real(uint64_t bits, bool is_single, struct strbuf *text)
{
	float single;
	double real;

	memcpy(&single, &bits, sizeof(single));
	memcpy(&real, &bits, sizeof(real));
	quote_format(text, "%.9g", is_single ? (double)single : real);
}

/* Appends a part of a key that isn't text already. */
static void add_part(struct viewer *viewer, const struct by_row *row, enum key_tag tag,
		     const uint8_t *bytes, size_t size, struct strbuf *text)
{
	uint64_t number = 0;

	memcpy(&number, bytes, size < sizeof(number) ? size : sizeof(number));
	switch (tag) {
	case KEY_TEXT: break;
	case KEY_UNSIGNED: text_unsigned(text, number); break;
	case KEY_SIGNED: text_signed(text, (int64_t)number); break;
	case KEY_HEX: text_based(text, number, 16); break;
	case KEY_SINGLE:
	case KEY_DOUBLE: add_real(number, tag == KEY_SINGLE, text); break;
	case KEY_FRAMES: add_frames(viewer, bytes, size, &row->when, text); break;
	case KEY_CALLER:
		if (size)
			add_function(viewer, number, &row->when, true, text);
		else
			text_add(text, "(unknown)");
		break;
	case KEY_UNREADABLE: text_add(text, "(unreadable)"); break;
	case KEY_UNKNOWN: text_add(text, "(unknown)"); break;
	}
}

/* Makes the names of a row, which the caller frees; false: out of memory. */
static bool make_names(const struct report_by *by, const struct report *report,
		       const struct by_row *row, struct calls_name *names)
{
	size_t at = 0;

	view_own_modules(report->viewer, &row->input->layout);
	for (size_t i = 0; i < by->question->key_count; i++) {
		_cleanup_(strbuf_free) struct strbuf text = { 0 };
		enum key_tag tag = KEY_UNKNOWN;
		uint16_t size = 0;

		if (at + KEY_HEAD <= row->key_size) {
			tag = (enum key_tag)row->key[at];
			memcpy(&size, row->key + at + 1, sizeof(size));
		}
		const uint8_t *bytes = row->key + at + KEY_HEAD;
		add_part(report->viewer, row, tag, bytes, size, &text);
		at += KEY_HEAD + size;
		names[i].is_number = tag == KEY_UNSIGNED || tag == KEY_SIGNED;
		names[i].text = tag == KEY_TEXT ? strndup((const char *)bytes, size) :
				text.length	? strndup(text.text, text.length) :
						  strdup("");
		if (text.failed || !names[i].text)
			return false;
	}
	return true;
}

/* ---- rows ----------------------------------------------------------------------------------- */

static bool is_duration(const struct report_by *by)
{
	return !by->question->value.text || by->question->value.kind == QUESTION_DURATION;
}

static struct calls_row make_row(const struct report_by *by, const struct by_row *row,
				 const struct calls_name *names)
{
	struct calls_row made = { .names = names,
				  .has_values = row->values.count > 0,
				  .has_self = row->values.count > row->partial,
				  .hits = row->hits };

	calls_row_take(&made, &row->values);
	if (is_duration(by)) {
		made.total = row->total;
		made.self = (int64_t)row->self;
	}
	return made;
}

/* (O6) Adds a row that isn't shown to the one of all others. */
static bool join(struct by_row *other, const struct by_row *row)
{
	other->hits += row->hits;
	other->self += row->self;
	other->partial += row->partial;
	other->total += row->total;
	return distribution_merge(&other->values, &row->values);
}

static const struct by_row *row_behind(const struct calls_row *made)
{
	return (const struct by_row *)((const char *)made->values -
				       offsetof(struct by_row, values));
}

struct shown {
	struct calls_row *rows;
	struct calls_name *names; /* key_count for each row, and for the other keys */
	size_t count;
	uint64_t others; /* keys that share the last row */
	char other[64];
};

/* Joins rows beyond the first `most`, and adds the row of all that were joined. */
static bool add_other(struct report_by *by, uint64_t most, struct shown *shown)
{
	size_t keys = by->question->key_count;
	struct calls_name *names = shown->names + by->rows.count * keys;

	shown->others = by->other_count;
	for (size_t i = most < shown->count ? most : shown->count; i < shown->count; i++) {
		if (!join(&by->other, row_behind(&shown->rows[i])))
			return false;
		shown->others++;
	}
	shown->count = most < shown->count ? most : shown->count;
	if (!by->other.hits)
		return true;
	if (by->other_count > OTHERS_COUNTED)
		snprintf(shown->other, sizeof(shown->other), "(other keys: more than %u)",
			 OTHERS_COUNTED);
	else
		snprintf(shown->other, sizeof(shown->other), "(other keys: %" PRIu64 ")",
			 shown->others);
	for (size_t i = 0; i < keys; i++)
		names[i].text = strdup(i ? "" : shown->other);
	shown->rows[shown->count++] = make_row(by, &by->other, names);
	return true;
}

static bool make_rows(struct report_by *by, const struct report *report,
		      const struct report_options *options, struct shown *shown)
{
	size_t keys = by->question->key_count, count = by->rows.count;
	uint64_t most = options->top			    ? options->top :
			options->all_rows || options->form != FORM_TEXT ? UINT64_MAX :
								  CALLS_ROWS_USUAL;

	shown->rows = calloc(count + 1, sizeof(*shown->rows));
	shown->names = calloc((count + 1) * keys + 1, sizeof(*shown->names));
	if (!shown->rows || !shown->names)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct calls_name *names = shown->names + i * keys;

		if (!make_names(by, report, &by->rows.items[i], names))
			return false;
		shown->rows[shown->count++] = make_row(by, &by->rows.items[i], names);
	}
	calls_table_sort(shown->rows, count, options->sort, by->has_values);
	return add_other(by, most, shown);
}

static void free_shown(struct report_by *by, struct shown *shown)
{
	for (size_t i = 0; shown->names && i < (by->rows.count + 1) * by->question->key_count; i++)
		free((char *)shown->names[i].text);
	free(shown->names);
	free(shown->rows);
}

/* ---- printing ------------------------------------------------------------------------------- */

static void print_table(const struct report_by *by, const struct report *report,
			const struct report_options *options, const struct calls_table *table,
			struct strbuf *text)
{
	if (options->form == FORM_JSON) {
		quote_format(text, "{\"events\":%" PRIu64 ",\"lost\":%" PRIu64
			     ",\"left_out\":%" PRIu64 ",\"rows\":", report->events, report->lost,
			     by->left_out);
		calls_table_json(table, text);
		text_add(text, "}\n");
	} else if (options->form == FORM_CSV) {
		calls_table_csv(table, text);
	} else {
		calls_table_text(table, text);
		if (by->left_out)
			quote_format(text, "%" PRIu64 " call%s no '%s', or not as one value\n",
				     by->left_out,
				     by->left_out == 1 ? " is left out: it has" : "s are left out: they have",
				     by->why ? by->why : "");
		report_notes(report, text);
	}
}

void report_by_print(struct report_by *by, const struct report *report,
		     const struct report_options *options, struct strbuf *text)
{
	const char *titles[QUESTION_KEYS_MAX] = { 0 };
	struct calls_table table = {
		.titles = titles,
		.title_count = by->question->key_count,
		.names_first = true,
		.columns = is_duration(by) ? CALLS_HAS_SELF : 0,
		.has_values = by->has_values,
		.is_time = is_duration(by) || by->question->value.kind == QUESTION_SELF,
		.is_wide = options->wide,
		.has_histograms = options->hist && by->has_values,
		.is_linear = options->linear,
	};
	struct shown shown = { 0 };

	for (size_t i = 0; i < by->question->key_count; i++)
		titles[i] = by->question->keys[i].text;
	if (make_rows(by, report, options, &shown)) {
		table.rows = shown.rows;
		table.count = shown.count;
		print_table(by, report, options, &table, text);
	} else {
		text->failed = true;
	}
	free_shown(by, &shown);
}

/* ---- folded stacks --------------------------------------------------------------------------- */

/* The key is one backtrace, from the innermost function on; folded stacks begin with the outermost.
 */
static void fold_row(const struct report *report, const struct by_row *row,
		     void (*add_name)(struct strbuf *text, const char *name), struct strbuf *text)
{
	size_t size = row->key_size > KEY_HEAD ? row->key_size - KEY_HEAD : 0;

	view_own_modules(report->viewer, &row->input->layout);
	for (size_t i = size / sizeof(uint64_t); i-- > 0;) {
		_cleanup_(strbuf_free) struct strbuf name = { 0 };
		uint64_t address;

		memcpy(&address, row->key + KEY_HEAD + i * sizeof(address), sizeof(address));
		add_function(report->viewer, address, &row->when, i > 0, &name);
		text_add(&name, "");
		add_name(text, name.text ? name.text : "");
		if (i)
			text_add(text, ";");
	}
}

void report_by_fold(const struct report_by *by, const struct report *report,
		    void (*add_name)(struct strbuf *text, const char *name), struct strbuf *text)
{
	for (size_t i = 0; i < by->rows.count; i++) {
		const struct by_row *row = &by->rows.items[i];

		if (row->key_size > KEY_HEAD && row->key[0] == KEY_FRAMES)
			fold_row(report, row, add_name, text);
		else
			add_name(text, "(unknown)");
		quote_format(text, " %" PRIu64 "\n", row->hits);
	}
	if (by->other.hits)
		quote_format(text, "(other_stacks) %" PRIu64 "\n", by->other.hits);
}
