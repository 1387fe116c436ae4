/*
 * export_folded.c - folded stacks, "main;work;read 1234": self time in ns per call path, as
 * programs that draw flame graphs read it. Without exits the weight would be unknown.
 */
#include <inttypes.h>
#include <string.h>

#include "export.h"
#include "options/table_text.h"

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

struct error *export_folded(struct exporting *exporting)
{
	struct report report = { .wants_tree = true };
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
