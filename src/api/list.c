/*
 * list.c - what the daemon lists, kept: each item is a copy of its message, with a structure
 * whose texts lie in that copy.
 */
#include <stdlib.h>
#include <string.h>

#include "api.h"

struct item {
	struct record record;
	union {
		struct dyntrace_process process;
		struct dyntrace_tracepoint tracepoint;
		const char *text;
	};
};

struct dyntrace_list {
	enum wire_kind kind; /* of the request: WIRE_PROCESSES, WIRE_TRACEPOINTS or WIRE_SNAPSHOT */
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

static void fill_process(struct item *item, const struct wire_message *from)
{
	item->process = (struct dyntrace_process){
		.pid = (int)wire_get_number(from, WIRE_PID, 0),
		.uid = (unsigned int)wire_get_number(from, WIRE_UID, 0),
		.name = wire_get_text(from, WIRE_PROGRAM),
		.loaded = wire_get_text(from, WIRE_LOADED),
		.tracepoints = wire_get_number(from, WIRE_TRACEPOINT_COUNT, 0),
		.trace = wire_get_text(from, WIRE_OUTPUT),
	};
}

static void fill_tracepoint(struct item *item, const struct wire_message *from)
{
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
	};
}

static void fill_text(struct item *item, const struct wire_message *from)
{
	item->text = wire_get_text(from, WIRE_OUTPUT);
}

/* What an item must have to be one, and what is made of it. */
static const struct {
	enum wire_tag needs;
	void (*fill)(struct item *item, const struct wire_message *from);
} kinds[WIRE_KIND_COUNT] = {
	[WIRE_PROCESSES] = { WIRE_PROGRAM, fill_process },
	[WIRE_TRACEPOINTS] = { WIRE_NAME, fill_tracepoint },
	[WIRE_SNAPSHOT] = { WIRE_OUTPUT, fill_text },
};

struct dyntrace_list *list_create(enum wire_kind kind)
{
	struct dyntrace_list *list = calloc(1, sizeof(*list));

	if (list)
		list->kind = kind;
	return list;
}

struct error *list_add(struct dyntrace_list *list, const struct wire_message *message)
{
	if (!wire_get_text(message, kinds[list->kind].needs))
		return NULL;
	struct item *item = calloc(1, sizeof(*item));
	if (!item || !record_copy(message, &item->record) || !vec_push(&list->items, item)) {
		if (item)
			free(item->record.bytes);
		free(item);
		return error_new(ERROR_FAILED, "out of memory");
	}
	kinds[list->kind].fill(item, &item->record.message);
	return NULL;
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

const char *dyntrace_list_text(const struct dyntrace_list *list, size_t index)
{
	const struct item *item = item_at(list, WIRE_SNAPSHOT, index);

	return item ? item->text : NULL;
}

void dyntrace_list_free(struct dyntrace_list *list)
{
	for (size_t i = 0; list && i < list->items.count; i++) {
		free(list->items.items[i]->record.bytes);
		free(list->items.items[i]);
	}
	if (list)
		vec_free(&list->items);
	free(list);
}
