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

#include "control/base/interrupt.h"
#include "control/base/now.h"
#include "control/base/strbuf.h"
#include "control/tracers/log/line.h"
#include "control/tracers/log/output.h"

#define PRINT_QUEUE_MAX (16u << 20)
#define INTERRUPTED_MS 100

struct printer {
	const struct session *session;
	struct line_style style;
	struct output output;
	struct strbuf text; /* lines not written yet */
	size_t written; /* bytes of text already written */
	uint64_t left_out;
	uint64_t deadline; /* after Ctrl-C, in ms; 0: none */
	bool closed; /* stdout has no reader any more */
};

struct printer *printer_create(const char *process)
{
	struct printer *printer = calloc(1, sizeof(*printer));

	if (!printer)
		return NULL;
	printer->style.process = process;
	output_open(dup(STDOUT_FILENO), &printer->output);
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
	output_close(&printer->output);
	strbuf_free(&printer->text);
	free(printer);
}

uint64_t printer_left_out(const struct printer *printer)
{
	return printer->left_out;
}

/* ---- output --------------------------------------------------------------------------------- */

/* Waits for stdout's reader as long as it likes, as cat does, until Ctrl-C. */
static bool wait_for_room(struct printer *printer)
{
	struct pollfd fd = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int left = -1;

	if (interrupt_requested()) {
		uint64_t now = now_ms();

		if (!printer->deadline)
			printer->deadline = now + INTERRUPTED_MS;
		left = now < printer->deadline ? (int)(printer->deadline - now) : 0;
	}
	return left && poll(&fd, 1, left) > 0;
}

static uint64_t count_lines(const char *text, size_t length)
{
	uint64_t lines = 0;

	for (size_t i = 0; i < length; i++)
		lines += text[i] == '\n';
	return lines;
}

/* Leaves out the lines that aren't written. */
static void give_up(struct printer *printer)
{
	printer->left_out += count_lines(printer->text.text + printer->written,
					 printer->text.length - printer->written);
	printer->written = printer->text.length;
}

void printer_flush(struct printer *printer, bool all)
{
	while (printer->written < printer->text.length) {
		ssize_t n = printer->closed ?
				    -EPIPE :
				    output_write(&printer->output,
						 printer->text.text + printer->written,
						 printer->text.length - printer->written);

		if (n > 0)
			printer->written += (size_t)n;
		else if (n == -EAGAIN && !(all && wait_for_room(printer)))
			break;
		else if (n != -EINTR && n != -EAGAIN)
			printer->closed = true;
		if (printer->closed)
			give_up(printer);
	}
	if (all)
		give_up(printer);
	if (printer->written == printer->text.length)
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
