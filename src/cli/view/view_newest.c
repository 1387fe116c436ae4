#include "view_newest.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "control/base/cleanup.h"
#include "options/commands.h"

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static bool is_newer(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* A trace is a directory with a file "metadata", which is written anew while it is recorded. */
static struct error *find_newest(char **ret_newest)
{
	_cleanup_(closedirp) DIR *dir = opendir(".");
	_cleanup_free_ char *newest = NULL;
	struct timespec when = { 0 };

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		char path[sizeof(entry->d_name) + sizeof("/metadata")];
		struct stat st;

		snprintf(path, sizeof(path), "%s/metadata", entry->d_name);
		if (entry->d_name[0] == '.' || stat(path, &st) || !S_ISREG(st.st_mode) ||
		    (newest && !is_newer(&st.st_mtim, &when)))
			continue;
		free(newest);
		newest = strdup(entry->d_name);
		when = st.st_mtim;
	}
	if (!newest)
		return error_new(ERROR_USAGE, "give a TRACE, a trace's directory (there is none in "
					      "the current directory)");
	*ret_newest = take_ptr(&newest);
	return NULL;
}

struct error *view_newest_choose(const struct words *words, size_t most, char **ret_newest,
				 const char **ret_path)
{
	if (words->count > most)
		return error_new(ERROR_USAGE, "unexpected argument '%s'", words->items[most]);
	if (words->count) {
		*ret_path = words->items[0];
		return NULL;
	}
	struct error *error = find_newest(ret_newest);
	if (error)
		return error;
	cli_note("reading %s, the newest trace here", *ret_newest);
	*ret_path = *ret_newest;
	return NULL;
}
