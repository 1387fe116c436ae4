/*
 * user_command.h - a shell command of the user's that is run for a snapshot (--on-snapshot).
 */
#ifndef DYNTRACE_USER_COMMAND_H
#define DYNTRACE_USER_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

struct user_command {
	const char *text;
	pid_t child; /* 0: none runs */
};

/* Reaps a command that has ended. True: it runs. */
bool user_command_runs(struct user_command *command);
/* Starts it with DYNTRACE_SNAPSHOT (the directory), DYNTRACE_SNAPSHOT_WHY and DYNTRACE_PID in its
 * environment, and with signals as a shell would. 0, or an errno; EBUSY: it still runs. */
int user_command_start(struct user_command *command, const char *snapshot, const char *why,
		       pid_t pid);

#endif
