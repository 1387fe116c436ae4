/*
 * keeper_messages.h - the messages between worker and keeper, on a SOCK_SEQPACKET socket.
 */
#ifndef DYNTRACE_KEEPER_MESSAGES_H
#define DYNTRACE_KEEPER_MESSAGES_H

#include <limits.h>
#include <stdint.h>

#define KEEPER_DIRS 256 /* the trace, and snapshots of it */

enum keeper_what {
	KEEPER_MAKE, /* first: suffix of the directory's name */
	KEEPER_OPEN,
	KEEPER_CREATE,
	KEEPER_RENAME, /* first to second */
	KEEPER_REMOVE, /* "": the directory itself */
	/* opens the file of that name, instead of a directory, to write behind its end; makes it if
	 * need be */
	KEEPER_APPEND,
	KEEPER_DROP, /* a snapshot with its files */
};

struct keeper_request {
	uint32_t what;
	uint32_t directory; /* numbered by the worker */
	char first[NAME_MAX + 1], second[NAME_MAX + 1];
};

struct keeper_answer {
	int32_t result; /* 0, or -errno */
	char path[PATH_MAX]; /* of the directory; KEEPER_MAKE */
};

#endif
