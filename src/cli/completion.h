/*
 * completion.h - what may come next on the command line, for the shells' completion.
 *
 * From the tables of commands and options; processes, functions and tracepoints are those of now.
 */
#ifndef DYNTRACE_COMPLETION_H
#define DYNTRACE_COMPLETION_H

#include "options/commands.h"

/* The words behind "dyntrace"; the last is the one at work, maybe "". Prints what it may become, a
 * line each. */
void completion_print(const struct command *const *commands, int count, char **words);

#endif
