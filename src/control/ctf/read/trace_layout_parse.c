/*
 * trace_layout_parse.c - from the text of metadata.c to tables.
 *
 * Whatever metadata.c always writes alike is compared word by word, so there is one layout of
 * packets and event headers, and struct metadata_packet is it. What varies is read in between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "shared/layout.h"
#include "trace_layout.h"
#include "tsdl.h"

#define NAME_MAX_BYTES 128 /* an event_field's name and what metadata.c adds to it */
#define DEPTH_MAX 32
#define FIELDS_MAX 8192 /* of one structure */
#define NS 1000000000

#define INTEGERS(bits)                                                                          \
	"typealias integer { size = " bits "; align = " bits "; signed = false; } := u" bits ";" \
	"typealias integer { size = " bits "; align = " bits "; signed = true; } := s" bits ";"  \
	"typealias integer { size = " bits "; align = " bits                                     \
	"; signed = false; base = 16; } := x" bits ";"

static const char before_uuid[] = INTEGERS("8") INTEGERS("16") INTEGERS("32") INTEGERS("64")
	"typealias floating_point { exp_dig = 8; mant_dig = 24; align = 32; } := float32;"
	"typealias floating_point { exp_dig = 11; mant_dig = 53; align = 64; } := float64;"
	"trace { major = 1; minor = 8; uuid =";
static const char before_environment[] =
	"; byte_order = le;"
	"packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; }; };"
	"env {";
static const char before_frequency[] =
	"; description = \"CPU time stamp counter, placed on the wall clock\"; freq =";
static const char before_events[] =
	"; absolute = TRUE; };"
	"typealias integer { size = 40; align = 1; signed = false;"
	" map = clock.tsc.value; } := clock40;"
	"typealias integer { size = 64; align = 64; signed = false;"
	" map = clock.tsc.value; } := clock64;"
	"stream { id = 0;"
	"packet.context := struct { clock64 timestamp_begin; clock64 timestamp_end;"
	" u64 content_size; u64 packet_size; u64 events_discarded; u64 packet_seq_num;"
	" u32 tid; u32 pid; u32 vtid; u32 vpid;"
	" integer { size = 8; align = 8; signed = false; encoding = UTF8; } procname[16]; };"
	"event.header := struct { integer { size = 24; align = 1; signed = false; } id;"
	" clock40 timestamp; } align(64); };";

static void parse_uuid(struct tsdl *tsdl, uint8_t uuid[16])
{
	_cleanup_free_ char *text = tsdl_string(tsdl);
	size_t digits = 0;

	memset(uuid, 0, 16);
	for (const char *at = text ? text : ""; *at && !tsdl->failed; at++) {
		const char *digit = strchr("0123456789abcdef", *at);
		bool is_dash = digits == 8 || digits == 12 || digits == 16 || digits == 20;

		if (*at == '-' && is_dash && at[-1] != '-')
			continue;
		if (!digit || digits >= 32)
			tsdl->failed = true;
		else
			uuid[digits / 2] |= (uint8_t)((digit - "0123456789abcdef") << (digits % 2 ? 0 : 4));
		digits++;
	}
	tsdl->failed |= digits != 32 || strlen(text) != 36;
}

static void parse_environment(struct tsdl *tsdl, struct trace_layout *layout)
{
	while (!tsdl->failed && !tsdl_take(tsdl, "}")) {
		struct layout_variable variable = { .name = tsdl_name(tsdl, NAME_MAX_BYTES) };

		tsdl_expect(tsdl, "=");
		struct tsdl number = *tsdl;
		tsdl_signed(&number);
		if (number.failed)
			variable.text = tsdl_string(tsdl);
		else
			*tsdl = number;
		tsdl_expect(tsdl, ";");
		if (tsdl->failed || !vec_push(&layout->environment, variable)) {
			free(variable.name);
			free(variable.text);
			tsdl->failed = true;
		}
	}
	tsdl_expect(tsdl, ";");
}

static void parse_clock(struct tsdl *tsdl, struct trace_layout *layout)
{
	uint8_t uuid[16];

	tsdl_expect(tsdl, "clock { name = \"tsc\"; uuid =");
	parse_uuid(tsdl, uuid);
	tsdl_expect(tsdl, before_frequency);
	layout->frequency = tsdl_unsigned(tsdl, INT64_MAX);
	tsdl_expect(tsdl, "; offset_s =");
	layout->offset_s = tsdl_signed(tsdl);
	tsdl_expect(tsdl, "; offset =");
	layout->offset = tsdl_unsigned(tsdl, INT64_MAX);
	/* Other values are libbabeltrace2's to judge. */
	if (!layout->frequency || layout->offset >= layout->frequency ||
	    layout->offset_s < -(INT64_MAX / NS / 2) || layout->offset_s > INT64_MAX / NS / 2)
		tsdl->failed = true;
	else
		layout->base_ns = layout->offset_s * NS +
				  (int64_t)trace_layout_duration(layout, layout->offset);
}

/* ---- fields --------------------------------------------------------------------------------- */

static void parse_fields(struct tsdl *tsdl, struct layout_fields *fields, unsigned depth);

/* "u8", "s16", "x64", "float32": the whole word. */
static bool parse_number_type(const struct tsdl *tsdl, struct layout_field *field)
{
	static const struct {
		const char *name;
		enum layout_kind kind;
		uint8_t size;
	} types[] = {
		{ "u8", LAYOUT_UNSIGNED, 1 }, { "u16", LAYOUT_UNSIGNED, 2 },
		{ "u32", LAYOUT_UNSIGNED, 4 }, { "u64", LAYOUT_UNSIGNED, 8 },
		{ "s8", LAYOUT_SIGNED, 1 }, { "s16", LAYOUT_SIGNED, 2 },
		{ "s32", LAYOUT_SIGNED, 4 }, { "s64", LAYOUT_SIGNED, 8 },
		{ "x8", LAYOUT_HEX, 1 }, { "x16", LAYOUT_HEX, 2 },
		{ "x32", LAYOUT_HEX, 4 }, { "x64", LAYOUT_HEX, 8 },
		{ "float32", LAYOUT_FLOAT, 4 }, { "float64", LAYOUT_FLOAT, 8 },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!tsdl_is(tsdl, types[i].name))
			continue;
		field->kind = types[i].kind;
		field->size = field->align = types[i].size;
		field->is_signed = field->kind == LAYOUT_SIGNED;
		return true;
	}
	return false;
}

/* Does the value fit the enumeration's type? */
static bool is_in_range(const struct layout_field *field, int64_t value)
{
	unsigned bits = field->size * 8u;

	if (bits == 64)
		return true;
	return field->is_signed ? value >= -(1LL << (bits - 1)) && value < 1LL << (bits - 1) :
				  value >= 0 && value < 1LL << bits;
}

/* : u8 { "LABEL" = 1, ... } */
static void parse_enum(struct tsdl *tsdl, struct layout_field *field)
{
	tsdl_expect(tsdl, ":");
	if (!tsdl_next(tsdl) || !parse_number_type(tsdl, field) ||
	    (field->kind != LAYOUT_SIGNED && field->kind != LAYOUT_UNSIGNED))
		tsdl->failed = true;
	field->kind = LAYOUT_ENUM;
	tsdl_expect(tsdl, "{");
	while (!tsdl->failed && !tsdl_take(tsdl, "}")) {
		struct layout_label label = { .name = tsdl_string(tsdl) };

		tsdl_expect(tsdl, "=");
		label.value = field->is_signed ? tsdl_signed(tsdl) :
						 (int64_t)tsdl_unsigned(tsdl, UINT64_MAX);
		tsdl_expect(tsdl, ",");
		if (tsdl->failed || !is_in_range(field, label.value) ||
		    !vec_push(&field->labels, label)) {
			free(label.name);
			tsdl->failed = true;
		}
	}
}

static void parse_type(struct tsdl *tsdl, struct layout_field *field, unsigned depth)
{
	field->align = 1;
	if (!tsdl_next(tsdl) || tsdl->is_string) {
		tsdl->failed = true;
	} else if (tsdl_is(tsdl, "string")) {
		field->kind = LAYOUT_STRING;
	} else if (tsdl_is(tsdl, "enum")) {
		parse_enum(tsdl, field);
	} else if (tsdl_is(tsdl, "struct")) {
		field->kind = LAYOUT_STRUCT;
		tsdl_expect(tsdl, "{");
		parse_fields(tsdl, &field->members, depth + 1);
		for (size_t i = 0; i < field->members.count; i++)
			if (field->members.items[i].align > field->align)
				field->align = field->members.items[i].align;
	} else if (!parse_number_type(tsdl, field)) {
		tsdl->failed = true;
	}
}

/* Is this the field that counts the next one, whose name in the text is `name`? */
static bool counts(const struct layout_field *field, const char *name)
{
	return field->kind == LAYOUT_UNSIGNED && field->size == 4 && field->array == LAYOUT_ONE &&
	       !strcmp(field->name, name + 1);
}

/* [3], or [_NAME__length] after the field of that name. */
static void parse_array(struct tsdl *tsdl, const struct layout_fields *before,
			struct layout_field *field)
{
	struct tsdl name = *tsdl;
	_cleanup_free_ char *counter = tsdl_name(&name, NAME_MAX_BYTES);

	if (counter) {
		*tsdl = name;
		field->array = LAYOUT_COUNTED;
		if (!before->count ||
		    !counts(&before->items[before->count - 1], counter))
			tsdl->failed = true;
	} else {
		field->array = LAYOUT_FIXED;
		field->count = (uint32_t)tsdl_unsigned(tsdl, LAYOUT_EVENT_MAX);
	}
	tsdl_expect(tsdl, "]");
}

static enum layout_role role_of(const struct layout_field *field)
{
	const char *name = field->name;
	size_t length = strlen(name), tail = strlen("__length");

	if (field->kind == LAYOUT_STRING && field->array == LAYOUT_ONE)
		return !strcmp(name, "unreadable") ? LAYOUT_UNREADABLE : LAYOUT_PLAIN;
	if ((length >= tail && !strcmp(name + length - tail, "__length")) ||
	    !strncmp(name, "_unused_", strlen("_unused_")))
		return LAYOUT_SILENT;
	return field->array != LAYOUT_ONE && field->size == 8 && !strcmp(name, "backtrace") ?
		       LAYOUT_BACKTRACE :
		       LAYOUT_PLAIN;
}

static bool is_taken(const struct layout_fields *fields, const char *name)
{
	for (size_t i = 0; i < fields->count; i++)
		if (!strcmp(fields->items[i].name, name))
			return true;
	return false;
}

/* Up to the structure's closing brace. */
static void parse_fields(struct tsdl *tsdl, struct layout_fields *fields, unsigned depth)
{
	if (depth > DEPTH_MAX)
		tsdl->failed = true;
	while (!tsdl->failed && !tsdl_take(tsdl, "}")) {
		struct layout_field field = { 0 };
		if (!vec_push(fields, field) || fields->count > FIELDS_MAX) {
			tsdl->failed = true;
			return;
		}
		fields->count--; /* while it isn't whole; a failure frees it below */
		parse_type(tsdl, &field, depth);
		_cleanup_free_ char *name = tsdl_name(tsdl, NAME_MAX_BYTES);
		/* metadata.c writes an underscore before each name, and readers remove it */
		if (name && (name[0] != '_' || !name[1] || is_taken(fields, name + 1)))
			tsdl->failed = true;
		field.name = strdup(name && *name ? name + 1 : "");
		tsdl->failed |= !field.name;
		if (!tsdl->failed && tsdl_take(tsdl, "["))
			parse_array(tsdl, fields, &field);
		tsdl_expect(tsdl, ";");
		field.role = field.name ? role_of(&field) : LAYOUT_PLAIN;
		fields->items[fields->count++] = field;
	}
}

/* ---- events --------------------------------------------------------------------------------- */

static void parse_event(struct tsdl *tsdl, struct trace_layout *layout)
{
	struct layout_event *event = calloc(1, sizeof(*event));

	if (!event) {
		tsdl->failed = true;
		return;
	}
	tsdl_expect(tsdl, "{ name =");
	event->name = tsdl_string(tsdl);
	tsdl_expect(tsdl, "; id =");
	event->id = (uint32_t)tsdl_unsigned(tsdl, DT_EVENTS_MAX - 1);
	tsdl_expect(tsdl, "; stream_id = 0; fields := struct {");
	/* In the table at once: trace_layout_free finds it there. */
	while (layout->events.count <= event->id && !tsdl->failed)
		tsdl->failed |= !vec_push(&layout->events, NULL);
	if (tsdl->failed || layout->events.items[event->id]) {
		free(event->name);
		free(event);
		tsdl->failed = true;
		return;
	}
	layout->events.items[event->id] = event;
	parse_fields(tsdl, &event->fields, 0);
	tsdl_expect(tsdl, "; } ;");
	tsdl->failed |= !tsdl->failed && !trace_layout_settle(event);
}

/* fates_ID = "missed 1, unwound 2, inside 3, exits 4" */
static void parse_fates(const char *text, struct layout_fates *fates)
{
	struct layout_fates known = { 0 };
	int end = 0;

	sscanf(text, "missed %" SCNu64 ", unwound %" SCNu64 ", inside %" SCNu64 ", exits %" SCNu64 "%n",
	       &known.missed, &known.unwound, &known.inside, &known.exits, &end);
	if (end && !text[end])
		*fates = known;
}

/* demoted_ID = "counted 1, off_ns 2" */
static void parse_demoted(const char *text, struct layout_demoted *demoted)
{
	struct layout_demoted known = { 0 };
	int end = 0;

	sscanf(text, "counted %" SCNu64 ", off_ns %" SCNu64 "%n", &known.counted, &known.off_ns,
	       &end);
	if (end && !text[end])
		*demoted = known;
}

/* The event whose id stands behind the prefix; NULL: no such variable, or no such event. */
static struct layout_event *find_named(const struct trace_layout *layout,
				       const struct layout_variable *variable, const char *prefix)
{
	size_t length = strlen(prefix);
	uint32_t id;
	int end = 0;

	if (!variable->text || strncmp(variable->name, prefix, length) != 0 ||
	    sscanf(variable->name + length, "%" SCNu32 "%n", &id, &end) != 1 ||
	    variable->name[length + (size_t)end] || id >= layout->events.count)
		return NULL;
	return layout->events.items[id];
}

/* Finds what the recorder says about its events. */
static void find_facts(struct trace_layout *layout)
{
	for (size_t i = 0; i < layout->environment.count; i++) {
		const struct layout_variable *variable = &layout->environment.items[i];
		struct layout_event *event = find_named(layout, variable, "fates_");

		if (event)
			parse_fates(variable->text, &event->fates);
		event = find_named(layout, variable, "demoted_");
		if (event)
			parse_demoted(variable->text, &event->demoted);
	}
}

struct error *trace_layout_parse(const char *text, size_t length, struct trace_layout *ret_layout)
{
	struct tsdl tsdl = tsdl_begin(text, length);
	struct trace_layout layout = { 0 };

	tsdl_expect(&tsdl, before_uuid);
	parse_uuid(&tsdl, layout.uuid);
	tsdl_expect(&tsdl, before_environment);
	parse_environment(&tsdl, &layout);
	parse_clock(&tsdl, &layout);
	tsdl_expect(&tsdl, before_events);
	while (tsdl_take(&tsdl, "event"))
		parse_event(&tsdl, &layout);
	if (!tsdl.failed && !tsdl_next(&tsdl) && !tsdl.failed) {
		find_facts(&layout);
		*ret_layout = layout;
		return NULL;
	}
	trace_layout_free(&layout);
	return error_new(ERROR_FAILED, "the metadata is not dyntrace's own, from byte %zu on",
			 (size_t)(tsdl.at - text));
}
