/*
 * identity.h - who a client or a target is, by the kernel's word.
 *
 * A target's is read from /proc/PID/{stat,status} and the link exe only: reading those doesn't
 * touch the process's memory, and so can't be held up by it.
 */
#ifndef DYNTRACE_IDENTITY_H
#define DYNTRACE_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "control/base/error.h"
#include "control/wire/messages.h"

#define IDENTITY_GROUPS_MAX 256 /* more aren't looked at */

struct identity {
	pid_t pid; /* of who connected; 0: from the journal */
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

struct process {
	struct identity user; /* whose rights it has: the effective ones */
	uint64_t start_time;
	char name[64]; /* to be shown */
	char comm[64];
	char executable[64]; /* its file's name */
	bool alive;
	bool mixed; /* real, effective and saved ids differ */
	bool capable; /* it has capabilities that its user doesn't */
	bool dumpable;
};

/* ERROR_GONE: there is none. */
struct error *process_read(pid_t pid, struct process *ret_process);
/* Are its user's rights enough to trace it? */
bool process_is_plain(const struct process *process);
/* Could that user ptrace it himself, as far as ids tell? */
bool process_is_own(const struct process *process, const struct identity *who);

/* Is the process called that: comm, or the file name of its executable? */
bool process_is_called(const struct process *process, const char *name);

#endif
