/*
 * agent_path.h - find libdyntrace-agent.so.
 */
#ifndef DYNTRACE_AGENT_PATH_H
#define DYNTRACE_AGENT_PATH_H

#include "control/base/error.h"

/* Looks at $DYNTRACE_AGENT, then beside the program, then in ../lib/dyntrace. Caller frees. */
struct error *agent_find(char **ret_path);

#endif
