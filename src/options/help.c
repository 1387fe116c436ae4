#include "help.h"

#include <string.h>

#define COLUMN 26 /* of an option's text */
#define COMMAND_COLUMN 21 /* of a command's summary */
#define WIDTH 100

static void indent(FILE *to, size_t count)
{
	fprintf(to, "%*s", (int)count, "");
}

/*
 * Prints text[0..length) in lines of at most WIDTH columns that begin at column `left`, where the
 * cursor already is. Only a word longer than a line passes the edge.
 */
static void print_wrapped(FILE *to, const char *text, size_t length, size_t left)
{
	const char *end = text + length;
	size_t column = left;

	for (;;) {
		while (text < end && strchr(" \n", *text))
			text++;
		if (text == end)
			break;

		size_t word = 0;
		while (text + word < end && !strchr(" \n", text[word]))
			word++;
		if (column > left && column + 1 + word > WIDTH) {
			fputs("\n", to);
			indent(to, left);
			column = left;
		}
		column += (size_t)fprintf(to, "%s%.*s", column > left ? " " : "", (int)word, text);
		text += word;
	}
	fputs("\n", to);
}

/* Prints `head` at the left and the text from `column` on, or below a head that is too long. */
static void print_entry(FILE *to, const char *head, size_t column, const char *text)
{
	size_t length = strlen(head);

	fputs(head, to);
	if (length + 2 > column) {
		fputs("\n", to);
		length = 0;
	}
	indent(to, column - length);
	print_wrapped(to, text, strlen(text), column);
}

void help_overview(FILE *to, const struct command *const *commands)
{
	fputs("dyntrace: trace functions of running programs, without recompiling or restarting them\n"
	      "\n"
	      "Usage: dyntrace COMMAND [OPTIONS]\n"
	      "\n"
	      "Commands:\n",
	      to);
	for (; *commands; commands++) {
		char head[64];

		snprintf(head, sizeof(head), "  %s", (*commands)->name);
		print_entry(to, head, COMMAND_COLUMN, (*commands)->summary);
	}
	fputs("\n"
	      "'dyntrace help COMMAND' or 'dyntrace COMMAND --help' shows options and an example.\n"
	      "'dyntrace --version' shows the version.\n",
	      to);
}

/* Prints the text's lines, with `first` before the first line and `other` before the others. */
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

const char *help_next_block(const char *text, enum help_block *ret_kind, size_t *ret_length)
{
	const char *end = strchrnul(text, '\n');

	*ret_kind = end == text ? HELP_GAP : *text == ' ' ? HELP_VERBATIM : HELP_PARAGRAPH;
	while (*ret_kind == HELP_PARAGRAPH && *end && !strchr("\n ", end[1]))
		end = strchrnul(end + 1, '\n');
	*ret_length = (size_t)(end - text);
	return *end ? end + 1 : end;
}

static void print_details(const char *text)
{
	puts("");
	while (*text) {
		const char *block = text;
		enum help_block kind;
		size_t length;

		text = help_next_block(text, &kind, &length);
		if (kind == HELP_PARAGRAPH)
			print_wrapped(stdout, block, length, 0);
		else
			printf("%.*s\n", (int)length, block);
	}
}

static void print_option(const struct option_spec *option)
{
	const char *name = option->name, *argument = option->argument;
	char head[128], short_form[4] = "";

	if (option->letter)
		snprintf(short_form, sizeof(short_form), "-%c", option->letter);
	snprintf(head, sizeof(head), "  %-2s%s %s%s%s%s", short_form,
		 option->letter && name ? "," : " ", name ? "--" : "", name ? name : "",
		 argument && name ? " " : "", argument ? argument : "");
	print_entry(stdout, head, COLUMN, option->help ? option->help : "");
}

void help_command(const struct command *command)
{
	char program[64];

	snprintf(program, sizeof(program), "dyntrace %s", command->name);
	help_program(program, command);
}

void help_program(const char *program, const struct command *command)
{
	static const struct option_spec help_option = {
		.letter = 'h', .name = "help", .help = HELP_OPTION_TEXT
	};
	const struct option_spec *option = command->options;
	char first[64], other[64];

	printf("%s: %s\n\n", program, command->summary);
	snprintf(first, sizeof(first), "Usage: %s ", program);
	snprintf(other, sizeof(other), "       %s ", program);
	print_lines(command->usage, first, other);
	if (command->details)
		print_details(command->details);
	if (!option_is_group(option))
		puts("\nOptions:");
	for (; !option_ends_table(option); option++) {
		if (option_is_group(option))
			printf("\n%s:\n", option->help);
		else
			print_option(option);
	}
	print_option(&help_option);
	if (command->example) {
		puts("\nExample:");
		print_lines(command->example, "  ", "  ");
	}
}
