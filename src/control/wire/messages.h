/*
 * messages.h - make, check and take apart the messages of shared/wire.h.
 *
 *	struct wire_out out = { 0 };
 *	wire_begin(&out, WIRE_ADD, sequence);
 *	wire_text(&out, WIRE_TARGET, "redis-server");
 *	wire_number(&out, WIRE_WAIT, 1);
 *	wire_end(&out);
 *
 *	struct wire_message message;
 *	error = wire_take(bytes, length, limit, &message, &used);
 *	wire_get_text(&message, WIRE_TARGET)
 *	wire_get_number(&message, WIRE_WAIT, 0)
 *
 * A message that wire_take gives is well-formed from end to end: its attributes have the lengths of
 * their types, texts are strings. So reading it can't fail. Nothing is copied: a message lives as
 * long as its bytes.
 */
#ifndef DYNTRACE_MESSAGES_H
#define DYNTRACE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/wire.h"
#include "control/base/error.h"
#include "control/base/strbuf.h"

/* Messages as bytes, one after the other. Failure is sticky, as the strbuf's. */
struct wire_out {
	struct strbuf bytes;
	size_t begun; /* start of the message begun last */
};

void wire_begin(struct wire_out *out, enum wire_kind kind, uint32_t sequence);
void wire_number(struct wire_out *out, enum wire_tag tag, uint64_t value);
/* NULL adds nothing. */
void wire_text(struct wire_out *out, enum wire_tag tag, const char *text);
void wire_end(struct wire_out *out);
void wire_free(struct wire_out *out);

struct wire_message {
	enum wire_kind kind;
	uint32_t sequence;
	const char *bytes; /* the attributes */
	size_t length;
};

/*
 * Reads the first message of `bytes`. *ret_used is its length; 0: it isn't complete yet. Fails as
 * soon as the bytes can't become a message: another magic or version, longer than `limit`, an
 * unknown kind, attributes that don't fit. Ignores later bytes.
 */
struct error *wire_take(const char *bytes, size_t length, size_t limit,
			struct wire_message *ret_message, size_t *ret_used);

/* wire_next gives one attribute per call. Begin with *at = 0. */
struct wire_value {
	enum wire_tag tag;
	uint64_t number; /* if the tag is a number's */
	const char *text; /* if the tag is a text's; else NULL */
};
bool wire_next(const struct wire_message *message, size_t *at, struct wire_value *ret_value);

/* The first value with that tag; without one `none`, or NULL. */
uint64_t wire_get_number(const struct wire_message *message, enum wire_tag tag, uint64_t none);
const char *wire_get_text(const struct wire_message *message, enum wire_tag tag);

/* Copies all attributes of `message` except the tags in `but`, a list that ends with
 * WIRE_NO_TAG. */
void wire_copy(struct wire_out *out, const struct wire_message *message, const enum wire_tag *but);

/* Begins a WIRE_REPLY of success (`error` NULL) or failure. More may be added until wire_end. */
void wire_begin_reply(struct wire_out *out, uint32_t sequence, const struct error *error);
/* The failure that a reply carries; NULL: success. */
struct error *wire_reply_error(const struct wire_message *reply);

const char *wire_kind_name(enum wire_kind kind);

#endif
