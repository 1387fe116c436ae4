#include "view_pager.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t pager; /* 0: none */

static bool is_set(const char *value)
{
	return value && *value;
}

/* Is less there? Without it, output goes to the terminal as it is. */
static bool has_less(void)
{
	static const char *const places[] = { "/usr/bin/less", "/bin/less", "/usr/local/bin/less" };

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (!access(places[i], X_OK))
			return true;
	return false;
}

static const char *choose(void)
{
	const char *own = getenv("DYNTRACE_PAGER"), *usual = getenv("PAGER"),
		   *term = getenv("TERM"), *chosen = own ? own : usual;

	if (!is_set(term) || !strcmp(term, "dumb"))
		return NULL;
	if (!chosen)
		return has_less() ? "less -FRX" : NULL;
	return *chosen && strcmp(chosen, "cat") != 0 ? chosen : NULL;
}

__attribute__((noreturn)) static void run_pager(const char *command, int input)
{
	/* without options less would show escapes, and keep a short text from the screen */
	setenv("LESS", "FRX", 0);
	if (dup2(input, STDIN_FILENO) >= 0)
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

void view_pager_begin(void)
{
	const char *command = isatty(STDOUT_FILENO) ? choose() : NULL;
	int ends[2];

	if (!command || pager || pipe2(ends, O_CLOEXEC))
		return;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0)
		run_pager(command, ends[0]);
	if (child > 0 && dup2(ends[1], STDOUT_FILENO) >= 0) {
		pager = child;
		/* Ctrl-C is for the reader of the trace, and for the pager. A user who has seen
		 * enough is no error. */
		signal(SIGINT, SIG_IGN);
		signal(SIGPIPE, SIG_IGN);
	}
	close(ends[0]);
	close(ends[1]);
}

bool view_pager_is_on(void)
{
	return pager != 0;
}

void view_pager_end(void)
{
	if (!pager)
		return;
	fflush(stdout);
	close(STDOUT_FILENO);
	while (waitpid(pager, NULL, 0) < 0 && errno == EINTR)
		;
	pager = 0;
	/* a descriptor that nobody reads: stdout is closed when the program ends */
	if (open("/dev/null", O_WRONLY | O_CLOEXEC) < 0)
		return;
}
