#include "help.h"

#include <string.h>

#define COLUMN 26 /* where the text of an option begins */

void help_overview(FILE *to, const struct command *const *commands)
{
	fputs("dyntrace: trace functions of running programs, with no recompiling and no restart\n"
	      "\n"
	      "Usage: dyntrace COMMAND [OPTIONS]\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (; *commands; commands++)
		fprintf(to, "  %-16s %s\n", (*commands)->name, (*commands)->summary);
	fputs("\n"
	      "'dyntrace help COMMAND' or 'dyntrace COMMAND --help' shows options and an example.\n"
	      "'dyntrace --version' shows the version.\n",
	      to);
}

/* Each line of the text, with `first` before the first one and `other` before the others. */
static void print_lines(const char *text, const char *first, const char *other)
{
	const char *before = first;

	for (;;) {
		const char *end = strchrnul(text, '\n');

		printf("%s%.*s\n", end == text ? "" : before, (int)(end - text), text);
		if (!*end || !end[1])
			return;
		text = end + 1;
		before = other;
	}
}

static void print_option(char letter, const char *name, const char *argument, const char *help)
{
	char left[128], other[COLUMN + 1];
	char short_form[4] = "";

	if (letter)
		snprintf(short_form, sizeof(short_form), "-%c", letter);
	snprintf(left, sizeof(left), "  %-2s%s %s%s%s%s", short_form, letter && name ? "," : " ",
		 name ? "--" : "", name ? name : "", argument && name ? " " : "",
		 argument ? argument : "");
	memset(other, ' ', COLUMN);
	other[COLUMN] = '\0';
	if (strlen(left) + 2 > COLUMN) {
		puts(left);
		left[0] = '\0';
	}
	memset(left + strlen(left), ' ', COLUMN - strlen(left));
	left[COLUMN] = '\0';
	print_lines(help, left, other);
}

void help_command(const struct command *command)
{
	char first[64], other[64];

	printf("dyntrace %s: %s\n\n", command->name, command->summary);
	snprintf(first, sizeof(first), "Usage: dyntrace %s ", command->name);
	snprintf(other, sizeof(other), "       dyntrace %s ", command->name);
	print_lines(command->usage, first, other);
	if (command->details) {
		puts("");
		print_lines(command->details, "", "");
	}
	puts("\nOptions:");
	for (const struct option_spec *option = command->options; option->help; option++)
		print_option(option->letter, option->name, option->argument, option->help);
	print_option('h', "help", NULL, "show this text");
	puts("\nExample:");
	print_lines(command->example, "  ", "  ");
}
