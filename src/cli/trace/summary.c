#include "summary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"
#include "options/calls_table.h"
#include "options/commands.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "summary_exits.h"
#include "trace_question.h"

#define REFUSALS_MAX 5
#define COPIES_MAX 8

/* True if all tracepoints only count: they lose nothing, so hits/s replaces the losses. */
static bool is_counted(const struct tracepoint_info *infos, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (!infos[i].tracer || strcmp(infos[i].tracer, "count") != 0)
			return false;
	}
	return count > 0;
}

/* Other tracers than these two don't know durations. */
static bool has_times(const struct tracepoint_info *info)
{
	return info->has_exit && (!info->tracer || !strcmp(info->tracer, "ctf") ||
				  !strcmp(info->tracer, "count"));
}

static struct calls_row make_row(const struct tracepoint_info *info, struct calls_name *name)
{
	const struct tracepoint_times *times = &info->times;

	*name = (struct calls_name){ .text = info->name };
	return (struct calls_row){
		.names = name,
		.has_values = has_times(info),
		.has_self = times->self_known,
		.has_fates = info->has_exit,
		.hits = info->hits,
		.lost = info->lost,
		.rate = info->rate,
		.calls = times->calls,
		.total = (int64_t)times->total,
		.self = (int64_t)times->self,
		.mean = times->calls ? (int64_t)(times->durations / times->calls) : 0,
		.p50 = (int64_t)times->p50,
		.p90 = (int64_t)times->p90,
		.p99 = (int64_t)times->p99,
		.max = (int64_t)times->max,
		.unwound = info->unwound,
		.inside = info->inside,
		.missed = info->missed,
		.cut = times->cut,
		.counted = info->counted,
		.off = info->off_ns,
		.unseen = info->unseen,
		.judged = info->judged,
	};
}

static void make_table(const struct tracepoint_info *infos, size_t count,
		       const struct summary_options *options, struct calls_row *rows,
		       struct calls_name *names, struct calls_table *table)
{
	for (size_t i = 0; i < count; i++) {
		table->has_values |= infos[i].has_exit;
		if (!options->all_rows && !infos[i].hits && !infos[i].lost)
			continue;
		rows[table->count] = make_row(&infos[i], &names[table->count]);
		table->count++;
	}
	table->columns = CALLS_HAS_SELF | CALLS_HAS_FATES | CALLS_HAS_MISSED |
			 (is_counted(infos, count) ? CALLS_HAS_RATE : CALLS_HAS_LOST) |
			 calls_table_counted(rows, table->count);
	calls_table_sort(rows, table->count, CALLS_BY_DEFAULT, table->has_values);
}

/* Appends the table, or the same as JSON. */
static void add_rows(const struct tracepoint_info *infos, size_t count,
		     const struct summary_options *options, struct strbuf *text)
{
	static const char *const titles[] = { "function" };
	_cleanup_free_ struct calls_row *rows = calloc(count + 1, sizeof(*rows));
	_cleanup_free_ struct calls_name *names = calloc(count + 1, sizeof(*names));
	struct calls_table table = { .titles = titles,
				     .title_count = 1,
				     .is_time = true,
				     .is_wide = options->is_wide,
				     .rows = rows };

	if (!rows || !names)
		return;
	make_table(infos, count, options, rows, names, &table);
	if (options->is_json) {
		calls_table_json(&table, text);
		return;
	}
	if (!options->all_rows && table.count > CALLS_ROWS_USUAL) {
		table.left = table.count - CALLS_ROWS_USUAL;
		table.count = CALLS_ROWS_USUAL;
	}
	if (!table.count && options->filters)
		quote_format(text, "(no calls passed %s)\n", options->filters);
	else
		calls_table_text(&table, text);
	calls_table_demoted(rows, table.count + table.left, text);
}

/* True for a tracepoint that was never placed. */
static bool has_waited(const struct tracepoint_info *info)
{
	return info->how && strcmp(info->how, "waiting") == 0 && !info->was_placed && !info->hits &&
	       !info->lost;
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
		struct tracepoint_info info = session_tracepoint(session, i);

		nested += info.nested;
		cramped += info.cramped;
	}
	if (cramped)
		cli_print_error("not called: %llu hit%s with less than 8 KiB of stack left\n",
			(unsigned long long)cramped, PLURAL(cramped));
	if (nested)
		cli_print_error("not called: %llu hit%s inside probe functions of the tracer call\n",
			(unsigned long long)nested, PLURAL(nested));
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

	uint64_t events = totals->events - summary->removed.events;

	cli_print_error("%llu event%s, %llu lost", (unsigned long long)events,
		events == 1 ? "" : "s", (unsigned long long)(totals->lost + totals->holes));
	if (totals->holes)
		cli_print_error(" (%llu of them cut off by a signal)",
			(unsigned long long)totals->holes);
	if (totals->outside)
		cli_print_error(", %llu left out (--only-inside, --depth)",
			(unsigned long long)totals->outside);
	if (totals->overwritten)
		cli_print_error(", %llu overwritten", (unsigned long long)totals->overwritten);
	if (summary->removed.events)
		cli_print_error(", %llu removed, the oldest first",
			(unsigned long long)summary->removed.events);
	cli_print_error(", ");
	print_size(totals->bytes - summary->removed.bytes);
	cli_print_error(" in %.3f s", recorded_seconds(summary));
	if (totals->damaged)
		cli_print_error(
			"; the program has damaged its counts of lost events: the lost are at most as many");
	if (access(directory, F_OK))
		cli_print_error("; no trace\n");
	else
		cli_print_error("; trace: %s\n", directory);
}

/* Suggests the command that looks at the trace, with all that a shell might misread in quotes. */
static void print_look(const char *directory)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "/._-+:@%,=";

	if (strspn(directory, plain) == strlen(directory) && directory[0] != '-')
		cli_print_error("look at it: dyntrace report %s\n", directory);
	else if (!strchr(directory, '\''))
		cli_print_error("look at it: dyntrace report %s'%s'\n",
				directory[0] == '-' ? "./" : "", directory);
}

/* Tells what would have been enough (V6). */
static void print_shortage(const struct reader_totals *totals)
{
	uint64_t needed = (totals->buffer_needed + (1u << 20) - 1) >> 20; /* MiB */

	if (!needed || totals->damaged)
		return;
	if (needed <= DT_POOL_MAX >> 20)
		cli_note("events were lost because the buffer was full: --buffer-size %" PRIu64
			 "M would have held them (or let threads wait: --mode block)",
			 needed);
	else
		cli_note("events were lost because the buffer was full, and none would have held "
			 "them (trace fewer functions, or let threads wait: --mode block)");
}

static void print_notes(const struct session_summary *summary)
{
	print_shortage(&summary->totals);
	if (summary->late_libraries)
		cli_note(
			"placing tracepoints in a newly loaded library took more than 2 s, and the process went "
			"on: earlier calls are missing");
	if (summary->suspended)
		cli_note(
			"the process's filter of system calls was suspended for %" PRIu64
			" calls of dyntrace's (--no-suspend forbids this)",
			summary->suspended);
}

/* CPU time of dyntrace itself, so far; ns. */
static uint64_t own_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static bool is_cost_measured(const struct tracepoint_info *infos, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (infos[i].cost_measured)
			return true;
	}
	return false;
}

static uint64_t sum_cost(const struct tracepoint_info *infos, size_t count)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++)
		sum += infos[i].cost_ns;
	return sum;
}

/* Begins the object, whose last member is the list of tracepoints. */
static void begin_json(const struct session_summary *summary, const char *directory,
		       const struct tracepoint_info *infos, size_t count, struct strbuf *text)
{
	const struct reader_totals *totals = &summary->totals;
	uint64_t cost = infos ? sum_cost(infos, count) : 0;

	quote_format(text, "{\"events\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"outside\":%" PRIu64 ",\"overwritten\":%" PRIu64 ",\"removed\":%" PRIu64
		     ",\"bytes\":%" PRIu64 ",\"seconds\":%.3f,\"overhead_ns\":%" PRIu64
		     ",\"overhead_measured\":%s,\"own_ns\":%" PRIu64 ",",
		     totals->events - summary->removed.events, totals->lost + totals->holes,
		     totals->outside, totals->overwritten, summary->removed.events,
		     totals->bytes - summary->removed.bytes,
		     recorded_seconds(summary), cost,
		     infos && is_cost_measured(infos, count) ? "true" : "false", own_ns());
	if (directory && !access(directory, F_OK)) {
		text_add_json(text, "trace", directory);
		text_add(text, ",");
	}
	text_add(text, "\"functions\":");
}

static void print_rows(const struct tracepoint_info *infos, size_t count,
		       const struct session_summary *summary, const char *directory,
		       const struct summary_options *options)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	fflush(stdout);
	if (options->is_json)
		begin_json(summary, directory, infos, count, &text);
	if (infos)
		add_rows(infos, count, options, &text);
	text_add(&text, options->is_json ? "}\n" : "");
	cli_print_error_text(&text);
}

static void print_overhead(const struct tracepoint_info *infos, size_t count,
			   const struct session_summary *summary,
			   const struct summary_options *options)
{
	char taken[TIME_TEXT], own[TIME_TEXT];
	uint64_t cost = sum_cost(infos, count);

	if (!options->overhead && (!options->is_wide || !cost))
		return;
	time_text(cost, taken);
	time_text(own_ns(), own);
	cli_print_error("overhead: %s %s of the target's CPU time, %.1f%% of the time traced; "
			"dyntrace itself: %s\n",
			is_cost_measured(infos, count) ? "about" : "at least", taken,
			summary->recorded_ns ?
				(double)cost * 100 / (double)summary->recorded_ns :
				0.0,
			own);
}

static void print_end(const struct session_summary *summary, const char *directory)
{
	if (directory)
		print_totals(summary, directory);
	else
		cli_print_error("traced for %.3f s\n", recorded_seconds(summary));
	print_notes(summary);
	if (directory && summary->totals.events && !access(directory, F_OK))
		print_look(directory);
}

void summary_print_infos(const struct tracepoint_info *infos, size_t count,
			 const struct session_summary *summary, const char *directory,
			 const struct summary_options *options)
{
	print_rows(infos, count, summary, directory, options);
	if (!options->is_json)
		print_end(summary, directory);
}

void summary_print(struct session *session, const struct session_summary *summary,
		   const char *directory, const struct summary_options *options)
{
	size_t count = session_tracepoint_count(session), placed = 0;
	_cleanup_free_ struct tracepoint_info *infos = calloc(count + 1, sizeof(*infos));

	for (size_t i = 0; infos && i < count; i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.how && !has_waited(&info) && !info.is_trigger)
			infos[placed++] = info;
	}
	fflush(stdout);
	if (trace_question_asked())
		trace_question_print(session, false);
	else
		print_rows(infos, placed, summary, directory, options);
	if (options->is_json)
		return;
	print_copies(session);
	print_refusals(session);
	print_uncalled(session);
	summary_exits_rest(session);
	print_overhead(infos, infos ? placed : 0, summary, options);
	print_end(summary, directory);
}
