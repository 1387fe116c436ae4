#include "log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/plural.h"
#include "control/base/quote.h"

#define LINE_MAX_BYTES 2048 /* a pipe that poll calls writable takes so much (PIPE_BUF) */
#define FILE_MAX_BYTES (16 << 20) /* then it becomes FILE.1, and a new one begins */

static int fd = STDERR_FILENO;
static char *file_path; /* NULL: no regular file of ours */
static off_t file_size;
static unsigned long left_out;

static int open_file(const char *path)
{
	return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
}

struct error *log_open(const char *path)
{
	struct stat stat;

	if (!path)
		return NULL;
	int file = open_file(path);
	if (file < 0)
		return error_errno(errno, "cannot open the log %s", path);
	fd = file;
	if (!fstat(fd, &stat) && S_ISREG(stat.st_mode)) {
		file_path = strdup(path);
		file_size = stat.st_size;
	}
	return NULL;
}

/* A log beside the socket is in /run, which is memory. If this fails, the old file goes on, and the
 * next try is made when it has grown by as much again. */
static void begin_file(void)
{
	_cleanup_free_ char *old_path = NULL;

	file_size = 0;
	if (asprintf(&old_path, "%s.1", file_path) < 0 || rename(file_path, old_path))
		return;
	int file = open_file(file_path);
	if (file < 0)
		return;
	close(fd);
	fd = file;
}

int log_fd(void)
{
	return fd;
}

static size_t begin_line(char *line, size_t size)
{
	struct timespec now;
	struct tm tm;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	size_t length = strftime(line, size, "%Y-%m-%dT%H:%M:%S", &tm);
	length += (size_t)snprintf(line + length, size - length,
				   ".%03ldZ dyntraced[%d]: ", now.tv_nsec / 1000000, getpid());
	if (left_out)
		length += (size_t)snprintf(line + length, size - length, "(%lu line%s left out) ",
					   left_out, PLURAL(left_out));
	return length;
}

void log_line(const char *format, ...)
{
	char line[LINE_MAX_BYTES];
	struct pollfd ready = { .fd = fd, .events = POLLOUT };
	size_t length = begin_line(line, sizeof(line));
	va_list args;

	struct strbuf text = { 0 };
	va_start(args, format);
	quote_vformat(&text, format, args);
	va_end(args);
	size_t room = sizeof(line) - length - 1;
	size_t more = text.length < room ? text.length : room;
	while (more < text.length && more && ((unsigned char)text.text[more] & 0xc0) == 0x80)
		more--; /* no half character */
	if (more)
		memcpy(line + length, text.text, more);
	length += more;
	strbuf_free(&text);
	assert(length < sizeof(line));
	line[length++] = '\n';
	if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) &&
	    write(fd, line, length) == (ssize_t)length)
		left_out = 0;
	else
		left_out++;
	file_size += (off_t)length;
	if (file_path && file_size > FILE_MAX_BYTES)
		begin_file();
}
