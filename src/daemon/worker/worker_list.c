/*
 * worker_list.c - the tracepoints of a target, one item each.
 */
#include "worker_list.h"

#include <assert.h>
#include <time.h>

#include "control/session/messages/tracepoint_message.h"
#include "worker_commands.h"

#define QUEUED_MAX (256u << 10) /* a long list waits for the supervisor to read */

/* CPU time of this process so far. */
static uint64_t own_ns(void)
{
	struct timespec time = { 0 };

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (uint64_t)time.tv_sec * 1000000000ULL + (uint64_t)time.tv_nsec;
}

static void list_one(struct worker *worker, uint32_t sequence, size_t index)
{
	struct tracepoint_info info = session_tracepoint(worker->session, index);
	struct distribution durations = { 0 };
	bool has_durations = worker->listing.has_rows && !info.by &&
			     session_durations(worker->session, index, &durations);
	struct wire_out out = { 0 };

	info.reader_ns = own_ns();
	tracepoint_message_write(&out, sequence, &info, has_durations ? &durations : NULL);
	channel_send(&worker->channel, &out);
	wire_free(&out);
	distribution_free(&durations);
}

/* What all tracepoints of the process cost: one item, however many they are. */
static void list_cost(struct worker *worker, uint32_t sequence)
{
	struct wire_out out = { 0 };
	uint64_t cost = 0;
	bool is_measured = false;

	for (size_t i = 0; i < session_tracepoint_count(worker->session); i++) {
		struct tracepoint_info info = session_tracepoint(worker->session, i);

		cost += info.cost_ns;
		is_measured |= info.cost_measured;
	}
	wire_begin(&out, WIRE_ITEM, sequence);
	wire_number(&out, WIRE_PID, (uint64_t)worker->pid);
	wire_number(&out, WIRE_COST, cost);
	if (is_measured)
		wire_number(&out, WIRE_COST_MEASURED, 1);
	wire_number(&out, WIRE_READER_NS, own_ns());
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

/* ---- rows by key ---------------------------------------------------------------------------- */

static void add_values(struct wire_out *out, const struct count_row *row)
{
	wire_number(out, WIRE_CALLS, row->values.count);
	wire_number(out, WIRE_TOTAL, (uint64_t)row->total);
	wire_number(out, WIRE_SELF, (uint64_t)row->self);
	wire_number(out, WIRE_DURATIONS, (uint64_t)row->values.sum);
	wire_number(out, WIRE_SHORTEST, (uint64_t)row->values.min);
	wire_number(out, WIRE_LONGEST, (uint64_t)row->values.max);
	tracepoint_message_buckets(out, &row->values);
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

/* ---- LTTng's own tracepoints ---------------------------------------------------------------- */

static void list_static(struct worker *worker, const struct static_point *point)
{
	struct wire_out out = { 0 };

	wire_begin(&out, WIRE_ITEM, worker->listing.sequence);
	wire_number(&out, WIRE_STATIC, 1);
	wire_text(&out, WIRE_NAME, point->name);
	wire_text(&out, WIRE_LOCATION, point->module);
	wire_text(&out, WIRE_MODULE, point->module);
	wire_text(&out, WIRE_TRACER, "lttng");
	if (*point->arguments)
		wire_text(&out, WIRE_FIELD, point->arguments);
	wire_number(&out, WIRE_ADDRESS, point->address);
	wire_end(&out);
	channel_send(&worker->channel, &out);
	wire_free(&out);
}

static size_t rows_left(const struct worker *worker)
{
	return worker->listing.rows.rows.count - worker->listing.next_row;
}

static void list_next(struct worker *worker)
{
	struct count_rows *rows = &worker->listing.rows;

	if (rows_left(worker)) {
		list_row(worker, &rows->rows.items[worker->listing.next_row++]);
		return;
	}
	if (worker->listing.next >= session_tracepoint_count(worker->session)) {
		list_static(worker, &worker->listing.statics.items[worker->listing.next_static++]);
		return;
	}
	list_one(worker, worker->listing.sequence, worker->listing.next);
	begin_rows(worker, worker->listing.next++);
}

static bool is_complete(const struct worker *worker)
{
	return !worker->session ||
	       (worker->listing.next >= session_tracepoint_count(worker->session) &&
		!rows_left(worker) &&
		worker->listing.next_static >= worker->listing.statics.count);
}

void worker_list_end(struct worker *worker)
{
	count_rows_free(&worker->listing.rows);
	static_points_free(&worker->listing.statics);
	worker->listing.next_row = worker->listing.next_static = 0;
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
	if (!error && wire_get_number(message, WIRE_STATIC, 0))
		error = static_points_list(worker->session, &worker->listing.statics);
	if (error)
		return error;
	worker->listing.active = true;
	worker->listing.sequence = message->sequence;
	worker->listing.next = 0;
	worker->listing.has_rows = wire_get_number(message, WIRE_ROWS, 0);
	worker->listing.resets = wire_get_number(message, WIRE_RESET, 0);
	if (wire_get_number(message, WIRE_COST, 0)) {
		list_cost(worker, message->sequence);
		worker->listing.next = session_tracepoint_count(worker->session);
	}
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
