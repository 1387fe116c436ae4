/*
 * limit_options.h - options that bound a trace, of `dyntrace trace` and of `dyntraced`.
 */
#ifndef DYNTRACE_LIMIT_OPTIONS_H
#define DYNTRACE_LIMIT_OPTIONS_H

#include "control/ctf/writer.h"
#include "control/session/session.h"
#include "control/wire/messages.h"
#include "options.h"
#include "overhead_option.h"

extern const char *const limit_modes[]; /* of --mode; ends with NULL */

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

/* ---- of commands that attach a process by the daemon: how it is recorded -------------------- */

struct recording_args {
	int mode; /* enum session_mode; -1: the daemon's */
	uint64_t buffer_size, max_files; /* 0: the daemon's */
	const char *overhead_text;
	double overhead; /* a share; 0: the daemon's */
};

/* Rows of a table of options; `args` is a struct recording_args, whose mode is -1 at first. */
#define RECORDING_OPTIONS(args)                                                                    \
	{ 0, "mode", "MODE",                                                                       \
	  "when the buffer is full: discard new events and count them, overwrite the oldest (for\n" \
	  "snapshots), or block the process until there is room (default: dyntraced's)",           \
	  .choice = &(args).mode, .choices = limit_modes },                                        \
	{ 0, "buffer-size", "SIZE", "memory for events that aren't written yet (default: dyntraced's)", \
	  .size = &(args).buffer_size },                                                           \
	{ 0, "max-files", "N",                                                                     \
	  "keep the last N snapshots that hits asked for (--snapshot-when; default: 16)",          \
	  .size = &(args).max_files },                                                             \
	OVERHEAD_OPTION((args).overhead_text)

/* Checks what was given. */
struct error *limit_options_check_recording(struct recording_args *args);
/* Adds it to a request, after that. */
void limit_options_write(const struct recording_args *args, struct wire_out *out);

#endif
