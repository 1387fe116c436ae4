#include "messages.h"

#include <assert.h>
#include <string.h>

static const char *const kind_names[] = {
	[WIRE_NOTHING] = "nothing",
#define X(name, text) [name] = (text),
	WIRE_KINDS(X)
#undef X
};

static const uint8_t tag_types[] = {
#define X(name, type) [name] = (type),
	WIRE_TAGS(X)
#undef X
};

const char *wire_kind_name(enum wire_kind kind)
{
	assert(kind < WIRE_KIND_COUNT);
	return kind_names[kind];
}

/* ---- making ---------------------------------------------------------------------------------- */

void wire_begin(struct wire_out *out, enum wire_kind kind, uint32_t sequence)
{
	struct wire_header header = { .magic = WIRE_MAGIC,
				      .version = WIRE_VERSION,
				      .kind = (uint16_t)kind,
				      .sequence = sequence };

	out->begun = out->bytes.length;
	strbuf_add(&out->bytes, (const char *)&header, sizeof(header));
}

static void add_attribute(struct wire_out *out, enum wire_tag tag, const void *bytes, size_t length)
{
	struct wire_attribute attribute = { .tag = (uint16_t)tag, .length = (uint32_t)length };

	assert(tag > WIRE_NO_TAG && tag < WIRE_TAG_COUNT);
	strbuf_add(&out->bytes, (const char *)&attribute, sizeof(attribute));
	strbuf_add(&out->bytes, bytes, length);
}

void wire_number(struct wire_out *out, enum wire_tag tag, uint64_t value)
{
	add_attribute(out, tag, &value, sizeof(value));
}

void wire_text(struct wire_out *out, enum wire_tag tag, const char *text)
{
	if (text)
		add_attribute(out, tag, text, strlen(text) + 1);
}

void wire_end(struct wire_out *out)
{
	size_t length = out->bytes.length - out->begun - sizeof(struct wire_header);

	if (out->bytes.failed)
		return;
	struct wire_header header;
	memcpy(&header, out->bytes.text + out->begun, sizeof(header));
	header.length = (uint32_t)length;
	memcpy(out->bytes.text + out->begun, &header, sizeof(header));
}

void wire_free(struct wire_out *out)
{
	strbuf_free(&out->bytes);
}

void wire_copy(struct wire_out *out, const struct wire_message *message, const enum wire_tag *but)
{
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		const enum wire_tag *left_out = but;

		while (*left_out != WIRE_NO_TAG && *left_out != value.tag)
			left_out++;
		if (*left_out != WIRE_NO_TAG)
			continue;
		if (value.text)
			wire_text(out, value.tag, value.text);
		else
			wire_number(out, value.tag, value.number);
	}
}

void wire_begin_reply(struct wire_out *out, uint32_t sequence, const struct error *error)
{
	wire_begin(out, WIRE_REPLY, sequence);
	if (!error)
		return;
	wire_number(out, WIRE_ERROR_KIND, error_kind(error));
	wire_text(out, WIRE_ERROR_TEXT, error_text(error));
}

/* ---- taking apart ---------------------------------------------------------------------------- */

/* The attribute at `at`, whose bytes the caller has checked. */
static struct wire_attribute attribute_at(const struct wire_message *message, size_t at)
{
	struct wire_attribute attribute;

	memcpy(&attribute, message->bytes + at, sizeof(attribute));
	return attribute;
}

static bool value_fits(const struct wire_attribute *attribute, const char *bytes)
{
	if (attribute->tag == WIRE_NO_TAG || attribute->tag >= WIRE_TAG_COUNT)
		return true;
	if (tag_types[attribute->tag] == WIRE_NUMBER)
		return attribute->length == sizeof(uint64_t);
	return attribute->length > 0 &&
	       memchr(bytes, '\0', attribute->length) == bytes + attribute->length - 1;
}

static bool is_well_formed(const struct wire_message *message)
{
	size_t at = 0;

	while (at < message->length) {
		if (message->length - at < sizeof(struct wire_attribute))
			return false;
		struct wire_attribute attribute = attribute_at(message, at);
		at += sizeof(attribute);
		if (attribute.zero || attribute.length > message->length - at ||
		    !value_fits(&attribute, message->bytes + at))
			return false;
		at += attribute.length;
	}
	return true;
}

static struct error *check_header(const struct wire_header *header, size_t limit)
{
	if (header->magic != WIRE_MAGIC)
		return error_new(ERROR_FAILED, "the other end doesn't speak dyntrace's protocol");
	if (header->version != WIRE_VERSION)
		return error_new(
			ERROR_FAILED,
			"the other end speaks version %u of the protocol, this one version %d: use "
			"dyntrace and dyntraced of the same release",
			header->version, WIRE_VERSION);
	if (header->kind == WIRE_NOTHING || header->kind >= WIRE_KIND_COUNT)
		return error_new(ERROR_FAILED, "message of unknown kind %u", header->kind);
	if (header->length > limit)
		return error_new(ERROR_FAILED, "message of %u bytes is too long (at most %zu)",
				 header->length, limit);
	return NULL;
}

struct error *wire_take(const char *bytes, size_t length, size_t limit,
			struct wire_message *ret_message, size_t *ret_used)
{
	struct wire_header header;

	*ret_used = 0;
	if (length < sizeof(header))
		return NULL;
	memcpy(&header, bytes, sizeof(header));
	struct error *error = check_header(&header, limit);
	if (error || length - sizeof(header) < header.length)
		return error;
	struct wire_message message = { .kind = (enum wire_kind)header.kind,
					.sequence = header.sequence,
					.bytes = bytes + sizeof(header),
					.length = header.length };
	if (!is_well_formed(&message))
		return error_new(ERROR_FAILED, "malformed message");
	*ret_message = message;
	*ret_used = sizeof(header) + header.length;
	return NULL;
}

bool wire_next(const struct wire_message *message, size_t *at, struct wire_value *ret_value)
{
	while (*at < message->length) {
		struct wire_attribute attribute = attribute_at(message, *at);
		const char *bytes = message->bytes + *at + sizeof(attribute);

		*at += sizeof(attribute) + attribute.length;
		if (attribute.tag == WIRE_NO_TAG || attribute.tag >= WIRE_TAG_COUNT)
			continue;
		*ret_value = (struct wire_value){ .tag = (enum wire_tag)attribute.tag };
		if (tag_types[attribute.tag] == WIRE_NUMBER)
			memcpy(&ret_value->number, bytes, sizeof(ret_value->number));
		else
			ret_value->text = bytes;
		return true;
	}
	return false;
}

uint64_t wire_get_number(const struct wire_message *message, enum wire_tag tag, uint64_t none)
{
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		if (value.tag == tag)
			return value.number;
	}
	return none;
}

const char *wire_get_text(const struct wire_message *message, enum wire_tag tag)
{
	struct wire_value value;

	for (size_t at = 0; wire_next(message, &at, &value);) {
		if (value.tag == tag)
			return value.text;
	}
	return NULL;
}

struct error *wire_reply_error(const struct wire_message *reply)
{
	const char *text = wire_get_text(reply, WIRE_ERROR_TEXT);
	uint64_t kind = wire_get_number(reply, WIRE_ERROR_KIND, ERROR_FAILED);

	if (!text)
		return NULL;
	return error_repeat(kind <= ERROR_REFUSED ? (enum error_kind)kind : ERROR_FAILED, text);
}
