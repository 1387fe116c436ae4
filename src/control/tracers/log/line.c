/*
 * line.c - from events to lines:
 *
 *   09:12:33.123456789 redis-server tid 1234 call_entry { arg0 = 0x1, arg1 = 0x2 }
 */
#include "line.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "control/base/quote.h"

#define NS_PER_S 1000000000u
#define CLOCK_MASK ((1ULL << 40) - 1)

/* ---- values ---------------------------------------------------------------------------------- */

/* The place of the next field in an event. */
struct cursor {
	const uint8_t *event;
	size_t at;
	size_t end;
};

static uint64_t load(const struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	assert(size <= sizeof(value));
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
			quote_plain(text, field->labels[i].name, strlen(field->labels[i].name));
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

	quote_c(text, start, length);
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
		strbuf_printf(text, "%s", separator);
		quote_plain(text, field->name, strlen(field->name));
		strbuf_printf(text, " = ");
		separator = ", ";
		if (field->type == FIELD_STRUCT)
			separator = "{ ";
		else
			add_value(text, field, cursor);
	}
	if (type->field_count)
		strbuf_printf(text, " }");
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_time(struct strbuf *text, struct line_style *style,
		     const struct clock_estimate *estimate, uint64_t clock)
{
	unsigned __int128 cycles = (unsigned __int128)estimate->offset + clock;
	time_t second = (time_t)(estimate->offset_s + (int64_t)(cycles / estimate->frequency));
	uint64_t ns = (uint64_t)((cycles % estimate->frequency) * NS_PER_S / estimate->frequency);
	struct tm tm;

	if (second != style->second || !style->clock[0]) {
		style->second = second;
		strftime(style->clock, sizeof(style->clock), "%H:%M:%S", localtime_r(&second, &tm));
	}
	strbuf_printf(text, "%s.%09" PRIu64, style->clock, ns);
}

void line_add(struct strbuf *text, struct line_style *style, const struct clock_estimate *estimate,
	      const struct line_event *event)
{
	struct cursor cursor = { (const uint8_t *)event->words, 8, event->count * 8 };

	add_time(text, style, estimate, event->clock);
	quote_format(text, " %s tid %u %s", style->process, event->tid, event->type->name);
	add_fields(text, event->type, &cursor);
	strbuf_add(text, "\n", 1);
}

/* Size of the event in words; 0: larger than the batch's rest. */
static size_t event_words(const struct event_type *type, const uint64_t *event, size_t words)
{
	size_t size = type->is_variable ? event_measure(type, event, words * 8) : type->size;

	return (size + 7) / 8 <= words ? (size + 7) / 8 : 0;
}

void line_each(const struct reader_batch *batch, const struct event_types *types,
	       void (*found)(void *context, const struct line_event *event), void *context)
{
	uint64_t clock = batch->begin;

	for (size_t at = 0, words; at < batch->words; at += words) {
		const uint64_t *event = batch->events + at;
		uint64_t id = *event & DT_EVENT_ID_MASK;

		words = id < types->count ?
				event_words(&types->items[id], event, batch->words - at) :
				0;
		if (!words)
			break;
		clock += ((*event >> DT_EVENT_ID_BITS) - clock) & CLOCK_MASK;
		found(context,
		      &(struct line_event){ &types->items[id], event, words, clock, batch->tid });
	}
}
