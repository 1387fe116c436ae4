/*
 * page.h - a trace as one page that needs nothing else: what the page holds, and how it is made.
 *
 * The trace is read twice. First for the numbers of functions, how many calls there are, and which
 * of them are the slowest; then calls become columns of numbers, thread by thread, in the order of
 * their ends. page/data.js reads them back.
 *
 * (O8) A page holds at most PAGE_CALLS_MAX calls. Of a longer trace, calls shorter than a
 *      resolution become sums per bucket of time; the slowest calls of each function stay whole,
 *      and the page says what it left out.
 * (O9) Numbers of functions are those of `report`, of all calls, also of those left out.
 */
#ifndef DYNTRACE_PAGE_H
#define DYNTRACE_PAGE_H

#include "page_columns.h"
#include "report.h"

#define PAGE_CALLS_MAX 5000000u
#define PAGE_SLOWEST 10 /* calls with arguments, per function */

/* How much a page may hold; tests want less. */
struct page_limits {
	uint64_t calls; /* above: reduce */
	uint64_t kept; /* calls that stay whole then */
	uint32_t buckets; /* of the whole time, at most */
};

struct page_request {
	const char *path;
	struct page_limits limits;
};

/* Makes the page of a trace in a file; "-": on standard output. */
struct error *page_make(const char *path, const char *file);

/* In the child: makes the page of opened traces and writes it out. */
struct error *page_write(const struct page_request *request, const struct own_traces *traces,
			 struct view_reader *reader);

/* ---- calls ---- */

enum page_columns {
	COLUMN_FUNCTION, COLUMN_SHAPE, COLUMN_FIRST, COLUMN_SECOND, COLUMN_SELF,
	COLUMN_BUCKET, COLUMN_BUCKET_FUNCTION, COLUMN_BUCKET_DEPTH, COLUMN_BUCKET_CALLS,
	COLUMN_BUCKET_TOTAL, COLUMN_BUCKET_SELF,
	PAGE_COLUMNS,
};

/* The number of an entry among the slowest calls of its function. */
struct page_slow {
	uint64_t duration, number;
};

struct page_slowest {
	uint32_t count;
	struct page_slow calls[PAGE_SLOWEST]; /* slowest first */
};

struct page_thread {
	uint32_t pid, tid;
	uint64_t calls, sums; /* in the columns */
	char name[WRITER_PROCESS_SIZE + 1]; /* of the process */
};

struct page_loss {
	uint32_t thread;
	uint64_t before; /* calls of the columns before it */
	struct report_loss loss;
};

/* A call's place in the columns, and its arguments. */
struct page_argument {
	uint64_t call;
	char *text;
};

/* Sums of calls that end in one bucket. */
struct page_sum {
	uint32_t function, depth;
	uint64_t calls, total, self;
};

struct page_calls {
	struct report_listener listener; /* first */
	const struct page_limits *limits;
	bool is_second; /* reading */
	bool failed; /* out of memory */
	uint64_t records; /* of the first reading */
	VEC(struct page_slowest) slowest; /* by function */

	/* second reading */
	int64_t first_ns, last_ns;
	bool is_reduced;
	uint64_t resolution; /* ns: shorter calls are summed */
	uint64_t bucket_ns;
	uint64_t kept, left; /* calls whole, and summed */
	uint64_t *numbers; /* of the slowest calls, sorted */
	size_t number_count, next_number;
	struct page_column *columns;
	VEC(struct page_thread) threads;
	VEC(struct page_loss) losses;
	VEC(struct page_argument) arguments;
	struct viewer *viewer;
	const struct trace_input *input;
	/* of the thread: */
	int64_t end_before;
	uint32_t depth_before;
	VEC(int64_t) child_begins; /* by depth: of the first call since the one around it */
	uint64_t bucket;
	uint32_t *sum_slots; /* hash table of indices + 1 */
	size_t sum_room;
	VEC(struct page_sum) sums;
};

/* Begins the second reading, with what the first one has found. */
struct error *page_calls_second(struct page_calls *calls, const struct report *report);
/* Ends the last thread and the columns. False: out of memory. */
bool page_calls_end(struct page_calls *calls);
void page_calls_free(struct page_calls *calls);
extern const struct report_listener page_calls_listener;

#endif
