#include "top_rows.h"

#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "control/base/quote.h"
#include "control/session/follow_exec/session_rows.h"

typedef VEC(struct top_row) row_list;

static void free_items(struct top_row *items, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(items[i].name);
	free(items);
}

void top_rows_free(struct top_rows *rows)
{
	free_items(rows->items.items, rows->items.count);
	*rows = (struct top_rows){ 0 };
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct top_row *)a)->name, ((const struct top_row *)b)->name);
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool push(struct top_rows *rows, struct top_row row)
{
	if (row.name && vec_push(&rows->items, row))
		return true;
	free(row.name);
	return false;
}

static bool read_functions(const struct session *session, struct top_rows *rows)
{
	rows->functions = session_tracepoint_count(session);
	rows->is_time = true;
	for (size_t i = 0; i < rows->functions; i++) {
		struct tracepoint_info info = session_tracepoint(session, i);
		const struct tracepoint_times *times = &info.times;

		if (!info.hits && info.enabled)
			continue;
		struct top_row row = { .name = strdup(info.name),
				       .is_off = !info.enabled || info.level == SWITCH_OFF,
				       .is_counted = info.level == SWITCH_COUNTED,
				       .hits = info.hits,
				       .has_times = times->calls,
				       .total = (int64_t)times->total,
				       .self = (int64_t)times->self,
				       .p50 = (int64_t)times->p50,
				       .p99 = (int64_t)times->p99,
				       .max = (int64_t)times->max };
		if (times->calls)
			row.mean = (int64_t)(times->durations / times->calls);
		if (!push(rows, row))
			return false;
	}
	return true;
}

/* The keys of a row as one text. */
static char *join_names(const struct count_row *row)
{
	struct strbuf text = { 0 };

	if (row->is_other)
		return strdup("(other keys)");
	for (size_t i = 0; i < QUESTION_KEYS_MAX && row->names[i]; i++)
		quote_format(&text, "%s%s", i ? ", " : "", row->names[i]);
	if (text.failed)
		strbuf_free(&text);
	return text.text;
}

static bool read_keys(const struct count_rows *counted, struct top_rows *rows)
{
	rows->functions = counted->rows.count;
	rows->is_time = counted->is_time;
	for (size_t i = 0; i < counted->rows.count; i++) {
		const struct count_row *from = &counted->rows.items[i];
		const struct distribution *values = &from->values;

		if (!push(rows, (struct top_row){ .name = join_names(from),
						  .hits = from->hits,
						  .has_times = values->count,
						  .total = from->total,
						  .self = from->self,
						  .mean = distribution_mean(values),
						  .p50 = distribution_quantile(values, 0.5),
						  .p99 = distribution_quantile(values, 0.99),
						  .max = values->max }))
			return false;
	}
	return true;
}

/* ---- since the last look --------------------------------------------------------------------- */

static void compare(struct top_row *row, const struct top_row *before, double seconds)
{
	const struct top_row none = { 0 };

	before = before ? before : &none;
	row->rate = (double)(row->hits - before->hits) / seconds;
	row->total_share = (double)(row->total - before->total) / (seconds * 1e9);
	row->self_share = (double)(row->self - before->self) / (seconds * 1e9);
	memcpy(row->history, before->history + 1, sizeof(row->history) - sizeof(row->history[0]));
	row->history[TOP_HISTORY - 1] = (float)row->rate;
}

struct error *top_rows_read(struct session *session, bool by_key, struct top_rows *rows)
{
	_cleanup_(count_rows_free) struct count_rows counted = { 0 };
	struct top_rows now = { .read_ns = now_ns(), .overhead = session_overhead(session) };
	struct error *error = by_key ? session_rows(session, false, &counted) : NULL;

	if (error)
		return error;
	if (!(by_key ? read_keys(&counted, &now) : read_functions(session, &now))) {
		top_rows_free(&now);
		return error_new(ERROR_FAILED, "out of memory");
	}
	uint64_t since = rows->read_ns ? rows->read_ns : session_begun_ns(session);
	double seconds = since && now.read_ns > since ? (double)(now.read_ns - since) / 1e9 : 1;

	if (now.items.count)
		qsort(now.items.items, now.items.count, sizeof(*now.items.items), by_name);
	for (size_t i = 0; i < now.items.count; i++) {
		struct top_row *row = &now.items.items[i];
		const struct top_row *before =
			rows->items.count ? bsearch(row, rows->items.items, rows->items.count,
						    sizeof(*row), by_name) :
					    NULL;

		compare(row, before, seconds);
		now.hits += row->hits;
		now.rate += row->rate;
	}
	top_rows_free(rows);
	*rows = now;
	return NULL;
}

bool top_rows_values(struct session *session, bool by_key, const char *name,
		     struct distribution *ret_values)
{
	_cleanup_(count_rows_free) struct count_rows counted = { 0 };
	size_t index;

	if (!by_key) {
		_cleanup_error_ struct error *unknown = session_find(session, name, &index);

		return !unknown && session_durations(session, index, ret_values);
	}
	_cleanup_error_ struct error *error = session_rows(session, false, &counted);
	for (size_t i = 0; !error && i < counted.rows.count; i++) {
		_cleanup_free_ char *names = join_names(&counted.rows.items[i]);

		if (!names || strcmp(names, name) != 0)
			continue;
		*ret_values = counted.rows.items[i].values;
		counted.rows.items[i].values = (struct distribution){ 0 };
		return true;
	}
	return false;
}
