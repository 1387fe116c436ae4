#include "summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "options/commands.h"
#include "summary_exits.h"

#define ROWS_MAX 40
#define REFUSALS_MAX 5
#define COPIES_MAX 8

static int by_hits(const void *a, const void *b)
{
	const struct tracepoint_info *x = a, *y = b;

	if (x->hits != y->hits)
		return x->hits < y->hits ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int name_width(const struct tracepoint_info *rows, size_t count)
{
	int width = (int)strlen("tracepoint");

	for (size_t i = 0; i < count; i++) {
		int length = (int)strlen(rows[i].name);

		if (length > width && length <= 60)
			width = length;
	}
	return width;
}

static bool has_exits(const struct tracepoint_info *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (rows[i].has_exit)
			return true;
	}
	return false;
}

/* True if all tracepoints only count: they lose nothing, so hits/s replaces the losses. */
static bool is_counted(const struct tracepoint_info *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!rows[i].tracer || strcmp(rows[i].tracer, "count") != 0)
			return false;
	}
	return count > 0;
}

static void print_rows(const struct tracepoint_info *rows, size_t count, bool all)
{
	size_t shown = all || count <= ROWS_MAX ? count : ROWS_MAX;
	int width = name_width(rows, shown);

	bool counted = is_counted(rows, count);

	cli_print_error("%-*s  %12s  %12s", width, "tracepoint", "hits",
		counted ? "hits/s" : "lost");
	if (has_exits(rows, count))
		summary_exits_head();
	cli_print_error("\n");
	for (size_t i = 0; i < shown; i++) {
		cli_print_error("%-*s  %12llu", width, rows[i].name,
			(unsigned long long)rows[i].hits);
		if (counted)
			cli_print_error("  %12.0f", rows[i].rate);
		else
			cli_print_error("  %12llu", (unsigned long long)rows[i].lost);
		summary_exits_row(&rows[i]);
		cli_print_error("\n");
	}
	if (shown < count)
		cli_print_error("(and %zu more)\n", count - shown);
}

/* True for a tracepoint whose library was never loaded. */
static bool has_waited(const struct tracepoint_info *info)
{
	return info->how && strcmp(info->how, "waiting") == 0 && !info->hits && !info->lost;
}

static void print_refusals(const struct session *session)
{
	size_t refused = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (has_waited(&info) && refused++ < REFUSALS_MAX)
			cli_print_error("not placed: %s: %s\n", info.name,
				info.refusal ? info.refusal : "no library with this function was loaded");
		else if (info.refusal && !info.how && refused++ < REFUSALS_MAX)
			cli_print_error("not placed: %s: %s\n", info.name, info.refusal);
	}
	if (refused > REFUSALS_MAX)
		cli_print_error("not placed: %zu more\n", refused - REFUSALS_MAX);
}

/* Tells tracepoints of one place in several copies of a library apart. */
static void print_copies(const struct session *session)
{
	size_t shown = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.copy_at.v && shown++ < COPIES_MAX)
			cli_print_error("%s: in the copy of %s at 0x%llx\n", info.name, info.module,
				(unsigned long long)info.copy_at.v);
	}
	if (shown > COPIES_MAX)
		cli_print_error("(and %zu more in copies)\n", shown - COPIES_MAX);
}

static void print_uncalled(const struct session *session)
{
	uint64_t nested = 0, cramped = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		nested += session_tracepoint(session, i).nested;
		cramped += session_tracepoint(session, i).cramped;
	}
	if (cramped)
		cli_print_error("not called: %llu hits with less than 8 KiB of stack left\n",
			(unsigned long long)cramped);
	if (nested)
		cli_print_error("not called: %llu hits inside probe functions of the tracer call\n",
			(unsigned long long)nested);
}

static void print_size(uint64_t bytes)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
	double value = (double)bytes;
	size_t unit = 0;

	while (value >= 1024 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1024;
		unit++;
	}
	cli_print_error(unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

/* How long hits were counted: from when the last tracepoint was placed, the same for all. */
static double recorded_seconds(const struct session_summary *summary)
{
	return (double)summary->recorded_ns / 1e9;
}

static void print_totals(const struct session_summary *summary, const char *directory)
{
	const struct reader_totals *totals = &summary->totals;

	cli_print_error("%llu event%s, %llu lost", (unsigned long long)totals->events,
		totals->events == 1 ? "" : "s", (unsigned long long)(totals->lost + totals->holes));
	if (totals->holes)
		cli_print_error(" (%llu of them cut off by a signal)",
			(unsigned long long)totals->holes);
	if (totals->overwritten)
		cli_print_error(", %llu overwritten", (unsigned long long)totals->overwritten);
	cli_print_error(", ");
	print_size(totals->bytes);
	cli_print_error(" in %.3f s", recorded_seconds(summary));
	if (totals->damaged)
		cli_print_error(
			"; the program has damaged its counts of lost events: the lost are at most as many");
	if (access(directory, F_OK))
		cli_print_error("; no trace\n");
	else
		cli_print_error("; trace: %s\n", directory);
}

void summary_print(const struct session *session, const struct session_summary *summary,
		   const char *directory, bool all_rows)
{
	size_t count = session_tracepoint_count(session), placed = 0;
	_cleanup_free_ struct tracepoint_info *rows = calloc(count + 1, sizeof(*rows));

	for (size_t i = 0; rows && i < count; i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.how && !has_waited(&info))
			rows[placed++] = info;
	}
	fflush(stdout);
	if (rows) {
		qsort(rows, placed, sizeof(*rows), by_hits);
		print_rows(rows, placed, all_rows);
	}
	print_copies(session);
	print_refusals(session);
	print_uncalled(session);
	summary_exits_rest(session);
	if (directory)
		print_totals(summary, directory);
	else
		cli_print_error("traced for %.3f s\n", recorded_seconds(summary));
	if (summary->late_libraries)
		cli_note(
			"placing tracepoints in a newly loaded library took more than 2 s, and the process went "
			"on: earlier calls are missing");
	if (summary->suspended)
		cli_note(
			"the process's filter of system calls was suspended for %" PRIu64
			" calls of dyntrace's (--no-suspend forbids this)",
			summary->suspended);
	if (summary->left && !summary->probes_left) /* that is an error */
		cli_note("%s", summary->why);
}
