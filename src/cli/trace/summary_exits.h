/*
 * summary_exits.h - the summary's lines about function exits.
 */
#ifndef DYNTRACE_SUMMARY_EXITS_H
#define DYNTRACE_SUMMARY_EXITS_H

#include "control/session/session.h"

/* Prints the functions whose exits were not traced, with reasons, and the number of calls without
 * an exit. */
void summary_exits_rest(const struct session *session);

#endif
