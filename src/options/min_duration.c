#include "min_duration.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

#define LONGEST_S 9e9 /* in ns it fits a long */

/* The duration as a number of the language of filters, in the largest unit without a fraction. */
static void write_time(uint64_t ns, char text[32])
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "s", 1000000000 }, { "ms", 1000000 }, { "us", 1000 }, { "ns", 1 } };
	size_t unit = 0;

	while (ns % units[unit].ns)
		unit++;
	snprintf(text, 32, "%llu%s", (unsigned long long)(ns / units[unit].ns), units[unit].name);
}

struct error *min_duration_filter(const char *time, bool has_exit, const char *filter,
				  char **ret_filter)
{
	double seconds = 0;
	char text[32];
	int length;

	*ret_filter = NULL;
	if (!time) {
		*ret_filter = filter ? strdup(filter) : NULL;
		return filter && !*ret_filter ? error_new(ERROR_FAILED, "out of memory") : NULL;
	}
	struct error *error = options_seconds(time, &seconds);
	if (!error && seconds > LONGEST_S)
		error = error_new(ERROR_USAGE, "'%s' is too long", time);
	if (!error && !has_exit)
		error = error_new(ERROR_USAGE, "how long a call took is known at its exit only: "
					       "add -e");
	if (error)
		return error_wrap(error, "--min-duration");
	write_time((uint64_t)(seconds * 1e9 + 0.5), text);
	if (filter)
		length = asprintf(ret_filter, "(%s) && $duration >= %s", filter, text);
	else
		length = asprintf(ret_filter, "$duration >= %s", text);
	if (length < 0)
		*ret_filter = NULL;
	return length < 0 ? error_new(ERROR_FAILED, "out of memory") : NULL;
}
