/*
 * print.c - events of a batch to lines, in the form that dyntrace view has:
 *
 *   09:12:33.123456789 redis-server tid 1234 call_entry { arg0 = 0x1, arg1 = 0x2 }
 */
#include "print.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../control/base/strbuf.h"
#include "text.h"

#define PRINT_QUEUE_MAX (16u << 20)
#define NS_PER_S 1000000000u
#define CLOCK_MASK ((1ULL << 40) - 1)

struct printer {
	const struct session *session;
	const char *process;
	struct strbuf text; /* lines not written yet */
	size_t written; /* of these, bytes that have been */
	uint64_t left_out;
	bool closed; /* nobody reads it any more */
	time_t second; /* the one that `clock` is the text of */
	char clock[16];
};

struct printer *printer_create(const char *process)
{
	struct printer *printer = calloc(1, sizeof(*printer));

	if (printer)
		printer->process = process;
	return printer;
}

void printer_attach(struct printer *printer, const struct session *session)
{
	printer->session = session;
}

void printer_destroy(struct printer *printer)
{
	if (!printer)
		return;
	strbuf_free(&printer->text);
	free(printer);
}

uint64_t printer_left_out(const struct printer *printer)
{
	return printer->left_out;
}

/* ---- output --------------------------------------------------------------------------------- */

static bool can_write(bool wait)
{
	struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&fd, 1, wait ? -1 : 0) > 0;
}

/* A pipe that has room takes this much without blocking. */
#define PRINT_AT_ONCE 4096

void printer_flush(struct printer *printer, bool all)
{
	while (printer->written < printer->text.length && !printer->closed && can_write(all)) {
		size_t left = printer->text.length - printer->written;
		ssize_t n = write(STDOUT_FILENO, printer->text.text + printer->written,
				  left < PRINT_AT_ONCE ? left : PRINT_AT_ONCE);

		if (n > 0)
			printer->written += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN)
			printer->closed = true;
	}
	if (printer->written == printer->text.length || printer->closed)
		printer->written = printer->text.length = 0;
	if (printer->written > PRINT_QUEUE_MAX / 4) {
		memmove(printer->text.text, printer->text.text + printer->written,
			printer->text.length - printer->written);
		printer->text.length -= printer->written;
		printer->written = 0;
	}
}

/* ---- values --------------------------------------------------------------------------------- */

/* Where in an event the next field is. */
struct cursor {
	const uint8_t *event;
	size_t at;
	size_t end;
};

static uint64_t load(const struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	if (cursor->at + size <= cursor->end)
		memcpy(&value, cursor->event + cursor->at, size);
	return value;
}

static int64_t sign_extend(uint64_t value, size_t size)
{
	unsigned shift = 64 - 8 * (unsigned)size;

	return (int64_t)(value << shift) >> shift;
}

static void add_float(struct strbuf *text, uint64_t bits, size_t size)
{
	double value;
	float single;

	memcpy(&value, &bits, sizeof(value));
	memcpy(&single, &bits, sizeof(single));
	strbuf_printf(text, "%g", size == 4 ? (double)single : value);
}

static void add_enum(struct strbuf *text, const struct event_field *field, uint64_t value)
{
	int64_t number = field->is_signed ? sign_extend(value, field->size) : (int64_t)value;

	for (size_t i = 0; i < field->label_count; i++) {
		if (field->labels[i].value == number) {
			strbuf_printf(text, "%s", field->labels[i].name);
			return;
		}
	}
	strbuf_printf(text, "%" PRId64, number);
}

static void add_number(struct strbuf *text, const struct event_field *field, struct cursor *cursor)
{
	uint64_t value = load(cursor, field->size);

	cursor->at += field->size;
	switch (field->type) {
	case FIELD_INT:
		strbuf_printf(text, "%" PRId64, sign_extend(value, field->size));
		break;
	case FIELD_HEX:
		strbuf_printf(text, "0x%" PRIx64, value);
		break;
	case FIELD_FLOAT:
		add_float(text, value, field->size);
		break;
	case FIELD_ENUM:
		add_enum(text, field, value);
		break;
	default:
		strbuf_printf(text, "%" PRIu64, value);
	}
}

static void add_string(struct strbuf *text, struct cursor *cursor)
{
	const char *start = (const char *)cursor->event + cursor->at;
	size_t length = strnlen(start, cursor->end - cursor->at);

	text_quote_c(text, start, length);
	cursor->at += length + 1;
}

static void add_frames(struct strbuf *text, struct cursor *cursor)
{
	cursor->at = (cursor->at + 3) & ~3ULL;
	uint64_t count = load(cursor, 4);

	cursor->at = (cursor->at + 4 + 7) & ~7ULL;
	strbuf_printf(text, "[");
	for (uint64_t i = 0; i < count && cursor->at + 8 <= cursor->end; i++, cursor->at += 8)
		strbuf_printf(text, "%s0x%" PRIx64, i ? ", " : " ", load(cursor, 8));
	strbuf_printf(text, " ]");
}

static void add_value(struct strbuf *text, const struct event_field *field, struct cursor *cursor)
{
	if (field->type == FIELD_STRING) {
		add_string(text, cursor);
		return;
	}
	if (field->type == FIELD_FRAMES) {
		add_frames(text, cursor);
		return;
	}
	if (field->offset)
		cursor->at = field->offset;
	else
		cursor->at = (cursor->at + field->size - 1) / field->size * field->size;
	if (!field->count) {
		add_number(text, field, cursor);
		return;
	}
	strbuf_printf(text, "[");
	for (unsigned i = 0; i < field->count; i++) {
		strbuf_printf(text, i ? ", " : " ");
		add_number(text, field, cursor);
	}
	strbuf_printf(text, " ]");
}

static void add_fields(struct strbuf *text, const struct event_type *type, struct cursor *cursor)
{
	const char *separator = " { ";

	for (size_t i = 0; i < type->field_count; i++) {
		const struct event_field *field = &type->fields[i];

		if (field->type == FIELD_END) {
			strbuf_printf(text, " }");
			separator = ", ";
			continue;
		}
		strbuf_printf(text, "%s%s = ", separator, field->name);
		separator = ", ";
		if (field->type == FIELD_STRUCT)
			separator = "{ ";
		else
			add_value(text, field, cursor);
	}
	if (type->field_count)
		strbuf_printf(text, " }");
}

/* ---- lines ---------------------------------------------------------------------------------- */

static void add_time(struct printer *printer, uint64_t clock)
{
	const struct clock_estimate *estimate = session_clock(printer->session);
	unsigned __int128 cycles = (unsigned __int128)estimate->offset + clock;
	time_t second = (time_t)(estimate->offset_s + (int64_t)(cycles / estimate->frequency));
	uint64_t ns = (uint64_t)((cycles % estimate->frequency) * NS_PER_S / estimate->frequency);
	struct tm tm;

	if (second != printer->second || !printer->clock[0]) {
		printer->second = second;
		strftime(printer->clock, sizeof(printer->clock), "%H:%M:%S", localtime_r(&second, &tm));
	}
	strbuf_printf(&printer->text, "%s.%09" PRIu64, printer->clock, ns);
}

/* How many words the event takes in the trace; 0: more than there are. */
static size_t event_words(const struct event_type *type, const uint64_t *event, size_t words)
{
	size_t size = type->is_variable ? event_measure(type, event, words * 8) : type->size;

	return (size + 7) / 8 <= words ? (size + 7) / 8 : 0;
}

static void add_line(struct printer *printer, const struct reader_batch *batch,
		     const struct event_type *type, const uint64_t *event, size_t words, uint64_t clock)
{
	struct cursor cursor = { (const uint8_t *)event, 8, words * 8 };

	if (printer->text.length - printer->written > PRINT_QUEUE_MAX || printer->closed) {
		printer->left_out++;
		return;
	}
	add_time(printer, clock);
	strbuf_printf(&printer->text, " %s tid %u %s", printer->process, batch->tid, type->name);
	add_fields(&printer->text, type, &cursor);
	strbuf_add(&printer->text, "\n", 1);
}

void printer_events(void *context, const struct reader_batch *batch)
{
	struct printer *printer = context;
	const struct event_types *types = session_types(printer->session);
	uint64_t clock = batch->begin;

	for (size_t at = 0, words; at < batch->words; at += words) {
		const uint64_t *event = batch->events + at;
		uint64_t id = *event & DT_EVENT_ID_MASK;

		words = id < types->count ? event_words(&types->items[id], event, batch->words - at) : 0;
		if (!words)
			break;
		clock += ((*event >> DT_EVENT_ID_BITS) - clock) & CLOCK_MASK;
		add_line(printer, batch, &types->items[id], event, words, clock);
	}
	printer_flush(printer, false);
}
