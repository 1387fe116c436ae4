/*
 * limit_options.h - options that bound a trace, of `dyntrace trace` and of `dyntraced`.
 */
#ifndef DYNTRACE_LIMIT_OPTIONS_H
#define DYNTRACE_LIMIT_OPTIONS_H

#include "control/ctf/writer.h"
#include "control/session/session.h"
#include "options.h"

struct limit_args {
	uint64_t max_size, max_files;
	double rotate; /* seconds */
};

/* Rows of a table of options; `args` is a struct limit_args. */
#define LIMIT_OPTIONS(args)                                                                        \
	{ 0, "max-size", "SIZE",                                                                   \
	  "keep a trace within this space on disk: remove the oldest events (from 1M on)",         \
	  .size = &(args).max_size },                                                              \
	{ 0, "rotate", "TIME",                                                                     \
	  "begin new files after this time, such as 10m; older ones don't change any more",        \
	  .seconds = &(args).rotate },                                                             \
	{ 0, "max-files", "N",                                                                     \
	  "keep the last N: with --rotate or --max-size files, from 2 on; with --mode overwrite snapshots", \
	  .size = &(args).max_files }

/* Checks the options, and gives the limits. */
struct error *limit_options_check(const struct limit_args *args, enum session_mode mode,
				  struct writer_limits *ret_limits);

#endif
