/*
 * api_helper.h - `dyntrace --answer COMMAND WORDS`: print a list in the daemon's protocol.
 *
 * libdyntrace.so lists symbols and markers through it: a process with the caller's rights reads
 * foreign files, not the caller. The output on stdout is items, notes (instead of lines on stderr),
 * and one WIRE_REPLY with the error at the end.
 */
#ifndef DYNTRACE_API_HELPER_H
#define DYNTRACE_API_HELPER_H

#include "control/wire/messages.h"

void api_helper_begin(void);
/* True after api_helper_begin. */
bool api_helper_is_on(void);

/* Begins an item; the caller adds attributes until api_helper_end_item. */
struct wire_out *api_helper_begin_item(void);
void api_helper_end_item(void);
void api_helper_note(const char *text);
/* Sends the last message. NULL: success. */
void api_helper_reply(const struct error *error);

#endif
