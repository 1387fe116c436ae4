/*
 * view_reader.h - read a trace in a process of its own, without rights and within limits.
 *
 * A trace may come from anywhere, and libbabeltrace2 trusts traces: some damaged ones make it
 * abort, write outside its memory, loop, or take all memory. So a child reads and prints; the
 * parent waits, ends a child that takes too much, and says in one sentence what happened. The child
 * has no rights beyond reading files and writing to stdout (view_rights.h). Both share memory, in
 * which the child leaves how far it is, its error, and the lines that it hasn't written yet.
 *
 * (X1) A line that the child noted is printed once, whatever ends the child.
 * (X2) The shared memory is the child's to write: the parent believes no length in it.
 */
#ifndef DYNTRACE_VIEW_READER_H
#define DYNTRACE_VIEW_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "control/base/error.h"
#include "control/base/strbuf.h"

#define VIEW_READER_KEPT_MAX (64 << 10)

struct view_reader_limits {
	uint64_t memory; /* bytes for the child; more for a large trace, up to half the machine's */
	unsigned busy_seconds; /* of processor time without a message; more for a large trace */
	unsigned idle_seconds; /* of waiting for anything but the reader of its output */
	bool has_progress; /* a bar on stderr, where that is a terminal */
	int followed; /* directory of a trace, which its recorder has locked; 0: none */
};

extern const struct view_reader_limits view_reader_default_limits;

struct view_reader;

/* Runs in the child. Sets itself up, calls view_reader_begin, then looks into the trace. */
typedef struct error *(*view_reader_fn)(struct view_reader *reader, void *context);

/* Runs `read` in a child; `path` names the trace in errors. */
struct error *view_reader_run(const char *path, const struct view_reader_limits *limits,
			      view_reader_fn read, void *context);

/* The sentence about a damaged trace: "its reader WHY after N events". */
struct error *view_reader_damaged(const struct view_reader *reader, const char *path,
				  const char *why);

/* ---- in the child ---- */

/* Gives up all rights and sets the limits; the trace occupies `size` bytes, and its metadata
 * `metadata` bytes. */
struct error *view_reader_begin(struct view_reader *reader, uint64_t size, uint64_t metadata);

/* Tells the parent that one message more was read, and the lines that aren't written yet. */
void view_reader_note(struct view_reader *reader, bool is_event, const struct strbuf *text);

/* Tells the parent that so many events more were read, of which nothing is printed yet. */
void view_reader_count(struct view_reader *reader, uint64_t events);

/* Tells the parent how much was read, of how many bytes, for its bar. */
void view_reader_progress(struct view_reader *reader, uint64_t done, uint64_t whole);

/* Has recording of the followed trace ended? */
bool view_reader_is_over(const struct view_reader *reader);

/* Writes the lines to stdout. Returns 0 or an errno. */
int view_reader_flush(struct view_reader *reader, struct strbuf *text);

#endif
