/*
 * man.h - the man pages, made from the same tables as --help.
 *
 * docs/man/PAGE.roff, the "prose", adds what the tables don't have: the text before its first .SH
 * continues the page's DESCRIPTION, and its sections follow the options. The prose may be NULL.
 * All functions print on stdout.
 */
#ifndef DYNTRACE_MAN_H
#define DYNTRACE_MAN_H

#include <stdio.h>

#include "commands.h"

/* dyntrace(1). The table of commands ends with NULL. */
void man_overview(const struct command *const *commands, FILE *prose);
/* dyntrace-COMMAND(1). */
void man_command(const struct command *command, const struct command *const *commands, FILE *prose);

/* A daemon's page, in section 8. */
void man_program(const char *program, const struct command *command, FILE *prose);

#endif
