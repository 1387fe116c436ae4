/*
 * worker_list.c - the tracepoints of a target, one item each.
 */
#include "worker_list.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "worker_commands.h"

#define QUEUED_MAX (256u << 10) /* a long list waits for the supervisor to read */

/* "int32_t size", "string path", "uint8_t buffer[16]" */
static void describe_field(const struct event_field *field, char *ret_text, size_t size)
{
	char type[32], count[16] = "";

	if (field->type == FIELD_STRING)
		snprintf(type, sizeof(type), "string");
	else if (field->type == FIELD_FRAMES)
		snprintf(type, sizeof(type), "backtrace");
	else if (field->type == FIELD_STRUCT)
		snprintf(type, sizeof(type), "struct");
	else if (field->type == FIELD_FLOAT)
		snprintf(type, sizeof(type), field->size == 4 ? "float" : "double");
	else if (field->type == FIELD_ENUM)
		snprintf(type, sizeof(type), "enum");
	else
		snprintf(type, sizeof(type), "%sint%d_t", field->type == FIELD_INT ? "" : "u",
			 field->size * 8);
	if (field->count)
		snprintf(count, sizeof(count), "[%u]", field->count);
	snprintf(ret_text, size, "%s %s%s", type, field->name, count);
}

static void add_fields(struct wire_out *out, const struct tracepoint_info *info)
{
	size_t depth = 0;

	for (size_t i = 0; i < info->field_count; i++) {
		const struct event_field *field = &info->fields[i];
		char text[160];

		assert(depth || field->type != FIELD_END);
		depth -= field->type == FIELD_END;
		if (!depth && field->type != FIELD_END) {
			describe_field(field, text, sizeof(text));
			wire_text(out, WIRE_FIELD, text);
		}
		depth += field->type == FIELD_STRUCT;
	}
}

static void add_times(struct wire_out *out, const struct tracepoint_times *times)
{
	if (!times->calls)
		return;
	wire_number(out, WIRE_CALLS, times->calls);
	wire_number(out, WIRE_TOTAL, times->total);
	wire_number(out, WIRE_DURATIONS, times->durations);
	if (times->self_known)
		wire_number(out, WIRE_SELF, times->self);
	wire_number(out, WIRE_P50, times->p50);
	wire_number(out, WIRE_P90, times->p90);
	wire_number(out, WIRE_P99, times->p99);
	wire_number(out, WIRE_LONGEST, times->max);
}

static uint64_t shape_of(enum tracepoint_kind kind)
{
	return kind == TRACEPOINT_BARE	? WIRE_BARE :
	       kind == TRACEPOINT_ENTRY ? WIRE_ENTRY :
					  WIRE_FUNCTION;
}

static void list_one(struct worker *worker, uint32_t sequence, size_t index)
{
	struct tracepoint_info info = session_tracepoint(worker->session, index);
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, sequence);
	wire_text(&out, WIRE_NAME, info.name);
	wire_text(&out, WIRE_LOCATION, info.location);
	wire_number(&out, WIRE_SHAPE, shape_of(info.kind));
	wire_text(&out, WIRE_TRACER, info.tracer ? info.tracer : "ctf");
	wire_text(&out, WIRE_ARGUMENT, info.tracer_argument);
	wire_number(&out, WIRE_DISABLED, !info.enabled);
	wire_text(&out, WIRE_STATE, info.refusal);
	wire_number(&out, WIRE_ADDRESS, info.address.v);
	wire_text(&out, WIRE_MODULE, info.module);
	if (info.copy_at.v)
		wire_number(&out, WIRE_COPY, info.copy_at.v);
	wire_text(&out, WIRE_HOW, info.how);
	wire_number(&out, WIRE_HITS, info.hits);
	wire_number(&out, WIRE_LOST, info.lost);
	wire_number(&out, WIRE_NESTED, info.nested);
	wire_text(&out, WIRE_FAULT, info.fault);
	wire_number(&out, WIRE_BYTES, info.code_bytes);
	wire_number(&out, WIRE_HIT_RATE, (uint64_t)(info.rate + 0.5));
	add_times(&out, &info.times);
	wire_text(&out, WIRE_FILTER, info.filter);
	wire_text(&out, WIRE_BY, info.by);
	wire_text(&out, WIRE_OF, info.of);
	for (size_t i = 0; i < info.context_count; i++)
		wire_text(&out, WIRE_CONTEXT_TYPE, info.contexts[i]);
	add_fields(&out, &info);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

/* ---- rows by key ---------------------------------------------------------------------------- */

static void add_values(struct wire_out *out, const struct count_row *row)
{
	uint64_t count;
	int64_t value;

	wire_number(out, WIRE_CALLS, row->values.count);
	wire_number(out, WIRE_TOTAL, (uint64_t)row->total);
	wire_number(out, WIRE_SELF, (uint64_t)row->self);
	wire_number(out, WIRE_DURATIONS, (uint64_t)row->values.sum);
	wire_number(out, WIRE_SHORTEST, (uint64_t)row->values.min);
	wire_number(out, WIRE_LONGEST, (uint64_t)row->values.max);
	for (uint32_t at = 0; distribution_next(&row->values, &at, &value, &count);) {
		wire_number(out, WIRE_BUCKET, (uint64_t)value);
		wire_number(out, WIRE_BUCKET_COUNT, count);
	}
}

static void list_row(struct worker *worker, const struct count_row *row)
{
	const struct count_rows *rows = &worker->listing.rows;
	struct wire_out out = { 0 };
	uint64_t numbers = 0;

	wire_begin(&out, WIRE_ITEM, worker->listing.sequence);
	wire_number(&out, WIRE_ROW, row->is_other ? WIRE_ROW_OTHER : WIRE_ROW_KEY);
	wire_number(&out, WIRE_VALUES,
		    rows->is_time    ? WIRE_VALUES_TIMES :
		    rows->has_values ? WIRE_VALUES_NUMBERS :
				       WIRE_VALUES_NONE);
	for (size_t i = 0; i < QUESTION_KEYS_MAX && row->names[i]; i++) {
		wire_text(&out, WIRE_KEY, row->names[i]);
		numbers |= (uint64_t)row->is_number[i] << i;
	}
	wire_number(&out, WIRE_KEY_NUMBERS, numbers);
	wire_number(&out, WIRE_HITS, row->hits);
	if (rows->has_values)
		add_values(&out, row);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

/* Reads the rows of the tracepoint that was listed last. */
static void begin_rows(struct worker *worker, size_t index)
{
	count_rows_free(&worker->listing.rows);
	worker->listing.next_row = 0;
	if (worker->listing.has_rows)
		error_free(count_rows_read_one(worker->session, index, worker->listing.resets,
					       &worker->listing.rows));
}

static void list_next(struct worker *worker)
{
	struct count_rows *rows = &worker->listing.rows;

	if (worker->listing.next_row < rows->rows.count) {
		list_row(worker, &rows->rows.items[worker->listing.next_row++]);
		return;
	}
	list_one(worker, worker->listing.sequence, worker->listing.next);
	begin_rows(worker, worker->listing.next++);
}

static bool is_complete(const struct worker *worker)
{
	return !worker->session ||
	       (worker->listing.next >= session_tracepoint_count(worker->session) &&
		worker->listing.next_row >= worker->listing.rows.rows.count);
}

void worker_list_end(struct worker *worker)
{
	count_rows_free(&worker->listing.rows);
	worker->listing.next_row = 0;
	worker->listing.active = false;
}

struct error *worker_list_begin(struct worker *worker, const struct wire_message *message)
{
	struct error *error;

	assert(!worker->listing.active);
	error = worker_commands_not_attached(worker);
	if (error)
		return error;
	error = session_flush(worker->session); /* counts as of now */
	session_look(worker->session);
	if (error)
		return error;
	worker->listing.active = true;
	worker->listing.sequence = message->sequence;
	worker->listing.next = 0;
	worker->listing.has_rows = wire_get_number(message, WIRE_ROWS, 0);
	worker->listing.resets = wire_get_number(message, WIRE_RESET, 0);
	return NULL;
}

bool worker_list_go_on(struct worker *worker)
{
	assert(worker->listing.active);
	while (!is_complete(worker) && worker->channel.out.bytes.length < QUEUED_MAX)
		list_next(worker);
	if (!is_complete(worker))
		return false;
	worker_list_end(worker);
	return true;
}
