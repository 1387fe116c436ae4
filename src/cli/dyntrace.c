/*
 * dyntrace.c - the program: find the command, parse its options, run it, report its error.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "api_helper.h"
#include "options/commands.h"
#include "completion.h"
#include "options/help.h"
#include "options/man.h"
#include "options/suggest.h"
#include "options/table_text.h"

static const struct command *const commands[] = {
	&command_trace,
	&command_top,
	&command_attach,
	&command_detach,
	&command_list_processes,
	&command_list_symbols,
	&command_list_markers,
	&command_list_tracepoints,
	&command_add,
	&command_rm,
	&command_enable,
	&command_disable,
	&command_start,
	&command_stop,
	&command_flush,
	&command_snapshot,
	&command_load,
	&command_unload,
	&command_watch,
	&command_status,
	&command_enable_event,
	&command_disable_event,
	&command_add_context,
	&command_remove_context,
	&command_lttng,
	&command_view,
	&command_report,
	&command_open,
	&command_export,
	&command_coverage,
	NULL,
};

enum exit_status {
	EXIT_USAGE = 2,
	EXIT_OWN_ERROR = 125, /* from here on: commands that run a command */
	EXIT_NOT_PERMITTED = 126,
	EXIT_NOT_FOUND = 127,
};

/* Prints text whose foreign parts are escaped. */
static void print_safe(FILE *file, const struct strbuf *text)
{
	if (text->text && !text->failed)
		fwrite(text->text, 1, text->length, file);
}

void cli_print(const char *format, ...)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	va_list args;

	va_start(args, format);
	quote_vformat(&text, format, args);
	va_end(args);
	print_safe(stdout, &text);
}

void cli_print_error(const char *format, ...)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	va_list args;

	va_start(args, format);
	quote_vformat(&text, format, args);
	va_end(args);
	print_safe(stderr, &text);
}

void cli_print_error_text(const struct strbuf *text)
{
	print_safe(stderr, text);
}

static void print_note(const char *text)
{
	_cleanup_(strbuf_free) struct strbuf line = { 0 };

	if (api_helper_is_on()) {
		api_helper_note(text);
		return;
	}
	text_add(&line, "dyntrace: ");
	quote_lines(&line, text);
	text_add(&line, "\n");
	fflush(stdout); /* keep the order where stdout and stderr are one file */
	print_safe(stderr, &line);
}

void cli_note(const char *format, ...)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	va_list args;

	va_start(args, format);
	quote_vformat(&text, format, args);
	va_end(args);
	print_note(text.text && !text.failed ? text.text : "out of memory");
}

bool cli_has_colour(int fd)
{
	const char *no_colour = getenv("NO_COLOR"), *terminal = getenv("TERM");

	return isatty(fd) && !(no_colour && *no_colour) && !(terminal && !strcmp(terminal, "dumb"));
}

static const struct command *find_command(const char *name)
{
	for (const struct command *const *command = commands; *command; command++)
		if (!strcmp((*command)->name, name))
			return *command;
	return NULL;
}

/* Words of other tracers, and what they are here. A command of that name goes first. */
static const struct {
	const char *typed, *meant;
} meanings[] = {
	{ "record", "trace" },
	{ "run", "trace -- COMMAND" },
	{ "stat", "trace --tracer count" },
	{ "count", "trace --tracer count" },
	{ "top", "trace -p TARGET --function GLOB --tracer count" },
	{ "script", "view" },
	{ "print", "view" },
	{ "replay", "view" },
	{ "dump", "view" },
	{ "explain", "trace --explain LOC" },
	{ "probe", "add" },
	{ "remove", "rm" },
	{ "delete", "rm" },
	{ "ps", "list-processes" },
	{ "list", "list-tracepoints" },
	{ "ls", "list-tracepoints" },
	{ "symbols", "list-symbols" },
	{ "functions", "list-symbols" },
	{ "markers", "list-markers" },
	{ "probes", "list-tracepoints" },
	{ "tracepoints", "list-tracepoints" },
	{ "processes", "list-processes" },
};

static int unknown_command(const char *name)
{
	struct suggestion near = { .typed = name };

	for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
		if (strcmp(meanings[i].typed, name) != 0)
			continue;
		cli_note("unknown command '%s' (did you mean 'dyntrace %s'?)", name,
			 meanings[i].meant);
		return EXIT_USAGE;
	}

	for (const struct command *const *command = commands; *command; command++)
		suggest_offer(&near, (*command)->name);
	suggest_offer(&near, "help");
	if (near.best)
		cli_note("unknown command '%s' (did you mean '%s'?)", name, near.best);
	else
		cli_note("unknown command '%s' ('dyntrace help' lists them)", name);
	return EXIT_USAGE;
}

static int status_of_error(const struct command *command, const struct error *error)
{
	if (error_kind(error) == ERROR_USAGE)
		return EXIT_USAGE;
	if (!command->runs_command)
		return EXIT_FAILURE;
	if (error_kind(error) == ERROR_NOT_PERMITTED)
		return EXIT_NOT_PERMITTED;
	if (error_kind(error) == ERROR_NOT_FOUND)
		return EXIT_NOT_FOUND;
	return EXIT_OWN_ERROR;
}

/* Usage errors name the command, whose --help has the answer. The lines of an error stay lines. */
static void print_error(const struct command *command, const struct error *error)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };

	if (error_kind(error) == ERROR_USAGE)
		quote_format(&text, "%s: ", command->name);
	quote_lines(&text, error_text(error));
	print_note(text.text && !text.failed ? text.text : "out of memory");
}

static int report(const struct command *command, const struct error *error)
{
	if (api_helper_is_on())
		api_helper_reply(error);
	else
		print_error(command, error);
	return status_of_error(command, error);
}

int cli_run(const struct command *command, int argc, char **argv)
{
	_cleanup_(words_free) struct words words = { 0 };
	_cleanup_error_ struct error *error = NULL;
	int status = 0;

	if (command->raw && !(argc == 1 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))))
		words.rest = argv;
	else
		error = options_parse(command->options, command->runs_command, argc, argv, &words);
	if (error)
		return report(command, error);
	if (words.help) {
		help_command(command);
		return EXIT_SUCCESS;
	}
	error = command->request ? command->request(&words, command->request_kind) :
				   command->run(&words, &status);
	if (error)
		return report(command, error);
	if (api_helper_is_on())
		api_helper_reply(NULL);
	return status;
}

/* dyntrace help --man PAGE [PROSE]: prints a man page, for the build. See man.h. */
static int run_man(int argc, char **argv)
{
	static const char prefix[] = "dyntrace";
	_cleanup_fclose_ FILE *prose = NULL;
	const struct command *command = NULL;
	const char *rest = NULL;

	if (argc >= 1 && !strncmp(argv[0], prefix, strlen(prefix)))
		rest = argv[0] + strlen(prefix);
	if (rest && *rest == '-')
		command = find_command(rest + 1);
	if (!rest || argc > 2 || (*rest && !command)) {
		cli_note("help --man: give 'dyntrace' or 'dyntrace-COMMAND'");
		return EXIT_USAGE;
	}
	if (argc == 2)
		prose = fopen(argv[1], "re");
	if (argc == 2 && !prose) {
		cli_note("cannot read %s: %s", argv[1], strerror(errno));
		return EXIT_FAILURE;
	}
	if (command)
		man_command(command, commands, prose);
	else
		man_overview(commands, prose);
	return EXIT_SUCCESS;
}

/* dyntrace help [COMMAND] */
static int run_help(int argc, char **argv)
{
	if (argc >= 1 && !strcmp(argv[0], "--man"))
		return run_man(argc - 1, argv + 1);
	if (argc >= 1 && !strcmp(argv[0], "--complete")) {
		completion_print(commands, argc - 1, argv + 1);
		return EXIT_SUCCESS;
	}
	if (argc == 0 || !strcmp(argv[0], "--help") || !strcmp(argv[0], "-h")) {
		help_overview(stdout, commands);
		return EXIT_SUCCESS;
	}

	const struct command *command = find_command(argv[0]);
	if (!command)
		return unknown_command(argv[0]);
	help_command(command);
	return EXIT_SUCCESS;
}

/* dyntrace --answer COMMAND WORDS..., for libdyntrace.so. See api_helper.h. */
static int run_answer(int argc, char **argv)
{
	const struct command *command = argc >= 1 ? find_command(argv[0]) : NULL;

	if (command != &command_list_symbols && command != &command_list_markers)
		return unknown_command(argc >= 1 ? argv[0] : "");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* it may have another program's rights (H34) */
	api_helper_begin();
	return cli_run(command, argc - 1, argv + 1);
}

static int run(int argc, char **argv)
{
	if (argc < 2) {
		help_overview(stderr, commands);
		return EXIT_USAGE;
	}

	const char *name = argv[1];
	const struct command *command = find_command(name);
	if (command)
		return cli_run(command, argc - 2, argv + 2);
	if (!strcmp(name, "help") || !strcmp(name, "--help") || !strcmp(name, "-h"))
		return run_help(argc - 2, argv + 2);
	if (!strcmp(name, "--version") || !strcmp(name, "-V") || !strcmp(name, "version")) {
		cli_print("dyntrace %s\n", DYNTRACE_VERSION);
		return EXIT_SUCCESS;
	}
	if (!strcmp(name, "--answer"))
		return run_answer(argc - 2, argv + 2);
	if (name[0] == '-') {
		cli_note("unknown option '%s' ('dyntrace --help' lists the commands)", name);
		return EXIT_USAGE;
	}
	return unknown_command(name);
}

/* errno of a write that failed earlier is lost: the pipe tells. */
static bool is_reader_gone(void)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };

	return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

int main(int argc, char **argv)
{
	int status = run(argc, argv);

	/* A full disk is a failure; a reader that closes the pipe (head) isn't. */
	bool unwritten = ferror(stdout);
	if ((fflush(stdout) || unwritten) && !is_reader_gone() && status == EXIT_SUCCESS) {
		cli_note("cannot write the output: %s", strerror(errno));
		return EXIT_FAILURE;
	}
	return status;
}
