/*
 * export_csv.c - one line per event: time in ns, process, thread, name, fields as text.
 */
#include <string.h>

#include "export.h"
#include "options/table_text.h"

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
	text_add_csv(text, cursor->type->name, strlen(cursor->type->name));
	text_add(text, ",");
	viewer->line.text.length = 0;
	viewer->line.event = (struct frames_event){ cursor->head.pid, cursor->cycles };
	view_own_modules(viewer, &stream->input->layout);
	view_own_fields(viewer, cursor->type, cursor->event);
	text_add_csv(text, viewer->line.text.length ? viewer->line.text.text : "",
		     viewer->line.text.length);
	text_add(text, "\n");
}

struct error *export_csv(struct exporting *exporting)
{
	struct viewer viewer = { .line.colours = { "", "", "", "", "" } };
	struct trace_merge merge;
	uint64_t done = 0, whole = 0;
	struct error *error = trace_merge_begin(&merge, exporting->traces->inputs.items,
						exporting->traces->inputs.count);

	if (error)
		return error;
	for (size_t i = 0; i < exporting->traces->inputs.count; i++)
		whole += exporting->traces->inputs.items[i]->size;
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
		view_reader_progress(exporting->reader, done += stream->cursor.size, whole);
		if (!export_flush(exporting, false))
			break;
	}
	trace_merge_free(&merge);
	view_own_end(&viewer);
	return NULL;
}
