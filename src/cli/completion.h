/*
 * completion.h - candidates for the shells' completion.
 *
 * Offers commands and options from their tables, and the current processes, functions and
 * tracepoints.
 */
#ifndef DYNTRACE_COMPLETION_H
#define DYNTRACE_COMPLETION_H

#include "options/commands.h"

/* Prints what the last of the words after "dyntrace", which may be "", can become: one candidate
 * per line. */
void completion_print(const struct command *const *commands, int count, char **words);

#endif
