#include "tracepoint_message.h"

#include <assert.h>
#include <stdio.h>

#include "shared/program.h"

/* ---- as the user sees it -------------------------------------------------------------------- */

/* "int32_t size", "string path", "uint8_t buffer[16]" */
static void describe_field(const struct event_field *field, char *ret_text, size_t size)
{
	char type[32], count[16] = "";

	if (field->type == FIELD_STRING)
		snprintf(type, sizeof(type), "string");
	else if (field->type == FIELD_FRAMES)
		snprintf(type, sizeof(type), "backtrace");
	else if (field->type == FIELD_STRUCT)
		snprintf(type, sizeof(type), "struct");
	else if (field->type == FIELD_LIST)
		snprintf(type, sizeof(type), "list");
	else if (field->type == FIELD_FLOAT)
		snprintf(type, sizeof(type), field->size == 4 ? "float" : "double");
	else if (field->type == FIELD_ENUM)
		snprintf(type, sizeof(type),
			 event_field_is_character(field) ? "char" : "enum");
	else
		snprintf(type, sizeof(type), "%sint%d_t", field->type == FIELD_INT ? "" : "u",
			 field->size * 8);
	if (field->count)
		snprintf(count, sizeof(count), "[%u]", field->count);
	snprintf(ret_text, size, "%s %s%s", type, field->name, count);
}

static void add_fields(struct wire_out *out, const struct tracepoint_info *info)
{
	size_t depth = 0;

	for (size_t i = 0; i < info->field_count; i++) {
		const struct event_field *field = &info->fields[i];
		char text[160];

		assert(depth || field->type != FIELD_END);
		depth -= field->type == FIELD_END;
		if (!depth && field->type != FIELD_END) {
			describe_field(field, text, sizeof(text));
			wire_text(out, WIRE_FIELD, text);
		}
		depth += event_field_opens(field);
	}
}

static void add_times(struct wire_out *out, const struct tracepoint_times *times)
{
	if (!times->calls)
		return;
	wire_number(out, WIRE_CALLS, times->calls);
	wire_number(out, WIRE_TOTAL, times->total);
	wire_number(out, WIRE_DURATIONS, times->durations);
	if (times->self_known)
		wire_number(out, WIRE_SELF, times->self);
	wire_number(out, WIRE_P50, times->p50);
	wire_number(out, WIRE_P90, times->p90);
	wire_number(out, WIRE_P99, times->p99);
	wire_number(out, WIRE_LONGEST, times->max);
}

static uint64_t shape_of(enum tracepoint_kind kind)
{
	return kind == TRACEPOINT_BARE	? WIRE_BARE :
	       kind == TRACEPOINT_ENTRY ? WIRE_ENTRY :
					  WIRE_FUNCTION;
}

void tracepoint_message_buckets(struct wire_out *out, const struct distribution *values)
{
	uint64_t count;
	int64_t value;

	for (uint32_t at = 0; distribution_next(values, &at, &value, &count);) {
		wire_number(out, WIRE_BUCKET, (uint64_t)value);
		wire_number(out, WIRE_BUCKET_COUNT, count);
	}
}

void tracepoint_message_write(struct wire_out *out, uint32_t sequence,
			      const struct tracepoint_info *info,
			      const struct distribution *durations)
{
	wire_begin(out, WIRE_ITEM, sequence);
	wire_text(out, WIRE_NAME, info->name);
	wire_text(out, WIRE_LOCATION, info->location);
	wire_number(out, WIRE_SHAPE, shape_of(info->kind));
	wire_text(out, WIRE_TRACER, info->tracer ? info->tracer : "ctf");
	wire_text(out, WIRE_ARGUMENT, info->tracer_argument);
	wire_number(out, WIRE_DISABLED, !info->enabled);
	wire_text(out, WIRE_STATE, info->refusal);
	wire_number(out, WIRE_ADDRESS, info->address.v);
	wire_text(out, WIRE_MODULE, info->module);
	if (info->copy_at.v)
		wire_number(out, WIRE_COPY, info->copy_at.v);
	wire_text(out, WIRE_HOW, info->how);
	wire_number(out, WIRE_HITS, info->hits);
	wire_number(out, WIRE_LOST, info->lost);
	wire_number(out, WIRE_COST, info->cost_ns);
	if (info->cost_measured)
		wire_number(out, WIRE_COST_MEASURED, 1);
	if (info->reader_ns)
		wire_number(out, WIRE_READER_NS, info->reader_ns);
	if (info->steps) {
		wire_number(out, WIRE_LEVEL, info->level);
		wire_number(out, WIRE_COUNTED, info->counted);
		wire_number(out, WIRE_OFF_NS, info->off_ns);
		wire_number(out, WIRE_UNSEEN, info->unseen);
	}
	wire_number(out, WIRE_EXITS_LOST, info->exits_lost);
	wire_number(out, WIRE_NESTED, info->nested);
	wire_text(out, WIRE_FAULT, info->fault);
	wire_number(out, WIRE_BYTES, info->code_bytes);
	wire_number(out, WIRE_HIT_RATE, (uint64_t)(info->rate + 0.5));
	add_times(out, &info->times);
	wire_text(out, WIRE_FILTER, info->filter);
	wire_text(out, WIRE_BY, info->by);
	wire_text(out, WIRE_OF, info->of);
	for (size_t i = 0; i < info->context_count; i++)
		wire_text(out, WIRE_CONTEXT_TYPE, info->contexts[i]);
	add_fields(out, info);
	if (durations)
		tracepoint_message_buckets(out, durations);
	wire_end(out);
}

/* ---- the user's wish ------------------------------------------------------------------------ */

static size_t collect(const struct wire_message *message, enum wire_tag tag, const char **ret_texts,
		      size_t room)
{
	struct wire_value value;
	size_t count = 0;

	for (size_t at = 0; count < room && wire_next(message, &at, &value);) {
		if (value.tag == tag)
			ret_texts[count++] = value.text;
	}
	return count;
}

struct error *tracepoint_message_read(const struct wire_message *message,
				      struct tracepoint_message *ret_wish)
{
	static const enum tracepoint_kind kinds[] = { [WIRE_BARE] = TRACEPOINT_BARE,
						      [WIRE_ENTRY] = TRACEPOINT_ENTRY,
						      [WIRE_FUNCTION] = TRACEPOINT_FUNCTION };
	uint64_t shape = wire_get_number(message, WIRE_SHAPE, WIRE_BARE);
	struct tracepoint_spec *spec = &ret_wish->spec;

	*spec = (struct tracepoint_spec){
		.location = wire_get_text(message, WIRE_LOCATION),
		.name = wire_get_text(message, WIRE_NAME),
		.filter = wire_get_text(message, WIRE_FILTER),
		.contexts = ret_wish->contexts,
		.every = wire_get_number(message, WIRE_EVERY, 0),
		.first = wire_get_number(message, WIRE_FIRST, 0),
		.rate = wire_get_number(message, WIRE_RATE, 0),
		.string_max = (uint32_t)wire_get_number(message, WIRE_STRING_MAX, 0),
		.floats = (uint8_t)wire_get_number(message, WIRE_FLOATS, 0),
		.sync = wire_get_number(message, WIRE_SYNC, 0),
		.deref = (uint32_t)wire_get_number(message, WIRE_DEREF, 0),
		.prototypes = wire_get_text(message, WIRE_PROTOTYPES),
		.tracer = wire_get_text(message, WIRE_TRACER),
		.tracer_argument = wire_get_text(message, WIRE_ARGUMENT),
		.disabled = wire_get_number(message, WIRE_DISABLED, 0),
		.wait = wire_get_number(message, WIRE_WAIT, 0),
		.by = wire_get_text(message, WIRE_BY),
		.of = wire_get_text(message, WIRE_OF),
		.keys = (uint32_t)wire_get_number(message, WIRE_KEYS, 0),
		.most = wire_get_number(message, WIRE_TRACEPOINT_COUNT, 0),
	};
	if (spec->floats != 0 && spec->floats != sizeof(float) && spec->floats != sizeof(double))
		return error_new(ERROR_USAGE, "--floats: 4 or 8 bytes");
	if (spec->deref > DT_LISTS_MAX)
		return error_new(ERROR_USAGE, "--deref: from 0 to %u", DT_LISTS_MAX);
	if (!spec->location || shape > WIRE_FUNCTION)
		return error_new(ERROR_USAGE, "the location is missing, or the shape is unknown");
	spec->kind = kinds[shape];
	spec->context_count =
		collect(message, WIRE_CONTEXT_TYPE, ret_wish->contexts, WIRE_CONTEXTS_MAX);
	return NULL;
}
