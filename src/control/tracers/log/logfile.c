#include "logfile.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"

#define QUEUE_MAX (16u << 20)
#define WAIT_MS 5000

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
		log->fd = fd;
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
	close(log->fd);
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

/* False: the file takes no more now. */
static bool write_line(struct logfile *log, const struct logfile_line *line, int wait_ms)
{
	while (log->partly < line->length && !log->closed) {
		struct pollfd fd = { .fd = log->fd, .events = POLLOUT };

		if (poll(&fd, 1, wait_ms) <= 0)
			return false;
		ssize_t n = write(log->fd, log->text.text + line->at + log->partly,
				  line->length - log->partly);
		if (n > 0)
			log->partly += (size_t)n;
		else if (errno != EINTR && errno != EAGAIN) {
			log->failed = errno == EPIPE ? 0 : errno;
			log->closed = true;
		}
	}
	log->left_out += log->closed;
	log->partly = 0;
	return true;
}

/* Moves the text of the remaining lines to the front. */
static void forget_written(struct logfile *log, size_t written)
{
	struct strbuf text = { 0 };

	assert(written <= log->lines.count);
	for (size_t i = written; i < log->lines.count; i++) {
		struct logfile_line line = log->lines.items[i];

		strbuf_add(&text, log->text.text + line.at, line.length);
		line.at = text.length - line.length;
		log->lines.items[i - written] = line;
	}
	log->lines.count -= written;
	strbuf_free(&log->text);
	log->text = text;
}

void logfile_flush(struct logfile *log, uint64_t until, bool all)
{
	size_t written = 0, first = log->partly ? 1 : 0;

	if (!log->lines.count)
		return;
	/* a line that is partly written stays the first */
	qsort(log->lines.items + first, log->lines.count - first, sizeof(*log->lines.items),
	      by_clock);
	while (written < log->lines.count && (all || log->lines.items[written].clock <= until) &&
	       write_line(log, &log->lines.items[written], all ? WAIT_MS : 0))
		written++;
	if (all) {
		log->left_out += log->lines.count - written;
		written = log->lines.count;
	}
	if (written)
		forget_written(log, written);
}
