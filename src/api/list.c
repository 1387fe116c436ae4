/*
 * list.c - lists of the daemon's items. Each item is a copy of its message, and a structure whose
 * texts lie in that copy.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"

struct item {
	struct record record;
	const char **texts; /* of a tracepoint: its fields, NULL, its contexts, NULL */
	union {
		struct dyntrace_process process;
		struct dyntrace_tracepoint tracepoint;
		struct dyntrace_symbol symbol;
		struct dyntrace_marker marker;
		const char *text;
	};
};

struct dyntrace_list {
	enum wire_kind kind; /* of the request; `kinds` has it */
	VEC(struct item *) items;
};

bool record_copy(const struct wire_message *message, struct record *ret_record)
{
	char *bytes = malloc(message->length + 1);

	if (!bytes)
		return false;
	memcpy(bytes, message->bytes, message->length);
	*ret_record = (struct record){ .bytes = bytes, .message = *message };
	ret_record->message.bytes = bytes;
	return true;
}

static bool fill_process(struct item *item, const struct wire_message *from)
{
	item->process = (struct dyntrace_process){
		.pid = (int)wire_get_number(from, WIRE_PID, 0),
		.uid = (unsigned int)wire_get_number(from, WIRE_UID, 0),
		.name = wire_get_text(from, WIRE_PROGRAM),
		.loaded = wire_get_text(from, WIRE_LOADED),
		.tracepoints = wire_get_number(from, WIRE_TRACEPOINT_COUNT, 0),
		.trace = wire_get_text(from, WIRE_OUTPUT),
	};
	return true;
}

/* Writes all texts of that tag and a NULL to `texts` (NULL: nowhere). Gives the number of both. */
static size_t gather_texts(const struct wire_message *from, enum wire_tag tag, const char **texts)
{
	struct wire_value value;
	size_t count = 0;

	for (size_t at = 0; wire_next(from, &at, &value);) {
		if (value.tag != tag)
			continue;
		if (texts)
			texts[count] = value.text;
		count++;
	}
	if (texts)
		texts[count] = NULL;
	return count + 1;
}

static enum dyntrace_shape shape_of(const struct wire_message *from)
{
	uint64_t shape = wire_get_number(from, WIRE_SHAPE, WIRE_BARE);

	return shape == WIRE_BARE    ? DYNTRACE_BARE
	       : shape == WIRE_ENTRY ? DYNTRACE_ENTRY
				     : DYNTRACE_ENTRY_EXIT;
}

static bool fill_tracepoint(struct item *item, const struct wire_message *from)
{
	size_t fields = gather_texts(from, WIRE_FIELD, NULL),
	       contexts = gather_texts(from, WIRE_CONTEXT_TYPE, NULL);

	item->texts = calloc(fields + contexts, sizeof(*item->texts));
	if (!item->texts)
		return false;
	gather_texts(from, WIRE_FIELD, item->texts);
	gather_texts(from, WIRE_CONTEXT_TYPE, item->texts + fields);
	item->tracepoint = (struct dyntrace_tracepoint){
		.pid = (int)wire_get_number(from, WIRE_PID, 0),
		.name = wire_get_text(from, WIRE_NAME),
		.location = wire_get_text(from, WIRE_LOCATION),
		.tracer = wire_get_text(from, WIRE_TRACER),
		.state = client_tracepoint_state(from),
		.why = wire_get_text(from, WIRE_STATE),
		.placed = wire_get_text(from, WIRE_HOW),
		.module = wire_get_text(from, WIRE_MODULE),
		.filter = wire_get_text(from, WIRE_FILTER),
		.address = wire_get_number(from, WIRE_ADDRESS, 0),
		.hits = wire_get_number(from, WIRE_HITS, 0),
		.lost = wire_get_number(from, WIRE_LOST, 0),
		.calls = wire_get_number(from, WIRE_CALLS, 0),
		.total_ns = wire_get_number(from, WIRE_TOTAL, 0),
		.p50_ns = wire_get_number(from, WIRE_P50, 0),
		.p90_ns = wire_get_number(from, WIRE_P90, 0),
		.p99_ns = wire_get_number(from, WIRE_P99, 0),
		.max_ns = wire_get_number(from, WIRE_LONGEST, 0),
		.shape = shape_of(from),
		.argument = wire_get_text(from, WIRE_ARGUMENT),
		.fields = item->texts,
		.contexts = item->texts + fields,
		.hits_per_second = wire_get_number(from, WIRE_HIT_RATE, 0),
		.bytes = wire_get_number(from, WIRE_BYTES, 0),
		.nested = wire_get_number(from, WIRE_NESTED, 0),
		.fault = wire_get_text(from, WIRE_FAULT),
	};
	return true;
}

static bool fill_symbol(struct item *item, const struct wire_message *from)
{
	item->symbol = (struct dyntrace_symbol){
		.address = wire_get_number(from, WIRE_ADDRESS, 0),
		.size = wire_get_number(from, WIRE_BYTES, 0),
		.module = wire_get_text(from, WIRE_MODULE),
		.name = wire_get_text(from, WIRE_NAME),
		.kind = wire_get_text(from, WIRE_SYMBOL_KIND),
		.source = wire_get_text(from, WIRE_SOURCE),
		.prototype = wire_get_text(from, WIRE_PROTOTYPE),
	};
	return true;
}

static bool fill_marker(struct item *item, const struct wire_message *from)
{
	item->marker = (struct dyntrace_marker){
		.provider = wire_get_text(from, WIRE_PROVIDER),
		.name = wire_get_text(from, WIRE_NAME),
		.arguments = wire_get_text(from, WIRE_ARGUMENT),
		.module = wire_get_text(from, WIRE_MODULE),
		.address = wire_get_number(from, WIRE_ADDRESS, 0),
		.semaphore = wire_get_number(from, WIRE_SEMAPHORE, 0),
	};
	return true;
}

static bool fill_text(struct item *item, const struct wire_message *from)
{
	item->text = wire_get_text(from, WIRE_OUTPUT);
	return true;
}

/* Per kind of request: the attribute that an item must have, and the function that reads it. */
static const struct {
	enum wire_tag needs;
	bool (*fill)(struct item *item, const struct wire_message *from); /* false: out of memory */
} kinds[WIRE_KIND_COUNT] = {
	[WIRE_PROCESSES] = { WIRE_PROGRAM, fill_process },
	[WIRE_TRACEPOINTS] = { WIRE_NAME, fill_tracepoint },
	[WIRE_SNAPSHOT] = { WIRE_OUTPUT, fill_text },
	[WIRE_SYMBOLS] = { WIRE_NAME, fill_symbol },
	[WIRE_MARKERS] = { WIRE_PROVIDER, fill_marker },
};

struct dyntrace_list *list_create(enum wire_kind kind)
{
	struct dyntrace_list *list = calloc(1, sizeof(*list));

	assert(kind < WIRE_KIND_COUNT && kinds[kind].fill);
	if (list)
		list->kind = kind;
	return list;
}

static void item_free(struct item *item)
{
	if (!item)
		return;
	free(item->texts);
	free(item->record.bytes);
	free(item);
}

struct error *list_add(struct dyntrace_list *list, const struct wire_message *message)
{
	if (!wire_get_text(message, kinds[list->kind].needs))
		return NULL;
	struct item *item = calloc(1, sizeof(*item));
	if (item && record_copy(message, &item->record) &&
	    kinds[list->kind].fill(item, &item->record.message) && vec_push(&list->items, item))
		return NULL;
	item_free(item);
	return error_new(ERROR_FAILED, "out of memory");
}

static const struct item *item_at(const struct dyntrace_list *list, enum wire_kind kind,
				  size_t index)
{
	return list && list->kind == kind && index < list->items.count ? list->items.items[index]
								       : NULL;
}

size_t dyntrace_list_count(const struct dyntrace_list *list)
{
	return list ? list->items.count : 0;
}

const struct dyntrace_process *dyntrace_list_process(const struct dyntrace_list *list, size_t index)
{
	const struct item *item = item_at(list, WIRE_PROCESSES, index);

	return item ? &item->process : NULL;
}

const struct dyntrace_tracepoint *dyntrace_list_tracepoint(const struct dyntrace_list *list,
							   size_t index)
{
	const struct item *item = item_at(list, WIRE_TRACEPOINTS, index);

	return item ? &item->tracepoint : NULL;
}

const struct dyntrace_symbol *dyntrace_list_symbol(const struct dyntrace_list *list, size_t index)
{
	const struct item *item = item_at(list, WIRE_SYMBOLS, index);

	return item ? &item->symbol : NULL;
}

const struct dyntrace_marker *dyntrace_list_marker(const struct dyntrace_list *list, size_t index)
{
	const struct item *item = item_at(list, WIRE_MARKERS, index);

	return item ? &item->marker : NULL;
}

const char *dyntrace_list_text(const struct dyntrace_list *list, size_t index)
{
	const struct item *item = item_at(list, WIRE_SNAPSHOT, index);

	return item ? item->text : NULL;
}

void dyntrace_list_free(struct dyntrace_list *list)
{
	for (size_t i = 0; list && i < list->items.count; i++)
		item_free(list->items.items[i]);
	if (list)
		vec_free(&list->items);
	free(list);
}
