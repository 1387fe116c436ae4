/*
 * print.c - turn a batch of events into lines, in the form of dyntrace view:
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

#include "control/base/strbuf.h"
#include "control/tracers/log/line.h"

#define PRINT_QUEUE_MAX (16u << 20)

struct printer {
	const struct session *session;
	struct line_style style;
	struct strbuf text; /* lines not written yet */
	size_t written; /* bytes of text already written */
	uint64_t left_out;
	bool closed; /* stdout has no reader any more */
};

struct printer *printer_create(const char *process)
{
	struct printer *printer = calloc(1, sizeof(*printer));

	if (printer)
		printer->style.process = process;
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

/* A pipe with room (POLLOUT) takes this much without blocking. */
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

/* ---- lines ---------------------------------------------------------------------------------- */

static void add_line(void *context, const struct line_event *event)
{
	struct printer *printer = context;

	if (printer->text.length - printer->written > PRINT_QUEUE_MAX || printer->closed)
		printer->left_out++;
	else
		line_add(&printer->text, &printer->style, session_clock(printer->session), event);
}

void printer_events(void *context, const struct reader_batch *batch)
{
	struct printer *printer = context;

	line_each(batch, session_types(printer->session), add_line, printer);
	printer_flush(printer, false);
}
