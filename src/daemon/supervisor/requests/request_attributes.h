/*
 * request_attributes.h - the attributes that each kind of request has.
 *
 * A client may send any attributes, and the daemon keeps requests for long: in journals, and for
 * programs that don't run yet. So a request keeps only what its command knows, once.
 */
#ifndef DYNTRACE_REQUEST_ATTRIBUTES_H
#define DYNTRACE_REQUEST_ATTRIBUTES_H

#include <stdbool.h>

#include "control/wire/messages.h"

/* Copies the attributes that the message's kind knows: the first of each tag, and of the contexts
 * one more than WIRE_CONTEXTS_MAX, so that too many can be refused. `noted`: the daemon has kept
 * the message, which may have the names of the tracepoints that it made. */
void request_attributes_copy(struct wire_out *out, const struct wire_message *message, bool noted);

#endif
