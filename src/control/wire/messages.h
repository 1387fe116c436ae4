/*
 * messages.h - messages of shared/wire.h: made, taken apart, checked.
 *
 *	struct wire_out out = { 0 };				struct wire_message message;
 *	wire_begin(&out, WIRE_ADD, sequence);			error = wire_take(bytes, length, &message, &used);
 *	wire_text(&out, WIRE_TARGET, "redis-server");		wire_get_text(&message, WIRE_TARGET)
 *	wire_number(&out, WIRE_WAIT, 1);			wire_get_number(&message, WIRE_WAIT, 0)
 *	wire_end(&out);
 *
 * A message that wire_take gives is well-formed from end to end: its attributes have the lengths
 * that their types ask for, texts are strings. So what reads it can't fail. Nothing is copied: a
 * message lives as long as its bytes.
 */
#ifndef DYNTRACE_MESSAGES_H
#define DYNTRACE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/wire.h"
#include "control/base/error.h"
#include "control/base/strbuf.h"

/* Messages, one behind the other, as bytes. Failure is the strbuf's: sticky. */
struct wire_out {
	struct strbuf bytes;
	size_t begun; /* where the message at work begins */
};

void wire_begin(struct wire_out *out, enum wire_kind kind, uint32_t sequence);
void wire_number(struct wire_out *out, enum wire_tag tag, uint64_t value);
/* NULL: nothing is added */
void wire_text(struct wire_out *out, enum wire_tag tag, const char *text);
void wire_end(struct wire_out *out);
void wire_free(struct wire_out *out);

struct wire_message {
	enum wire_kind kind;
	uint32_t sequence;
	const char *bytes; /* its attributes */
	size_t length;
};

/*
 * Looks at what has come so far. *ret_used is the length of the message at its beginning, 0: not
 * all of it is there yet. Fails as soon as it can't become one: another magic or version, longer
 * than `limit`, an unknown kind, attributes that don't fit. What was sent behind it isn't looked
 * at.
 */
struct error *wire_take(const char *bytes, size_t length, size_t limit,
			struct wire_message *ret_message, size_t *ret_used);

/* One attribute after the other. Begin with *at = 0. */
struct wire_value {
	enum wire_tag tag;
	uint64_t number; /* of numbers */
	const char *text; /* of texts; else NULL */
};
bool wire_next(const struct wire_message *message, size_t *at, struct wire_value *ret_value);

/* The first of that tag, or what is given for "none". */
uint64_t wire_get_number(const struct wire_message *message, enum wire_tag tag, uint64_t none);
const char *wire_get_text(const struct wire_message *message, enum wire_tag tag); /* NULL: none */

/* Adds all that the message has but those tags, a list that ends with WIRE_NO_TAG. */
void wire_copy(struct wire_out *out, const struct wire_message *message, const enum wire_tag *but);

/* WIRE_REPLY, of success (error NULL) or failure. Open: more may be added until wire_end. */
void wire_begin_reply(struct wire_out *out, uint32_t sequence, const struct error *error);
/* What a reply says went wrong; NULL: nothing. */
struct error *wire_reply_error(const struct wire_message *reply);

const char *wire_kind_name(enum wire_kind kind);

#endif
