/*
 * calls_histogram.c - a distribution as bars of text.
 */
#include <inttypes.h>

#include "calls_table.h"
#include "table_text.h"
#include "time_text.h"

#define BAR 30

static void add_bound(struct strbuf *text, int64_t value, bool is_time)
{
	char time[TIME_TEXT];

	if (!is_time) {
		quote_format(text, "%8" PRId64, value);
		return;
	}
	time_text(value > 0 ? (uint64_t)value : 0, time);
	quote_format(text, "%8s", time);
}

/* Names the percentiles that lie in a bar. */
static void add_percentiles(const struct distribution *values, const struct distribution_bar *bar,
			    bool is_last, struct strbuf *text)
{
	static const struct {
		const char *name;
		double share;
	} marks[] = { { "p50", 0.50 }, { "p90", 0.90 }, { "p99", 0.99 } };

	for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
		int64_t value = distribution_quantile(values, marks[i].share);

		if (value >= bar->low && (value < bar->high || is_last))
			quote_format(text, " %s", marks[i].name);
	}
}

void calls_histogram(const struct distribution *values, bool is_time, bool is_linear,
		     struct strbuf *text)
{
	struct distribution_bar bars[DISTRIBUTION_BARS_MAX];
	unsigned count = distribution_bars(values, is_linear, bars);
	uint64_t most = 1;

	for (unsigned i = 0; i < count; i++)
		most = most > bars[i].count ? most : bars[i].count;
	for (unsigned i = 0; i < count; i++) {
		uint64_t filled = (bars[i].count * BAR + most - 1) / most;

		text_add(text, "  ");
		add_bound(text, bars[i].low, is_time);
		text_add(text, " ..");
		add_bound(text, bars[i].high, is_time);
		quote_format(text, "%10" PRIu64 " |", bars[i].count);
		for (unsigned j = 0; j < BAR; j++)
			text_add(text, j < filled ? "#" : " ");
		text_add(text, "|");
		add_percentiles(values, &bars[i], i + 1 == count, text);
		text_add(text, "\n");
	}
}
