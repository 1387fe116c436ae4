#include "summary_exits.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/base/cleanup.h"
#include "options/calls_table.h"
#include "options/commands.h"

#define REFUSALS_MAX 5
#define CALLS "%llu call%s" /* takes two arguments */
#define CALLS_OF(count) (unsigned long long)(count), (count) == 1 ? "" : "s"

static void print_foreign(const struct session *session)
{
	char *runtimes;
	uint64_t count = session_foreign_calls(session, &runtimes);

	if (count && runtimes)
		cli_print_error(
			"missed: " CALLS " from code that finds its frames by return address (%s), "
			"or was made at run time\n",
			CALLS_OF(count), runtimes);
	else if (count)
		cli_print_error(
			"missed: " CALLS " from code that was made at run time or has no unwind "
			"tables\n",
			CALLS_OF(count));
	free(runtimes);
	count = session_jumped_calls(session);
	if (count)
		cli_print_error("missed: " CALLS " that ended in a jump to another function\n",
				CALLS_OF(count));
}

/* Says why calls by a runtime have no exit, once per reason's function. */
static void print_late_refusals(const struct session *session)
{
	size_t refused = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.late_refusal && info.missed && refused++ < REFUSALS_MAX)
			cli_print_error("missed: " CALLS " of %s: %s\n", CALLS_OF(info.missed),
					info.name, info.late_refusal);
	}
	if (refused > REFUSALS_MAX)
		cli_print_error("missed: calls of %zu more function%s\n",
				refused - REFUSALS_MAX, refused - REFUSALS_MAX == 1 ? "" : "s");
}

void summary_exits_rest(const struct session *session)
{
	struct calls_fates fates = { 0 };
	size_t refused = 0;

	for (size_t i = 0; i < session_tracepoint_count(session); i++) {
		struct tracepoint_info info = session_tracepoint(session, i);

		if (info.exit_refusal && refused++ < REFUSALS_MAX)
			cli_print_error("exit not traced: %s: %s\n", info.name, info.exit_refusal);
		fates.unwound += info.unwound;
		fates.inside += info.inside;
		fates.missed += info.missed;
	}
	if (refused > REFUSALS_MAX)
		cli_print_error("exit not traced: %zu more\n", refused - REFUSALS_MAX);
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	calls_table_fates(&fates, &text);
	cli_print_error_text(&text);
	print_foreign(session);
	print_late_refusals(session);
}
