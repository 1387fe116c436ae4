/*
 * ust_event.c - events that are described at run time: their description for liblttng-ust, and the
 * recording of a hit.
 *
 * On x86 LTTng's events are packed. The payload is laid out on the stack and written by one call,
 * which is cheaper than one call per field. And a string can't change between being measured and
 * being copied.
 */
#include "ust.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <lttng/ust-ringbuffer-context.h>

#define PAYLOAD_MAX (3072u + 16u * DT_BRIDGE_FIELDS_MAX)
#define STACK_MAX (2 * DT_BRIDGE_FIELDS_MAX * sizeof(uint64_t))
#define LENGTH_NAME "_%s_length"

/* ---- description ----------------------------------------------------------------------------- */

static const struct lttng_ust_type_common *integer_type(unsigned bytes, bool is_signed,
							unsigned base)
{
	struct lttng_ust_type_integer *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	type->parent.type = lttng_ust_type_integer;
	type->struct_size = sizeof(*type);
	type->size = bytes * 8;
	type->alignment = 8;
	type->signedness = is_signed;
	type->base = base;
	return &type->parent;
}

static const struct lttng_ust_type_common *float_type(unsigned bytes)
{
	struct lttng_ust_type_float *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	type->parent.type = lttng_ust_type_float;
	type->struct_size = sizeof(*type);
	type->exp_dig = bytes == 4 ? 8 : 11;
	type->mant_dig = bytes == 4 ? 24 : 53;
	type->alignment = 8;
	return &type->parent;
}

static const struct lttng_ust_type_common *string_type(void)
{
	struct lttng_ust_type_string *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	type->parent.type = lttng_ust_type_string;
	type->struct_size = sizeof(*type);
	type->encoding = lttng_ust_string_encoding_UTF8;
	return &type->parent;
}

static const struct lttng_ust_type_common *array_type(const struct lttng_ust_type_common *element,
						      unsigned length)
{
	struct lttng_ust_type_array *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	type->parent.type = lttng_ust_type_array;
	type->struct_size = sizeof(*type);
	type->elem_type = element;
	type->length = length;
	return &type->parent;
}

static const struct lttng_ust_type_common *
sequence_type(const struct lttng_ust_type_common *element)
{
	struct lttng_ust_type_sequence *type = calloc(1, sizeof(*type));

	if (!type)
		return NULL;
	type->parent.type = lttng_ust_type_sequence;
	type->struct_size = sizeof(*type);
	type->elem_type = element;
	return &type->parent;
}

static const struct lttng_ust_type_common *number_type(const struct dt_bridge_field *from)
{
	if (from->type == DT_BRIDGE_FLOAT)
		return float_type(from->size);
	return integer_type(from->size, from->type == DT_BRIDGE_INT,
			    from->type == DT_BRIDGE_HEX || from->type == DT_BRIDGE_ADDRESS ? 16 :
											     10);
}

static const struct lttng_ust_enum_entry **make_entries(const struct dt_bridge_field *from,
							const struct dt_bridge_label *labels)
{
	const struct lttng_ust_enum_entry **entries = calloc(from->label_count, sizeof(*entries));
	struct lttng_ust_enum_entry *memory = calloc(from->label_count, sizeof(*memory));

	for (uint32_t i = 0; entries && memory && i < from->label_count; i++) {
		struct lttng_ust_enum_value value = { (unsigned long long)labels[i].value,
						      from->type == DT_BRIDGE_INT };

		memory[i] = (struct lttng_ust_enum_entry){ .struct_size = sizeof(memory[i]),
							   .start = value,
							   .end = value,
							   .string = strdup(labels[i].name) };
		entries[i] = &memory[i];
	}
	return memory ? entries : NULL;
}

/* The caller sets the probe of *ret_desc. */
static const struct lttng_ust_type_common *enum_type(const struct dt_bridge_field *from,
						     const struct dt_bridge_label *labels,
						     struct lttng_ust_enum_desc **ret_desc)
{
	struct lttng_ust_type_enum *type = calloc(1, sizeof(*type));
	struct lttng_ust_enum_desc *desc = calloc(1, sizeof(*desc));
	const struct lttng_ust_enum_entry **entries = make_entries(from, labels);

	if (!type || !desc || !entries)
		return NULL;
	*desc = (struct lttng_ust_enum_desc){ .struct_size = sizeof(*desc),
					      .name = strdup(from->name),
					      .entries = entries,
					      .nr_entries = from->label_count };
	type->parent.type = lttng_ust_type_enum;
	type->struct_size = sizeof(*type);
	type->desc = desc;
	type->container_type = number_type(from);
	*ret_desc = desc;
	return type->container_type ? &type->parent : NULL;
}

static const struct lttng_ust_type_common *field_type(const struct dt_bridge_field *from)
{
	if (from->type == DT_BRIDGE_STRING || from->type == DT_BRIDGE_LIST)
		return string_type();
	if (from->type == DT_BRIDGE_SEQUENCE)
		return sequence_type(integer_type(from->size, from->element == DT_BRIDGE_INT,
						  from->element == DT_BRIDGE_HEX ? 16 : 10));
	const struct lttng_ust_type_common *type = number_type(from);
	return type && from->count ? array_type(type, from->count) : type;
}

static const struct lttng_ust_event_field *make_field(const char *name, bool nofilter, bool nowrite,
						      const struct lttng_ust_type_common *type)
{
	struct lttng_ust_event_field *field = calloc(1, sizeof(*field));

	if (!field || !type)
		return NULL;
	field->struct_size = sizeof(*field);
	field->name = strdup(name);
	field->type = type;
	field->nofilter = nofilter;
	field->nowrite = nowrite;
	return field->name ? field : NULL;
}

/* A sequence is two fields: its length comes first. */
static bool add_field(const struct lttng_ust_event_field **fields, size_t *count,
		      struct event *event, const struct dt_bridge_field *from,
		      const struct dt_bridge_label *labels)
{
	struct lttng_ust_enum_desc *desc = NULL;
	char length[DT_BRIDGE_FIELD_NAME + 16];
	const struct lttng_ust_event_field *field;

	if (from->type == DT_BRIDGE_SEQUENCE) {
		snprintf(length, sizeof(length), LENGTH_NAME, from->name);
		field = make_field(length, true, from->nowrite, integer_type(4, false, 10));
		if (!field)
			return false;
		fields[(*count)++] = field;
	}
	field = make_field(from->name, false, from->nowrite,
			   from->label_count ? enum_type(from, labels + from->label_first, &desc) :
					       field_type(from));
	if (!field)
		return false;
	if (desc)
		event->enums[event->enum_count++] = desc;
	fields[(*count)++] = field;
	return true;
}

static bool is_sane(const struct dt_bridge_event *from)
{
	int depth = 0; /* of lists */

	if (from->field_count > DT_BRIDGE_FIELDS_MAX ||
	    !memchr(from->name, 0, sizeof(from->name)) ||
	    !memchr(from->provider, 0, sizeof(from->provider)))
		return false;
	for (uint32_t i = 0; i < from->field_count; i++) {
		const struct dt_bridge_field *field = &from->fields[i];

		depth += (field->type == DT_BRIDGE_LIST) - (field->type == DT_BRIDGE_LIST_END);
		if ((field->is_inside ? depth < 0 : depth != (field->type == DT_BRIDGE_LIST)) ||
		    !memchr(field->name, 0, sizeof(field->name)) || !field->size ||
		    field->size > 8 || !field->align ||
		    field->label_first + field->label_count > from->label_count)
			return false;
	}
	return !depth && from->label_count <= DT_BRIDGE_LABELS_MAX;
}

/* The payload's length if the image begins with it: the address, then numbers without gaps. Else
 * 0. */
static uint32_t measure_packed(const struct event *event)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < event->part_count; i++) {
		const struct part *part = &event->parts[i];
		bool is_number = part->type <= DT_BRIDGE_FLOAT || part->type == DT_BRIDGE_ADDRESS;
		uint32_t at = part->type == DT_BRIDGE_ADDRESS ? 0 : part->offset;

		if (!is_number || part->nowrite || at != end || (i > 0 && !at))
			return 0;
		end += (uint32_t)part->size * part->count;
	}
	return end;
}

/* Memory for the text of a list; it outlives the description. */
static bool describe_inside(struct part *part, const struct dt_bridge_field *from,
			    const struct dt_bridge_label *labels)
{
	struct dt_bridge_label *copies = calloc(from->label_count + 1u, sizeof(*copies));

	part->is_inside = true;
	part->name = strdup(from->name);
	part->labels = copies;
	part->label_count = from->label_count;
	if (copies)
		memcpy(copies, labels + from->label_first, from->label_count * sizeof(*copies));
	return part->name && copies;
}

static bool describe_fields(struct event *event, const struct dt_bridge_event *from)
{
	const struct lttng_ust_event_field **fields =
		calloc(2 * from->field_count + 1, sizeof(*fields));
	const struct dt_bridge_label *labels =
		(const struct dt_bridge_label *)&from->fields[from->field_count];
	size_t count = 0;

	if (!fields)
		return false;
	for (uint32_t i = 0; i < from->field_count; i++) {
		const struct dt_bridge_field *field = &from->fields[i];

		if (!field->is_inside && !add_field(fields, &count, event, field, labels))
			return false;
		event->parts[i] = (struct part){ .type = field->type,
						 .size = field->size,
						 .count = field->count ? field->count : 1,
						 .offset = field->offset,
						 .align = field->align,
						 .nowrite = field->nowrite };
		event->has_lists |= field->type == DT_BRIDGE_LIST;
		if (field->is_inside && !describe_inside(&event->parts[i], field, labels))
			return false;
	}
	event->part_count = from->field_count;
	event->packed = measure_packed(event);
	event->class.fields = fields;
	event->class.nr_fields = count;
	return true;
}

/* Never reset: the library stays when dyntrace comes again. */
static uint32_t created;

/* A failure leaks little, and only when memory has run out anyway. */
struct event *event_create(const struct dt_bridge_event *from, size_t *ret_size)
{
	struct event *event = is_sane(from) ? calloc(1, sizeof(*event)) : NULL;

	if (!event || !describe_fields(event, from))
		return NULL;
	event->start = from->start;
	strcpy(event->provider, from->provider);
	strcpy(event->name, from->name);
	/* The session daemon refuses an event that was there before, unless something differs. */
	created++;
	snprintf(event->uri, sizeof(event->uri), "dyntrace:%u", created);
	snprintf(event->signature, sizeof(event->signature), "dyntrace %u", created);
	event->uri_at = event->uri;
	event->tracepoint = (struct lttng_ust_tracepoint){ .struct_size = sizeof(event->tracepoint),
							   .provider_name = event->provider,
							   .event_name = event->name,
							   .signature = event->signature };
	event->site = &event->tracepoint;
	event->class.struct_size = sizeof(event->class);
	event->class.probe_callback = (void (*)(void))event_record;
	event->class.signature = event->signature;
	event->desc = (struct lttng_ust_event_desc){ .struct_size = sizeof(event->desc),
						     .event_name = event->name,
						     .tp_class = &event->class,
						     .model_emf_uri = &event->uri_at };
	event->loglevel = from->loglevel;
	event->loglevel_at = &event->loglevel;
	if (from->loglevel >= 0)
		event->desc.loglevel = &event->loglevel_at;
	*ret_size = sizeof(*from) + from->field_count * sizeof(from->fields[0]) +
		    from->label_count * sizeof(struct dt_bridge_label);
	return event;
}

/* ---- a hit ----------------------------------------------------------------------------------- */

struct payload {
	size_t length;
	size_t stack_length;
	uint8_t *bytes;
	size_t room;
	uint64_t stack[STACK_MAX / sizeof(uint64_t)]; /* for filters */
};

static uint64_t widen(const struct part *part, const uint8_t *from)
{
	uint64_t value = 0;
	unsigned spare = 64 - 8u * part->size;

	if (part->type == DT_BRIDGE_FLOAT && part->size == 4) {
		float single;
		double wide;

		memcpy(&single, from, sizeof(single));
		wide = single;
		memcpy(&value, &wide, sizeof(value));
		return value;
	}
	memcpy(&value, from, part->size);
	return part->type == DT_BRIDGE_INT ? (uint64_t)((int64_t)(value << spare) >> spare) : value;
}

/* Copies `length` bytes; gives the place of the copy. Of a part that isn't written, the bytes
 * themselves. */
static const uint8_t *put(struct payload *to, const struct part *part, const void *from,
			  size_t length)
{
	uint8_t *at = to->bytes + to->length;

	if (part->nowrite)
		return from;
	if (length > to->room - to->length)
		length = to->room - to->length;
	if (length == 8) /* a call would cost more than the copy */
		memcpy(at, from, 8);
	else if (length == 4)
		memcpy(at, from, 4);
	else
		memcpy(at, from, length);
	to->length += length;
	return at;
}

static void push(struct payload *to, uint64_t value)
{
	if (to->stack_length < sizeof(to->stack) / sizeof(to->stack[0]))
		to->stack[to->stack_length++] = value;
}

static const uint8_t *put_sequence(struct payload *to, const struct part *part,
				   const uint8_t *image, const uint8_t *from)
{
	size_t size = part->size;
	const uint8_t *words = image + ((size_t)(from - image) + 4 + size - 1) / size * size;
	uint32_t count;

	memcpy(&count, from, sizeof(count));
	put(to, part, &count, sizeof(count));
	push(to, count);
	push(to, (uint64_t)put(to, part, words, count * size));
	return words + count * size;
}

static const uint8_t *put_string(struct payload *to, const struct part *part, const uint8_t *from)
{
	size_t length = strlen((const char *)from) + 1;

	push(to, (uint64_t)put(to, part, from, length));
	return from + length;
}

static const uint8_t *put_numbers(struct payload *to, const struct part *part, const uint8_t *from)
{
	size_t length = (size_t)part->size * part->count;
	const uint8_t *copy = put(to, part, from, length);

	if (part->count > 1) {
		push(to, part->count);
		push(to, (uint64_t)copy);
	} else {
		push(to, widen(part, from));
	}
	return from + length;
}

/* The part's place behind `at`, aligned as in a chunk, not as in memory. */
static const uint8_t *find(const uint8_t *image, const uint8_t *at, const struct part *part)
{
	size_t offset = (size_t)(at - image);

	return part->offset ? image + part->offset :
			      image + (offset + part->align - 1) / part->align * part->align;
}

/* A list becomes text in memory of its own, which a filter may look at. Gives where it ends in the
 * image, and sets the number of its last part. */
static const uint8_t *put_list(struct payload *to, const struct event *event, uint32_t *index,
			       const uint8_t *image, const uint8_t *from, struct list_text *text)
{
	const struct part *part = &event->parts[*index];
	const char *start = text->bytes + text->length;

	from = list_print(event, *index, image, from, text, index);
	put_string(to, part, (const uint8_t *)start);
	return from;
}

/* `text`: for an event with lists; else NULL. */
static void lay_out(const struct event *event, const uint8_t *image, struct payload *to,
		    struct list_text *text)
{
	const uint8_t *at = image + event->start;

	to->length = to->stack_length = 0;
	for (uint32_t i = 0; i < event->part_count; i++) {
		const struct part *part = &event->parts[i];

		if (part->type == DT_BRIDGE_ADDRESS) {
			put_numbers(to, part, image);
			continue;
		}
		at = find(image, at, part);
		if (part->type == DT_BRIDGE_LIST)
			at = put_list(to, event, &i, image, at, text);
		else if (part->type == DT_BRIDGE_SEQUENCE)
			at = put_sequence(to, part, image, at);
		else if (part->type == DT_BRIDGE_STRING)
			at = put_string(to, part, at);
		else
			at = put_numbers(to, part, at);
	}
}

static void write_event(struct lttng_ust_event_recorder *recorder, const uint8_t *bytes,
			size_t length, struct lttng_ust_probe_ctx *probe)
{
	struct lttng_ust_channel_buffer *channel = recorder->chan;
	struct lttng_ust_ring_buffer_ctx context;

	lttng_ust_ring_buffer_ctx_init(&context, recorder, length, 1, probe);
	if (channel->ops->event_reserve(&context) < 0)
		return; /* LTTng counts the loss */
	channel->ops->event_write(&context, bytes, length, 1);
	channel->ops->event_commit(&context);
}

static void notify(struct lttng_ust_event_notifier *notifier, const struct payload *payload,
		   struct lttng_ust_probe_ctx *probe)
{
	struct lttng_ust_notification_ctx context = { .struct_size = sizeof(context),
						      .eval_capture = notifier->eval_capture };

	notifier->notification_send(notifier, (const char *)payload->stack, probe, &context);
}

static bool is_active(const struct lttng_ust_event_common *common)
{
	const struct lttng_ust_event_recorder *recorder;

	if (common->type == LTTNG_UST_EVENT_TYPE_NOTIFIER)
		return common->enabled;
	if (common->type != LTTNG_UST_EVENT_TYPE_RECORDER)
		return false; /* a kind of a later version */
	recorder = common->child;
	return __atomic_load_n(&recorder->chan->parent->session->active, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&recorder->chan->parent->enabled, __ATOMIC_RELAXED) &&
	       common->enabled;
}

/* The payload's memory is in the frame of the caller, which knows how much it takes. */
static void record_payload(struct lttng_ust_event_common *common, const struct event *event,
			   const uint8_t *image, struct list_text *text, uint8_t *bytes,
			   size_t room, struct lttng_ust_probe_ctx *probe)
{
	struct payload payload;

	payload.bytes = bytes;
	payload.room = room;
	lay_out(event, image, &payload, text);
	if (__atomic_load_n(&common->eval_filter, __ATOMIC_RELAXED) &&
	    common->run_filter(common, (const char *)payload.stack, probe, NULL) !=
		    LTTNG_UST_EVENT_FILTER_ACCEPT)
		return;
	if (common->type == LTTNG_UST_EVENT_TYPE_RECORDER)
		write_event(common->child, payload.bytes, payload.length, probe);
	else
		notify(common->child, &payload, probe);
}

/* For filters, notifications, strings, and fields with gaps between them. */
static __attribute__((noinline)) void record_laid_out(struct lttng_ust_event_common *common,
						      const struct event *event,
						      const uint8_t *image,
						      struct lttng_ust_probe_ctx *probe)
{
	uint8_t bytes[PAYLOAD_MAX];

	record_payload(common, event, image, NULL, bytes, sizeof(bytes), probe);
}

/* An event with text of lists: few events need memory for it. */
static __attribute__((noinline)) void record_lists(struct lttng_ust_event_common *common,
						   const struct event *event, const uint8_t *image,
						   struct lttng_ust_probe_ctx *probe)
{
	uint8_t bytes[PAYLOAD_MAX + LIST_TEXT_MAX];
	struct list_text text;

	text.length = 0;
	record_payload(common, event, image, &text, bytes, sizeof(bytes), probe);
}

void event_record(void *data, const struct event *event, const uint8_t *image)
{
	struct lttng_ust_event_common *common = data;
	struct lttng_ust_probe_ctx probe = { .struct_size = sizeof(probe) };
	uint64_t address;

	if (!is_active(common))
		return;
	memcpy(&address, image, sizeof(address));
	probe.ip = (void *)address;
	if (event->packed && common->type == LTTNG_UST_EVENT_TYPE_RECORDER &&
	    !__atomic_load_n(&common->eval_filter, __ATOMIC_RELAXED))
		write_event(common->child, image, event->packed, &probe);
	else if (event->has_lists)
		record_lists(common, event, image, &probe);
	else
		record_laid_out(common, event, image, &probe);
}

void event_fire(const struct event *event, const uint8_t *image)
{
	typedef void (*record_fn)(void *, const struct event *, const uint8_t *);
	const struct lttng_ust_tracepoint_probe *probe;

	ust.read_lock();
	probe = __atomic_load_n(&event->tracepoint.probes, __ATOMIC_ACQUIRE);
	for (; probe && probe->func; probe++)
		((record_fn)probe->func)(probe->data, event, image);
	ust.read_unlock();
}
