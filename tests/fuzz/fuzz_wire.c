/*
 * The protocol of the daemon: any bytes, in pieces of any length, as one side sees them. Each
 * accepted message is whole, and the same when it is encoded again. The first byte
 * says how the rest is cut.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "control/wire/messages.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void require(bool holds)
{
	if (!holds)
		__builtin_trap();
}

static size_t walk(const struct wire_message *message)
{
	struct wire_value value;
	size_t count = 0;

	for (size_t at = 0; wire_next(message, &at, &value); count++) {
		require(value.tag > WIRE_NO_TAG && value.tag < WIRE_TAG_COUNT);
		require(at <= message->length);
		if (value.text)
			require(value.text + strlen(value.text) + 1 == message->bytes + at);
	}
	return count;
}

static void make_again(const struct wire_message *message)
{
	static const enum wire_tag nothing[] = { WIRE_NO_TAG };
	struct wire_out out = { 0 };
	struct wire_message again;
	size_t used;

	wire_begin(&out, message->kind, message->sequence);
	wire_copy(&out, message, nothing);
	wire_end(&out);
	require(!wire_take(out.bytes.text, out.bytes.length, WIRE_MESSAGE_MAX, &again, &used));
	require(used == out.bytes.length && again.kind == message->kind &&
		again.sequence == message->sequence);
	require(walk(&again) == walk(message));
	wire_free(&out);
}

/* Gives how much was used; 0: no message, or a bad one. */
static size_t take(const char *bytes, size_t length, bool *ret_bad)
{
	struct wire_message message;
	size_t used = 0;
	struct error *error = wire_take(bytes, length, WIRE_REQUEST_MAX, &message, &used);

	*ret_bad = error != NULL;
	require(!error || used == 0);
	error_free(error);
	if (!used)
		return 0;
	require(used <= length && message.length <= WIRE_REQUEST_MAX);
	make_again(&message);
	error_free(wire_reply_error(&message));
	return used;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	size_t step = size ? bytes[0] + 1u : 1, taken = 0;
	bool bad = false;

	for (size_t have = 1; have < size && !bad;) {
		/* Exactly what has come, so that ASan sees what is read beyond it. */
		size_t length = have - 1 - taken;
		char *piece = malloc(length ? length : 1);
		require(piece != NULL);
		memcpy(piece, bytes + 1 + taken, length);
		size_t used = take(piece, length, &bad);
		free(piece);
		taken += used;
		if (!used)
			have = have == size - 1	  ? size :
			       have + step < size ? have + step :
						    size - 1;
	}
	return 0;
}
