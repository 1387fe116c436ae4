/*
 * view_loss.c - format a loss as a line.
 *
 *   [lost 123 events between 09:12:33.123456789 and 09:12:33.223456789]
 */
#include <string.h>

#include "options/table_text.h"
#include "view.h"

struct loss {
	const char *what; /* "events", "packets" */
	uint64_t count;
	bool is_counted;
	bool has_times;
	int64_t begin, end;
};

static void add_text(struct viewer *viewer, const struct loss *loss)
{
	struct strbuf *text = &viewer->line.text;
	bool is_one = loss->is_counted && loss->count == 1;

	event_line_colour(&viewer->line, viewer->line.colours.loss);
	text_add(text, "[lost ");
	if (loss->is_counted)
		text_unsigned(text, loss->count);
	else
		text_add(text, "an unknown number of");
	text_add(text, " ");
	quote_plain(text, loss->what, strlen(loss->what) - is_one);
	if (loss->has_times) {
		text_add(text, " between ");
		event_line_time(&viewer->line, loss->begin);
		text_add(text, " and ");
		event_line_time(&viewer->line, loss->end);
	}
	text_add(text, "]");
	event_line_colour(&viewer->line, viewer->line.colours.off);
	text_add(text, "\n");
}

static void add_json(struct viewer *viewer, const struct loss *loss)
{
	struct strbuf *text = &viewer->line.text;

	text_add(text, "{\"lost_");
	text_own(text, loss->what);
	text_add(text, "\":");
	if (loss->is_counted)
		text_unsigned(text, loss->count);
	else
		text_add(text, "null");
	if (loss->has_times) {
		text_add(text, ",\"begin_ns\":");
		text_signed(text, loss->begin);
		text_add(text, ",\"end_ns\":");
		text_signed(text, loss->end);
	}
	text_add(text, "}\n");
}

void view_loss_line(struct viewer *viewer, const char *what, uint64_t count, int64_t begin,
		    int64_t end)
{
	struct loss loss = { .what = what, .count = count, .is_counted = true, .has_times = true,
			     .begin = begin, .end = end };

	(viewer->line.json ? add_json : add_text)(viewer, &loss);
}

static void print_loss(struct viewer *viewer, struct loss *loss, const bt_clock_snapshot *begin,
		       const bt_clock_snapshot *end)
{
	loss->has_times = begin && end && view_line_ns(begin, &loss->begin) &&
			  view_line_ns(end, &loss->end);
	(viewer->line.json ? add_json : add_text)(viewer, loss);
}

void view_loss_events(struct viewer *viewer, const bt_message *message)
{
	const bt_stream *stream = bt_message_discarded_events_borrow_stream_const(message);
	const bt_clock_snapshot *begin = NULL, *end = NULL;
	struct loss loss = { .what = "events" };

	loss.is_counted = bt_message_discarded_events_get_count(message, &loss.count) ==
			  BT_PROPERTY_AVAILABILITY_AVAILABLE;
	if (bt_stream_class_discarded_events_have_default_clock_snapshots(
		    bt_stream_borrow_class_const(stream))) {
		begin = bt_message_discarded_events_borrow_beginning_default_clock_snapshot_const(
			message);
		end = bt_message_discarded_events_borrow_end_default_clock_snapshot_const(message);
	}
	print_loss(viewer, &loss, begin, end);
}

void view_loss_packets(struct viewer *viewer, const bt_message *message)
{
	const bt_stream *stream = bt_message_discarded_packets_borrow_stream_const(message);
	const bt_clock_snapshot *begin = NULL, *end = NULL;
	struct loss loss = { .what = "packets" };

	loss.is_counted = bt_message_discarded_packets_get_count(message, &loss.count) ==
			  BT_PROPERTY_AVAILABILITY_AVAILABLE;
	if (bt_stream_class_discarded_packets_have_default_clock_snapshots(
		    bt_stream_borrow_class_const(stream))) {
		begin = bt_message_discarded_packets_borrow_beginning_default_clock_snapshot_const(
			message);
		end = bt_message_discarded_packets_borrow_end_default_clock_snapshot_const(message);
	}
	print_loss(viewer, &loss, begin, end);
}
