/*
 * hit_line.h - lines of text that the hit's own thread writes (log --sync): layout shared by the
 * controller (control/tracers/sync) and the agent (target/lines).
 *
 * Trampolines call dt_line_hit(line, image) by way of a gate (control/tracers/code/foreign_code.h).
 * The line's description lies behind the trampoline, in sealed memory: only the controller can
 * write it. The counts are in memory that the target can write: hostile to the controller, and no
 * more than numbers to the agent.
 *
 * (I11) Each call of dt_line_hit adds one to dt_line_shared.written or to one of left_out, in the
 *      row of its event.
 * (I12) A line goes to the descriptor only if that is still the file that it was when the
 *      controller looked: the program may have closed it and opened something else there.
 * (I13) The thread waits for room for at most DT_LINE_WAIT_MS, with its signals blocked and no
 *      stack of the agent's held; then dt_line_output.expired makes all lines do without waiting,
 *      until one is written again. So a reader that stands still costs the target one wait per
 *      thread.
 * (I14) Signals that a write raises in the thread (SIGPIPE, SIGXFSZ) are taken back before the
 *      thread's mask is restored, unless they were pending before.
 */
#ifndef DYNTRACE_HIT_LINE_H
#define DYNTRACE_HIT_LINE_H

#include <stddef.h>
#include <stdint.h>

#define DT_LINE_MAX 4096u /* bytes of a line, its newline included: a pipe takes all or nothing */
#define DT_LINE_WAIT_MS 1000u
#define DT_LINES_MAX 8192u /* tracepoints */

enum dt_line_way {
	DT_LINE_PLAIN, /* files, and whatever isn't below */
	DT_LINE_PIPE,
	DT_LINE_SOCKET,
	DT_LINE_TERMINAL,
};

enum dt_line_reason {
	DT_LINE_FULL, /* no room in time */
	DT_LINE_ELSEWHERE, /* the descriptor is closed, or another file (I12) */
	DT_LINE_UNREAD, /* nobody reads the pipe or socket any more */
	DT_LINE_FENCED, /* a filter of system calls forbids to write */
	DT_LINE_ALONE, /* dyntrace was killed */
	DT_LINE_FAILED, /* other errors: dt_line_shared.error_number */
	DT_LINE_REASONS,
};

/* Of one event: the entry of a tracepoint, then its exit. */
struct dt_line_shared {
	uint32_t enabled; /* 0: don't write */
	uint32_t error_number; /* of the last DT_LINE_FAILED */
	uint64_t written;
	uint64_t left_out[DT_LINE_REASONS];
};

/* Of all lines of the session. */
struct dt_line_output {
	uint64_t last; /* time of the last line, ns since the epoch; 0: none */
	uint32_t expired; /* (I13) */
	/* tid of the thread that writes a line in pieces: to a terminal or a socket; 0: none */
	uint32_t writer;
	uint32_t torn; /* the last line lacks its end */
	uint32_t pad[11];
};

struct dt_lines {
	struct dt_line_output output;
	struct dt_line_shared rows[DT_LINES_MAX][2];
};

enum dt_line_kind {
	DT_LINE_UINT,
	DT_LINE_INT,
	DT_LINE_HEX,
	DT_LINE_REAL,
	DT_LINE_STRING, /* with its NUL */
	DT_LINE_FRAMES, /* u32 count, then, aligned, u64s */
	DT_LINE_OPEN, /* a struct begins; only aligns */
	DT_LINE_CLOSE,
	DT_LINE_LIST, /* u32 count, then, aligned by `size`, as many elements: items up to end */
	DT_LINE_LIST_END,
};

struct dt_line_item {
	uint8_t kind;
	uint8_t size; /* 1, 2, 4, 8; of a struct: its alignment */
	uint16_t count; /* of an array's elements; 0: none */
	uint16_t offset; /* in the image; 0: after the previous item, aligned */
	/* names of values: their indices in the line's labels */
	uint16_t label_first, label_count;
	uint16_t key_length;
	uint32_t key; /* the item's name, as an offset in the text */
	uint8_t is_signed; /* the labels' values are */
	uint8_t omits_empty; /* say nothing of an empty string */
	uint8_t is_element; /* of a list: it has no key */
	uint8_t pad;
};

struct dt_line_label {
	int64_t value;
	uint32_t name; /* offset in the text */
	uint16_t length;
	uint16_t is_note; /* a note of dyntrace's instead of a value: its number means nothing */
};

struct dt_line {
	uint64_t control; /* struct dt_control */
	uint64_t output; /* struct dt_line_output */
	uint64_t shared; /* struct dt_line_shared of this event */
	uint64_t device, inode; /* of the descriptor's file (I12) */
	int32_t fd;
	uint32_t way; /* enum dt_line_way */
	int32_t utc_offset; /* of local time, in seconds */
	uint32_t start; /* offset of the first item in the image */
	uint32_t item_count, label_count;
	uint32_t items, labels, text; /* offsets from here */
	uint32_t process, process_length; /* names, as offsets in the text */
	uint32_t name, name_length;
	uint32_t pad;
};

#endif
