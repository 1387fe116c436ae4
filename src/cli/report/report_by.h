/*
 * report_by.h - rows by key: --by and --of (control/event/question.h has the rules, O4 to O6).
 *
 * Memory is bounded by the number of keys that are kept apart; calls with others share a row.
 */
#ifndef DYNTRACE_REPORT_BY_H
#define DYNTRACE_REPORT_BY_H

#include "control/event/question.h"
#include "report.h"

/* A call that begins (`exit` NULL), a bare event, or a call that ends. */
struct by_call {
	const struct packet_cursor *entry; /* the event, or a copy; NULL: it isn't in the trace */
	const struct packet_cursor *exit;
	const struct trace_input *input;
	const char *caller; /* the traced function around it; NULL: none */
	uint32_t function;
	bool has_exit; /* exits of the function are recorded */
	uint32_t thread; /* a number of its own */
	uint64_t duration, self;
	uint64_t serial; /* calls that begin later have larger ones */
	uint64_t outer; /* the serial of the innermost open call; 0: none */
};

/* The question is borrowed. `function`: only calls of this one; NULL: of all. NULL: no memory. */
struct report_by *report_by_create(const struct question *question, uint64_t keys);
void report_by_free(struct report_by *by);

/* Counts the call, if it is counted at this end; false: out of memory. */
bool report_by_take(struct report_by *by, const struct report *report, const struct by_call *call);

/* Why no call could be counted; NULL: some were, or there were none. The caller frees it. */
struct error *report_by_error(struct report_by *by);

/* Rows by backtrace alone, "main;work;read 12": hits per stack. */
void report_by_fold(const struct report_by *by, const struct report *report,
		    void (*add_name)(struct strbuf *text, const char *name), struct strbuf *text);

void report_by_print(struct report_by *by, const struct report *report,
		     const struct report_options *options, struct strbuf *text);

#endif
