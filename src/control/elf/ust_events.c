#include "ust_events.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "control/base/cleanup.h"
#include "control/base/vec.h"
#include "symtab_state.h"

#define EVENTS_MAX 65536u
#define TEXT_MAX 1024u
#define LEVEL_DEFAULT 13 /* of an event whose provider gives none */
#define RECORD_MAX 4096u /* later versions add fields at the end of a record */
#define REGISTERS "lttng_ust_probe_register" /* called by providers when they are loaded */

/* struct lttng_ust_probe_desc */
struct provider_record {
	uint32_t size;
	uint64_t name, events;
	uint32_t event_count, major, minor;
};

/* struct lttng_ust_event_desc */
struct event_record {
	uint32_t size;
	uint64_t name, provider, class, level, uri;
};

/* struct lttng_ust_tracepoint_class */
struct class_record {
	uint32_t size;
	uint64_t fields, field_count, callback, arguments, provider;
};

static bool read_all(const struct symtab *symtab, uint64_t address, void *to, size_t n)
{
	return symtab_data(symtab, address, to, n) == n;
}

/* A text that is fit to be printed; NULL: none. The caller frees. */
static char *read_text(const struct symtab *symtab, uint64_t address)
{
	char text[TEXT_MAX];
	size_t n = symtab_data(symtab, address, text, sizeof(text));
	size_t length = strnlen(text, n);

	for (size_t i = 0; i < length; i++) {
		if (!isprint((unsigned char)text[i]))
			return NULL;
	}
	return length < n ? strndup(text, length) : NULL;
}

/* An event's level is behind two pointers, the first of which may be changed by the program. */
static int read_level(const struct symtab *symtab, uint64_t address)
{
	uint64_t at;
	int32_t level;

	if (!address || !relocs_read_word(symtab, address, &at) ||
	    elf_image_read(&symtab->image, at, &level, sizeof(level)) != sizeof(level))
		return LEVEL_DEFAULT;
	return level;
}

static void event_clear(struct ust_event *event)
{
	free(event->provider);
	free(event->name);
	free(event->arguments);
}

/* False: out of memory. Leaves out a damaged record. */
static bool add_event(const struct symtab *symtab, const char *provider,
		      const struct event_record *record, struct ust_events *events)
{
	struct ust_event event = { .level = read_level(symtab, record->level) };
	struct class_record class;

	if (!read_all(symtab, record->class, &class, sizeof(class)) ||
	    class.size < sizeof(class) ||
	    !elf_image_is_executable(&symtab->image, class.callback) ||
	    !(event.name = read_text(symtab, record->name)))
		return true;
	event.address = class.callback;
	event.provider = strdup(provider);
	event.arguments = read_text(symtab, class.arguments);
	/* "void": a tracepoint without arguments */
	if (!event.arguments || strcmp(event.arguments, "void") == 0) {
		free(event.arguments);
		event.arguments = strdup("");
	}
	if (event.provider && event.arguments && vec_push(events, event))
		return true;
	event_clear(&event);
	return false;
}

/* The record of an event of this provider. */
static bool read_event(const struct symtab *symtab, uint64_t list, uint64_t index,
		       uint64_t provider, struct event_record *ret_record)
{
	uint64_t at;

	return read_all(symtab, list + index * sizeof(at), &at, sizeof(at)) &&
	       read_all(symtab, at, ret_record, sizeof(*ret_record)) &&
	       ret_record->size >= sizeof(*ret_record) && ret_record->size <= RECORD_MAX &&
	       ret_record->provider == provider;
}

/* Adds all events of the provider whose record is at this address, if one is. */
static struct error *try_provider(const struct symtab *symtab, uint64_t address,
				  struct ust_events *events)
{
	_cleanup_free_ char *name = NULL;
	struct provider_record provider;
	struct event_record event;

	if (!read_all(symtab, address, &provider, sizeof(provider)) ||
	    provider.event_count == 0 || provider.event_count > EVENTS_MAX - events->count ||
	    !read_event(symtab, provider.events, 0, address, &event))
		return NULL;
	name = read_text(symtab, provider.name);
	if (!name || !*name)
		return NULL;
	for (uint32_t i = 0; i < provider.event_count; i++) {
		if (!read_event(symtab, provider.events, i, address, &event))
			break;
		if (!add_event(symtab, name, &event, events))
			return error_new(ERROR_FAILED, "out of memory");
	}
	return NULL;
}

/* Tries each place of the segment that could begin a record: its size, and the next word's
 * padding. */
static struct error *search(const struct symtab *symtab, struct segment *segment,
			    struct ust_events *events)
{
	const uint8_t *bytes = elf_image_segment_bytes(&symtab->image, segment);
	struct error *error = NULL;
	uint64_t size;

	for (uint64_t at = -segment->address & 7;
	     bytes && !error && at + sizeof(struct provider_record) <= segment->file_size;
	     at += 8) {
		memcpy(&size, bytes + at, sizeof(size));
		if (size >= sizeof(struct provider_record) && size <= RECORD_MAX)
			error = try_provider(symtab, segment->address + at, events);
	}
	return error;
}

static bool registers_providers(const struct symtab *symtab)
{
	const struct dynamic *dynamic = &symtab->image.dynamic;
	struct bytes names = { 0 };

	if (dynamic->strtab)
		names = elf_image_bytes(&symtab->image, dynamic->strtab, dynamic->strsz);
	return names.size && memmem(names.at, names.size, REGISTERS, sizeof(REGISTERS));
}

static int by_name(const void *a, const void *b)
{
	const struct ust_event *x = a, *y = b;
	int order = strcmp(x->provider, y->provider);

	return order ? order : strcmp(x->name, y->name);
}

struct error *ust_events_read(const struct symtab *symtab, struct ust_events *ret_events)
{
	const struct elf_image *image = &symtab->image;
	struct ust_events events = { 0 };
	struct error *error = NULL;

	if (registers_providers(symtab)) {
		for (size_t i = 0; i < image->segment_count && !error; i++)
			error = search(symtab, &image->segments[i], &events);
	}
	if (error) {
		ust_events_free(&events);
		return error;
	}
	if (events.count)
		qsort(events.items, events.count, sizeof(*events.items), by_name);
	*ret_events = events;
	return NULL;
}

void ust_events_free(struct ust_events *events)
{
	for (size_t i = 0; i < events->count; i++)
		event_clear(&events->items[i]);
	vec_free(events);
}
