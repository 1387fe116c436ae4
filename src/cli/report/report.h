/*
 * report.h - numbers of a trace: what is counted, and how it is printed.
 *
 * A call is an exit event, which has the call's duration; its entry event says what it was called
 * with, and which calls are inside it.
 *
 * (O1) A function's total is the time during which at least one call of it was on the thread's
 *      stack: a recursive call's time is in the outer one's. Calls, mean and percentiles are per
 *      call.
 * (O2) A call that a loss of events cut has no duration in any number: it is counted as `cut`.
 *      Where packets are missing, that is true of each thread that may miss one (packet_gap.h).
 * (O3) Self time is the duration less that of the calls inside it. A call whose entry isn't in the
 *      trace has none: it is counted as `partial`.
 * (O10) Calls of some functions end unseen, as their returns couldn't be watched: they are counted
 *      as `missed`. The trace says how many (layout_fates). So such a call encloses nothing for
 *      sure: it is over at the latest when its function is called again on the thread, unless an
 *      open call inside it has an end that will be seen.
 */
#ifndef DYNTRACE_REPORT_H
#define DYNTRACE_REPORT_H

#include "cli/view/view_own.h"
#include "options/calls_table.h"

#define REPORT_NONE UINT32_MAX
#define REPORT_SLOWEST 10

/* A call among the slowest of its function. */
struct report_slow {
	uint64_t duration;
	int64_t begin_ns;
	uint32_t tid, pid;
	char *text; /* arguments and result; may be NULL */
};

struct report_function {
	char *name;
	bool has_exit; /* its exits are recorded */
	uint64_t hits; /* entries, or events of a bare probe */
	struct distribution durations; /* of calls, also of recursive ones */
	uint64_t total, self;
	uint64_t cut, partial, unwound, inside, missed;
	struct layout_fates fates; /* (O10) as the recorder saw it */
	struct layout_demoted demoted; /* likewise */
	uint64_t unseen; /* calls without an exit of a function of which returns were missed */
	/* of the thread that is being read: */
	uint32_t thread; /* its number; another one: `top` means nothing */
	uint32_t top; /* innermost open call of the function, an index; REPORT_NONE: none */
	uint32_t cut_open; /* calls that a loss cut, and whose exits may come yet */
};

/* A call path: the root is 0. */
struct report_node {
	uint32_t function, parent, first, next; /* 0: none */
	uint64_t calls, total, self;
};

/* Calls between a function and its callers or callees. */
struct report_edge {
	uint64_t calls, total;
};

/* How a call ended, for a listener. Only whole and partial calls have a duration (O2, O3). */
enum report_end {
	CALL_WHOLE,
	CALL_PARTIAL, /* its entry isn't in the trace */
	CALL_UNWOUND, /* ended without an exit, when the call around it did at the latest */
	CALL_CUT, /* open when events were lost */
	CALL_INSIDE, /* open at the end of the trace */
	CALL_HIT, /* no call: an event of a probe, or an entry of a function without exits */
	/* (O10): */
	CALL_MISSED, /* its return couldn't be watched */
	CALL_UNSEEN, /* missed, unwound or inside: nobody knows */
	CALL_ENDS,
};

struct report_call {
	enum report_end end;
	uint32_t function, depth; /* depth: calls around it that are open */
	uint64_t number; /* of its entry, in the order of reading; 0: a partial call or a hit */
	uint64_t duration, self; /* ns; self is 0 of a partial call */
	int64_t entry_ns, end_ns; /* entry_ns: of the entry event */
	const struct layout_event *entry_type, *exit_type; /* NULL: not at hand */
	const uint8_t *entry, *exit; /* events */
	const struct metadata_packet *head; /* of the packet with its end */
};

struct report_loss {
	uint64_t count;
	bool is_packets; /* of this thread or of another one; otherwise events of this thread */
	int64_t begin_ns, end_ns;
};

/* Hears of everything, thread by thread: calls in the order of their ends, so a call comes after
 * the calls inside it. Functions may be NULL. */
struct report_listener {
	void (*begin_thread)(struct report_listener *, const struct trace_input *input,
			     const struct trace_run *run);
	void (*enter)(struct report_listener *, const struct report_call *call);
	void (*end)(struct report_listener *, const struct report_call *call);
	void (*lose)(struct report_listener *, const struct report_loss *loss);
	/* Keep a copy of this call's entry event, for `end`? */
	bool (*keeps)(struct report_listener *, uint64_t number);
};

struct report {
	VEC(struct report_function) functions;
	uint32_t *names; /* hash table of indices + 1 */
	size_t names_room;
	uint64_t events, lost, lost_packets, threads;
	int64_t first_ns, last_ns; /* of all events; first > last: none */
	bool is_damaged;

	bool wants_tree;
	VEC(struct report_node) nodes;
	bool has_folded; /* paths that are too deep, or too many, were joined */

	unsigned reading, readings; /* which of how many over the trace, for the bar; 0: one */
	const char *wanted; /* the function to look at closely; NULL: none */
	uint32_t wanted_index;
	VEC(struct report_edge) callers, callees; /* by function; the last one: no caller */
	struct report_slow slowest[REPORT_SLOWEST]; /* slowest first */
	size_t slow_count;
	struct viewer *viewer; /* prints arguments */
	struct report_listener *listener; /* NULL: none */
	struct report_by *by; /* rows by key; NULL: none */
};

/* Reads opened traces. `report` begins with all zero but what is wanted. */
struct error *report_read(struct report *report, const struct own_traces *traces,
			  struct view_reader *reader);
void report_free(struct report *report);

/* The index of a function's name, which is added if it is new; REPORT_NONE: out of memory. */
uint32_t report_name(struct report *report, const char *name);
/* The index of a known name; REPORT_NONE: unknown. */
uint32_t report_find(const struct report *report, const char *name);
/* ---- printing, into `text` ---- */

enum report_form { FORM_TEXT, FORM_JSON, FORM_CSV };

struct report_options {
	enum calls_sort sort;
	enum report_form form;
	bool wide, all_rows, hist, linear;
	uint64_t top; /* rows; 0: the usual number */
	const char *path; /* the trace, for commands that are suggested */
};

/* The row of a function in the table of calls. `name` is room for its names. */
struct calls_row report_row(const struct report_function *function, struct calls_name *name);
void report_table(const struct report *report, const struct report_options *options,
		  struct strbuf *text);
void report_diff(const struct report *before, const struct report *after,
		 const struct report_options *options, struct strbuf *text);
/* The lines about losses and calls without a duration. */
void report_notes(const struct report *report, struct strbuf *text);
void report_tree(const struct report *report, const struct report_options *options,
		 struct strbuf *text);
void report_callers(const struct report *report, const struct report_options *options,
		    struct strbuf *text);
/* One function closely. */
void report_function(const struct report *report, const struct report_options *options,
		     struct strbuf *text);
/* "12.3 us", right-aligned in that many columns; "-" if unknown. */
void report_time(struct strbuf *text, bool is_known, uint64_t ns, int width);

#endif
