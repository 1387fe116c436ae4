/*
 * handshake.h - how a target program and its test keep step, without sleeping.
 *
 * Every target program takes --ready-fd FD and --go-fd FD (both optional). It writes a byte to the
 * first when it is where the test wants it, then waits for a byte (or the end) from the second
 * before it goes on. Other options are --NAME NUMBER.
 */
#ifndef DYNTRACE_TESTS_HANDSHAKE_H
#define DYNTRACE_TESTS_HANDSHAKE_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number behind --NAME; `otherwise` when it isn't there. */
static inline long handshake_option(int argc, char **argv, const char *name, long otherwise)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strncmp(argv[i], "--", 2) && !strcmp(argv[i] + 2, name))
			return strtol(argv[i + 1], NULL, 0);
	return otherwise;
}

/* Says "ready", waits for "go". May be used several times. */
static inline void handshake(int argc, char **argv)
{
	int ready = (int)handshake_option(argc, argv, "ready-fd", -1);
	int go = (int)handshake_option(argc, argv, "go-fd", -1);
	char byte = 'r';

	if (ready >= 0 && write(ready, &byte, 1) != 1) {
		perror("ready-fd");
		exit(3);
	}
	while (go >= 0 && read(go, &byte, 1) < 0) {
		if (errno != EINTR) {
			perror("go-fd");
			exit(3);
		}
	}
}

/* Is the first thread of this process a zombie? */
static inline int handshake_leader_has_ended(void)
{
	char text[256] = "";
	int fd = open("/proc/self/stat", O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);
	char *paren = n > 0 ? strrchr(text, ')') : NULL;

	close(fd);
	return paren && paren[2] == 'Z';
}

#endif
