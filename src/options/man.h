/*
 * man.h - the man pages, made from the same tables as --help.
 *
 * What the tables don't say is in docs/man/PAGE.roff, the "prose": what is before its first .SH
 * goes on with the page's DESCRIPTION, its sections stand behind the options. It may be NULL.
 * Prints on stdout.
 */
#ifndef DYNTRACE_MAN_H
#define DYNTRACE_MAN_H

#include <stdio.h>

#include "commands.h"

/* dyntrace(1). The commands end with NULL. */
void man_overview(const struct command *const *commands, FILE *prose);
/* dyntrace-COMMAND(1). */
void man_command(const struct command *command, const struct command *const *commands, FILE *prose);

/* A daemon's page, in section 8. */
void man_program(const char *program, const struct command *command, FILE *prose);

#endif
