/*
 * commands.h - the commands of dyntrace.
 *
 * One file a command, which defines its struct command; dyntrace.c lists them. main parses the
 * command line by the command's table of options, answers --help from it, runs the command, prints
 * its error and turns it into the exit status. A command prints its results on stdout, and messages
 * with cli_note.
 */
#ifndef DYNTRACE_COMMANDS_H
#define DYNTRACE_COMMANDS_H

#include "options.h"

struct command {
	const char *name;
	const char *summary; /* one line, no full stop */
	const char *usage; /* what follows "dyntrace NAME "; several forms are separated by \n */
	/*
	 * Between usage and options; NULL: nothing. Wrapped where it is shown: \n counts as a
	 * space, an empty line ends a paragraph, and a line that begins with a space is kept as it
	 * is.
	 */
	const char *details;
	const char *example; /* whole lines */
	const struct option_spec *options; /* may have OPTION_GROUPs; ends with { 0 } */
	/*
	 * It runs the user's command: what is behind "--" is that command (words->rest),
	 * *ret_status its exit status, and own errors are 125, not permitted 126, not found 127.
	 * For the others any error is 1. Wrong usage is 2 for all.
	 */
	bool runs_command;
	/* Nothing is parsed: all words are in words->rest. The one before the first is the
	 * command's name. */
	bool raw;
	/* *ret_status is 0 before the call. */
	struct error *(*run)(const struct words *words, int *ret_status);
	/* In its place, for commands that differ only in what they ask the daemon for: an enum
	 * wire_kind. */
	struct error *(*ask)(const struct words *words, unsigned kind);
	unsigned asks_for;
};

extern const struct command command_add;
extern const struct command command_add_context;
extern const struct command command_attach;
extern const struct command command_coverage;
extern const struct command command_detach;
extern const struct command command_disable;
extern const struct command command_disable_event;
extern const struct command command_enable;
extern const struct command command_enable_event;
extern const struct command command_flush;
extern const struct command command_list_markers;
extern const struct command command_list_processes;
extern const struct command command_list_symbols;
extern const struct command command_list_tracepoints;
extern const struct command command_load;
extern const struct command command_unload;
extern const struct command command_lttng;
extern const struct command command_rm;
extern const struct command command_snapshot;
extern const struct command command_start;
extern const struct command command_status;
extern const struct command command_stop;
extern const struct command command_trace;
extern const struct command command_view;
extern const struct command command_watch;

/* "dyntrace: ..." on stderr, as one line. */
__attribute__((format(printf, 1, 2))) void cli_note(const char *format, ...);

/* Parses the words behind the command's name and runs it; gives the exit status. */
int cli_run(const struct command *command, int argc, char **argv);

/* May this stream have colours? A terminal, and NO_COLOR isn't set. */
bool cli_has_colour(int fd);

#endif
