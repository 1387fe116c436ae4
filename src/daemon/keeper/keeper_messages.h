/*
 * keeper_messages.h - what worker and keeper say to each other, on a SOCK_SEQPACKET socket.
 */
#ifndef DYNTRACE_KEEPER_MESSAGES_H
#define DYNTRACE_KEEPER_MESSAGES_H

#include <limits.h>
#include <stdint.h>

#define KEEPER_DIRS 256 /* the trace, and snapshots of it */

enum keeper_what {
	KEEPER_MAKE, /* first: a suffix of the directory's name */
	KEEPER_OPEN,
	KEEPER_CREATE,
	KEEPER_RENAME, /* first to second */
	KEEPER_REMOVE, /* "": the directory itself */
	/* no directory: the file of that name itself, to write behind its end; made if it isn't
	 * there */
	KEEPER_APPEND,
};

struct keeper_request {
	uint32_t what;
	uint32_t directory; /* a number that the worker chooses */
	char first[NAME_MAX + 1], second[NAME_MAX + 1];
};

struct keeper_answer {
	int32_t result; /* 0, or -errno */
	char path[PATH_MAX]; /* of the directory; KEEPER_MAKE */
};

#endif
