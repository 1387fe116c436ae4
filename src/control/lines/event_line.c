#include "event_line.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/plain_text.h"
#include "control/base/quote.h"
#include "frames.h"

#define NS 1000000000LL

/* ---- head of a line -------------------------------------------------------------------------- */

static void split_time(int64_t ns, time_t *ret_second, uint64_t *ret_fraction)
{
	int64_t second = ns / NS - (ns % NS < 0);

	*ret_second = (time_t)second;
	*ret_fraction = (uint64_t)(ns - second * NS);
}

/* Caches the text of the last second. */
void event_line_time(struct event_line *line, int64_t ns)
{
	uint64_t fraction;
	time_t second;
	struct tm tm;

	split_time(ns, &second, &fraction);
	if (second != line->second || !line->clock[0]) {
		line->second = second;
		if (line->json)
			strftime(line->clock, sizeof(line->clock), "%Y-%m-%dT%H:%M:%S",
				 gmtime_r(&second, &tm));
		else
			strftime(line->clock, sizeof(line->clock), "%H:%M:%S",
				 localtime_r(&second, &tm));
	}
	text_own(&line->text, line->clock);
	text_add(&line->text, ".");
	text_padded(&line->text, fraction, 9);
	if (line->json)
		text_add(&line->text, "Z");
}

void event_line_colour(struct event_line *line, const char *colour)
{
	if (colour)
		text_own(&line->text, colour);
}

/* Appends " (+0.000001234) "; the first event has no delta. A line may come late, after the line of
 * a later event: its delta is negative. */
static void add_delta(struct event_line *line, int64_t ns)
{
	if (!line->has_last) {
		text_add(&line->text, " (+?.????????\?) ");
	} else {
		bool is_late = ns < line->last_ns;
		uint64_t delta = is_late ? (uint64_t)line->last_ns - (uint64_t)ns :
					   (uint64_t)ns - (uint64_t)line->last_ns;

		text_add(&line->text, is_late ? " (-" : " (+");
		text_unsigned(&line->text, delta / NS);
		text_add(&line->text, ".");
		text_padded(&line->text, delta % NS, 9);
		text_add(&line->text, ") ");
	}
	line->has_last = true;
	line->last_ns = ns;
}

static void begin_text(struct event_line *line, const struct event_head *head)
{
	if (head->has_time) {
		event_line_colour(line, line->colours.time);
		event_line_time(line, head->ns);
		add_delta(line, head->ns);
		event_line_colour(line, line->colours.off);
	}
	if (head->process) {
		text_foreign(&line->text, head->process);
		text_add(&line->text, " ");
	}
	if (head->has_tid) {
		text_add(&line->text, "tid ");
		text_signed(&line->text, head->tid);
		text_add(&line->text, " ");
	}
	event_line_colour(line, line->colours.name);
	text_foreign(&line->text, head->name);
	event_line_colour(line, line->colours.off);
}

static void add_json_number(struct event_line *line, const char *key, int64_t value)
{
	text_own(&line->text, key);
	text_signed(&line->text, value);
	text_add(&line->text, ",");
}

static void begin_json(struct event_line *line, const struct event_head *head)
{
	text_add(&line->text, "{");
	if (head->has_time) {
		text_add(&line->text, "\"time\":\"");
		event_line_time(line, head->ns);
		text_add(&line->text, "\",");
		add_json_number(line, "\"ns\":", head->ns);
	}
	if (head->process) {
		text_add(&line->text, "\"process\":");
		quote_json(&line->text, head->process, strlen(head->process));
		text_add(&line->text, ",");
	}
	if (head->has_pid)
		add_json_number(line, "\"pid\":", head->pid);
	if (head->has_tid)
		add_json_number(line, "\"tid\":", head->tid);
	text_add(&line->text, "\"name\":");
	quote_json(&line->text, head->name, strlen(head->name));
	text_add(&line->text, ",\"fields\":{");
}

void event_line_begin(struct event_line *line, const struct event_head *head)
{
	(line->json ? begin_json : begin_text)(line, head);
	line->is_first = true;
	line->has_fields = line->is_bare = false;
}

void event_line_bare(struct event_line *line)
{
	line->is_first = line->is_bare = line->has_fields = true;
}

/* Without fields there are no braces, except in JSON. */
void event_line_end(struct event_line *line)
{
	if (line->json)
		text_add(&line->text, "}}");
	else if (line->has_fields)
		text_add(&line->text, " }");
	text_add(&line->text, "\n");
}

/* ---- fields ---------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), tail = strlen(end);

	return length >= tail && strcmp(text + length - tail, end) == 0;
}

bool event_line_is_silent(const char *name, bool is_string, size_t length)
{
	if (is_string)
		return !length && strcmp(name, "unreadable") == 0;
	return ends_with(name, "__length") || strncmp(name, "_unused_", strlen("_unused_")) == 0;
}

/* Separates a member or an element from the one before it. */
static void separate(struct event_line *line)
{
	if (!line->is_first)
		text_add(&line->text, line->json ? "," : ", ");
	else if (!line->json && !line->is_bare)
		text_add(&line->text, " ");
	line->is_first = line->is_bare = false;
}

void event_line_key(struct event_line *line, const char *name)
{
	if (!line->has_fields && !line->json)
		text_add(&line->text, " {");
	line->has_fields = true;
	separate(line);
	if (line->json) {
		quote_json(&line->text, name, strlen(name));
		text_add(&line->text, ":");
		return;
	}
	event_line_colour(line, line->colours.key);
	text_foreign(&line->text, name);
	event_line_colour(line, line->colours.off);
	text_add(&line->text, " = ");
}

void event_line_open(struct event_line *line, char kind)
{
	text_add(&line->text, kind == '{' ? "{" : "[");
	line->is_first = true;
}

void event_line_element(struct event_line *line)
{
	separate(line);
}

void event_line_close(struct event_line *line, char kind)
{
	text_add(&line->text, line->json || line->is_first ? "" : " ");
	text_add(&line->text, kind == '{' ? "}" : "]");
	line->is_first = false;
}

/* ---- values ---------------------------------------------------------------------------------- */

void event_line_unsigned(struct event_line *line, uint64_t value, unsigned base)
{
	if (base == 10 || line->json)
		text_unsigned(&line->text, value);
	else
		text_based(&line->text, value, base);
}

void event_line_signed(struct event_line *line, int64_t value, unsigned base, unsigned bits)
{
	if (base == 10 || line->json)
		text_signed(&line->text, value);
	else
		text_based(&line->text, (uint64_t)value & (~0ULL >> (64 - bits)), base);
}

bool event_line_label(struct event_line *line, const char *label)
{
	if (line->json) {
		quote_json(&line->text, label, strlen(label));
		return false;
	}
	text_foreign(&line->text, label);
	if (label[0] == '<') /* a note of dyntrace's instead of a value: its number means nothing */
		return false;
	text_add(&line->text, " (");
	return true;
}

void event_line_label_end(struct event_line *line)
{
	text_add(&line->text, ")");
}

/* JSON has no NaN and infinity: these become strings. */
void event_line_real(struct event_line *line, double value, bool is_single)
{
	char text[40];

	if (line->json && !isfinite(value)) {
		text_add(&line->text, isnan(value) ? "\"NaN\""
				      : value > 0  ? "\"Infinity\""
						   : "\"-Infinity\"");
		return;
	}
	/* Numbers near 0 have few digits. */
	bool is_tiny = fabs(value) < (is_single ? (double)FLT_MIN : DBL_MIN);
	for (int digits = is_tiny ? 1 : is_single ? 6 : 15; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (is_single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	text_own(&line->text, text);
}

void event_line_float(struct event_line *line, uint64_t bits, size_t size)
{
	double value;
	float single;

	memcpy(&value, &bits, sizeof(value));
	memcpy(&single, &bits, sizeof(single));
	event_line_real(line, size == sizeof(single) ? (double)single : value,
			size == sizeof(single));
}

void event_line_string(struct event_line *line, const char *bytes, size_t length)
{
	(line->json ? quote_json : quote_c)(&line->text, bytes, length);
}

void event_line_frame(struct event_line *line, uint64_t address, bool is_return)
{
	_cleanup_(strbuf_free) struct strbuf frame = { 0 };

	separate(line);
	frames_print(line->frames, address, &line->event, is_return, &frame);
	const char *text = frame.text ? frame.text : "";
	if (line->json)
		quote_json(&line->text, text, frame.length);
	else
		text_foreign(&line->text, text);
}
