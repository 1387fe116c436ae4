#include "logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/interrupt.h"
#include "control/base/now.h"

#define QUEUE_MAX (16u << 20)
/* At the end: for a reader that takes nothing, for one that takes little at a time, and after
 * Ctrl-C. */
#define IDLE_MS 1000
#define WAIT_MS 5000
#define INTERRUPTED_MS 100

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

struct error *logfile_open(struct proc *proc, const char *file, int fd, struct logfile **ret_log)
{
	struct logfile *log = calloc(1, sizeof(*log));
	struct error *error = log ? NULL : error_new(ERROR_FAILED, "out of memory");

	if (!error && fd < 0)
		error = file ? open_file(file, &fd) : open_output(proc, &fd);
	if (!error) {
		output_open(fd, &log->output);
		log->style.process = proc->comm;
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
	strbuf_free(&log->text);
	vec_free(&log->lines);
	free(log->file);
	free(log);
}

void logfile_add(struct logfile *log, const struct clock_estimate *estimate,
		 const struct line_event *event)
{
	struct logfile_line line = { .clock = event->clock, .at = log->text.length };

	if (log->text.length > QUEUE_MAX || log->closed || !vec_reserve(&log->lines, 1)) {
		log->left_out++;
		return;
	}
	line_add(&log->text, &log->style, estimate, event);
	if (log->text.failed) { /* memory may come back */
		log->text.failed = false;
		log->text.length = line.at;
		log->left_out++;
		return;
	}
	line.length = log->text.length - line.at;
	log->lines.items[log->lines.count++] = line;
}

/* Lines of equal clocks stay in the order of arrival, which is right within a thread. */
static int by_clock(const void *a, const void *b)
{
	const struct logfile_line *x = a, *y = b;

	if (x->clock != y->clock)
		return x->clock < y->clock ? -1 : 1;
	return (x->at > y->at) - (x->at < y->at);
}

/* Lines of the earliest text first. */
static int by_place(const void *a, const void *b)
{
	const struct logfile_line *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* False: the file takes no more now. */
static bool write_line(struct logfile *log, const struct logfile_line *line)
{
	assert(line->at + line->length <= log->text.length);
	while (log->partly < line->length && !log->closed) {
		ssize_t n = output_write(&log->output, log->text.text + line->at + log->partly,
					 line->length - log->partly);

		if (n > 0)
			log->partly += (size_t)n;
		else if (n == -EAGAIN)
			return false;
		else if (n != -EINTR) {
			log->failed = n == -EPIPE || n == 0 ? 0 : (int)-n;
			log->closed = true;
		}
	}
	log->left_out += log->closed;
	log->partly = 0;
	return true;
}

/* Moves the text of the remaining lines to the front. Needs no memory. */
static void forget_written(struct logfile *log, size_t written)
{
	struct logfile_line *lines = log->lines.items;
	size_t left = log->lines.count - written, length = 0, first = 0;

	assert(written <= log->lines.count);
	if (!written)
		return;
	size_t begun = left ? lines[written].at : 0;
	memmove(lines, lines + written, left * sizeof(*lines));
	if (left)
		qsort(lines, left, sizeof(*lines), by_place);
	for (size_t i = 0; i < left; i++) {
		if (lines[i].at == begun)
			first = i;
		memmove(log->text.text + length, log->text.text + lines[i].at, lines[i].length);
		lines[i].at = length;
		length += lines[i].length;
	}
	if (left) { /* the next flush leaves a line that is partly written in front */
		struct logfile_line line = lines[first];

		lines[first] = lines[0];
		lines[0] = line;
	}
	log->lines.count = left;
	log->text.length = length;
}

/* Writes lines up to the clock, as far as the file takes them now. */
static void write_lines(struct logfile *log, uint64_t until)
{
	size_t written = 0, first = log->partly ? 1 : 0;

	if (!log->lines.count)
		return;
	/* a line that is partly written stays the first */
	qsort(log->lines.items + first, log->lines.count - first, sizeof(*log->lines.items),
	      by_clock);
	while (written < log->lines.count && log->lines.items[written].clock <= until &&
	       write_line(log, &log->lines.items[written]))
		written++;
	forget_written(log, written);
}

/* Waits until the file takes more. False: not in time. */
static bool wait_for_room(struct logfile *log, uint64_t start)
{
	uint64_t total = interrupt_requested() ? INTERRUPTED_MS : WAIT_MS;
	uint64_t passed = now_ms() - start;
	uint64_t left = passed < total ? total - passed : 0;
	struct pollfd fd = { .fd = log->output.fd, .events = POLLOUT };

	return left && poll(&fd, 1, (int)(left < IDLE_MS ? left : IDLE_MS)) > 0;
}

void logfile_flush(struct logfile *log, uint64_t until, bool all)
{
	uint64_t start = now_ms();

	write_lines(log, all ? UINT64_MAX : until);
	if (!all)
		return;
	while (log->lines.count && wait_for_room(log, start))
		write_lines(log, UINT64_MAX);
	log->left_out += log->lines.count;
	log->lines.count = 0;
	log->text.length = 0;
	log->partly = 0;
}
