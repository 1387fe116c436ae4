/*
 * bridge.h - how the controller talks to libdyntrace-lttng.so in the target.
 *
 * The library has one thread of its own there, which does everything that may lock or wait: it
 * loads liblttng-ust, and defines and forgets events. Requests are in the code memfd, which only
 * the controller can write (H25). The thread sleeps on a word of the pool; waking it for nothing
 * does no harm. Answers are in the library's own memory, where the controller reads them.
 *
 * (G1) One request at a time: the controller writes it, then its number to `number` and the word;
 *      the thread answers by writing that number to dt_bridge_answer.number, last.
 * (G2) The memory of an answer (struct dt_bridge_result) stays valid as long as the process lives:
 *      code generated with it may still run after the library forgot the event, and then does
 *      nothing.
 *
 * At a hit, trampolines call dyntrace_lttng_hit(result.event, image): foreign_code.h in
 * control/tracers/code. The image is the event as laid out in the pool, with the probe's address in
 * place of the header.
 */
#ifndef DYNTRACE_BRIDGE_H
#define DYNTRACE_BRIDGE_H

#include <stdint.h>

#define DT_BRIDGE_VERSION 5u
#define DT_BRIDGE_NAME 128u
#define DT_BRIDGE_FIELD_NAME 64u
#define DT_BRIDGE_FIELDS_MAX 96u
#define DT_BRIDGE_LABEL_NAME 56u
#define DT_BRIDGE_LABELS_MAX 512u /* of one event */
#define DT_BRIDGE_EVENTS_MAX 16384u

enum dt_bridge_kind {
	DT_BRIDGE_DEFINE, /* `count` events, at `argument` */
	DT_BRIDGE_FORGET, /* the event whose result.event is `argument` */
	DT_BRIDGE_LEAVE, /* all events; then the thread ends */
};

enum dt_bridge_type {
	DT_BRIDGE_INT,
	DT_BRIDGE_UINT,
	DT_BRIDGE_HEX,
	DT_BRIDGE_FLOAT,
	DT_BRIDGE_STRING, /* with its NUL */
	DT_BRIDGE_SEQUENCE, /* u32 count, then, aligned, as many numbers */
	DT_BRIDGE_ADDRESS, /* the image's first word */
	/* A list of anything else, which LTTng gets as text: u32 count, then, aligned by `size`, as
	 * many elements. The fields up to DT_BRIDGE_LIST_END describe one, structs in it begin with
	 * DT_BRIDGE_OPEN. */
	DT_BRIDGE_LIST,
	DT_BRIDGE_LIST_END,
	DT_BRIDGE_OPEN,
	DT_BRIDGE_CLOSE,
};

struct dt_bridge_field {
	char name[DT_BRIDGE_FIELD_NAME]; /* [A-Za-z0-9_]+: others make the trace unreadable */
	uint8_t type;
	uint8_t size; /* 1, 2, 4, 8; of a sequence: of its elements */
	uint16_t count; /* of an array's elements; 0: none */
	uint16_t offset; /* in the image; 0: after the previous field, aligned */
	uint8_t align; /* of that field, in bytes */
	uint8_t nowrite; /* only LTTng's filters see it */
	/* of an enumeration: its labels, as indices in the event's labels */
	uint16_t label_first, label_count;
	uint16_t source; /* for the controller: number of the event's field */
	uint8_t element; /* of a sequence: enum dt_bridge_type of its elements */
	uint8_t is_inside; /* of an element: no field of LTTng's */
};

/* One name of an enumeration. */
struct dt_bridge_label {
	int64_t value;
	char name[DT_BRIDGE_LABEL_NAME];
};

struct dt_bridge_event {
	char provider[DT_BRIDGE_NAME];
	char name[DT_BRIDGE_NAME]; /* no '"' and no control character */
	uint64_t address; /* of the probe, for information */
	uint32_t start; /* offset of the first field in the image */
	uint32_t field_count;
	uint32_t label_count;
	int32_t loglevel; /* -1: none */
	struct dt_bridge_field fields[]; /* then the labels, then the next event */
};

struct dt_bridge_request {
	uint32_t version;
	uint32_t number;
	uint32_t kind;
	uint32_t count;
	uint64_t argument; /* address in the target */
	uint64_t wake; /* address of the word in the target */
};

struct dt_bridge_result {
	uint64_t event; /* for dyntrace_lttng_hit */
	uint64_t enabled; /* address of a 32-bit word: 0 while nobody records it */
};

struct dt_bridge_answer {
	uint32_t number;
	uint32_t failed; /* `why` tells */
	uint64_t results; /* DT_BRIDGE_DEFINE: address of an array */
	uint64_t nested; /* hits inside hits: not recorded */
	char why[240];
};

#endif
