/*
 * cmd_open.c - dyntrace open [TRACE]: the page of `report --html`, in a browser.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/view/view_newest.h"
#include "control/base/cleanup.h"
#include "options/commands.h"
#include "page.h"

extern char **environ;

static const struct option_spec options[] = { { 0 } };

/* The page's place: in the trace's directory it would look like a stream, so beside it; where that
 * can't be written, in the cache of the user's. */
static struct error *choose_file(const char *path, char **ret_file)
{
	size_t length = strlen(path);
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	_cleanup_free_ char *whole = realpath(path, NULL), *folder = NULL, *beside = NULL;

	if (!whole)
		return error_errno(errno, "cannot open the trace '%s'", path);
	length = strlen(whole);
	while (length && whole[length - 1] != '/')
		length--;
	const char *name = whole + length;
	if (asprintf(&beside, "%.*s%s.html", (int)length, whole, name) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	whole[length ? length - 1 : 0] = '\0';
	bool is_writable = !access(length > 1 ? whole : "/", W_OK);
	if (is_writable) {
		*ret_file = take_ptr(&beside);
		return NULL;
	}
	if (cache && *cache == '/' ? asprintf(&folder, "%s/dyntrace", cache) < 0 :
				     asprintf(&folder, "%s/.cache/dyntrace", home ? home : "/tmp") < 0)
		return error_new(ERROR_FAILED, "out of memory");
	char *slash = strrchr(folder, '/');
	*slash = '\0';
	mkdir(folder, 0700);
	*slash = '/';
	if (mkdir(folder, 0700) && errno != EEXIST)
		return error_errno(errno, "cannot make the folder '%s' for the page", folder);
	if (asprintf(ret_file, "%s/%s.html", folder, name) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	return NULL;
}

/* Is there somebody to look at a window? */
static bool has_screen(void)
{
	const char *display = getenv("DISPLAY"), *wayland = getenv("WAYLAND_DISPLAY"),
		   *browser = getenv("BROWSER");

	return (display && *display) || (wayland && *wayland) || (browser && *browser);
}

/* Runs xdg-open, whose words don't mix with ours. */
static bool open_file(char *file)
{
	char *words[] = { (char[]){ "xdg-open" }, file, NULL };
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int status = 1;

	if (posix_spawn_file_actions_init(&actions))
		return false;
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	bool is_started = !posix_spawnp(&pid, "xdg-open", &actions, NULL, words, environ);
	posix_spawn_file_actions_destroy(&actions);
	while (is_started && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return is_started && !status;
}

static struct error *run(const struct words *words, int *ret_status)
{
	_cleanup_free_ char *newest = NULL, *file = NULL;
	const char *path;
	struct error *error = view_newest_choose(words, 1, &newest, &path);

	if (!error)
		error = choose_file(path, &file);
	if (!error)
		error = page_make(path, file);
	if (error)
		return error;
	if (has_screen() && open_file(file))
		cli_note("opened %s", file);
	else
		cli_print("%s\n", file);
	return NULL;
}

const struct command command_open = {
	.name = "open",
	.summary = "look at a recorded trace in a browser",
	.usage = "[TRACE]",
	.details =
		"Makes the page of 'report --html' as TRACE.html beside the trace (in ~/.cache/dyntrace if that\n"
		"place can't be written) and opens it with xdg-open; without a screen or a browser, prints its\n"
		"path. The page is one file: send it to a colleague. Without TRACE: the newest trace in the\n"
		"current directory.",
	.example = "dyntrace open redis.dyntrace",
	.options = options,
	.run = run,
};
