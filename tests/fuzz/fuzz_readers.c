/*
 * Everything that reads a trace of our own, over a trace with any bytes: lines, trees, reports,
 * rows by key, the page, and all exports. Whoever made the trace, each of them ends, and foreign
 * text stays text in the page and the picture.
 *
 * The input: a length of 32 bits and the metadata of that length, the same of a file with packets,
 * then a second file. This file stands in for view_reader.c: readers run in this process, and what
 * they print is looked at.
 */
#include <fcntl.h>
#include <unistd.h>

#include "fuzz.h"

#include "cli/export/export.h"
#include "cli/report/page.h"
#include "cli/report/report_by.h"
#include "cli/view/view_filter.h"
#include "cli/view/view_select.h"

static char folder[] = "/tmp/dyntrace-readers-XXXXXX";
static struct strbuf printed; /* of the reader that runs */
static uint64_t inputs, read_traces, events;

/* ---- in place of view_reader.c -------------------------------------------------------------- */

struct error *view_reader_begin(struct view_reader *reader, uint64_t size, uint64_t metadata)
{
	return NULL;
}

void view_reader_note(struct view_reader *reader, bool is_event, const struct strbuf *text)
{
	events += is_event;
}

void view_reader_count(struct view_reader *reader, uint64_t count)
{
	events += count;
}

void view_reader_progress(struct view_reader *reader, uint64_t done, uint64_t whole)
{
	REQUIRE(done <= whole);
}

struct error *view_reader_damaged(const struct view_reader *reader, const char *path,
				  const char *why)
{
	return error_new(ERROR_FAILED, "damaged");
}

int view_reader_flush(struct view_reader *reader, struct strbuf *text)
{
	REQUIRE(!text->failed);
	if (text->length)
		strbuf_add(&printed, text->text, text->length);
	text->length = 0;
	return 0;
}

bool export_flush(struct exporting *exporting, bool always)
{
	if (always || exporting->text.length >= EXPORT_KEPT_MAX)
		view_reader_flush(exporting->reader, &exporting->text);
	return true;
}

/* ---- what is printed ------------------------------------------------------------------------ */

/* How often the reader that ended has printed this. */
static size_t count_printed(const char *what)
{
	size_t count = 0;

	strbuf_add(&printed, "", 1);
	for (const char *at = printed.text; (at = strstr(at, what)); at++)
		count++;
	printed.length--;
	return count;
}

static void end_reader(struct error *error)
{
	error_free(error);
	REQUIRE(!printed.failed);
	printed.length = 0;
}

/* ---- readers -------------------------------------------------------------------------------- */

static const struct line_colours no_colours = { "", "", "", "", "" };

static void view(bool json, bool tree, const char *filter)
{
	struct view_select select = { 0 };
	struct viewer viewer = { .line.json = json,
				 .line.colours = no_colours,
				 .tree = tree ? TREE_ALWAYS : TREE_NEVER,
				 .all_arguments = true,
				 .select = &select };

	error_free(view_select_read(&select));
	if (filter)
		viewer.filter = view_filter_create(filter, &view_filter_own);
	struct error *error = view_own_run(folder, &viewer);
	view_reader_flush(NULL, &viewer.line.text);
	if (viewer.filter)
		error_free(view_filter_error(viewer.filter));
	view_filter_destroy(viewer.filter);
	view_own_end(&viewer);
	end_reader(error);
}

enum shown { TABLE, TREE, CALLERS, CLOSE, DIFF };

static void print(const struct report *report, enum shown shown, enum report_form form,
		  struct strbuf *text)
{
	struct report_options options = { .form = form, .wide = true, .all_rows = true,
					  .hist = true, .path = folder };

	if (report->by)
		report_by_print(report->by, report, &options, text);
	else if (shown == TREE)
		report_tree(report, &options, text);
	else if (shown == CALLERS)
		report_callers(report, &options, text);
	else if (shown == CLOSE)
		report_function(report, &options, text);
	else if (shown == DIFF)
		report_diff(report, report, &options, text);
	else
		report_table(report, &options, text);
}

/* (O2, O3) What has no duration is in no number. */
static void check_numbers(const struct report *report)
{
	for (size_t i = 0; i < report->functions.count; i++) {
		const struct report_function *function = &report->functions.items[i];

		REQUIRE(function->partial <= function->durations.count);
		REQUIRE(function->has_exit || !function->durations.count);
		REQUIRE(function->durations.count || !(function->total | function->self));
	}
}

static void report(const struct own_traces *traces, enum shown shown, enum report_form form,
		   const char *by, const char *of)
{
	struct viewer viewer = { .named_only = true, .line.colours = no_colours };
	struct report report = { .wants_tree = shown == TREE || shown == CALLERS,
				 .viewer = &viewer };
	const struct trace_layout *layout = &traces->inputs.items[0]->layout;
	struct question question = { 0 };
	struct strbuf text = { 0 };
	char *name = NULL;

	if (by)
		REQUIRE(!question_parse(by, of, &question) &&
			(report.by = report_by_create(&question, 3)));
	if (shown == CLOSE && layout->events.count && layout->events.items[0]) {
		const struct layout_event *type = layout->events.items[0];

		report.wanted = name = strndup(type->name, type->stem);
	}
	struct error *error = report_read(&report, traces, NULL);
	if (!error && report.by)
		error_free(report_by_error(report.by));
	if (!error && (shown != CLOSE || report.wanted)) {
		check_numbers(&report);
		print(&report, shown, form, &text);
	}
	REQUIRE(!text.failed);
	strbuf_free(&text);
	report_by_free(report.by);
	question_free(&question);
	report_free(&report);
	view_own_end(&viewer);
	free(name);
	end_reader(error);
}

static void export(const struct own_traces *traces,
		   struct error *(*format)(struct exporting *))
{
	struct exporting exporting = { .traces = traces };
	struct error *error = format(&exporting);

	export_flush(&exporting, true);
	strbuf_free(&exporting.text);
	if (format == export_flamegraph && !error)
		REQUIRE(count_printed("</svg>") == 1 && count_printed("</script>") == 1 &&
			count_printed("]]>") <= 2);
	end_reader(error);
}

/* `calls`: from how many on short ones become sums (O8). */
static void page(const struct own_traces *traces, uint64_t calls)
{
	struct page_request request = { folder, { calls, calls / 4, 100 } };
	struct error *error = page_write(&request, traces, NULL);

	if (printed.length)
		REQUIRE(count_printed("</script>") == 2 + PAGE_COLUMNS &&
			count_printed("<!--") == 0);
	end_reader(error);
}

static void read_all(const struct own_traces *traces)
{
	static const char *const keys[] = { "function,$tid,caller", "ret", "$comm,$pid", "backtrace:2",
					    "n", "function" };

	for (enum shown shown = TABLE; shown <= DIFF; shown++)
		report(traces, shown, FORM_TEXT, NULL, NULL);
	report(traces, TABLE, FORM_JSON, NULL, NULL);
	report(traces, TABLE, FORM_CSV, NULL, NULL);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		report(traces, TABLE, (enum report_form)(i % 3), keys[i], i & 1 ? "self" : NULL);
	export(traces, export_perfetto);
	export(traces, export_flamegraph);
	export(traces, export_speedscope);
	export(traces, export_folded);
	export(traces, export_csv);
	page(traces, 1000000);
	page(traces, 8);
}

/* ---- the trace ------------------------------------------------------------------------------ */

static void remove_folder(void)
{
	static const char *const names[] = { "metadata", "stream_0", "stream_1" };
	char path[sizeof(folder) + 16];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
		unlink(path);
	}
	rmdir(folder);
	strbuf_free(&printed);
	printf("%llu of %llu inputs were read, %llu events in all\n",
	       (unsigned long long)read_traces, (unsigned long long)inputs,
	       (unsigned long long)events);
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
	char path[sizeof(folder) + 16];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	close(fd);
}

/* The next part, whose length stands before it. */
static struct fuzz_input take_part(struct fuzz_input *input)
{
	uint32_t length = 0;

	fuzz_take(input, &length, sizeof(length));
	if (length > input->size)
		length = (uint32_t)input->size;
	struct fuzz_input part = { input->bytes, length };
	input->bytes += length;
	input->size -= length;
	return part;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	struct fuzz_input metadata = take_part(&input), first = take_part(&input);
	struct own_traces traces = { 0 };

	if (!inputs++) {
		REQUIRE(mkdtemp(folder));
		atexit(remove_folder);
	}
	write_file("metadata", metadata.bytes, metadata.size);
	write_file("stream_0", first.bytes, first.size);
	write_file("stream_1", input.bytes, input.size);
	struct error *error = view_own_open(folder, NULL, NULL, &traces, NULL);
	if (!error && traces.inputs.count) {
		read_traces++;
		read_all(&traces);
		view(false, false, NULL);
		view(true, false, NULL);
		view(false, true, NULL);
		view(false, false, "n > 1 && $name == \"*_entry\"");
	}
	error_free(error);
	view_own_close(&traces);
	return 0;
}
