/*
 * event_line.h - the one form of an event's line, as text or as JSON.
 *
 *   09:12:33.123456789 (+0.000001234) redis-server tid 1234 call_entry { arg0 = 0x1, arg1 = 0x2 }
 *
 * The caller walks the event's fields in their order: event_line_begin, then for each field
 * event_line_key and one value, then event_line_end. A value is a number, a string, or a compound:
 * event_line_open, members or elements, event_line_close.
 *
 * Failure is sticky in the text. Names and strings are foreign, and are escaped here.
 */
#ifndef DYNTRACE_EVENT_LINE_H
#define DYNTRACE_EVENT_LINE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "control/base/strbuf.h"
#include "frames.h"

struct line_colours {
	const char *time, *name, *key, *loss, *off; /* escape sequences, or NULL */
};

/* Starts with all zeroes, except json and colours. */
struct event_line {
	struct strbuf text; /* lines not written yet */
	bool json;
	struct line_colours colours;
	bool has_last;
	int64_t last_ns; /* time of the line before */
	time_t second; /* whose text is in `clock` */
	char clock[32];
	bool is_first; /* no member of this compound is there yet */
	bool has_fields; /* of the event */
	bool is_bare; /* no member of event_line_bare is there yet */
	struct frames *frames; /* the modules of backtraces; NULL: unknown; borrowed */
	struct frames_event event; /* for its backtrace */
};

struct event_head {
	bool has_time, has_pid, has_tid;
	int64_t ns; /* since the epoch */
	int64_t pid, tid;
	const char *process; /* its name; NULL: unknown */
	const char *name; /* of the event */
};

void event_line_begin(struct event_line *line, const struct event_head *head);
void event_line_end(struct event_line *line);
/* Instead of both: fields alone, "arg0 = 0x1, arg1 = 0x2". */
void event_line_bare(struct event_line *line);

/* Does a field say nothing? An empty "unreadable", the length of the array behind it, a gap. */
bool event_line_is_silent(const char *name, bool is_string, size_t length);

void event_line_key(struct event_line *line, const char *name);
/* In base 2, 8, 10 or 16; JSON knows base 10 only. */
void event_line_unsigned(struct event_line *line, uint64_t value, unsigned base);
/* In another base than ten, a negative number shows its `bits` bits. */
void event_line_signed(struct event_line *line, int64_t value, unsigned base, unsigned bits);
/* A number with a name, "NAME (NUMBER)", in JSON only the name. True: the caller appends the number
 * and then calls event_line_label_end. */
bool event_line_label(struct event_line *line, const char *label);
void event_line_label_end(struct event_line *line);
/* The shortest text that reads back as the same number. */
void event_line_real(struct event_line *line, double value, bool is_single);
/* Appends the number that the bits of a float (4 bytes) or a double are, as event_line_real. */
void event_line_float(struct event_line *line, uint64_t bits, size_t size);
void event_line_string(struct event_line *line, const char *bytes, size_t length);
/* `kind`: '{' for members, each after its key; '[' for elements, each after event_line_element. */
void event_line_open(struct event_line *line, char kind);
void event_line_element(struct event_line *line);
void event_line_close(struct event_line *line, char kind);
/* An element of a backtrace. `is_return`: the address belongs to the call before it. */
void event_line_frame(struct event_line *line, uint64_t address, bool is_return);

/* Appends a time: local time of day as text, UTC with the date as JSON. */
void event_line_time(struct event_line *line, int64_t ns);
/* Appends a colour, where there are any. */
void event_line_colour(struct event_line *line, const char *colour);

#endif
