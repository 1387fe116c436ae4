#include "old_trace.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"

static bool is_file_of_trace(const char *name)
{
	return strcmp(name, "metadata") == 0 || strncmp(name, "stream_", strlen("stream_")) == 0;
}

/* Looks at each file, or removes them all. False: a file is none of a trace's. */
static bool each_file(const char *directory, bool removes)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *files = fd < 0 ? NULL : fdopendir(fd);
	bool ours = files, has_metadata = false;

	if (!files && fd >= 0)
		close(fd);
	for (struct dirent *file; ours && (file = readdir(files));) {
		if (!strcmp(file->d_name, ".") || !strcmp(file->d_name, ".."))
			continue;
		ours = is_file_of_trace(file->d_name);
		has_metadata |= !strcmp(file->d_name, "metadata");
		if (ours && removes)
			unlinkat(fd, file->d_name, 0);
	}
	if (files)
		closedir(files);
	return ours && has_metadata;
}

bool old_trace_is_one(const char *directory)
{
	return each_file(directory, false);
}

/* DIR.old, without slashes at the end of DIR. Caller frees. */
static char *old_name(const char *directory)
{
	size_t length = strlen(directory);
	char *name;

	while (length > 1 && directory[length - 1] == '/')
		length--;
	return asprintf(&name, "%.*s.old", (int)length, directory) < 0 ? NULL : name;
}

struct error *old_trace_check(const char *directory)
{
	_cleanup_free_ char *old = old_name(directory);
	struct stat st;

	if (!old)
		return error_new(ERROR_FAILED, "out of memory");
	if (lstat(old, &st) || each_file(old, false))
		return NULL;
	return error_new(ERROR_FAILED,
			 "%s: exists already, and can't be moved to %s, which is no trace (name "
			 "another directory)",
			 directory, old);
}

void old_trace_remove(const char *directory)
{
	if (each_file(directory, false) && each_file(directory, true))
		rmdir(directory);
}

void old_trace_move(const char *directory)
{
	_cleanup_free_ char *old = old_name(directory);

	if (!old || !each_file(directory, false))
		return;
	old_trace_remove(old);
	rename(directory, old);
}
