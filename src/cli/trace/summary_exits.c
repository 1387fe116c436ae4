#include "summary_exits.h"

#include <stdio.h>
#include <stdlib.h>

#include "options/commands.h"
#include "options/time_text.h"

#define REFUSALS_MAX 5

void summary_exits_time(uint64_t ns, char *text)
{
	time_text(ns, text);
}

void summary_exits_head(void)
{
	cli_print_error("  %9s %9s %9s %9s %9s %9s %9s  %8s %8s %8s", "total", "mean", "p50", "p90",
		"p99", "max", "self", "unwound", "inside", "missed");
}

static void print_time(bool known, uint64_t ns)
{
	char text[TIME_TEXT] = "-";

	if (known)
		summary_exits_time(ns, text);
	cli_print_error(" %9s", text);
}

void summary_exits_row(const struct tracepoint_info *row)
{
	const struct tracepoint_times *times = &row->times;
	bool any = times->calls > 0;

	if (!row->has_exit)
		return;
	cli_print_error(" ");
	print_time(any, times->total);
	print_time(any, any ? times->durations / times->calls : 0);
	print_time(any, times->p50);
	print_time(any, times->p90);
	print_time(any, times->p99);
	print_time(any, times->max);
	print_time(any && times->self_known, times->self);
	cli_print_error("  %8llu %8llu %8llu", (unsigned long long)row->unwound,
		(unsigned long long)row->inside, (unsigned long long)row->missed);
}

static void print_foreign(const struct session *session)
{
	char *runtimes;
	uint64_t count = session_foreign_calls(session, &runtimes);

	if (count && runtimes)
		cli_print_error(
			"missed: %llu calls from code that finds its frames by return address (%s), "
			"or was made at run time\n",
			(unsigned long long)count, runtimes);
	else if (count)
		cli_print_error(
			"missed: %llu calls from code that was made at run time or has no unwind "
			"tables\n",
			(unsigned long long)count);
	free(runtimes);
	count = session_jumped_calls(session);
	if (count)
		cli_print_error("missed: %llu calls that ended in a jump to another function\n",
				(unsigned long long)count);
}

/* Says why calls by a runtime have no exit, once per reason's function. */
static void print_late_refusals(const struct session *session)
{
	size_t refused = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.late_refusal && info.missed && refused++ < REFUSALS_MAX)
			cli_print_error("missed: %llu calls of %s: %s\n",
					(unsigned long long)info.missed, info.name,
					info.late_refusal);
	}
	if (refused > REFUSALS_MAX)
		cli_print_error("missed: calls of %zu more functions\n", refused - REFUSALS_MAX);
}

void summary_exits_rest(const struct session *session)
{
	uint64_t unwound = 0, inside = 0, missed = 0;
	size_t refused = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.exit_refusal && refused++ < REFUSALS_MAX)
			cli_print_error("exit not traced: %s: %s\n", info.name, info.exit_refusal);
		unwound += info.unwound;
		inside += info.inside;
		missed += info.missed;
	}
	if (refused > REFUSALS_MAX)
		cli_print_error("exit not traced: %zu more\n", refused - REFUSALS_MAX);
	if (unwound + inside + missed)
		cli_print_error("calls without an exit: %llu unwound, %llu inside, %llu missed\n",
			(unsigned long long)unwound, (unsigned long long)inside,
			(unsigned long long)missed);
	print_foreign(session);
	print_late_refusals(session);
}
