/*
 * help.h - the texts of --help, made from the tables.
 */
#ifndef DYNTRACE_HELP_H
#define DYNTRACE_HELP_H

#include <stdio.h>

#include "commands.h"

#define HELP_OPTION_TEXT "show this text"

/* Prints what dyntrace is and lists its commands, a table that ends with NULL. */
void help_overview(FILE *to, const struct command *const *commands);
/* Prints usage, options and an example on stdout. */
void help_command(const struct command *command);
/* Likewise for a program that is no command of dyntrace: "dyntraced". */
void help_program(const char *program, const struct command *command);

/* The parts of a command's details. */
enum help_block {
	HELP_PARAGRAPH, /* to be wrapped */
	HELP_VERBATIM, /* a line that begins with a space */
	HELP_GAP, /* an empty line */
};

/* Finds the first block of the text; returns the start of the next block, or the text's end. */
const char *help_next_block(const char *text, enum help_block *ret_kind, size_t *ret_length);

#endif
