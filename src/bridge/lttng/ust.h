/*
 * ust.h - liblttng-ust in the target, found at run time, and events that are defined at run time.
 *
 * Everything but event_fire, which runs at a hit, runs on the bridge's own thread. The library's
 * headers give types only; lttng/tracepoint.h isn't used, because it brings constructors.
 */
#ifndef DYNTRACE_UST_H
#define DYNTRACE_UST_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <lttng/tracepoint-types.h>
#include <lttng/ust-events.h>

#include "shared/bridge.h"

/* Functions of liblttng-ust. */
struct ust {
	struct lttng_ust_registered_probe *(*probe_register)(const struct lttng_ust_probe_desc *);
	void (*probe_unregister)(struct lttng_ust_registered_probe *);
	int (*module_register)(struct lttng_ust_tracepoint *const *, int);
	int (*module_unregister)(struct lttng_ust_tracepoint *const *);
	void (*read_lock)(void);
	void (*read_unlock)(void);
	void (*synchronize)(void);
	void (*before_fork)(sigset_t *);
	void (*after_fork_parent)(sigset_t *);
	void (*after_fork_child)(sigset_t *);
};

extern struct ust ust;

/* Loads the library if need be. NULL, or the reason of the failure. */
const char *ust_load(void);

/* ---- ust_event.c ----------------------------------------------------------------------------- */

#define LIST_TEXT_MAX 2048u /* of all lists of an event; what is beyond is "..." */

/* A piece of the payload: bytes of the image. */
struct part {
	uint8_t type; /* enum dt_bridge_type */
	uint8_t size;
	uint16_t count; /* elements, at least 1 */
	uint16_t offset; /* in the image; 0: behind the part before */
	uint8_t align;
	bool nowrite; /* for filters alone */
	/* for text, inside of a list: */
	bool is_inside;
	const char *name;
	const struct dt_bridge_label *labels;
	uint16_t label_count;
};

/* Text of lists. */
struct list_text {
	size_t length;
	char bytes[LIST_TEXT_MAX];
};

struct event {
	struct lttng_ust_tracepoint tracepoint;
	uint32_t start;
	uint32_t part_count;
	/* bytes at the image's start that are the whole payload; 0: it must be laid out */
	uint32_t packed;
	bool is_registered;
	bool has_lists; /* which become text */
	struct part parts[DT_BRIDGE_FIELDS_MAX];
	/* Descriptions for liblttng-ust. */
	char provider[DT_BRIDGE_NAME], name[DT_BRIDGE_NAME], signature[40], uri[40];
	const char *uri_at;
	int loglevel;
	const int *loglevel_at;
	struct lttng_ust_enum_desc *enums[DT_BRIDGE_FIELDS_MAX];
	uint32_t enum_count;
	struct lttng_ust_tracepoint *site;
	struct lttng_ust_tracepoint_class class;
	struct lttng_ust_event_desc desc;
};

/* Several events that are registered at once: one by one takes quadratic time. */
struct batch {
	struct lttng_ust_probe_desc probe;
	const struct lttng_ust_event_desc **descs;
	struct lttng_ust_tracepoint **sites;
	struct lttng_ust_registered_probe *cookie;
	struct event **events;
	uint32_t count;
	uint32_t live; /* events not forgotten yet */
	struct batch *next;
};

/* ust_list.c: appends the text of the list that part `index` begins, with its NUL. `at`: the list
 * in the image. Gives where it ends there, and by *ret_end the part that does. */
const uint8_t *list_print(const struct event *event, uint32_t index, const uint8_t *image,
			  const uint8_t *at, struct list_text *text, uint32_t *ret_end);

/* From its description, whose size is *ret_size. NULL: out of memory, or the description is
 * invalid. */
struct event *event_create(const struct dt_bridge_event *from, size_t *ret_size);
/* The function that liblttng-ust puts on an event's list; event_fire calls it. */
void event_record(void *data, const struct event *event, const uint8_t *image);
/* One hit. */
void event_fire(const struct event *event, const uint8_t *image);

#endif
