/*
 * help.h - the texts of --help, made from the tables.
 */
#ifndef DYNTRACE_CLI_HELP_H
#define DYNTRACE_CLI_HELP_H

#include <stdio.h>

#include "commands.h"

/* What dyntrace is and its commands, which end with NULL. */
void help_overview(FILE *to, const struct command *const *commands);
/* Usage, options and an example, on stdout. */
void help_command(const struct command *command);

#endif
