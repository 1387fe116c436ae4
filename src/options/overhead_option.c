#include "overhead_option.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct error *overhead_option_parse(const char *text, double *ret_share)
{
	char *end = NULL;

	*ret_share = 0;
	if (!text)
		return NULL;
	double percent = isdigit((unsigned char)*text) ? strtod(text, &end) : 0;
	if (!end || (strcmp(end, "%") != 0 && *end))
		return error_new(ERROR_USAGE, "--overhead: '%s' is not a share (as in 5%% or 0.5%%)",
				 text);
	if (!(percent >= 0.01 && percent <= 100))
		return error_new(ERROR_USAGE, "--overhead: from 0.01%% to 100%%");
	*ret_share = percent / 100;
	return NULL;
}
