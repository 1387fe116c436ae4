/*
 * log_share.h - how much of the log a user may fill.
 *
 * The log tells root who did what. Whoever makes a line per request would fill the disk, or push
 * the lines about others out of a log of bounded size: so each user but root and the daemon's own
 * has a number of lines, which grows again with time (D6). Lines that are left out are counted, and
 * the next line of that user says how many.
 */
#ifndef DYNTRACE_LOG_SHARE_H
#define DYNTRACE_LOG_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LOG_SHARES_MAX 128

struct log_share {
	uid_t uid;
	uint64_t used; /* lines */
	uint64_t since; /* ns: when `used` was counted down last */
	unsigned long left_out;
};

struct log_shares {
	struct log_share items[LOG_SHARES_MAX];
	unsigned count;
};

struct supervisor;

/* May a line be written that this user causes? */
bool log_share_take(struct supervisor *supervisor, uid_t uid);
/* As log_share_take, for a failure that is no answer to a request. Such lines have a part of their
 * own: a user who makes a line per request hides none of them. */
bool log_share_take_failure(struct supervisor *supervisor, uid_t uid);

#endif
