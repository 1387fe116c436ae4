#include "metadata.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

/* Appends a string literal. Writes bytes that aren't printable ASCII as octal, which every reader
 * accepts. */
static void metadata_quote(struct strbuf *buf, const char *text)
{
	strbuf_add(buf, "\"", 1);
	for (const unsigned char *at = (const unsigned char *)text; *at; at++) {
		if (*at == '"' || *at == '\\')
			strbuf_printf(buf, "\\%c", *at);
		else if (*at >= 0x20 && *at < 0x7f)
			strbuf_add(buf, (const char *)at, 1);
		else
			strbuf_printf(buf, "\\%03o", *at);
	}
	strbuf_add(buf, "\"", 1);
}

void metadata_uuid(struct strbuf *buf, const uint8_t uuid[16])
{
	strbuf_printf(buf, "\"");
	for (int i = 0; i < 16; i++)
		strbuf_printf(buf, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
			      uuid[i]);
	strbuf_printf(buf, "\"");
}

static void metadata_trace(struct strbuf *buf, const uint8_t uuid[16])
{
	static const struct {
		unsigned bits;
		const char *name;
	} integers[] = { { 8, "8" }, { 16, "16" }, { 32, "32" }, { 64, "64" } };

	strbuf_printf(buf, "/* CTF 1.8 */\n\n");
	for (size_t i = 0; i < sizeof(integers) / sizeof(*integers); i++) {
		unsigned bits = integers[i].bits;
		const char *name = integers[i].name;

		strbuf_printf(
			buf,
			"typealias integer { size = %u; align = %u; signed = false; } := u%s;\n"
			"typealias integer { size = %u; align = %u; signed = true; } := s%s;\n"
			"typealias integer { size = %u; align = %u; signed = false; base = 16; } "
			":= x%s;\n",
			bits, bits, name, bits, bits, name, bits, bits, name);
	}
	for (unsigned bits = 32; bits <= 64; bits += 32)
		strbuf_printf(
			buf,
			"typealias floating_point { exp_dig = %u; mant_dig = %u; align = %u; } := "
			"float%u;\n",
			bits == 32 ? 8 : 11, bits == 32 ? 24 : 53, bits, bits);
	strbuf_printf(buf, "\ntrace {\n\tmajor = 1;\n\tminor = 8;\n\tuuid = ");
	metadata_uuid(buf, uuid);
	strbuf_printf(buf, ";\n\tbyte_order = le;\n"
			   "\tpacket.header := struct {\n"
			   "\t\tu32 magic;\n"
			   "\t\tu8 uuid[16];\n"
			   "\t\tu32 stream_id;\n"
			   "\t};\n};\n\n");
}

static void metadata_string(struct strbuf *buf, const char *key, const char *value)
{
	strbuf_printf(buf, "\t%s = ", key);
	metadata_quote(buf, value ? value : "");
	strbuf_printf(buf, ";\n");
}

/* Names the functions of which calls have no exit event though they may be over. */
static void metadata_fates(struct strbuf *buf, const struct event_types *types)
{
	for (size_t i = 0; i + 1 < types->count; i++) {
		const struct event_type *type = &types->items[i];
		const struct event_fates *fates = &type->fates;

		if (type->size && type->name && fates->missed)
			strbuf_printf(buf,
				      "\tfates_%" PRIu32 " = \"missed %" PRIu64
				      ", unwound %" PRIu64 ", inside %" PRIu64 ", exits %" PRIu64
				      "\";\n",
				      type->id, fates->missed, fates->unwound, fates->inside,
				      types->items[i + 1].hits);
	}
}

/* Names the tracepoints that were demoted. */
static void metadata_demoted(struct strbuf *buf, const struct event_types *types)
{
	for (size_t i = 0; i < types->count; i++) {
		const struct event_type *type = &types->items[i];

		if (type->size && type->name && (type->demoted.hits || type->demoted.off_ns))
			strbuf_printf(buf,
				      "\tdemoted_%" PRIu32 " = \"counted %" PRIu64
				      ", off_ns %" PRIu64 "\";\n",
				      type->id, type->demoted.hits, type->demoted.off_ns);
	}
}

static void metadata_environment(struct strbuf *buf, const struct trace_info *info, bool is_mixed,
				 const struct event_types *types)
{
	unsigned version[3] = { 0 };

	strbuf_printf(buf, "env {\n");
	metadata_string(buf, "hostname", info->hostname);
	if (info->boot_id[0]) {
		metadata_string(buf, "boot_id", info->boot_id);
		strbuf_printf(buf, "\tmonotonic_offset = %" PRId64 ";\n", info->monotonic_offset);
	}
	metadata_string(buf, "domain", "ust");
	metadata_string(buf, "tracer_name", "dyntrace");
	if (info->version)
		sscanf(info->version, "%u.%u.%u", &version[0], &version[1], &version[2]);
	strbuf_printf(buf,
		      "\ttracer_major = %u;\n\ttracer_minor = %u;\n\ttracer_patchlevel = %u;\n",
		      version[0], version[1], version[2]);
	if (!is_mixed) {
		metadata_string(buf, "procname", info->process);
		strbuf_printf(buf, "\tpid = %" PRId64 ";\n\tvpid = %" PRId64 ";\n", info->pid,
			      info->inner_pid ? info->inner_pid : info->pid);
	}
	metadata_string(buf, "executable", info->executable);
	metadata_string(buf, "command_line", info->command_line);
	for (size_t i = 0; i < info->module_count; i++) {
		char name[32];

		snprintf(name, sizeof(name), "module_%zu", i);
		metadata_string(buf, name, info->modules[i]);
	}
	metadata_fates(buf, types);
	metadata_demoted(buf, types);
	strbuf_printf(buf, "};\n\n");
}

static void metadata_clock(struct strbuf *buf, const struct clock_estimate *clock,
			   const uint8_t uuid[16])
{
	strbuf_printf(buf, "clock {\n\tname = \"tsc\";\n\tuuid = ");
	metadata_uuid(buf, uuid);
	strbuf_printf(
		buf,
		";\n\tdescription = \"CPU time stamp counter, placed on the wall clock\";\n"
		"\tfreq = %" PRIu64 ";\n\toffset_s = %" PRId64 ";\n\toffset = %" PRIu64 ";\n"
		"\tabsolute = TRUE;\n};\n\n"
		"typealias integer { size = 40; align = 1; signed = false; "
		"map = clock.tsc.value; } := clock40;\n"
		"typealias integer { size = 64; align = 64; signed = false; "
		"map = clock.tsc.value; } := clock64;\n\n",
		clock->frequency, clock->offset_s, clock->offset);
}

/* The event header is one 64-bit word: id below, clock above (src/shared/layout.h). */
static void metadata_stream(struct strbuf *buf)
{
	strbuf_printf(buf, "stream {\n\tid = 0;\n"
			   "\tpacket.context := struct {\n"
			   "\t\tclock64 timestamp_begin;\n"
			   "\t\tclock64 timestamp_end;\n"
			   "\t\tu64 content_size;\n"
			   "\t\tu64 packet_size;\n"
			   "\t\tu64 events_discarded;\n"
			   "\t\tu64 packet_seq_num;\n"
			   "\t\tu32 tid;\n"
			   "\t\tu32 pid;\n"
			   "\t\tu32 vtid;\n"
			   "\t\tu32 vpid;\n"
			   "\t\tinteger { size = 8; align = 8; signed = false; "
			   "encoding = UTF8; } procname[16];\n"
			   "\t};\n"
			   "\tevent.header := struct {\n"
			   "\t\tinteger { size = 24; align = 1; signed = false; } id;\n"
			   "\t\tclock40 timestamp;\n"
			   "\t} align(64);\n};\n\n");
}

/* Appends a field's name after an underscore: readers remove it, so no name is a reserved word. */
static void metadata_field_name(struct strbuf *buf, const struct event_type *type, size_t index)
{
	char name[EVENT_NAME_MAX];

	event_field_name(type->fields, index, name);
	strbuf_printf(buf, "_%s", name);
}

/* Appends the part of the type that stands before the name. */
static void metadata_field_type(struct strbuf *buf, const struct event_field *field)
{
	static const char prefix[] = { [FIELD_UINT] = 'u', [FIELD_INT] = 's', [FIELD_HEX] = 'x' };
	unsigned bits = field->size * 8u;

	switch (field->type) {
	case FIELD_FLOAT:
		strbuf_printf(buf, "float%u ", bits);
		break;
	case FIELD_STRING:
		strbuf_printf(buf, "string ");
		break;
	case FIELD_ENUM:
		strbuf_printf(buf, "enum : %c%u { ", field->is_signed ? 's' : 'u', bits);
		for (size_t i = 0; i < field->label_count; i++) {
			metadata_quote(buf, field->labels[i].name);
			if (field->is_signed)
				strbuf_printf(buf, " = %" PRId64 ", ", field->labels[i].value);
			else
				strbuf_printf(buf, " = %" PRIu64 ", ",
					      (uint64_t)field->labels[i].value);
		}
		strbuf_printf(buf, "} ");
		break;
	case FIELD_STRUCT:
		strbuf_printf(buf, "struct {\n");
		break;
	case FIELD_END:
		strbuf_printf(buf, "} ");
		break;
	case FIELD_FRAMES:
		strbuf_printf(buf, "x64 ");
		break;
	default:
		strbuf_printf(buf, "%c%u ", prefix[field->type], bits);
	}
}

/* Appends the array of the list that ends at `end`, after the type of its elements. */
static void metadata_list_name(struct strbuf *buf, const struct event_type *type, size_t end)
{
	metadata_field_name(buf, type, end);
	strbuf_printf(buf, "[");
	metadata_field_name(buf, type, end);
	strbuf_printf(buf, "__length];\n");
}

/* The end of the list whose only element ends at `index`; 0: none. */
static size_t list_of_element(const struct event_type *type, size_t index)
{
	size_t end = index + 1;

	if (end >= type->field_count || type->fields[end].type != FIELD_END)
		return 0;
	return type->fields[event_field_find_begin(type->fields, end)].type == FIELD_LIST ? end : 0;
}

/* Appends a field of the events, which may be (part of) a list. False: it is neither. */
static bool metadata_list(struct strbuf *buf, const struct event_type *type, size_t index)
{
	const struct event_field *field = &type->fields[index];
	size_t list = list_of_element(type, index);

	if (field->type == FIELD_LIST) {
		strbuf_printf(buf, "\t\tu32 ");
		metadata_field_name(buf, type,
				    event_field_find_end(type->fields, type->field_count, index));
		strbuf_printf(buf, "__length;\n");
		return true;
	}
	if (field->type == FIELD_END &&
	    type->fields[event_field_find_begin(type->fields, index)].type == FIELD_LIST)
		return true;
	if (!list || event_field_opens(field))
		return false;
	strbuf_printf(buf, "\t\t");
	metadata_field_type(buf, field);
	metadata_list_name(buf, type, list);
	return true;
}

/* Appends a field, and before it a field for bytes from `at` on that natural alignment doesn't
 * account for. */
static void metadata_field(struct strbuf *buf, const struct event_type *type, size_t index,
			   uint32_t at, unsigned *gaps)
{
	const struct event_field *field = &type->fields[index];
	uint32_t align = field->size ? field->size : 1;

	assert(!field->offset || field->offset >= at);
	if ((at + align - 1) / align * align < field->offset)
		strbuf_printf(buf, "\t\tu8 __unused_%u[%u];\n", (*gaps)++, field->offset - at);
	strbuf_printf(buf, "\t\t");
	if (field->type == FIELD_FRAMES) {
		strbuf_printf(buf, "u32 ");
		metadata_field_name(buf, type, index);
		strbuf_printf(buf, "__length;\n\t\t");
	}
	metadata_field_type(buf, field);
	if (field->type == FIELD_STRUCT)
		return;
	metadata_field_name(buf, type, index);
	if (field->type == FIELD_FRAMES) {
		strbuf_printf(buf, "[");
		metadata_field_name(buf, type, index);
		strbuf_printf(buf, "__length]");
	} else if (field->count) {
		strbuf_printf(buf, "[%u]", field->count);
	}
	strbuf_add(buf, ";\n", 2);
}

void metadata_event(struct strbuf *buf, const struct event_type *type)
{
	uint32_t at = sizeof(uint64_t);
	unsigned gaps = 0;

	assert(!type->field_count || type->fields);
	strbuf_printf(buf, "event {\n\tname = ");
	metadata_quote(buf, type->name ? type->name : "");
	strbuf_printf(buf, ";\n\tid = %" PRIu32 ";\n\tstream_id = 0;", type->id);
	if (type->address)
		strbuf_printf(buf, " /* at 0x%" PRIx64 " */", type->address);
	strbuf_printf(buf, "\n\tfields := struct {\n");
	for (size_t i = 0; i < type->field_count; i++) {
		if (!metadata_list(buf, type, i))
			metadata_field(buf, type, i, at, &gaps);
		if (type->fields[i].offset)
			at = (uint32_t)event_field_end(&type->fields[i]);
	}
	strbuf_printf(buf, "\t};\n};\n\n");
}

void metadata_write(struct strbuf *buf, const struct trace_info *info, bool is_mixed,
		    const struct event_types *types, const struct clock_estimate *clock,
		    const uint8_t uuid[16])
{
	metadata_trace(buf, uuid);
	metadata_environment(buf, info, is_mixed, types);
	metadata_clock(buf, clock, uuid);
	metadata_stream(buf);
	for (size_t i = 0; i < types->count; i++) {
		if (types->items[i].size && types->items[i].name)
			metadata_event(buf, &types->items[i]);
	}
}
