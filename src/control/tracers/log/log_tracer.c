#include "log_tracer.h"

#include <stdlib.h>
#include <string.h>

#include "control/lines/frames.h"
#include "control/session/own_probes/unwinding.h"
#include "logfile.h"

#define FLUSH_MS 10
#define UNPRINTED UINT16_MAX /* event_type.log of events that --print leaves out */

struct log_tracer {
	VEC(struct logfile *) logs; /* by event_type.log - 1 */
	struct logfile *print; /* a line per event, of all tracepoints; NULL: not wanted */
	struct frames *frames; /* modules of backtraces; NULL: none yet */
};

bool log_tracer_create(struct session *session)
{
	session->log = calloc(1, sizeof(*session->log));
	return session->log != NULL;
}

void log_tracer_free(struct session *session)
{
	struct log_tracer *tracer = session->log;

	for (size_t i = 0; tracer && i < tracer->logs.count; i++)
		logfile_free(tracer->logs.items[i]);
	if (tracer) {
		logfile_free(tracer->print);
		frames_free(tracer->frames);
		vec_free(&tracer->logs);
	}
	free(tracer);
}

static bool same_file(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

struct error *log_tracer_open(struct session *session, const struct tracepoint *tracepoint,
			      uint16_t *ret_log)
{
	struct log_tracer *tracer = session->log;
	const char *file = tracepoint->request->spec.tracer_argument;
	struct logfile *log;

	if (tracepoint->tracer->kind != TRACER_LOG) {
		*ret_log = tracepoint->request->spec.unprinted ? UNPRINTED : 0;
		return NULL;
	}
	for (size_t i = 0; i < tracer->logs.count; i++) {
		if (same_file(tracer->logs.items[i]->file, file)) {
			*ret_log = (uint16_t)(i + 1);
			return NULL;
		}
	}
	int fd = session->options.open_log ?
			 session->options.open_log(session->options.open_context, file) :
			 -1;
	struct error *error = logfile_open(session->proc, session->types, file, fd, &log);
	if (error)
		return error_wrap(error, "tracer 'log'");
	if (tracer->logs.count >= UNPRINTED - 1 || !vec_push(&tracer->logs, log)) {
		logfile_free(log);
		return error_new(ERROR_FAILED, "out of memory");
	}
	*ret_log = (uint16_t)tracer->logs.count;
	if (!session->options.flush_ms)
		session->options.flush_ms = FLUSH_MS;
	return NULL;
}

struct error *log_tracer_print(struct session *session, int fd)
{
	struct error *error = logfile_open(session->proc, session->types, NULL, fd,
					   &session->log->print);

	if (!error)
		session->log->print->is_print = true;
	return error;
}

static void add_event(void *context, const struct line_event *event)
{
	struct session *session = context;
	uint16_t log = session->types->items[event->id].log;

	if (log && log <= session->log->logs.count)
		logfile_add(session->log->logs.items[log - 1], event);
	if (session->log->print && log != UNPRINTED)
		logfile_add(session->log->print, event);
}

void log_tracer_observe(struct session *session, const struct reader_batch *batch)
{
	if (session->log->logs.count || session->log->print)
		line_each(batch, session->types, add_event, session);
}

/* Learns of modules that were loaded since the last flush. */
static struct frames *know_frames(struct session *session)
{
	struct log_tracer *tracer = session->log;
	const struct unwinding *unwinding = session->unwinding;

	if (!tracer->frames && unwinding->loaded.count)
		tracer->frames = frames_create();
	for (size_t i = tracer->frames ? frames_count(tracer->frames) : 0;
	     tracer->frames && i < unwinding->loaded.count; i++)
		frames_add(tracer->frames, unwinding->loaded.items[i]);
	return tracer->frames;
}

static void flush(struct session *session, struct logfile *log, uint64_t until, bool all)
{
	log->line.frames = know_frames(session);
	logfile_flush(log, &session->clock, until, all);
}

void log_tracer_flush(struct session *session, uint64_t until, bool all)
{
	for (size_t i = 0; i < session->log->logs.count; i++)
		flush(session, session->log->logs.items[i], until, all);
	if (session->log->print)
		flush(session, session->log->print, until, all);
}

bool log_tracer_waits(const struct session *session)
{
	bool waits = session->log->print && session->log->print->lines.count;

	for (size_t i = 0; i < session->log->logs.count && !waits; i++)
		waits = session->log->logs.items[i]->lines.count != 0;
	return waits;
}

bool log_tracer_prints(const struct session *session)
{
	return session->log->print != NULL;
}

uint64_t log_tracer_unprinted(const struct session *session, bool *ret_closed)
{
	const struct logfile *print = session->log->print;

	*ret_closed = print && print->closed;
	return print ? print->left_out : 0;
}

uint64_t log_tracer_left_out(const struct session *session, int *ret_failed)
{
	uint64_t left_out = 0;

	*ret_failed = 0;
	for (size_t i = 0; i < session->log->logs.count; i++) {
		left_out += session->log->logs.items[i]->left_out;
		if (session->log->logs.items[i]->failed)
			*ret_failed = session->log->logs.items[i]->failed;
	}
	return left_out;
}
