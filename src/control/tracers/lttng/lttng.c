/*
 * lttng.c - requests to libdyntrace-lttng.so in the target.
 *
 * The paper holds a name for dlopen, then the request, then the events of a request.
 */
#include "lttng.h"

#include <assert.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/remote/safepoint.h"
#include "image_fields.h"

#define LIBRARY "libdyntrace-lttng.so"
#define REQUEST_AT LOAD_NAME_MAX
#define EVENTS_AT (2 * LOAD_NAME_MAX)
#define START_TIMEOUT_MS 2000
#define ANSWER_TIMEOUT_MS 10000 /* the library asks the session daemon for each event */

/* ---- requests -------------------------------------------------------------------------------- */

static struct dt_bridge_request *request_of(struct load_paper *paper)
{
	return (struct dt_bridge_request *)(paper->here + REQUEST_AT);
}

static taddr wake_word(const struct agent *agent)
{
	return taddr_add(agent->pool_at, offsetof(struct dt_pool, bridge_wake));
}

static struct error *read_answer(const struct lttng *lttng, struct proc *proc,
				 struct dt_bridge_answer *ret_answer)
{
	return mem_read(proc, lttng->answer, ret_answer, sizeof(*ret_answer));
}

/* (G1) A request whose answer was waited for in vain may be read still. */
static struct error *check_answered(struct lttng *lttng, const struct agent *agent)
{
	struct dt_bridge_answer answer = { 0 };
	struct error *error =
		lttng->unanswered ? read_answer(lttng, agent->proc, &answer) : NULL;

	if (error)
		return error;
	if (lttng->unanswered && answer.number != lttng->number)
		return error_new(ERROR_FAILED,
				 "%s in process %d is busy with an earlier request (try again)",
				 LIBRARY, agent->proc->pid);
	lttng->unanswered = false;
	return NULL;
}

/* (G1) Writes a request and waits for its answer. */
static struct error *ask(struct lttng *lttng, struct agent *agent, struct load_paper *paper,
			 const struct dt_bridge_request *what, struct dt_bridge_answer *ret_answer)
{
	struct dt_bridge_request *request = request_of(paper);
	struct dt_bridge_answer answer = { 0 };
	struct error *error = NULL;

	assert(request->number == lttng->number && !lttng->unanswered); /* G1 */
	lttng->unanswered = true;
	request->kind = what->kind;
	request->count = what->count;
	request->argument = what->argument;
	__atomic_store_n(&request->number, ++lttng->number, __ATOMIC_RELEASE);
	__atomic_fetch_add(&agent->pool->bridge_wake, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &agent->pool->bridge_wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	for (unsigned waited = 0; !error && answer.number != lttng->number; waited++) {
		if (waited > ANSWER_TIMEOUT_MS)
			return error_new(ERROR_FAILED, "%s in process %d doesn't answer", LIBRARY,
					 agent->proc->pid);
		if (waited)
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		error = read_answer(lttng, agent->proc, &answer);
	}
	lttng->unanswered = error;
	answer.why[sizeof(answer.why) - 1] = '\0';
	if (!error && answer.failed)
		error = error_new(ERROR_REFUSED, "LTTng in process %d: %s", agent->proc->pid,
				  answer.why);
	*ret_answer = answer;
	return error;
}

struct error *lttng_start(struct lttng *lttng, struct agent *agent, struct stop *held,
			  struct load_paper *paper)
{
	static const char *const names[] = { "dyntrace_lttng_start", "dyntrace_lttng_hit",
					     "dyntrace_lttng_answer" };
	_cleanup_free_ char *path = NULL;
	taddr addresses[3];
	struct error *error = lttng->started ? NULL : load_find(LIBRARY, &path);

	if (lttng->started || error)
		return error;
	error = load_library(agent->proc, held, paper, path, names, addresses, 3);
	if (error)
		return error;
	lttng->hit = addresses[1];
	lttng->answer = addresses[2];
	lttng->number = 0;
	*request_of(paper) = (struct dt_bridge_request){ .version = DT_BRIDGE_VERSION,
							 .wake = wake_word(agent).v };
	const uint64_t args[3] = { taddr_add(paper->there, REQUEST_AT).v };
	error = safepoint_call(agent->proc, held, addresses[0], args, START_TIMEOUT_MS);
	lttng->started = !error;
	return error;
}

/* ---- descriptions ---------------------------------------------------------------------------- */

/* The free part of the paper. */
struct writer {
	uint8_t *at, *end;
};

/* Names with quotes, backslashes or control characters make LTTng's metadata, and so the whole
 * trace, unreadable. Of a name that is too long, the middle is left out: its end says which event
 * of the tracepoint it is. */
static void clean_name(char *to, size_t room, const char *from)
{
	size_t length = strlen(from), i = 0;

	for (size_t at = 0; at < length && i + 1 < room; at++, i++) {
		if (length >= room && i == room / 2)
			at = length - (room - 1 - room / 2);
		to[i] = (unsigned char)from[at] < ' ' || strchr("\"\\", from[at]) ? '_' : from[at];
	}
	to[i] = '\0';
}

void lttng_event_name(const struct lttng_event *event, struct lttng_name *ret_name)
{
	size_t length = event->provider ? 0 : lttng_identity_provider(event->name);

	clean_name(ret_name->provider, sizeof(ret_name->provider),
		   event->provider ? event->provider : LTTNG_PROVIDER);
	if (length) {
		char provider[DT_BRIDGE_NAME];

		snprintf(provider, sizeof(provider), "%.*s", (int)length, event->name);
		clean_name(ret_name->provider, sizeof(ret_name->provider), provider);
	}
	clean_name(ret_name->name, sizeof(ret_name->name), event->name + (length ? length + 1 : 0));
}

/* Marks the fields that are for filters alone. */
static void hide_fields(const struct lttng_identity *identity, struct dt_bridge_event *event)
{
	for (uint32_t i = 0; i < event->field_count; i++)
		event->fields[i].nowrite = !event->fields[i].is_inside &&
					   lttng_identity_hides(identity, event->fields[i].name);
}

/* Adds the labels of enumerations, whose names babeltrace2 then shows. */
static void describe_labels(const struct event_type *type, struct dt_bridge_event *event)
{
	struct dt_bridge_label *labels =
		(struct dt_bridge_label *)&event->fields[event->field_count];

	for (uint32_t i = 1; i < event->field_count; i++) {
		struct dt_bridge_field *to = &event->fields[i];
		const struct event_field *field = &type->fields[to->source];

		/* without their quotes most names of characters are the same for LTTng */
		if (to->type > DT_BRIDGE_HEX || field->type != FIELD_ENUM || field->count ||
		    event_field_is_character(field) ||
		    event->label_count + field->label_count > DT_BRIDGE_LABELS_MAX)
			continue;
		to->label_first = (uint16_t)event->label_count;
		to->label_count = (uint16_t)field->label_count;
		for (size_t j = 0; j < field->label_count; j++) {
			struct dt_bridge_label *label = &labels[event->label_count++];

			label->value = field->labels[j].value;
			clean_name(label->name, sizeof(label->name), field->labels[j].name);
		}
	}
}

static size_t count_labels(const struct event_type *type)
{
	size_t count = 0;

	for (size_t i = 0; type && i < type->field_count; i++)
		count += event_field_is_character(&type->fields[i]) ?
				 0 :
				 type->fields[i].label_count;
	return count < DT_BRIDGE_LABELS_MAX ? count : DT_BRIDGE_LABELS_MAX;
}

/* Writes one event's description. False: no room is left in this request. */
static bool describe(const struct lttng_event *from, struct writer *writer)
{
	struct dt_bridge_event *event = (struct dt_bridge_event *)writer->at;

	assert(writer->at <= writer->end);
	size_t most = from->type ? from->type->field_count : 0;

	if (most > DT_BRIDGE_FIELDS_MAX - 1)
		most = DT_BRIDGE_FIELDS_MAX - 1;
	size_t room = sizeof(*event) + (most + 1) * sizeof(event->fields[0]) +
		      count_labels(from->type) * sizeof(struct dt_bridge_label);
	if (room > (size_t)(writer->end - writer->at))
		return false;
	memset(event, 0, room);
	struct lttng_name name = { 0 };
	lttng_event_name(from, &name);
	memcpy(event->provider, name.provider, sizeof(event->provider));
	memcpy(event->name, name.name, sizeof(event->name));
	event->loglevel = from->identity ? from->identity->loglevel : LTTNG_NO_LEVEL;
	event->address = from->address;
	event->start = IMAGE_START;
	event->fields[event->field_count++] = image_fields_address();
	if (from->type)
		event->field_count += image_fields_add(from->type, event->fields,
						       event->field_count, (uint32_t)most + 1);
	if (from->type)
		describe_labels(from->type, event);
	if (from->identity)
		hide_fields(from->identity, event);
	writer->at = (uint8_t *)&event->fields[event->field_count] +
		     event->label_count * sizeof(struct dt_bridge_label);
	return true;
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct error *take_results(struct proc *proc, const struct dt_bridge_answer *answer,
				  struct lttng_event *events, size_t count)
{
	_cleanup_free_ struct dt_bridge_result *results = calloc(count + 1, sizeof(*results));
	struct error *error = results ? mem_read(proc, taddr_of(answer->results), results,
						 count * sizeof(*results)) :
					error_new(ERROR_FAILED, "out of memory");

	for (size_t i = 0; i < count && !error; i++)
		events[i].result = results[i];
	return error;
}

struct error *lttng_define(struct lttng *lttng, struct agent *agent, struct load_paper *paper,
			   struct lttng_event *events, size_t count)
{
	struct error *error = check_answered(lttng, agent);

	for (size_t done = 0, now; done < count && !error; done += now) {
		struct writer writer = { paper->here + EVENTS_AT, paper->here + LOAD_PAPER_END };
		struct dt_bridge_answer answer;

		for (now = 0; done + now < count && describe(&events[done + now], &writer); now++)
			;
		assert(now); /* the paper has room for the largest event */
		struct dt_bridge_request request = { .kind = DT_BRIDGE_DEFINE,
						     .count = (uint32_t)now,
						     .argument =
							     taddr_add(paper->there, EVENTS_AT).v };
		error = ask(lttng, agent, paper, &request, &answer);
		if (!error)
			error = take_results(agent->proc, &answer, &events[done], now);
	}
	return error;
}

struct error *lttng_forget(struct lttng *lttng, struct agent *agent, struct load_paper *paper,
			   uint64_t event)
{
	struct dt_bridge_request request = { .kind = DT_BRIDGE_FORGET, .argument = event };
	struct dt_bridge_answer answer;
	struct error *error = check_answered(lttng, agent);

	return error ? error : ask(lttng, agent, paper, &request, &answer);
}

struct error *lttng_leave(struct lttng *lttng, struct agent *agent, struct load_paper *paper)
{
	struct dt_bridge_request request = { .kind = DT_BRIDGE_LEAVE };
	struct dt_bridge_answer answer;

	if (!lttng->started)
		return NULL;
	struct error *error = check_answered(lttng, agent);
	if (error)
		return error;
	lttng->started = false;
	return ask(lttng, agent, paper, &request, &answer);
}
