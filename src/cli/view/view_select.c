#include "view_select.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "options/options.h"

#define NS 1000000000LL
#define DAY (24 * 60 * 60 * NS)
#define AROUND_BEFORE 100000 /* ns */
#define AROUND_LINES 50
#define EPOCH_DIGITS 16 /* fewer are no time since 1970 in ns */

static struct error *read_number(const char *option, const char *text, uint64_t unless,
				 uint64_t *ret_value)
{
	char *end;

	*ret_value = unless;
	if (!text)
		return NULL;
	errno = 0;
	*ret_value = strtoull(text, &end, 10);
	if (errno || *end || end == text || *text < '0' || *text > '9')
		return error_new(ERROR_USAGE, "%s: '%s' is not a number", option, text);
	return NULL;
}

struct error *view_select_read(struct view_select *select)
{
	struct error *error = read_number("--tid", select->tid, UINT64_MAX, &select->wanted_tid);

	select->from_ns = INT64_MIN;
	select->to_ns = INT64_MAX;
	if (!error)
		error = read_number("--pid", select->pid, UINT64_MAX, &select->wanted_pid);
	if (!error)
		error = read_number("-n", select->count,
				    select->around ? AROUND_LINES : UINT64_MAX, &select->most);
	if (!error && select->around && (select->from || select->to))
		error = error_new(ERROR_USAGE, "give --around, or --from and --to");
	return error;
}

/* Digits after a point, as ns. */
static const char *read_fraction(const char *at, int64_t *ret_ns)
{
	int64_t unit = NS / 10;

	*ret_ns = 0;
	if (*at != '.')
		return at;
	for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
		*ret_ns += (*at - '0') * unit;
	return at;
}

/* A time of day, on the day of the trace's first event, or on the next if the trace is over a
 * midnight. */
static bool read_clock(const char *text, int64_t first_ns, int64_t *ret_ns)
{
	time_t first = (time_t)(first_ns / NS);
	unsigned hour, minute, second;
	int64_t fraction;
	struct tm tm;
	int used = 0;

	if (sscanf(text, "%2u:%2u:%2u%n", &hour, &minute, &second, &used) != 3 || !used ||
	    hour > 23 || minute > 59 || second > 60 || *read_fraction(text + used, &fraction))
		return false;
	localtime_r(&first, &tm);
	tm.tm_hour = (int)hour;
	tm.tm_min = (int)minute;
	tm.tm_sec = (int)second;
	tm.tm_isdst = -1;
	*ret_ns = (int64_t)mktime(&tm) * NS + fraction;
	if (*ret_ns < first_ns - DAY / 2)
		*ret_ns += DAY;
	return true;
}

/* "1.5", "200ms", "0". No option but these times may be 0. */
static bool read_offset(const char *text, double *ret_seconds)
{
	_cleanup_error_ struct error *error = NULL;
	char *unit;

	if (strtod(text, &unit) == 0 && unit != text) {
		char one[16];

		snprintf(one, sizeof(one), "1%s", unit);
		error = options_seconds(one, ret_seconds);
		*ret_seconds = 0;
	} else {
		error = options_seconds(text, ret_seconds);
	}
	return !error;
}

static struct error *read_time(const char *option, const char *text, int64_t first_ns,
			       int64_t *ret_ns)
{
	double seconds = 0;
	char *end;

	errno = 0;
	if (*text == '+') {
		if (read_offset(text + 1, &seconds) && seconds < 1e9) {
			*ret_ns = first_ns + (int64_t)(seconds * 1e9 + 0.5);
			return NULL;
		}
	} else if (strlen(text) >= EPOCH_DIGITS && strspn(text, "0123456789") == strlen(text)) {
		*ret_ns = strtoll(text, &end, 10);
		if (!errno && !*end)
			return NULL;
	} else if (read_clock(text, first_ns, ret_ns)) {
		return NULL;
	}
	return error_new(ERROR_USAGE, "%s: '%s' is not a time (09:03:30.118, or +1.5 and +200ms "
				      "after the trace's begin)", option, text);
}

struct error *view_select_place(struct view_select *select, int64_t first_ns)
{
	struct error *error = NULL;

	if (select->from)
		error = read_time("--from", select->from, first_ns, &select->from_ns);
	if (!error && select->to)
		error = read_time("--to", select->to, first_ns, &select->to_ns);
	if (!error && select->around) {
		error = read_time("--around", select->around, first_ns, &select->from_ns);
		select->from_ns -= AROUND_BEFORE;
	}
	return error;
}

bool view_select_has_time(const struct view_select *select)
{
	return select->from || select->to || select->around;
}

bool view_select_wants(const struct view_select *select, int64_t ns, uint64_t tid, uint64_t pid)
{
	return ns >= select->from_ns && ns <= select->to_ns &&
	       (select->wanted_tid == UINT64_MAX || select->wanted_tid == tid) &&
	       (select->wanted_pid == UINT64_MAX || select->wanted_pid == pid);
}

bool view_select_is_done(const struct view_select *select, int64_t ns)
{
	return select->shown >= select->most || ns > select->to_ns;
}
