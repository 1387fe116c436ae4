/*
 * export_speedscope.c - speedscope's JSON: per thread a profile with the begin ("O") and the end
 * ("C") of each call, properly nested.
 *
 * A call's duration is known at its end only, and its begin is written first: so the trace is read
 * twice, and four bytes per call are kept in between.
 */
#include <inttypes.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "export.h"
#include "options/table_text.h"

#define NO_DURATION INT32_MIN

struct speedscope {
	struct report_listener listener; /* first */
	struct exporting *exporting;
	int32_t *late; /* by number: ns from the entry event to the call's begin */
	size_t room;
	int64_t first_ns;
	int64_t last_ns; /* of the thread's profile */
	bool is_second; /* reading */
	bool has_thread, has_event, failed;
};

/* A call is [exit - duration, exit]: it begins after its entry event was recorded. Both have clocks
 * that differ by some millionths, so a long call may seem to begin a little earlier. */
static void note_call(struct speedscope *s, const struct report_call *call)
{
	size_t at = (size_t)call->number, old = s->room;
	int64_t late = call->end_ns - (int64_t)call->duration - call->entry_ns;

	if (at >= s->room) {
		if (!vec_grow((void **)&s->late, &s->room, old, at + 1 - old, sizeof(*s->late))) {
			s->failed = true;
			return;
		}
		for (size_t i = old; i < s->room; i++)
			s->late[i] = NO_DURATION;
	}
	s->late[at] = late <= NO_DURATION ? NO_DURATION + 1 :
		      late > INT32_MAX	  ? INT32_MAX :
					    (int32_t)late;
}

static void end_thread(struct speedscope *s)
{
	if (!s->has_thread)
		return;
	text_add(&s->exporting->text, "],\"endValue\":");
	text_signed(&s->exporting->text, s->last_ns);
	text_add(&s->exporting->text, "}");
}

static void begin_thread(struct report_listener *listener, const struct trace_input *input,
			 const struct trace_run *run)
{
	struct speedscope *s = (struct speedscope *)listener;
	struct strbuf *text = &s->exporting->text;

	end_thread(s);
	text_add(text, s->has_thread ? ",\n" : "");
	quote_format(text, "{\"type\":\"evented\",\"name\":\"process %u, thread %u\",", run->pid,
		     run->tid);
	text_add(text, "\"unit\":\"nanoseconds\",\"startValue\":0,\"events\":[");
	s->has_thread = true;
	s->has_event = false;
	s->last_ns = 0;
}

static void add_event(struct speedscope *s, bool is_open, uint32_t function, int64_t ns)
{
	struct strbuf *text = &s->exporting->text;
	int64_t at = ns - s->first_ns;

	s->last_ns = at > s->last_ns ? at : s->last_ns; /* times never go back */
	text_add(text, s->has_event ? ",\n" : "\n");
	text_add(text, is_open ? "{\"type\":\"O\",\"frame\":" : "{\"type\":\"C\",\"frame\":");
	text_unsigned(text, function);
	text_add(text, ",\"at\":");
	text_signed(text, s->last_ns);
	text_add(text, "}");
	s->has_event = true;
	export_flush(s->exporting, false);
}

static void take_entry(struct report_listener *listener, const struct report_call *call)
{
	struct speedscope *s = (struct speedscope *)listener;

	if (call->number < s->room && s->late[call->number] != NO_DURATION)
		add_event(s, true, call->function, call->entry_ns + s->late[call->number]);
}

static void take_end(struct report_listener *listener, const struct report_call *call)
{
	struct speedscope *s = (struct speedscope *)listener;

	if (call->end != CALL_WHOLE)
		return;
	if (s->is_second)
		add_event(s, false, call->function, call->end_ns);
	else
		note_call(s, call);
}

static void add_frames(const struct report *report, struct strbuf *text)
{
	text_add(text, "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\n"
		       "\"exporter\":\"dyntrace\",\"shared\":{\"frames\":[");
	for (size_t i = 0; i < report->functions.count; i++) {
		text_add(text, i ? ",\n{\"name\":" : "\n{\"name\":");
		quote_json(text, report->functions.items[i].name,
			   strlen(report->functions.items[i].name));
		text_add(text, "}");
	}
	text_add(text, "]},\n\"profiles\":[\n");
}

static struct error *read_once(struct speedscope *s, struct report *report)
{
	struct exporting *exporting = s->exporting;
	struct error *error = report_read(report, exporting->traces, exporting->reader);

	exporting->is_damaged |= report->is_damaged;
	if (!error && s->failed)
		error = error_new(ERROR_FAILED, "out of memory");
	return error;
}

struct error *export_speedscope(struct exporting *exporting)
{
	struct speedscope s = { .listener = { .end = take_end }, .exporting = exporting };
	struct report first = { .listener = &s.listener, .readings = 2 },
		      second = { .listener = &s.listener, .reading = 1, .readings = 2 };
	struct error *error = read_once(&s, &first);

	if (!error) {
		s.is_second = true;
		s.first_ns = first.first_ns;
		s.listener.begin_thread = begin_thread;
		s.listener.enter = take_entry;
		add_frames(&first, &exporting->text);
		error = read_once(&s, &second);
		end_thread(&s);
		text_add(&exporting->text, "\n]}\n");
	}
	report_free(&first);
	report_free(&second);
	free(s.late);
	return error;
}
