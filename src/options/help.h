/*
 * help.h - the texts of --help, made from the tables.
 */
#ifndef DYNTRACE_HELP_H
#define DYNTRACE_HELP_H

#include <stdio.h>

#include "commands.h"

#define HELP_OPTION_TEXT "show this text"

/* What dyntrace is and its commands, which end with NULL. */
void help_overview(FILE *to, const struct command *const *commands);
/* Usage, options and an example, on stdout. */
void help_command(const struct command *command);
/* The same of a program that is no command of dyntrace: "dyntraced". */
void help_program(const char *program, const struct command *command);

/* What a command's details consist of. */
enum help_block {
	HELP_PARAGRAPH, /* to be wrapped */
	HELP_VERBATIM, /* a line that begins with a space */
	HELP_GAP, /* an empty line */
};

/* The block that text begins with, and where the next one begins: the end if there is none. */
const char *help_next_block(const char *text, enum help_block *ret_kind, size_t *ret_length);

#endif
