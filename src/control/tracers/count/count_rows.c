#include "count_rows.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/lines/event_fields.h"
#include "control/lines/frames.h"
#include "control/session/own_probes/unwinding.h"
#include "count_tracer.h"
#include "shared/keys.h"

#define IMAGE_HEAD 16 /* program.h */

struct reading {
	const struct session *session;
	const struct tracepoint *tracepoint;
	const struct question *question;
	struct frames *frames;
	struct count_rows *rows;
	bool takes;
};

/* ---- keys as text ---------------------------------------------------------------------------- */

/* The place of the next field in a key; `at` is an offset in the image. */
struct cursor {
	const uint8_t *bytes;
	size_t at, end;
};

static uint64_t load(struct cursor *cursor, size_t size)
{
	uint64_t value = 0;

	cursor->at = size ? (cursor->at + size - 1) / size * size : cursor->at;
	if (size <= 8 && cursor->at + size <= cursor->end)
		memcpy(&value, cursor->bytes + cursor->at - IMAGE_HEAD, size);
	cursor->at += size;
	return value;
}

static int64_t sign_extend(uint64_t value, size_t size)
{
	unsigned shift = 64 - 8 * (unsigned)size;

	return (int64_t)(value << shift) >> shift;
}

static void print_address(struct reading *reading, struct strbuf *text, uint64_t address,
			  bool is_return)
{
	const struct frames_event event = { .pid = (uint64_t)reading->session->proc->pid,
					    .clock = UINT64_MAX };

	if (reading->frames)
		frames_print(reading->frames, address, &event, is_return, text);
	else
		strbuf_printf(text, "0x%llx", (unsigned long long)address);
}

/* A caller is its function: without the offset, which tells calls of one caller apart. */
static void print_caller(struct reading *reading, struct strbuf *text, uint64_t address)
{
	size_t before = text->length;

	print_address(reading, text, address, true);
	char *offset = text->text ? strstr(text->text + before, "+0x") : NULL;
	if (offset && offset > text->text + before) {
		text->length = (size_t)(offset - text->text);
		*offset = '\0';
	}
}

static void print_number(struct reading *reading, const struct event_field *field, uint64_t value,
			 struct event_line *line)
{
	bool is_signed = field->type == FIELD_INT ||
			 (field->type == FIELD_ENUM && field->is_signed);
	int64_t number = is_signed ? sign_extend(value, field->size) : (int64_t)value;
	const char *label = field->type == FIELD_ENUM ? event_field_label(field, number) : NULL;

	if (label)
		strbuf_printf(&line->text, "%s", label);
	else if (field->type == FIELD_FLOAT)
		event_line_float(line, value, field->size);
	else if (field->type == FIELD_HEX && !strcmp(field->name, "caller"))
		print_caller(reading, &line->text, value);
	else if (is_signed)
		event_line_signed(line, number, 10, field->size * 8u);
	else
		event_line_unsigned(line, value, field->type == FIELD_HEX ? 16 : 10);
}

static void print_frames(struct reading *reading, struct cursor *cursor, struct strbuf *text)
{
	uint64_t count = load(cursor, 4);

	cursor->at = (cursor->at + 7) & ~(size_t)7;
	for (uint64_t i = 0; i < count && cursor->at + 8 <= cursor->end; i++) {
		strbuf_printf(text, "%s", i ? " < " : "");
		print_address(reading, text, load(cursor, 8), i > 0);
	}
}

static void print_string(struct cursor *cursor, struct strbuf *text)
{
	size_t room = cursor->end > cursor->at ? cursor->end - cursor->at : 0;
	const char *start = (const char *)cursor->bytes + cursor->at - IMAGE_HEAD;
	size_t length = room ? strnlen(start, room) : 0;

	strbuf_printf(text, "%.*s", (int)length, room ? start : "");
	cursor->at += length + 1;
}

static void print_field(struct reading *reading, const struct event_field *field,
			struct cursor *cursor, struct event_line *line)
{
	switch (field->type) {
	case FIELD_STRUCT:
		cursor->at = field->size ? DT_ROUND_UP(cursor->at, field->size) : cursor->at;
		break;
	case FIELD_END:
		break;
	case FIELD_STRING:
		print_string(cursor, &line->text);
		break;
	case FIELD_FRAMES:
		print_frames(reading, cursor, &line->text);
		break;
	default:
		for (unsigned i = 0; i < (field->count ? field->count : 1u); i++) {
			strbuf_printf(&line->text, "%s", i ? " " : "");
			print_number(reading, field, load(cursor, field->size), line);
		}
	}
}

static bool is_plain_number(const struct event_field *field)
{
	return !field->count && (field->type == FIELD_INT || field->type == FIELD_UINT);
}

static bool has_list(const struct event_field *fields, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		if (fields[i].type == FIELD_LIST)
			return true;
	}
	return false;
}

/* A container, as in a line: { size = 2, elements = [ 1, 2 ] }. */
static void print_container(const struct event_field *fields, size_t count, struct cursor *cursor,
			    const char *unreadable, struct event_line *line)
{
	char(*names)[EVENT_NAME_MAX] = calloc(count, sizeof(*names));
	const struct event_fields all = { fields, count, (const char(*)[EVENT_NAME_MAX])names };
	/* the bytes begin behind the head, and offsets with it */
	struct event_cursor at = { cursor->bytes - IMAGE_HEAD, cursor->at, cursor->end };

	line->text.failed |= !names;
	for (size_t i = 0; names && i < count; i++)
		snprintf(names[i], sizeof(names[i]), "%s", fields[i].name);
	event_line_bare(line);
	if (names)
		event_fields_add(line, &all, 0, count, true, &at);
	if (unreadable && strstr(unreadable, fields[0].name))
		strbuf_printf(&line->text, " (unreadable)");
	free(names);
	cursor->at = at.at;
}

/* The fields of one key, joined. Numbers that could not be read say so. */
static char *print_key(struct reading *reading, const struct event_field *fields, size_t count,
		       struct cursor *cursor, const char *unreadable)
{
	bool is_container = has_list(fields, count);
	struct event_line line = { 0 };

	if (is_container)
		print_container(fields, count, cursor, unreadable, &line);
	for (size_t i = 0; i < count && !is_container; i++) {
		size_t before = line.text.length;

		if (before)
			strbuf_printf(&line.text, " ");
		print_field(reading, &fields[i], cursor, &line);
		if (unreadable && fields[i].type != FIELD_STRING &&
		    strstr(unreadable, fields[i].name)) {
			line.text.length = before;
			strbuf_printf(&line.text, "(unreadable)");
		}
	}
	if (!line.text.text && !line.text.failed)
		strbuf_printf(&line.text, "%s", "");
	if (line.text.failed)
		strbuf_free(&line.text);
	return line.text.text;
}

/* The list of fields that could not be read, which is the last field; NULL: none. */
static const char *find_unreadable(const struct event_type *type, const struct count_key *key)
{
	const char *end = (const char *)key->text + key->size;

	if (!key->size || !type->field_count || end[-1] ||
	    strcmp(type->fields[type->field_count - 1].name, "unreadable") != 0)
		return NULL;
	const char *start = end - 1;
	while (start > (const char *)key->text && start[-1])
		start--;
	return *start ? start : NULL;
}

static bool name_keys(struct reading *reading, const struct count_key *key, struct count_row *row)
{
	const struct values *values = &reading->tracepoint->values;
	uint32_t id = reading->tracepoint->probe.event.id + values->keys_at_exit;
	const struct event_type *type = &reading->session->types->items[id];
	uint8_t number[16];
	struct cursor cursor = { key->text ? key->text : number, IMAGE_HEAD,
				 IMAGE_HEAD + (key->text ? key->size : sizeof(number)) };
	const char *unreadable = key->text ? find_unreadable(type, key) : NULL;
	size_t at = 0;

	memcpy(number, &key->number, sizeof(key->number));
	for (size_t i = 0; i < reading->question->key_count; i++) {
		size_t end = values->key_ends[i] < type->field_count ? values->key_ends[i] :
								      type->field_count;

		if (reading->question->keys[i].kind == QUESTION_FUNCTION)
			row->names[i] = strdup(reading->tracepoint->name);
		else
			row->names[i] = print_key(reading, type->fields + at, end - at, &cursor,
						  unreadable);
		row->is_number[i] = end == at + 1 && is_plain_number(&type->fields[at]) &&
				    !unreadable;
		if (!row->names[i])
			return false;
		at = end;
	}
	if (!reading->question->key_count)
		row->names[0] = strdup(reading->tracepoint->name);
	return reading->question->key_count || row->names[0];
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void free_row(struct count_row *row)
{
	for (size_t i = 0; i < QUESTION_KEYS_MAX; i++)
		free(row->names[i]);
	distribution_free(&row->values);
	*row = (struct count_row){ 0 };
}

void count_rows_free(struct count_rows *rows)
{
	for (size_t i = 0; i < rows->rows.count; i++)
		free_row(&rows->rows.items[i]);
	vec_free(&rows->rows);
}

static uint64_t to_ns(uint64_t cycles, uint64_t frequency)
{
	return frequency ? (uint64_t)((unsigned __int128)cycles * 1000000000u / frequency) : cycles;
}

/* Does a filter of the exit decide about calls? Hits are counted at the entry, before it does. */
static bool is_judged_at_exit(const struct tracepoint *tracepoint)
{
	const struct tramp_event *at_exit = tracepoint->probe.event.at_exit;

	return at_exit && (at_exit->filter || at_exit->count.keys.has_condition);
}

static bool add_row(void *context, struct count_key *key)
{
	struct reading *reading = context;

	if (!key->values.count && is_judged_at_exit(reading->tracepoint))
		return true; /* a key of which no call passed */
	struct count_row row = { .is_other = key->index == DT_KEY_OTHER, .hits = key->hits };
	uint64_t frequency = reading->rows->is_time ? reading->session->clock.frequency : 0;

	if (!row.is_other && !name_keys(reading, key, &row)) {
		free_row(&row);
		return false;
	}
	row.values = key->values;
	key->values = (struct distribution){ 0 };
	row.total = (int64_t)to_ns(key->total, frequency);
	if (reading->rows->is_time) {
		uint64_t sum = (uint64_t)row.values.sum;

		row.values.sum = (int64_t)to_ns(sum, frequency);
		row.values.max = (int64_t)to_ns((uint64_t)row.values.max, frequency);
		row.self = (int64_t)to_ns(sum > key->inside ? sum - key->inside : 0, frequency);
	}
	if (vec_push(&reading->rows->rows, row))
		return true;
	free_row(&row);
	return false;
}

static int by_names(const void *a, const void *b)
{
	const struct count_row *x = a, *y = b;

	if (x->is_other != y->is_other)
		return x->is_other - y->is_other;
	for (size_t i = 0; i < QUESTION_KEYS_MAX && x->names[i] && y->names[i]; i++) {
		int order = strcmp(x->names[i], y->names[i]);

		if (order)
			return order;
	}
	return 0;
}

/* Joins rows of the same keys; false: out of memory, and some stay apart. */
static bool join(struct count_rows *rows)
{
	size_t count = 0;
	bool whole = true;

	if (!rows->rows.count)
		return true;
	qsort(rows->rows.items, rows->rows.count, sizeof(*rows->rows.items), by_names);
	for (size_t i = 1; i < rows->rows.count; i++) {
		struct count_row *last = &rows->rows.items[count], *row = &rows->rows.items[i];
		bool same = !by_names(last, row);

		if (!same || !distribution_merge(&last->values, &row->values)) {
			whole &= !same;
			rows->rows.items[++count] = *row;
			continue;
		}
		last->hits += row->hits;
		last->total += row->total;
		last->self += row->self;
		free_row(row);
	}
	rows->rows.count = count + 1;
	return whole;
}

static struct frames *know_frames(const struct session *session)
{
	struct frames *frames = session->unwinding->loaded.count ? frames_create() : NULL;

	for (size_t i = 0; frames && i < session->unwinding->loaded.count; i++)
		frames_add(frames, session->unwinding->loaded.items[i]);
	return frames;
}

static struct error *read_tracepoint(struct reading *reading)
{
	const struct tracepoint *tracepoint = reading->tracepoint;
	const struct tracepoint_spec *spec = &tracepoint->request->spec;
	struct question question;
	struct error *error = question_parse(spec->by, spec->of, &question);

	if (error)
		return error;
	struct count_keys keys = tracepoint->count->keys;
	reading->question = &question;
	reading->rows->has_values = keys.value != VALUE_NONE;
	reading->rows->is_time = keys.value == VALUE_DURATION || keys.value == VALUE_SELF;
	keys.takes = reading->takes;
	keys.frequency = reading->rows->is_time ? reading->session->clock.frequency : 0;
	if (!count_keys_each(&reading->session->count->counts, &tracepoint->count->cell, &keys,
			     add_row, reading))
		error = error_new(ERROR_FAILED, "out of memory");
	question_free(&question);
	return error;
}

static bool has_rows(const struct tracepoint *tracepoint)
{
	return tracepoint->count && tracepoint->count->keys.capacity && tracepoint->has_type;
}

/* Reads the tracepoints from `first` up to before `end`. */
static struct error *read_range(const struct session *session, size_t first, size_t end,
				bool takes, struct count_rows *ret_rows)
{
	struct count_rows rows = { 0 };
	struct reading reading = { .session = session, .takes = takes, .rows = &rows };
	struct error *error = NULL;

	for (size_t i = first; i < end && !error; i++) {
		reading.tracepoint = session->tracepoints.items[i];
		if (!has_rows(reading.tracepoint))
			continue;
		if (!reading.frames)
			reading.frames = know_frames(session);
		error = read_tracepoint(&reading);
	}
	if (reading.frames)
		frames_free(reading.frames);
	if (!error && !join(&rows))
		error = error_new(ERROR_FAILED, "out of memory");
	if (error)
		count_rows_free(&rows);
	else
		*ret_rows = rows;
	return error;
}

struct error *count_rows_read(const struct session *session, bool takes,
			      struct count_rows *ret_rows)
{
	return read_range(session, 0, session->tracepoints.count, takes, ret_rows);
}

struct error *count_rows_read_one(const struct session *session, size_t index, bool takes,
				  struct count_rows *ret_rows)
{
	size_t end = index < session->tracepoints.count ? index + 1 : index;

	return read_range(session, index, end, takes, ret_rows);
}

struct error *count_rows_add(struct count_rows *to, struct count_rows *from)
{
	if (!from->rows.count)
		return NULL;
	if (!vec_reserve(&to->rows, from->rows.count))
		return error_new(ERROR_FAILED, "out of memory");
	for (size_t i = 0; i < from->rows.count; i++)
		to->rows.items[to->rows.count++] = from->rows.items[i];
	from->rows.count = 0;
	to->has_values |= from->has_values;
	to->is_time |= from->is_time;
	return join(to) ? NULL : error_new(ERROR_FAILED, "out of memory");
}
