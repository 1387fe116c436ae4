#include "metrics_writer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/metrics.h"
#include "control/base/cleanup.h"
#include "log.h"

#define PAUSE_S 5

static struct error *write_once(const char *socket, const char *path)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	struct client *client = NULL;
	struct error *error = client_connect(socket, &client);

	if (error)
		return error;
	error = metrics_collect(client, &text);
	client_close(client);
	return error ? error : metrics_write(path, &text);
}

/* Says once why the file can't be written, and again when the reason is another. */
static _Noreturn void run(const char *socket, const char *path)
{
	char last[512] = "";

	for (;;) {
		_cleanup_error_ struct error *error = write_once(socket, path);
		const char *why = error ? error_text(error) : "";

		if (error && strncmp(last, why, sizeof(last) - 1) != 0)
			log_line("--metrics: %s", why);
		snprintf(last, sizeof(last), "%s", why);
		sleep(PAUSE_S);
	}
}

/* Nothing of the supervisor's but its log. */
static void leave_supervisor(pid_t parent)
{
	sigset_t all;
	int log = log_fd();

	prctl(PR_SET_NAME, "dyntraced-metr", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its user takes no descriptor from it (H34) */
	prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (getppid() != parent)
		_exit(EXIT_FAILURE);
	if (log > STDERR_FILENO + 1)
		close_range(STDERR_FILENO + 1, (unsigned)log - 1, 0);
	close_range(log > STDERR_FILENO ? (unsigned)log + 1 : STDERR_FILENO + 1, ~0U, 0);
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
}

struct error *metrics_writer_start(const char *socket, const char *path, pid_t *ret_pid)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		return error_errno(errno, "--metrics: cannot start its process");
	if (!child) {
		leave_supervisor(parent);
		run(socket, path);
	}
	*ret_pid = child;
	return NULL;
}

void metrics_writer_end(pid_t pid, const char *path)
{
	if (pid <= 0 || kill(pid, SIGKILL))
		return;
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	unlink(path);
}
