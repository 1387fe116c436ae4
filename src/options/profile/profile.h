/*
 * profile.h - options of a command in a file (trace --profile FILE, dyntraced --profiles DIR).
 *
 *	# the slow commands of redis
 *	pid = redis-server
 *	function = call
 *	exit
 *	min-duration = 1ms
 *
 * A line is an option's long name, and its value behind "=" if it takes one. Blanks around both
 * don't count. Empty lines, and lines that begin with "#", are for people. An option that may be
 * repeated has a line per value. A value is taken as it stands: no quotes, no variables.
 *
 * What stands behind --profile on the command line overrides the file; lists grow.
 */
#ifndef DYNTRACE_PROFILE_H
#define DYNTRACE_PROFILE_H

#include <stdio.h>

#include "options/options.h"

/* Sets the options. Errors name file and line. The values live until the program ends. */
struct error *profile_read(const char *path, const struct option_spec *options);
/* The same of an open file; `path` is for errors. */
struct error *profile_parse(FILE *file, const char *path, const struct option_spec *options);

#endif
