#include "log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "control/base/quote.h"

#define LINE_MAX_BYTES 2048 /* a pipe that poll calls writable takes so much (PIPE_BUF) */

static int fd = STDERR_FILENO;
static unsigned long left_out;

struct error *log_open(const char *path)
{
	if (!path)
		return NULL;
	int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
	if (file < 0)
		return error_errno(errno, "cannot open the log %s", path);
	fd = file;
	return NULL;
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
		length += (size_t)snprintf(line + length, size - length, "(%lu lines left out) ",
					   left_out);
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
}
