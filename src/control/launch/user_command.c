#include "user_command.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

bool user_command_runs(struct user_command *command)
{
	if (command->child > 0 && waitpid(command->child, NULL, WNOHANG) == 0)
		return true;
	command->child = 0;
	return false;
}

/* A group of its own: Ctrl-C is for dyntrace. */
static int spawn(struct user_command *command)
{
	char *words[] = { "sh", "-c", (char *)command->text, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, all;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						      POSIX_SPAWN_SETPGROUP);
	int failed = posix_spawn(&command->child, "/bin/sh", &files, &attributes, words, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	if (failed)
		command->child = 0;
	return failed;
}

int user_command_start(struct user_command *command, const char *snapshot, const char *why,
		       pid_t pid)
{
	char number[16];

	if (user_command_runs(command))
		return EBUSY;
	snprintf(number, sizeof(number), "%d", pid);
	if (setenv("DYNTRACE_SNAPSHOT", snapshot, 1) || setenv("DYNTRACE_SNAPSHOT_WHY", why, 1) ||
	    setenv("DYNTRACE_PID", number, 1))
		return errno;
	return spawn(command);
}
