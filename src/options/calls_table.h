/*
 * calls_table.h - the one table of calls: the summary of `trace`, `report`, and counts by key.
 *
 * For people it fits into 80 columns: calls, total, self, mean, p99, max, function; `wide` has the
 * rest. For programs, JSON and CSV have all numbers, times in ns. Prints nothing: appends to a
 * strbuf, whose failure is sticky.
 */
#ifndef DYNTRACE_CALLS_TABLE_H
#define DYNTRACE_CALLS_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/base/strbuf.h"
#include "control/record/distribution.h"

#define CALLS_ROWS_USUAL 40
#define CALLS_NAMES_MAX 8

enum calls_sort { CALLS_BY_DEFAULT, CALLS_BY_COUNT, CALLS_BY_TOTAL, CALLS_BY_SELF, CALLS_BY_MEAN,
		  CALLS_BY_P50, CALLS_BY_P90, CALLS_BY_P99, CALLS_BY_MAX, CALLS_BY_NAME };
extern const char *const calls_sorts[]; /* the words for them; ends with NULL */

/* A name in a row: of the function, or a key. */
struct calls_name {
	const char *text;
	bool is_number; /* JSON has no quotes around it */
};

struct calls_row {
	const struct calls_name *names; /* one per title */
	bool has_values; /* its calls' ends are seen: `calls` counts, not `hits` */
	bool has_self;
	bool has_fates; /* its exits are recorded */
	uint64_t hits, lost, calls;
	int64_t total, self, mean, p50, p90, p99, max; /* ns, or what else the values are */
	uint64_t unwound, inside, missed, cut, partial;
	/* hits that were only counted (--overhead); among `hits`, unless there is a filter */
	uint64_t counted;
	uint64_t off; /* ns in which hits weren't counted either */
	uint64_t unseen; /* hits of that time, by estimate */
	uint64_t judged; /* with a budget: hits that a filter or limit was asked about */
	double rate; /* hits per second */
	const struct distribution *values; /* for histograms; NULL: unknown */
};

/* Columns that not every source knows. */
enum calls_columns {
	CALLS_HAS_LOST = 1,
	CALLS_HAS_RATE = 2,
	CALLS_HAS_MISSED = 4,
	CALLS_HAS_CUT = 8, /* cut and partial */
	CALLS_HAS_SELF = 16,
	CALLS_HAS_FATES = 32, /* unwound and inside */
	CALLS_HAS_COUNTED = 64, /* counted and off */
};

struct calls_table {
	const char *const *titles; /* of names: "function", or the keys */
	size_t title_count; /* at most CALLS_NAMES_MAX */
	bool names_first; /* for keys; functions come last */
	unsigned columns; /* enum calls_columns */
	bool has_values; /* otherwise only hits are known */
	bool is_time; /* values are times in ns */
	bool is_wide, has_histograms, is_linear;
	const struct calls_row *rows;
	size_t count;
	uint64_t left; /* rows that were left out */
};

/* Takes calls, mean, percentiles and max from the values; total is their sum. */
void calls_row_take(struct calls_row *row, const struct distribution *values);
/* Calls whose ends were seen, or hits. */
uint64_t calls_row_count(const struct calls_row *row);

/* Most first. By default: the total if there are values, otherwise hits. */
void calls_table_sort(struct calls_row *rows, size_t count, enum calls_sort sort, bool has_values);

void calls_table_text(const struct calls_table *table, struct strbuf *text);
/* A list of objects, "[...]" with a line each. */
void calls_table_json(const struct calls_table *table, struct strbuf *text);
void calls_table_csv(const struct calls_table *table, struct strbuf *text);

/* Explains calls without an exit in one line; nothing if there are none. */
struct calls_fates {
	uint64_t unwound, inside, missed;
};
void calls_table_fates(const struct calls_fates *fates, struct strbuf *text);

/* The columns of rows with hits that were only counted, or none. */
unsigned calls_table_counted(const struct calls_row *rows, size_t count);
/* Says so in words, a line per function for the first few; nothing if there are none. */
void calls_table_demoted(const struct calls_row *rows, size_t count, struct strbuf *text);

/* The distribution alone: a bar per line, with the percentiles beside. */
void calls_histogram(const struct distribution *values, bool is_time, bool is_linear,
		     struct strbuf *text);

#endif
