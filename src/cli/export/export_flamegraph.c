/*
 * export_flamegraph.c - call paths as a picture: an SVG that needs nothing else.
 *
 * A frame's width is the time of its path: its own, and that of the paths above it. Frames are
 * elements with a rectangle, a label and a title; flamegraph.js moves them for zoom and search, and
 * without scripts the picture stays as it is written.
 */
#include <inttypes.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"
#include "embedded.h"
#include "export.h"
#include "options/table_text.h"
#include "options/time_text.h"
#include "shared/layout.h"
#include "xml_text.h"

#define WIDTH 1200.0
#define MARGIN 10.0
#define HEAD 58.0 /* above the frames */
#define FOOT 14.0
#define ROW 18.0
#define NARROWEST 0.1 /* frames below aren't drawn */
#define LETTER 6.7 /* width of a letter of the labels' font, about */
#define COLOURS 12u /* classes c0 to c11 of flamegraph.css */

struct drawing {
	const struct report *report;
	struct exporting *exporting;
	uint64_t *weights; /* by node */
	unsigned deepest;
	double scale, bottom;
	uint64_t left; /* paths that aren't drawn */
};

/* Computes the weights of the node and all nodes inside it: at most TREE_DEPTH deep. */
static uint64_t weigh(struct drawing *d, uint32_t node)
{
	const struct report_node *nodes = d->report->nodes.items;
	uint64_t weight = nodes[node].self;

	for (uint32_t i = nodes[node].first; i; i = nodes[i].next)
		weight += weigh(d, i);
	return d->weights[node] = weight;
}

static bool is_drawn(const struct drawing *d, uint32_t node)
{
	return !node || (double)d->weights[node] * d->scale >= NARROWEST;
}

static void find_deepest(struct drawing *d, uint32_t node, unsigned depth)
{
	const struct report_node *nodes = d->report->nodes.items;

	if (!is_drawn(d, node))
		return;
	d->deepest = depth > d->deepest ? depth : d->deepest;
	for (uint32_t i = nodes[node].first; i; i = nodes[i].next)
		find_deepest(d, i, depth + 1);
}

static double share(const struct drawing *d, uint64_t weight)
{
	return d->weights[0] ? (double)weight * 100 / (double)d->weights[0] : 0;
}

static void add_title(struct drawing *d, uint32_t node, const char *name)
{
	const struct report_node *one = &d->report->nodes.items[node];
	struct strbuf *text = &d->exporting->text;
	char time[TIME_TEXT], own[TIME_TEXT];

	time_text(d->weights[node], time);
	time_text(one->self, own);
	text_add(text, "<title>");
	xml_text(text, name, 0);
	if (node)
		quote_format(text, "\n%s (%.2f%%), self %s (%.2f%%), calls %" PRIu64 "</title>",
			     time, share(d, d->weights[node]), own, share(d, one->self),
			     one->calls);
	else
		quote_format(text, "\n%s</title>", time);
}

/* Widths have a fixed number of digits: a locale has no say in quote_format. */
static void add_frame(struct drawing *d, uint32_t node, unsigned depth, double x)
{
	const struct report_node *one = &d->report->nodes.items[node];
	const char *name = node ? d->report->functions.items[one->function].name : "all";
	struct strbuf *text = &d->exporting->text;
	double width = (double)d->weights[node] * d->scale, y = d->bottom - ROW * (depth + 1);
	size_t letters = width > 3 * LETTER ? (size_t)((width - 6) / LETTER) : 0;

	quote_format(text, "<g class=\"f c%u\" tabindex=\"0\">",
		     node ? (unsigned)(dt_name_hash(name) % COLOURS) : COLOURS);
	add_title(d, node, name);
	quote_format(text, "<rect x=\"%.3f\" y=\"%.1f\" width=\"%.3f\" height=\"%.1f\" rx=\"2\"/>",
		     MARGIN + x, y, width, ROW - 1);
	quote_format(text, "<text x=\"%.3f\" y=\"%.1f\">", MARGIN + x + 3, y + 12.5);
	if (letters > 2)
		xml_text(text, name, letters);
	text_add(text, "</text></g>\n");
}

static void draw(struct drawing *d, uint32_t node, unsigned depth, double x)
{
	const struct report_node *nodes = d->report->nodes.items;

	if (!is_drawn(d, node)) {
		d->left++;
		return;
	}
	add_frame(d, node, depth, x);
	if (!export_flush(d->exporting, false))
		return;
	for (uint32_t i = nodes[node].first; i; i = nodes[i].next) {
		draw(d, i, depth + 1, x);
		x += (double)d->weights[i] * d->scale;
	}
}

/* Says what isn't in the picture. */
static void add_note(const struct drawing *d)
{
	const struct report *report = d->report;
	struct strbuf *text = &d->exporting->text;
	uint64_t cut = 0, without = 0, calls = 0;
	char time[TIME_TEXT];

	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = &report->functions.items[i];

		calls += function->durations.count - function->partial;
		cut += function->cut;
		without += function->partial + function->unwound + function->inside +
			   function->missed;
	}
	time_text(d->weights[0], time);
	quote_format(text, "<text class=\"note\" x=\"%.0f\" y=\"44\">%s of %" PRIu64
		     " call%s on %" PRIu64 " thread%s", MARGIN, time, calls, PLURAL(calls),
		     report->threads, PLURAL(report->threads));
	if (report->lost)
		quote_format(text, " · %" PRIu64 " event%s lost", report->lost,
			     PLURAL(report->lost));
	if (report->lost_packets)
		quote_format(text, " · %" PRIu64 " packet%s missing", report->lost_packets,
			     PLURAL(report->lost_packets));
	if (report->lost || report->lost_packets)
		quote_format(text, ", %" PRIu64 " call%s cut by that", cut, PLURAL(cut));
	if (without)
		quote_format(text, " · without %" PRIu64 " call%s whose entry or exit is missing",
			     without, PLURAL(without));
	if (report->has_folded)
		text_add(text, " · the deepest paths are joined");
	text_add(text, "</text>\n");
}

static void add_picture(struct drawing *d)
{
	struct strbuf *text = &d->exporting->text;
	double height;

	d->scale = d->weights[0] ? (WIDTH - 2 * MARGIN) / (double)d->weights[0] : 0;
	find_deepest(d, 0, 0);
	d->bottom = HEAD + ROW * (d->deepest + 1);
	height = d->bottom + FOOT;
	quote_format(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
		     "viewBox=\"0 0 %.0f %.0f\">\n<title>Flame graph</title>\n<style>\n",
		     WIDTH, height, WIDTH, height);
	text_own(text, flamegraph_css);
	quote_format(text, "</style>\n<rect class=\"ground\" width=\"%.0f\" height=\"%.0f\"/>\n",
		     WIDTH, height);
	quote_format(text, "<text class=\"head\" x=\"%.0f\" y=\"26\">Flame graph</text>\n", MARGIN);
	add_note(d);
	text_add(text, "<g id=\"frames\">\n");
	draw(d, 0, 0, 0);
	text_add(text, "</g>\n");
	if (d->left)
		quote_format(text, "<text class=\"note\" x=\"%.0f\" y=\"%.0f\">%" PRIu64
			     " paths are too narrow to be drawn</text>\n", MARGIN, height - 3,
			     d->left);
	text_add(text, "<script><![CDATA[\n");
	text_own(text, flamegraph_js);
	text_add(text, "]]></script>\n</svg>\n");
}

struct error *export_flamegraph(struct exporting *exporting)
{
	struct report report = { .wants_tree = true };
	struct drawing d = { .report = &report, .exporting = exporting };
	struct error *error = report_read(&report, exporting->traces, exporting->reader);

	exporting->is_damaged = report.is_damaged;
	if (!error && !(d.weights = calloc(report.nodes.count, sizeof(*d.weights))))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error) {
		weigh(&d, 0);
		add_picture(&d);
	}
	free(d.weights);
	report_free(&report);
	return error;
}
