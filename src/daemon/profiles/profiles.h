/*
 * profiles.h - tracepoints that files of the administrator's ask for: /etc/dyntrace/NAME.conf.
 *
 * A file has the format of options/profile/profile.h, and describes tracepoints of some programs:
 *
 *	# slow commands of redis
 *	pid = redis-server
 *	function = call
 *	exit
 *	min-duration = 10ms
 *	max-size = 1G
 *
 * (D16) A file counts only if it and its folder belong to root or to the daemon's user, and nobody
 *      else may write to them: what it asks for is done with the daemon's rights.
 * (D17) A file counts as a whole or not at all. A fault in one leaves the others as they are.
 * (D18) A process has each tracepoint of a file once, also when the daemon was killed and comes
 *      back: the journal of the process tells (WIRE_PROFILE).
 */
#ifndef DYNTRACE_PROFILES_H
#define DYNTRACE_PROFILES_H

#include <stdio.h>

#include "control/base/vec.h"
#include "control/wire/messages.h"

#define PROFILES_FOLDER "/etc/dyntrace"

/* A WIRE_ADD without a user. */
struct profile_request {
	char *bytes;
	size_t length;
};

struct profile_requests {
	struct profile_request *items;
	size_t count, room;
};

struct profiles {
	struct profile_requests requests;
	VEC(char *) errors; /* a line each: FILE:LINE: WHY */
	size_t files; /* that count */
};

/* Reads the files of the folder, in the order of their names. One that can't be used is an error
 * of the list. A folder that doesn't exist is empty. */
void profiles_read(const char *folder, struct profiles *ret_profiles);
void profiles_free(struct profiles *profiles);

/* profile_options.c: adds the requests of an open file, all or none. `path` is for errors. */
struct error *profile_options_read(FILE *file, const char *path, struct profile_requests *requests);

#endif
