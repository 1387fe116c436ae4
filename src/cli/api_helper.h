/*
 * api_helper.h - a list as messages of the daemon's protocol, on stdout: `dyntrace --answer COMMAND
 * WORDS`.
 *
 * How libdyntrace.so lists symbols and markers: foreign files are read by a process of the caller's
 * rights, not by the caller. Items, notes instead of lines on stderr, and one WIRE_REPLY with the
 * error at the end.
 */
#ifndef DYNTRACE_API_HELPER_H
#define DYNTRACE_API_HELPER_H

#include "control/wire/messages.h"

void api_helper_begin(void);
/* Has api_helper_begin been called? */
bool api_helper_is_on(void);

/* An item: what is put into the result until api_helper_end_item. */
struct wire_out *api_helper_begin_item(void);
void api_helper_end_item(void);
void api_helper_note(const char *text);
/* The last message. NULL: success. */
void api_helper_reply(const struct error *error);

#endif
