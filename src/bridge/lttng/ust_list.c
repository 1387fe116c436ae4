/*
 * ust_list.c - lists as text: LTTng-UST has sequences of integers alone. The text is that of
 * dyntrace's own lines: [ { first = "a", second = 1 } ].
 *
 * Runs in a hit. Whatever doesn't fit is cut, and "..." says so.
 */
#include "ust.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CUT "..."
#define COUNT_MAX 1024u

struct walk {
	const struct event *event;
	const uint8_t *image, *at;
	struct list_text *text;
	size_t room; /* up to there the text may go */
	bool is_cut;
	bool is_first; /* no member of this compound is there yet */
};

/* ---- text ------------------------------------------------------------------------------------ */

/* Whole pieces only. */
static void add_bytes(struct walk *walk, const char *bytes, size_t count)
{
	if (walk->is_cut || count > walk->room - walk->text->length) {
		walk->is_cut = true;
		return;
	}
	memcpy(walk->text->bytes + walk->text->length, bytes, count);
	walk->text->length += count;
}

static void add(struct walk *walk, const char *text)
{
	add_bytes(walk, text, strlen(text));
}

static void separate(struct walk *walk)
{
	add(walk, walk->is_first ? " " : ", ");
	walk->is_first = false;
}

static void open_compound(struct walk *walk, const char *bracket)
{
	add(walk, bracket);
	walk->is_first = true;
}

static void close_compound(struct walk *walk, const char *bracket)
{
	add(walk, walk->is_first ? "" : " ");
	add(walk, bracket);
	walk->is_first = false;
}

/* In quotes, with the escapes of C; bytes of UTF-8 as they are. */
static void add_quoted(struct walk *walk, const char *from)
{
	add(walk, "\"");
	for (; *from && !walk->is_cut; from++) {
		unsigned char byte = (unsigned char)*from;
		char escaped[8];

		if (byte == '"' || byte == '\\')
			snprintf(escaped, sizeof(escaped), "\\%c", byte);
		else if (byte < ' ' || byte == 0x7f)
			snprintf(escaped, sizeof(escaped), "\\x%02x", byte);
		else
			snprintf(escaped, sizeof(escaped), "%c", byte);
		add(walk, escaped);
	}
	add(walk, "\"");
}

/* The shortest text that reads back as the same number. The program's locale may have a comma. */
static void add_real(struct walk *walk, const uint8_t *from, unsigned size)
{
	char text[40];
	double value = 0;
	float single;
	int most = size == 4 ? 9 : 17;

	if (size == 4) {
		memcpy(&single, from, sizeof(single));
		value = single;
	} else {
		memcpy(&value, from, sizeof(value));
	}
	for (int digits = size == 4 ? 6 : 15; digits <= most; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (size == 4 ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value)
			break;
	}
	for (char *c = text; *c; c++) {
		if (*c == ',')
			*c = '.';
	}
	add(walk, text);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void align(struct walk *walk, unsigned to)
{
	size_t offset = (size_t)(walk->at - walk->image);

	walk->at = walk->image + (offset + to - 1) / to * to;
}

static void add_number(struct walk *walk, const struct part *part)
{
	unsigned spare = 64 - 8u * part->size;
	uint64_t value = 0;
	char text[40];

	memcpy(&value, walk->at, part->size);
	if (part->type == DT_BRIDGE_INT)
		value = (uint64_t)((int64_t)(value << spare) >> spare);
	for (unsigned i = 0; i < part->label_count; i++) {
		if ((uint64_t)part->labels[i].value == value) {
			add(walk, part->labels[i].name);
			walk->at += part->size;
			return;
		}
	}
	if (part->type == DT_BRIDGE_FLOAT) {
		add_real(walk, walk->at, part->size);
	} else {
		if (part->type == DT_BRIDGE_INT)
			snprintf(text, sizeof(text), "%lld", (long long)value);
		else
			snprintf(text, sizeof(text),
				 part->type == DT_BRIDGE_HEX ? "0x%llx" : "%llu",
				 (unsigned long long)value);
		add(walk, text);
	}
	walk->at += part->size;
}

static void add_numbers(struct walk *walk, const struct part *part)
{
	align(walk, part->align);
	if (part->count == 1) {
		add_number(walk, part);
		return;
	}
	open_compound(walk, "[");
	for (unsigned i = 0; i < part->count; i++) {
		separate(walk);
		add_number(walk, part);
	}
	close_compound(walk, "]");
}

static uint32_t add_value(struct walk *walk, uint32_t index);

/* Of a struct: its members, with their names. Gives the number of the part behind it. */
static uint32_t add_members(struct walk *walk, uint32_t index)
{
	const struct part *parts = walk->event->parts;

	align(walk, parts[index].align);
	open_compound(walk, "{");
	for (index++; index < walk->event->part_count && parts[index].type != DT_BRIDGE_CLOSE;) {
		separate(walk);
		add(walk, parts[index].name);
		add(walk, " = ");
		index = add_value(walk, index);
	}
	close_compound(walk, "}");
	return index + 1;
}

/* The part behind the end of the list that begins at `index`. */
static uint32_t behind_list(const struct event *event, uint32_t index)
{
	uint32_t depth = 0;

	for (; index < event->part_count; index++) {
		depth += event->parts[index].type == DT_BRIDGE_LIST;
		if (event->parts[index].type == DT_BRIDGE_LIST_END && --depth == 0)
			return index + 1;
	}
	return index;
}

static uint32_t add_elements(struct walk *walk, uint32_t index)
{
	const struct part *list = &walk->event->parts[index];
	uint32_t count;

	align(walk, 4);
	memcpy(&count, walk->at, sizeof(count));
	walk->at += sizeof(count);
	align(walk, list->size);
	open_compound(walk, "[");
	for (uint32_t i = 0; i < count && i < COUNT_MAX; i++) {
		separate(walk);
		add_value(walk, index + 1);
	}
	close_compound(walk, "]");
	return behind_list(walk->event, index);
}

/* Gives the number of the part behind the value. */
static uint32_t add_value(struct walk *walk, uint32_t index)
{
	const struct part *part = &walk->event->parts[index];

	switch (part->type) {
	case DT_BRIDGE_LIST:
		return add_elements(walk, index);
	case DT_BRIDGE_OPEN:
		return add_members(walk, index);
	case DT_BRIDGE_STRING:
		add_quoted(walk, (const char *)walk->at);
		walk->at += strlen((const char *)walk->at) + 1;
		break;
	default:
		add_numbers(walk, part);
	}
	return index + 1;
}

const uint8_t *list_print(const struct event *event, uint32_t index, const uint8_t *image,
			  const uint8_t *at, struct list_text *text, uint32_t *ret_end)
{
	/* each list that comes has room for its mark */
	size_t reserved = (sizeof(CUT) + 1) * (event->part_count - index);
	struct walk walk = { .event = event, .image = image, .at = at, .text = text };

	walk.room = sizeof(text->bytes) - reserved;
	walk.is_cut = text->length > walk.room;
	*ret_end = add_elements(&walk, index) - 1;
	if (walk.is_cut) {
		memcpy(text->bytes + text->length, CUT, sizeof(CUT) - 1);
		text->length += sizeof(CUT) - 1;
	}
	text->bytes[text->length++] = '\0';
	return walk.at;
}
