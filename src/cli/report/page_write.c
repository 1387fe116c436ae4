/*
 * page_write.c - the page's text: what is said once as JSON, the columns, and the script that shows
 * them (page/).
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "embedded.h"
#include "options/table_text.h"
#include "page.h"

#define FLUSH_AT (256u << 10)
#define BASE64_STEP 49152u /* bytes, a multiple of 3 */
#define SHARE_MIN 0.0002 /* paths below stay out of the tree of a page with sums */

struct page {
	const struct page_request *request;
	const struct own_traces *traces;
	struct view_reader *reader;
	const struct report *report;
	const struct page_calls *calls;
	struct strbuf text;
	int write_error; /* errno; 0: none */
};

static void flush(struct page *page, bool always)
{
	if (!page->write_error && (always || page->text.length >= FLUSH_AT))
		page->write_error = view_reader_flush(page->reader, &page->text);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Adds foreign text as a string. Without '<' nothing in it ends the element that it is in. Bytes
 * that aren't UTF-8, and characters that act on a terminal, are escaped as in other reports. */
static void add_string(struct page *page, const char *string)
{
	struct strbuf plain = { 0 }, quoted = { 0 };

	quote_plain(&plain, string, strlen(string));
	quote_json(&quoted, plain.text ? plain.text : "", plain.length);
	for (const char *at = quoted.text; at && *at;) {
		size_t length = strcspn(at, "<");

		quote_plain(&page->text, at, length);
		at += length;
		if (*at) {
			text_add(&page->text, "\\u003c");
			at++;
		}
	}
	page->text.failed |= plain.failed || quoted.failed;
	strbuf_free(&plain);
	strbuf_free(&quoted);
}

static void add_text(struct page *page, const char *key, const char *value)
{
	quote_format(&page->text, "\"%s\":", key);
	add_string(page, value ? value : "");
	text_add(&page->text, ",\n");
}

static void add_number(struct page *page, const char *key, int64_t value)
{
	quote_format(&page->text, "\"%s\":%" PRId64 ",\n", key, value);
}

static void add_comma(struct page *page, bool is_first)
{
	text_add(&page->text, is_first ? "\n" : ",\n");
	flush(page, false);
}

static void add_functions(struct page *page)
{
	text_add(&page->text, "\"functions\":[");
	for (size_t i = 0; i < page->report->functions.count; i++) {
		const struct report_function *f = &page->report->functions.items[i];
		const struct distribution *d = &f->durations;

		add_comma(page, !i);
		text_add(&page->text, "[");
		add_string(page, f->name);
		quote_format(&page->text,
			     ",%d,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64
			     ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRIu64 ",%" PRIu64
			     ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]",
			     f->has_exit, f->hits, d->count, f->total, f->self,
			     distribution_mean(d), distribution_quantile(d, 0.50),
			     distribution_quantile(d, 0.90), distribution_quantile(d, 0.99), d->max,
			     f->cut, f->partial, f->unwound, f->inside, f->missed,
			     f->demoted.counted, f->demoted.off_ns);
	}
	text_add(&page->text, "],\n");
}

static void add_threads(struct page *page)
{
	const struct page_calls *calls = page->calls;

	text_add(&page->text, "\"threads\":[");
	for (size_t i = 0; i < calls->threads.count; i++) {
		const struct page_thread *thread = &calls->threads.items[i];

		add_comma(page, !i);
		quote_format(&page->text, "[%u,%u,%" PRIu64 ",%" PRIu64 ",", thread->pid,
			     thread->tid, thread->calls, thread->sums);
		add_string(page, thread->name);
		text_add(&page->text, "]");
	}
	text_add(&page->text, "],\n\"losses\":[");
	for (size_t i = 0; i < calls->losses.count; i++) {
		const struct page_loss *loss = &calls->losses.items[i];

		add_comma(page, !i);
		quote_format(&page->text, "[%u,%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64 ",%d]",
			     loss->thread, loss->before, loss->loss.count,
			     loss->loss.begin_ns - calls->first_ns,
			     loss->loss.end_ns - calls->first_ns, loss->loss.is_packets);
	}
	text_add(&page->text, "],\n\"arguments\":[");
	for (size_t i = 0; i < calls->arguments.count; i++) {
		add_comma(page, !i);
		quote_format(&page->text, "[%" PRIu64 ",", calls->arguments.items[i].call);
		add_string(page, calls->arguments.items[i].text);
		text_add(&page->text, "]");
	}
	text_add(&page->text, "],\n");
}

/* The call tree of all calls: a page with sums can't make it from its own. */
static void add_tree(struct page *page)
{
	const struct report_node *nodes = page->report->nodes.items;
	size_t count = page->report->nodes.count, shown = 1;
	_cleanup_free_ uint64_t *weights = calloc(count, sizeof(*weights));
	_cleanup_free_ uint32_t *places = calloc(count, sizeof(*places));

	page->text.failed |= !weights || !places;
	text_add(&page->text, "\"tree\":[");
	for (size_t i = count; weights && i-- > 1;) { /* parents come before their children */
		weights[i] += nodes[i].self;
		weights[nodes[i].parent] += weights[i];
	}
	for (size_t i = 1; weights && places && i < count; i++) {
		if ((double)weights[i] < (double)weights[0] * SHARE_MIN)
			continue;
		add_comma(page, shown == 1);
		places[i] = (uint32_t)shown++;
		quote_format(&page->text, "[%u,%u,%" PRIu64 ",%" PRIu64 "]",
			     places[nodes[i].parent], nodes[i].function, nodes[i].calls,
			     nodes[i].self);
	}
	text_add(&page->text, "],\n");
}

static void add_meta(struct page *page)
{
	const struct page_calls *calls = page->calls;
	const struct trace_layout *layout = &page->traces->inputs.items[0]->layout;
	const char *name = strrchr(page->request->path, '/');

	text_add(&page->text, "<script type=\"application/json\" id=\"meta\">{\n");
	add_text(page, "name", name && name[1] ? name + 1 : page->request->path);
	add_text(page, "path", page->request->path);
	add_text(page, "command", trace_layout_variable(layout, "command_line"));
	add_text(page, "executable", trace_layout_variable(layout, "executable"));
	add_text(page, "host", trace_layout_variable(layout, "hostname"));
	quote_format(&page->text, "\"first\":\"%" PRId64 "\",\n", calls->first_ns);
	add_number(page, "span", calls->last_ns - calls->first_ns);
	add_number(page, "events", (int64_t)page->report->events);
	add_number(page, "lost", (int64_t)page->report->lost);
	add_number(page, "lostPackets", (int64_t)page->report->lost_packets);
	add_functions(page);
	add_threads(page);
	if (calls->is_reduced) {
		add_number(page, "resolution", (int64_t)calls->resolution);
		add_number(page, "bucket", (int64_t)calls->bucket_ns);
		add_number(page, "left", (int64_t)calls->left);
		add_tree(page);
	}
	quote_format(&page->text, "\"damaged\":%d,\"joined\":%d,\"calls\":%" PRIu64 "}</script>\n",
		     page->report->is_damaged, page->report->has_folded, calls->kept);
}

static void add_columns(struct page *page)
{
	for (unsigned i = 0; i < PAGE_COLUMNS; i++) {
		const struct page_column *column = &page->calls->columns[i];

		quote_format(&page->text, "<script type=\"text/plain\" id=\"column%u\">", i);
		for (size_t at = 0; at < column->done.length;) {
			at += page_column_base64(column, at, BASE64_STEP, &page->text);
			flush(page, false);
		}
		text_add(&page->text, "</script>\n");
	}
}

static struct error *write_out(struct page *page)
{
	text_own(&page->text, page_begin);
	add_meta(page);
	add_columns(page);
	text_add(&page->text, "<script>\n");
	text_own(&page->text, page_script);
	text_add(&page->text, "</script>\n</body>\n</html>\n");
	flush(page, true);
	strbuf_free(&page->text);
	if (page->write_error && page->write_error != EPIPE)
		return error_errno(page->write_error, "cannot write the page");
	return NULL;
}

struct error *page_write(const struct page_request *request, const struct own_traces *traces,
			 struct view_reader *reader)
{
	struct viewer viewer = { .reader = reader,
				 .named_only = true,
				 .line.colours = { "", "", "", "", "" } };
	struct page_calls calls = { .listener = page_calls_listener,
				    .limits = &request->limits,
				    .viewer = &viewer };
	struct report first = { .wants_tree = true, .listener = &calls.listener, .readings = 2 },
		      second = { .listener = &calls.listener, .reading = 1, .readings = 2 };
	struct page page = { .request = request, .traces = traces, .reader = reader,
			     .report = &first, .calls = &calls };
	struct error *error = report_read(&first, traces, reader);

	if (!error)
		error = page_calls_second(&calls, &first);
	if (!error)
		error = report_read(&second, traces, reader);
	if (!error && !page_calls_end(&calls))
		error = error_new(ERROR_FAILED, "out of memory");
	if (!error)
		error = write_out(&page);
	if (!error && first.is_damaged)
		error = view_reader_damaged(reader, request->path, "stumbled");
	view_own_end(&viewer);
	page_calls_free(&calls);
	report_free(&first);
	report_free(&second);
	return error;
}
