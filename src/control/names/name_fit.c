#include "name_fit.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clone_name.h"
#include "control/base/cleanup.h"
#include "demangle.h"

/* "f(int)" of "_Z1fi.cold". */
static char *readable_base(const char *symbol, size_t length)
{
	_cleanup_free_ char *base = strndup(symbol, length);

	return base ? demangle(base) : NULL;
}

char *name_fit_readable(const char *symbol)
{
	size_t length = clone_name_length(symbol);
	_cleanup_free_ char *readable =
		demangle_is_mangled(symbol) ? readable_base(symbol, length) : NULL;
	char *whole = NULL;

	if (!readable || asprintf(&whole, "%s%s", readable, symbol + length) < 0)
		return NULL;
	return whole;
}

char *name_fit_short(const char *symbol)
{
	_cleanup_free_ char *readable = name_fit_readable(symbol);
	char *shorter = readable ? demangle_short(readable) : NULL;

	return shorter ? shorter : take_ptr(&readable);
}

bool name_fit_wants_pieces(const char *pattern)
{
	return strstr(pattern, ".cold") || strstr(pattern, ".part");
}

char *name_fit_glob(const char *symbol, const char *pattern)
{
	const char *suffix = symbol + clone_name_length(symbol);
	_cleanup_free_ char *readable = NULL, *base = NULL;

	if (*suffix && clone_suffix_is_piece(suffix) && !name_fit_wants_pieces(pattern))
		return NULL;
	bool fits = fnmatch(pattern, symbol, 0) == 0;
	if (!demangle_is_mangled(pattern))
		readable = name_fit_readable(symbol);
	if (readable && !fits && *suffix)
		base = readable_base(symbol, (size_t)(suffix - symbol));
	if (readable && (fits || demangle_fits(readable, pattern, true) ||
			 (base && !name_fit_wants_pieces(pattern) &&
			  demangle_fits(base, pattern, true))))
		return take_ptr(&readable);
	return fits ? strdup(symbol) : NULL;
}
