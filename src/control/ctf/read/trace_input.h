/*
 * trace_input.h - a directory with a trace of our own: its layout, its files, and which packets
 * belong to which thread.
 *
 * trace_input_open goes through the heads of all packets and refuses a trace that isn't exactly
 * what writer.c writes. Events are read by a packet_cursor: of a file, or of a thread's runs one
 * after the other, which overlap only where calls were recorded at their exit (run_merge.h).
 */
#ifndef DYNTRACE_TRACE_INPUT_H
#define DYNTRACE_TRACE_INPUT_H

#include "packet_gap.h"

struct trace_file {
	char *name;
	int fd; /* -1: too many to keep open */
	uint64_t size;
	uint64_t solid; /* where the last packet with events or losses ends */
	struct cursor_before after; /* that one */
	/* Where a cursor over the whole file begins, which a reader may change: */
	uint64_t from;
	struct cursor_before before;
};

/* Packets of one thread that follow each other in one file. */
struct trace_run {
	uint32_t file, tid, pid;
	uint64_t from, to; /* offsets */
	uint64_t begin, end; /* clocks */
	struct cursor_before before;
};

struct trace_input {
	int directory;
	struct trace_layout layout;
	VEC(struct trace_file) files; /* by name: the order in which libbabeltrace2 numbers them */
	VEC(struct trace_run) runs; /* by process, thread and begin */
	bool has_overlaps; /* some of one thread (run_merge.h) */
	struct packet_gaps gaps; /* packets that no file has */
	uint64_t size; /* bytes of all packets */
};

struct error *trace_input_open(const char *path, struct trace_input **ret_input);
void trace_input_free(struct trace_input *input);

/* Begins a cursor over a whole file. False: out of memory. */
bool trace_input_file(const struct trace_input *input, size_t file,
		      struct packet_cursor *ret_cursor);
/* Is the run the first one of its thread? */
bool trace_input_is_new_thread(const struct trace_input *input, size_t run);
/* Moves a cursor, which was begun, to a run. */
void trace_input_run(const struct trace_input *input, size_t run, struct packet_cursor *cursor);

#endif
