/*
 * export_folded.c - folded stacks, "main;work;read 1234", as programs that draw flame graphs read
 * them: self time in ns per call path, or, where no exits were recorded, hits per backtrace.
 */
#include <inttypes.h>
#include <string.h>

#include "cli/report/report_by.h"
#include "cli/view/view_tree.h"
#include "export.h"
#include "options/table_text.h"

#define STACKS_MAX 65536 /* kept apart */

/* A semicolon separates functions, and a space ends the path. */
static void add_name(struct strbuf *text, const char *name)
{
	for (const char *at = name; *at;) {
		size_t length = strcspn(at, "; ");

		quote_plain(text, at, length);
		at += length;
		if (*at) {
			text_add(text, "_");
			at++;
		}
	}
}

static void add_path(const struct report *report, uint32_t node, struct strbuf *text)
{
	const struct report_node *one = &report->nodes.items[node];

	if (one->parent) {
		add_path(report, one->parent, text); /* at most TREE_DEPTH deep */
		text_add(text, ";");
	}
	add_name(text, report->functions.items[one->function].name);
}

static struct error *fold_backtraces(struct exporting *exporting)
{
	struct question question;
	struct viewer viewer = { .reader = exporting->reader, .line.colours = { "", "", "", "", "" } };
	struct report report = { .viewer = &viewer };
	struct error *error = question_parse("backtrace", NULL, &question);

	if (error)
		return error;
	report.by = report_by_create(&question, STACKS_MAX);
	error = report.by ? report_read(&report, exporting->traces, exporting->reader) :
			    error_new(ERROR_FAILED, "out of memory");
	exporting->is_damaged = report.is_damaged;
	if (!error && (error = report_by_error(report.by))) {
		error_free(error);
		error = error_new(ERROR_FAILED,
				  "the trace has neither durations nor backtraces (record with 'trace -e', "
				  "or with '-t backtrace')");
	}
	if (!error)
		report_by_fold(report.by, &report, add_name, &exporting->text);
	report_by_free(report.by);
	report_free(&report);
	question_free(&question);
	view_own_end(&viewer);
	return error;
}

struct error *export_folded(struct exporting *exporting)
{
	struct report report = { .wants_tree = true };

	if (!view_tree_has_exits(exporting->traces))
		return fold_backtraces(exporting);
	struct error *error = report_read(&report, exporting->traces, exporting->reader);
	exporting->is_damaged = report.is_damaged;
	for (uint32_t i = 1; !error && i < report.nodes.count; i++) {
		if (!report.nodes.items[i].self)
			continue;
		add_path(&report, i, &exporting->text);
		quote_format(&exporting->text, " %" PRIu64 "\n", report.nodes.items[i].self);
		if (!export_flush(exporting, false))
			break;
	}
	report_free(&report);
	return error;
}
