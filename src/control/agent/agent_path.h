/*
 * agent_path.h - where libdyntrace-agent.so is.
 */
#ifndef DYNTRACE_AGENT_PATH_H
#define DYNTRACE_AGENT_PATH_H

#include "control/base/error.h"

/* $DYNTRACE_AGENT, else beside the program, else in ../lib/dyntrace. Caller frees. */
struct error *agent_find(char **ret_path);

#endif
