/*
 * export_csv.c - one line per event: time in ns, process, thread, name, fields as text.
 */
#include <string.h>

#include "export.h"
#include "options/table_text.h"

/* A cell in quotes, which are doubled inside it. The text was escaped when it was made. */
static void add_cell(struct strbuf *text, const char *cell, size_t length)
{
	text_add(text, "\"");
	for (size_t i = 0; i < length;) {
		const char *quote = memchr(cell + i, '"', length - i);
		size_t plain = quote ? (size_t)(quote - cell) - i : length - i;

		quote_plain(text, cell + i, plain);
		i += plain;
		if (quote) {
			text_add(text, "\"\"");
			i++;
		}
	}
	text_add(text, "\"");
}

static void add_event(struct exporting *exporting, struct viewer *viewer,
		      const struct trace_stream *stream)
{
	const struct packet_cursor *cursor = &stream->cursor;
	struct strbuf *text = &exporting->text;

	text_signed(text, stream->ns);
	text_add(text, ",");
	text_unsigned(text, cursor->head.pid);
	text_add(text, ",");
	text_unsigned(text, cursor->head.tid);
	text_add(text, ",");
	add_cell(text, cursor->type->name, strlen(cursor->type->name));
	text_add(text, ",");
	viewer->text.length = 0;
	viewer->cycles = cursor->cycles;
	view_own_modules(viewer, &stream->input->layout);
	view_own_fields(viewer, cursor->type, cursor->event);
	add_cell(text, viewer->text.length ? viewer->text.text : "", viewer->text.length);
	text_add(text, "\n");
}

struct error *export_csv(struct exporting *exporting)
{
	struct viewer viewer = { .colours = { "", "", "", "", "" } };
	struct trace_merge merge;
	struct error *error = trace_merge_begin(&merge, exporting->traces->inputs.items,
						exporting->traces->inputs.count);

	if (error)
		return error;
	text_add(&exporting->text, "ns,pid,tid,name,fields\n");
	for (struct trace_stream *stream; (stream = trace_merge_next(&merge));) {
		if (stream->item == CURSOR_DAMAGED) {
			exporting->is_damaged = true;
			break;
		}
		if (stream->item != CURSOR_EVENT)
			continue;
		add_event(exporting, &viewer, stream);
		view_reader_count(exporting->reader, 1);
		if (!export_flush(exporting, false))
			break;
	}
	trace_merge_free(&merge);
	view_own_end(&viewer);
	return NULL;
}
