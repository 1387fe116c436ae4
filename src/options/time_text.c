#include "time_text.h"

#include <stddef.h>
#include <stdio.h>

void time_text(uint64_t ns, char text[TIME_TEXT])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	size_t unit = 0;

	while (value >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
		value /= 1000;
		unit++;
	}
	int digits = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
	snprintf(text, TIME_TEXT, "%.*f %s", digits, value, units[unit]);
}
