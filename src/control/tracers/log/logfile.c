#include "logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/interrupt.h"
#include "control/base/now.h"

#define QUEUE_MAX (16u << 20) /* bytes of events that wait */
#define TEXT_MAX (64u << 10) /* bytes of lines that are made before they are written */
/* At the end: for a reader that takes nothing, for one that takes little at a time, and after
 * Ctrl-C. */
#define IDLE_MS 1000
#define WAIT_MS 5000
#define INTERRUPTED_MS 100
#define PRINTED_MS 2000 /* after Ctrl-C, for a reader of --print that still takes lines */

/* Takes the target's own descriptor: both processes share one position in the file. */
static struct error *open_output(struct proc *proc, int *ret_fd)
{
	int fd = (int)syscall(SYS_pidfd_getfd, proc->pidfd, STDOUT_FILENO, 0);

	if (fd < 0 && errno == EBADF)
		return error_new(
			ERROR_REFUSED,
			"process %d has no standard output (its descriptor 1 is closed): name a "
			"file, log:FILE",
			proc->pid);
	if (fd < 0)
		return error_errno(errno, "cannot use the standard output of process %d",
				   proc->pid);
	*ret_fd = fd;
	return NULL;
}

/* O_NONBLOCK: don't wait for the reader of a named pipe, neither here nor when writing. */
static struct error *open_file(const char *file, int *ret_fd)
{
	*ret_fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK,
		       0666);
	if (*ret_fd >= 0)
		return NULL;
	if (errno == ENXIO)
		return error_new(ERROR_FAILED,
				 "cannot write to %s: nobody reads it (start its reader first)",
				 file);
	return error_errno(errno, "cannot write to %s", file);
}

struct error *logfile_open(struct proc *proc, struct event_types *types, const char *file, int fd,
			   struct logfile **ret_log)
{
	struct logfile *log = calloc(1, sizeof(*log));
	struct error *error = log ? NULL : error_new(ERROR_FAILED, "out of memory");

	if (!error && fd < 0)
		error = file ? open_file(file, &fd) : open_output(proc, &fd);
	if (!error) {
		output_open(fd, &log->output);
		log->types = types;
		log->file = file ? strdup(file) : NULL;
		*ret_log = log;
		return NULL;
	}
	free(log);
	return error;
}

void logfile_free(struct logfile *log)
{
	if (!log)
		return;
	output_close(&log->output);
	strbuf_free(&log->line.text);
	vec_free(&log->lines);
	vec_free(&log->events);
	vec_free(&log->words);
	free(log->file);
	free(log);
}

static void leave_out(struct logfile *log, uint32_t id)
{
	log->left_out++;
	if (!log->is_print && id < log->types->count)
		log->types->items[id].left_out++;
}

/* ---- events that wait ------------------------------------------------------------------------ */

void logfile_add(struct logfile *log, const struct line_event *event)
{
	if (log->words.count > QUEUE_MAX / sizeof(uint64_t) || log->closed ||
	    !vec_reserve(&log->events, 1) || !vec_reserve(&log->words, event->count + 1)) {
		leave_out(log, event->id);
		return;
	}
	struct logfile_event *kept = &log->events.items[log->events.count++];
	*kept = (struct logfile_event){ .clock = event->clock,
					.at = log->words.count,
					.words = (uint32_t)event->count,
					.id = event->id,
					.pid = event->pid,
					.tid = event->tid };
	strncpy(kept->process, event->process, sizeof(kept->process) - 1);
	memcpy(log->words.items + log->words.count, event->words, event->count * sizeof(uint64_t));
	/* one more: so each has a place of its own */
	log->words.count += event->count + 1;
}

/* Events of equal clocks stay in the order of arrival, which is right within a thread. */
static int by_clock(const void *a, const void *b)
{
	const struct logfile_event *x = a, *y = b;

	if (x->clock != y->clock)
		return x->clock < y->clock ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

static int by_place(const void *a, const void *b)
{
	const struct logfile_event *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Moves the words of the remaining events to the front. Needs no memory. */
static void compact(struct logfile *log)
{
	uint64_t *words = log->words.items;
	size_t count = 0;

	qsort(log->events.items, log->events.count, sizeof(*log->events.items), by_place);
	for (size_t i = 0; i < log->events.count; i++) {
		struct logfile_event *event = &log->events.items[i];

		assert(count <= event->at && event->at + event->words < log->words.count);
		memmove(words + count, words + event->at, event->words * sizeof(*words));
		event->at = count;
		count += event->words + 1;
	}
	log->words.count = count;
	log->dead = 0;
}

/* Forgets the first events, whose lines have been made. */
static void forget(struct logfile *log, size_t count)
{
	struct logfile_event *events = log->events.items;

	assert(count <= log->events.count);
	if (!count)
		return;
	for (size_t i = 0; i < count; i++)
		log->dead += events[i].words + 1;
	log->events.count -= count;
	memmove(events, events + count, log->events.count * sizeof(*events));
	if (log->dead > log->words.count / 2)
		compact(log);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void add_line(struct logfile *log, const struct clock_estimate *estimate,
		     const struct logfile_event *kept)
{
	struct strbuf *text = &log->line.text;
	size_t before = text->length;
	struct line_event event = { .pid = kept->pid,
				    .tid = kept->tid,
				    .words = log->words.items + kept->at,
				    .count = kept->words,
				    .clock = kept->clock,
				    .process = kept->process };

	assert(kept->id < log->types->count);
	if (vec_reserve(&log->lines, 1)) {
		line_add(&log->line, &log->types->items[kept->id], estimate, &event);
		if (!text->failed) {
			log->lines.items[log->lines.count++] =
				(struct logfile_line){ text->length, kept->id };
			return;
		}
	}
	text->failed = false; /* memory may come back */
	text->length = before;
	leave_out(log, kept->id);
}

/* Leaves out the lines that aren't written whole. */
static void drop_lines(struct logfile *log)
{
	for (size_t i = 0; i < log->lines.count; i++) {
		if (log->lines.items[i].end > log->written)
			leave_out(log, log->lines.items[i].id);
	}
	log->lines.count = 0;
	log->written = log->line.text.length = 0;
}

/* The end of the next write: whole lines, as many as a pipe takes all or nothing; a file takes
 * all. */
static size_t find_end(const struct logfile *log, size_t *line)
{
	const struct logfile_line *lines = log->lines.items;

	if (log->output.way == OUTPUT_PLAIN)
		return log->line.text.length;
	while (lines[*line].end <= log->written)
		++*line;
	while (*line + 1 < log->lines.count && lines[*line + 1].end - log->written <= PIPE_BUF)
		++*line;
	return lines[*line].end;
}

/* Writes the lines that were made. False: the file takes no more now. */
static bool write_text(struct logfile *log)
{
	const struct strbuf *text = &log->line.text;
	size_t line = 0;

	while (log->written < text->length && !log->closed) {
		ssize_t n = output_write(&log->output, text->text + log->written,
					 find_end(log, &line) - log->written);

		if (n > 0)
			log->written += (size_t)n;
		else if (n == -EAGAIN)
			return false;
		else if (n != -EINTR) {
			log->failed = n == -EPIPE || n == 0 ? 0 : (int)-n;
			log->closed = true;
		}
	}
	drop_lines(log);
	return true;
}

/* Writes lines up to the clock, as far as the file takes them now. */
static void write_lines(struct logfile *log, const struct clock_estimate *estimate, uint64_t until)
{
	size_t made = 0;

	if (!write_text(log) || !log->events.count)
		return;
	qsort(log->events.items, log->events.count, sizeof(*log->events.items), by_clock);
	while (made < log->events.count && log->events.items[made].clock <= until) {
		add_line(log, estimate, &log->events.items[made++]);
		if (log->line.text.length > TEXT_MAX && !write_text(log))
			break;
	}
	forget(log, made);
	write_text(log);
}

/* Waits until the file takes more. False: not in time. */
static bool wait_for_room(struct logfile *log, uint64_t start)
{
	uint64_t total = interrupt_requested() ? INTERRUPTED_MS : WAIT_MS;
	uint64_t now = now_ms(), passed = now - start;
	int left = (int)(passed < total ? total - passed : 0);
	struct pollfd fd = { .fd = log->output.fd, .events = POLLOUT };

	if (left > IDLE_MS)
		left = IDLE_MS;
	if (log->is_print && !interrupt_requested()) {
		left = -1;
	} else if (log->is_print) {
		log->deadline = log->deadline ? log->deadline : now + PRINTED_MS;
		left = now < log->deadline ? INTERRUPTED_MS : 0;
	}
	return left && poll(&fd, 1, left) > 0;
}

void logfile_flush(struct logfile *log, const struct clock_estimate *estimate, uint64_t until,
		   bool all)
{
	uint64_t start = now_ms();

	write_lines(log, estimate, all ? UINT64_MAX : until);
	if (!all)
		return;
	while ((log->lines.count || log->events.count) && wait_for_room(log, start))
		write_lines(log, estimate, UINT64_MAX);
	drop_lines(log);
	for (size_t i = 0; i < log->events.count; i++)
		leave_out(log, log->events.items[i].id);
	log->events.count = log->words.count = log->dead = 0;
}
