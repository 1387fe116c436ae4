/*
 * listen.h - the daemon's sockets, its lock and its folders.
 */
#ifndef DYNTRACE_LISTEN_H
#define DYNTRACE_LISTEN_H

#include "control/base/error.h"

struct supervisor;

struct error *listen_open(struct supervisor *supervisor);
void listen_close(struct supervisor *supervisor);

#endif
