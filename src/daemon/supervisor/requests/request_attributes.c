#include "request_attributes.h"

#include <assert.h>

#define TAGS_MAX 28

/* Kinds without a row have no attributes. */
static const enum wire_tag known[WIRE_KIND_COUNT][TAGS_MAX] = {
	[WIRE_ATTACH] = { WIRE_TARGET, WIRE_ALL, WIRE_MODE, WIRE_BUFFER_SIZE,
			  WIRE_SNAPSHOTS_KEPT, WIRE_OVERHEAD },
	[WIRE_DETACH] = { WIRE_TARGET, WIRE_ALL },
	[WIRE_TRACEPOINTS] = { WIRE_TARGET, WIRE_ALL, WIRE_ROWS, WIRE_RESET, WIRE_STATIC,
			       WIRE_COST },
	[WIRE_ADD] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME, WIRE_LOCATION, WIRE_SHAPE, WIRE_FILTER,
		       WIRE_CONTEXT_TYPE, WIRE_TRACER, WIRE_ARGUMENT, WIRE_EVERY, WIRE_FIRST,
		       WIRE_RATE, WIRE_STRING_MAX, WIRE_WAIT, WIRE_DISABLED, WIRE_BY, WIRE_OF,
		       WIRE_KEYS, WIRE_PROTOTYPES, WIRE_FLOATS, WIRE_MODE, WIRE_BUFFER_SIZE,
		       WIRE_SNAPSHOTS_KEPT, WIRE_SNAPSHOT_WHEN, WIRE_SNAPSHOT_EVERY,
		       WIRE_SYNC, WIRE_DEREF, WIRE_OVERHEAD },
	[WIRE_REMOVE] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME },
	[WIRE_ENABLE] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME },
	[WIRE_DISABLE] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME },
	[WIRE_CONTEXT] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME, WIRE_CONTEXT_TYPE },
	[WIRE_NO_CONTEXT] = { WIRE_TARGET, WIRE_ALL, WIRE_NAME, WIRE_CONTEXT_TYPE },
	[WIRE_START] = { WIRE_TARGET, WIRE_ALL },
	[WIRE_STOP] = { WIRE_TARGET, WIRE_ALL },
	[WIRE_FLUSH] = { WIRE_TARGET, WIRE_ALL },
	[WIRE_SNAPSHOT] = { WIRE_TARGET, WIRE_ALL, WIRE_LAST },
	[WIRE_LOAD] = { WIRE_TARGET, WIRE_ALL, WIRE_LIBRARY },
	[WIRE_UNLOAD] = { WIRE_TARGET, WIRE_ALL, WIRE_LIBRARY },
	[WIRE_WATCH] = { WIRE_TARGET },
	[WIRE_REGISTER] = { WIRE_LOADED },
};

static bool is_known(enum wire_kind kind, enum wire_tag tag)
{
	for (size_t i = 0; i < TAGS_MAX && known[kind][i] != WIRE_NO_TAG; i++) {
		if (known[kind][i] == tag)
			return true;
	}
	return false;
}

/* Of a WIRE_ADD in a journal or of a profile: no client can ask for these. */
static bool is_own(enum wire_tag tag)
{
	static const enum wire_tag own[] = { WIRE_MADE,	     WIRE_MADE_TRIGGER, WIRE_PROFILE,
					     WIRE_OUTPUT,    WIRE_MAX_SIZE,	WIRE_MAX_FILES,
					     WIRE_ROTATE };

	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		if (own[i] == tag)
			return true;
	}
	return false;
}

void request_attributes_copy(struct wire_out *out, const struct wire_message *message, bool noted)
{
	unsigned seen[WIRE_TAG_COUNT] = { 0 };
	struct wire_value value;

	assert(message->kind < WIRE_KIND_COUNT); /* wire_take refuses others */
	for (size_t at = 0; wire_next(message, &at, &value);) {
		bool repeats = message->kind == WIRE_ADD && value.tag == WIRE_CONTEXT_TYPE;
		bool made = noted && message->kind == WIRE_ADD && is_own(value.tag);

		if (!made && (!is_known(message->kind, value.tag) ||
			      seen[value.tag]++ > (repeats ? WIRE_CONTEXTS_MAX : 0)))
			continue;
		if (value.text)
			wire_text(out, value.tag, value.text);
		else
			wire_number(out, value.tag, value.number);
	}
}
