/*
 * commands.h - the commands of dyntrace.
 *
 * Each command is a struct command in a file of src/cli; dyntrace.c lists them. cli_run parses the
 * command line by the command's table of options, answers --help from it, runs the command, prints
 * its error and turns it into the exit status. A command prints its results on stdout, and messages
 * with cli_note.
 */
#ifndef DYNTRACE_COMMANDS_H
#define DYNTRACE_COMMANDS_H

#include "control/base/strbuf.h"
#include "options.h"

struct command {
	const char *name;
	const char *summary; /* one line, no full stop */
	const char *usage; /* the words after "dyntrace NAME "; \n separates several forms */
	/*
	 * The text between usage and options; NULL: none. help.c and man.c wrap it: \n counts as a
	 * space, an empty line ends a paragraph, and a line that begins with a space is verbatim.
	 */
	const char *details;
	const char *example; /* whole lines */
	const struct option_spec *options; /* may have OPTION_GROUPs; ends with { 0 } */
	/*
	 * The command runs a command of the user's: the words after "--" (words->rest).
	 * *ret_status is the exit status of that one; own errors are 125, not permitted 126, not
	 * found 127. For other commands any error is 1. Wrong usage is 2 for all.
	 */
	bool runs_command;
	/* Skip parsing: words->rest has all words, and rest[-1] is the command's name. */
	bool raw;
	/* *ret_status is 0 before the call. */
	struct error *(*run)(const struct words *words, int *ret_status);
	/* Instead of run, for commands that are one request to the daemon: `kind` is their
	 * request_kind, an enum wire_kind. */
	struct error *(*request)(const struct words *words, unsigned kind);
	unsigned request_kind;
};

extern const struct command command_add;
extern const struct command command_add_context;
extern const struct command command_remove_context;
extern const struct command command_attach;
extern const struct command command_coverage;
extern const struct command command_detach;
extern const struct command command_disable;
extern const struct command command_disable_event;
extern const struct command command_enable;
extern const struct command command_enable_event;
extern const struct command command_export;
extern const struct command command_flush;
extern const struct command command_list_markers;
extern const struct command command_list_processes;
extern const struct command command_list_symbols;
extern const struct command command_list_tracepoints;
extern const struct command command_load;
extern const struct command command_unload;
extern const struct command command_lttng;
extern const struct command command_open;
extern const struct command command_top;
extern const struct command command_report;
extern const struct command command_rm;
extern const struct command command_snapshot;
extern const struct command command_start;
extern const struct command command_status;
extern const struct command command_stop;
extern const struct command command_trace;
extern const struct command command_view;
extern const struct command command_watch;

/* Prints the line "dyntrace: ..." on stderr. Strings are escaped (quote.h), here and below. */
__attribute__((format(printf, 1, 2))) void cli_note(const char *format, ...);
/* printf on stdout, and on stderr. Nothing else in src/cli prints. */
__attribute__((format(printf, 1, 2))) void cli_print(const char *format, ...);
__attribute__((format(printf, 1, 2))) void cli_print_error(const char *format, ...);
/* The same for text that was made, and escaped, by the functions of table_text.h. */
void cli_print_error_text(const struct strbuf *text);

/* Parses the words after the command's name, runs the command and returns the exit status. */
int cli_run(const struct command *command, int argc, char **argv);

/* True if fd is a terminal and NO_COLOR isn't set. */
bool cli_has_colour(int fd);

#endif
