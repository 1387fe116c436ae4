/*
 * report_keys.h - rows by key, from the inside: what report_by.c counts and report_keys.c prints.
 */
#ifndef DYNTRACE_REPORT_KEYS_H
#define DYNTRACE_REPORT_KEYS_H

#include "control/lines/frames.h"
#include "report_by.h"

/* A part of a key: its tag, its length in 16 bits, its value. */
#define KEY_HEAD 3

enum key_tag {
	KEY_TEXT,
	KEY_UNSIGNED, /* numbers have 8 bytes */
	KEY_SIGNED,
	KEY_HEX,
	KEY_SINGLE,
	KEY_DOUBLE,
	KEY_FRAMES, /* addresses */
	KEY_CALLER, /* a return address; none: it is unknown */
	KEY_UNREADABLE,
	KEY_UNKNOWN,
};

/* Time that is part of a row's total, from a call that began as the serial-th one. */
struct by_covered {
	uint64_t serial, duration;
};

struct by_row {
	uint64_t hash;
	uint8_t *key;
	size_t key_size;
	struct distribution values;
	uint64_t hits, self, partial;
	int64_t total; /* of durations (O5) */
	const struct trace_input *input; /* of its first call, for names of functions */
	struct frames_event when; /* likewise */
	uint32_t thread; /* of `covered` */
	VEC(struct by_covered) covered; /* at most one per open call */
};

struct report_by {
	const struct question *question;
	uint64_t keys_max;
	struct view_filter *expressions[QUESTION_KEYS_MAX + 1]; /* NULL: another kind of word */
	VEC(uint8_t) moments; /* enum moment, by function */
	VEC(struct by_row) rows;
	uint32_t *table; /* hash table of indices + 1 */
	size_t table_room;
	struct by_row other; /* of all keys beyond the limit */
	uint64_t *others; /* hashes of these */
	uint64_t other_count; /* more than 2^18: unknown */
	bool has_values;
	uint64_t left_out; /* calls without a key or value */
	char *why; /* the word that the first of them lacks */
};

#endif
