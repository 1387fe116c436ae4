/*
 * output.h - write to a file of others without ever waiting for its reader.
 *
 * The descriptor may be the target's own standard output: its flags are the target's too, so
 * O_NONBLOCK can't be set there. POLLOUT isn't enough: a pipe or a terminal with a little room
 * blocks a longer write, and others may fill it between poll and write.
 *
 * The caller ignores SIGPIPE.
 */
#ifndef DYNTRACE_OUTPUT_H
#define DYNTRACE_OUTPUT_H

#include <stddef.h>
#include <sys/types.h>

enum output_way {
	OUTPUT_PLAIN, /* regular files, and descriptors that are ours alone and don't block */
	OUTPUT_SOCKET,
	OUTPUT_PIPE,
	OUTPUT_RELAY, /* a pipe, with kernels before 6.5: by way of a pipe of our own */
	OUTPUT_TERMINAL, /* that we may not open ourselves */
};

struct output {
	int fd;
	enum output_way way;
	int relay[2]; /* OUTPUT_RELAY: reading and writing end; else -1 */
};

/* Takes over the descriptor. */
void output_open(int fd, struct output *ret_output);
void output_close(struct output *output);

/* Number of bytes written; < 0: -errno. -EAGAIN: the file takes nothing now. */
ssize_t output_write(struct output *output, const char *bytes, size_t length);

#endif
