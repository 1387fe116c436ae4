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

void answer_begin(void);
/* Has answer_begin been called? */
bool answer_is_on(void);

/* An item: what is put into the result until answer_end_item. */
struct wire_out *answer_begin_item(void);
void answer_end_item(void);
void answer_note(const char *text);
/* The last message. NULL: success. */
void answer_reply(const struct error *error);

#endif
