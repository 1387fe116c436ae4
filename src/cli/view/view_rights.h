/*
 * view_rights.h - what the reader of a trace may still do: read files, and write to stdout.
 */
#ifndef DYNTRACE_VIEW_RIGHTS_H
#define DYNTRACE_VIEW_RIGHTS_H

#include <stdint.h>

#include "control/base/error.h"

/* For good: no new privileges, no capability but the one to read any file, no other user's eyes on
 * its memory, `memory` bytes of memory, and only the system calls that reading needs: no socket, no
 * other process, no program, no file opened for writing, no new code. */
struct error *view_rights_give_up(uint64_t memory);

#endif
