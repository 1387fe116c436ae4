#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

/* A terminal with room takes this much plain text: its buffers have 256 bytes. */
#define TERMINAL_PIECE 128

/* Other opens of these two lead elsewhere: to another terminal. */
static bool is_own_kind(int fd, const struct stat *stat)
{
	unsigned number;

	return ioctl(fd, TIOCGPTN, &number) == 0 || stat->st_rdev == makedev(5, 0);
}

/* Opens a terminal once more, for flags of our own. False: not permitted. */
static bool reopen(int *fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	int other = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (other < 0)
		return false;
	close(*fd);
	*fd = other;
	return true;
}

void output_open(int fd, struct output *ret_output)
{
	struct output output = { .fd = fd, .way = OUTPUT_PLAIN, .relay = { -1, -1 } };
	struct stat stat;

	if (fstat(fd, &stat) == 0) {
		if (S_ISSOCK(stat.st_mode))
			output.way = OUTPUT_SOCKET;
		else if (S_ISFIFO(stat.st_mode))
			output.way = OUTPUT_PIPE;
		else if (isatty(fd) && (is_own_kind(fd, &stat) || !reopen(&output.fd)))
			output.way = OUTPUT_TERMINAL;
	}
	*ret_output = output;
}

void output_close(struct output *output)
{
	if (output->fd >= 0)
		close(output->fd);
	for (int i = 0; i < 2; i++) {
		if (output->relay[i] >= 0)
			close(output->relay[i]);
	}
	*output = (struct output){ .fd = -1, .relay = { -1, -1 } };
}

/* splice has a flag of its own not to block. Bytes that the pipe doesn't take are thrown away: the
 * caller still has them. */
static ssize_t write_relay(struct output *output, const char *bytes, size_t length)
{
	char rest[PIPE_BUF];

	if (output->relay[0] < 0 && pipe2(output->relay, O_NONBLOCK | O_CLOEXEC))
		return -errno;
	ssize_t filled = write(output->relay[1], bytes, length);
	if (filled < 0)
		return -errno;
	ssize_t moved = splice(output->relay[0], NULL, output->fd, NULL, (size_t)filled,
			       SPLICE_F_NONBLOCK);
	int number = errno;
	while (read(output->relay[0], rest, sizeof(rest)) > 0)
		;
	return moved < 0 ? -number : moved ? moved : -EAGAIN;
}

static ssize_t write_pipe(struct output *output, const char *bytes, size_t length)
{
	struct iovec vector = { (void *)bytes, length };
	ssize_t written = pwritev2(output->fd, &vector, 1, -1, RWF_NOWAIT);

	if (written >= 0 || errno != EOPNOTSUPP)
		return written < 0 ? -errno : written;
	output->way = OUTPUT_RELAY;
	return write_relay(output, bytes, length);
}

/* How much a terminal with room takes without blocking: plain text, or one byte that may become
 * several. Text may use the last buffer up, and then the newline behind it would wait for room. */
static size_t terminal_piece(const char *bytes, size_t length)
{
	size_t plain = 0;

	while (plain < length && plain < TERMINAL_PIECE && (unsigned char)bytes[plain] >= ' ')
		plain++;
	return plain ? plain : 1;
}

static ssize_t write_terminal(const struct output *output, const char *bytes, size_t length)
{
	struct pollfd ready = { .fd = output->fd, .events = POLLOUT };

	if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT))
		return ready.revents & (POLLERR | POLLHUP) ? -EPIPE : -EAGAIN;
	ssize_t written = write(output->fd, bytes, terminal_piece(bytes, length));
	return written < 0 ? -errno : written;
}

ssize_t output_write(struct output *output, const char *bytes, size_t length)
{
	ssize_t written = -1;

	switch (output->way) {
	case OUTPUT_PIPE:
		return write_pipe(output, bytes, length);
	case OUTPUT_RELAY:
		return write_relay(output, bytes, length);
	case OUTPUT_TERMINAL:
		return write_terminal(output, bytes, length);
	case OUTPUT_SOCKET:
		written = send(output->fd, bytes, length, MSG_DONTWAIT | MSG_NOSIGNAL);
		break;
	case OUTPUT_PLAIN:
		written = write(output->fd, bytes, length);
	}
	return written < 0 ? -errno : written;
}
