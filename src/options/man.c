#include "man.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "help.h"

static const char *const status_of_runner =
	"The exit status of the started command (128 + number if a signal ended it), or 0 after tracing\n"
	"a running process. 2: wrong usage. 125: an error of dyntrace itself.\n"
	"126: not permitted. 127: command not found.";
static const char *const status_of_others = "0: success. 1: an error. 2: wrong usage.";
static const char *const synopsis_overview = "COMMAND [OPTIONS]\nhelp [COMMAND]\n--version";

/* Characters that roff would take for an escape, a hyphen or a typographic quote. */
static const struct {
	char character;
	const char *roff;
} escapes[] = {
	{ '\\', "\\e" },   { '-', "\\-" },   { '\'', "\\(aq" }, { '"', "\\(dq" },
	{ '`', "\\(ga" }, { '^', "\\(ha" }, { '~', "\\(ti" },
};

static void put_character(char character)
{
	for (size_t i = 0; i < sizeof(escapes) / sizeof(escapes[0]); i++) {
		if (escapes[i].character == character) {
			fputs(escapes[i].roff, stdout);
			return;
		}
	}
	putchar(character);
}

/* Prints text[0..length) as roff, with its line breaks and none at the end. */
static void put(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '.' && (i == 0 || text[i - 1] == '\n'))
			fputs("\\&", stdout);
		put_character(text[i]);
	}
}

static void put_string(const char *text)
{
	put(text, strlen(text));
}

static void put_font(char font, const char *text, size_t length)
{
	printf("\\f%c", font);
	put(text, length);
	fputs("\\fR", stdout);
}

/* ---- parts of a page ------------------------------------------------------------------------- */

static void put_head(const char *command, const char *summary)
{
	fputs(".\\\" Made by 'dyntrace help --man' when dyntrace was built.\n.TH DYNTRACE", stdout);
	if (command)
		putchar('-');
	for (const char *at = command; at && *at; at++)
		putchar(toupper((unsigned char)*at));
	puts(" 1 \"\" \"dyntrace " DYNTRACE_VERSION "\" \"User commands\"\n.SH NAME");
	fputs("dyntrace", stdout);
	if (command) {
		fputs("\\-", stdout);
		put_string(command);
	}
	fputs(" \\- ", stdout);
	put_string(summary);
	puts("");
}

/* Prints one form of the usage: words in capitals are arguments, options are literal. */
static void put_form(const char *form, size_t length)
{
	for (size_t i = 0, n; i < length; i += n) {
		const char *at = form + i;

		n = 1;
		if (isupper((unsigned char)*at) || *at == '-') {
			while (i + n < length && (isalnum((unsigned char)at[n]) || at[n] == '-'))
				n++;
			put_font(*at == '-' ? 'B' : 'I', at, n);
		} else {
			put(at, n);
		}
	}
}

static void put_synopsis(const char *command, const char *usage)
{
	puts(".SH SYNOPSIS\n.nf");
	while (*usage) {
		const char *end = strchrnul(usage, '\n');

		fputs("\\fBdyntrace", stdout);
		if (command)
			putchar(' ');
		put_string(command ? command : "");
		fputs("\\fR ", stdout);
		put_form(usage, (size_t)(end - usage));
		puts("");
		usage = *end ? end + 1 : end;
	}
	puts(".fi");
}

static void put_details(const char *text)
{
	enum help_block kind, before = HELP_GAP;

	while (*text) {
		const char *block = text;
		size_t length;

		text = help_next_block(text, &kind, &length);
		if (kind == HELP_VERBATIM && before != HELP_VERBATIM)
			puts(".PP\n.nf");
		if (kind != HELP_VERBATIM && before == HELP_VERBATIM)
			puts(".fi");
		if (kind == HELP_GAP) {
			puts(".PP");
		} else {
			put(block, length);
			puts("");
		}
		before = kind;
	}
	if (before == HELP_VERBATIM)
		puts(".fi");
}

static void put_option(const struct option_spec *option)
{
	char letter[] = { '-', option->letter, '\0' };

	puts(".TP");
	if (option->letter)
		put_font('B', letter, 2);
	if (option->letter && option->name)
		fputs(", ", stdout);
	if (option->name) {
		fputs("\\fB\\-\\-", stdout);
		put_string(option->name);
		fputs("\\fR", stdout);
	}
	if (option->argument) {
		putchar(' ');
		put_font('I', option->argument, strlen(option->argument));
	}
	puts("");
	put_string(option->help ? option->help : "");
	puts("");
}

static void put_options(const struct option_spec *option)
{
	static const struct option_spec help_option = {
		.letter = 'h', .name = "help", .help = "show usage, options and an example"
	};

	puts(".SH OPTIONS");
	for (; !option_ends_table(option); option++) {
		if (option_is_group(option)) {
			fputs(".SS ", stdout);
			put_string(option->help);
			puts("");
		} else {
			put_option(option);
		}
	}
	put_option(&help_option);
}

/* Copies the prose before its first section, or (`sections`) the rest of it. */
static void put_prose(FILE *prose, bool sections)
{
	_cleanup_free_ char *line = NULL;
	size_t room = 0;

	for (;;) {
		long at = prose ? ftell(prose) : 0;

		if (!prose || getline(&line, &room, prose) < 0)
			return;
		if (!sections && !strncmp(line, ".SH", 3)) {
			fseek(prose, at, SEEK_SET);
			return;
		}
		fputs(line, stdout);
	}
}

static void put_see_also(const struct command *but, const struct command *const *commands)
{
	puts(".SH SEE ALSO");
	if (but)
		puts(".BR dyntrace (1),");
	for (; *commands; commands++) {
		if (*commands == but)
			continue;
		fputs(".BR dyntrace\\-", stdout);
		put_string((*commands)->name);
		puts(" (1),");
	}
	puts(".BR babeltrace2 (1)");
}

/* ---- pages ----------------------------------------------------------------------------------- */

void man_overview(const struct command *const *commands, FILE *prose)
{
	put_head(NULL, "trace functions of running programs, without recompiling or restarting them");
	put_synopsis(NULL, synopsis_overview);
	puts(".SH DESCRIPTION");
	put_prose(prose, false);
	puts(".SH COMMANDS");
	for (const struct command *const *command = commands; *command; command++) {
		fputs(".TP\n.BR dyntrace\\-", stdout);
		put_string((*command)->name);
		puts(" (1)");
		put_string((*command)->summary);
		puts("");
	}
	puts(".PP\n\\fBdyntrace help\\fR \\fICOMMAND\\fR and\n"
	     "\\fBdyntrace\\fR \\fICOMMAND\\fR \\fB\\-\\-help\\fR\n"
	     "show a command's options and an example.");
	put_prose(prose, true);
	put_see_also(NULL, commands);
}

void man_command(const struct command *command, const struct command *const *commands, FILE *prose)
{
	put_head(command->name, command->summary);
	put_synopsis(command->name, command->usage);
	puts(".SH DESCRIPTION");
	put_details(command->details ? command->details : "");
	put_prose(prose, false);
	put_options(command->options);
	put_prose(prose, true);
	puts(".SH EXIT STATUS");
	puts(command->runs_command ? status_of_runner : status_of_others);
	if (command->example) {
		puts(".SH EXAMPLES\n.nf");
		put_string(command->example);
		puts("\n.fi");
	}
	put_see_also(command, commands);
}

void man_program(const char *program, const struct command *command, FILE *prose)
{
	fputs(".\\\" Made when dyntrace was built.\n.TH ", stdout);
	for (const char *at = program; *at; at++)
		putchar(toupper((unsigned char)*at));
	printf(" 8 \"\" \"dyntrace " DYNTRACE_VERSION
	       "\" \"System administration\"\n.SH NAME\n%s \\- ",
	       program);
	put_string(command->summary);
	printf("\n.SH SYNOPSIS\n\\fB%s\\fR ", program);
	put_string(command->usage);
	puts("\n.SH DESCRIPTION");
	put_details(command->details);
	put_prose(prose, false);
	put_options(command->options);
	put_prose(prose, true);
	puts(".SH EXAMPLES\n.nf");
	put_string(command->example);
	puts("\n.fi\n.SH SEE ALSO\n.BR dyntrace (1)");
}
