/*
 * identity.h - who a client is, by the kernel's word.
 */
#ifndef DYNTRACE_IDENTITY_H
#define DYNTRACE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "control/base/error.h"
#include "control/wire/messages.h"

#define IDENTITY_GROUPS_MAX 256 /* more aren't looked at */

struct identity {
	pid_t pid; /* of the process that connected; 0: from the journal */
	uid_t uid;
	gid_t gid;
	gid_t groups[IDENTITY_GROUPS_MAX];
	size_t group_count;
};

/* Of the other end of a socket. */
struct error *identity_of_peer(int fd, struct identity *ret_identity);
bool identity_in_group(const struct identity *identity, gid_t group);

/* As attributes of a message, and back. */
void identity_write(const struct identity *identity, struct wire_out *out);
void identity_read(const struct wire_message *message, struct identity *ret_identity);

#endif
