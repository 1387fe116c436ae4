#include "start.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"

static int waiting_parent = -1; /* a pipe to it; -1: in the foreground */

struct error *start_background(void)
{
	int ends[2];
	char byte;

	assert(waiting_parent < 0);
	if (pipe2(ends, O_CLOEXEC))
		return error_errno(errno, "pipe");
	pid_t pid = fork();
	if (pid < 0)
		return error_errno(errno, "fork");
	if (pid > 0) {
		int status = 0;

		close(ends[1]);
		if (read(ends[0], &byte, 1) == 1)
			_exit(EXIT_SUCCESS);
		waitpid(pid, &status, 0); /* the daemon has printed the reason */
		_exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) :
								 EXIT_FAILURE);
	}
	close(ends[0]);
	waiting_parent = ends[1];
	setsid();
	return NULL;
}

void start_done(void)
{
	if (waiting_parent < 0)
		return;
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (chdir("/"))
		log_line("cannot change to /: %s", strerror(errno));
	dup2(nothing, STDIN_FILENO);
	dup2(nothing, STDOUT_FILENO);
	dup2(log_fd() != STDERR_FILENO ? log_fd() : nothing, STDERR_FILENO);
	close(nothing);
	if (write(waiting_parent, "r", 1) != 1)
		log_line("cannot report the start: %s", strerror(errno));
	close(waiting_parent);
	waiting_parent = -1;
}
