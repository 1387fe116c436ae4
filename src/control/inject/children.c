/*
 * children.c - which processes map an agent's code: found by its memfd's device and inode (H12).
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "../base/cleanup.h"
#include "inject.h"

static void cleanup_closedir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static bool maps_code(const char *pid, const struct agent *agent)
{
	char path[64], *line = NULL;
	size_t room = 0;
	bool found = false;

	snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
	_cleanup_fclose_ FILE *file = fopen(path, "re");
	while (file && !found && getline(&line, &room, file) > 0) {
		unsigned int major, minor;
		unsigned long long inode;

		found = sscanf(line, "%*s %*s %*s %x:%x %llu", &major, &minor, &inode) == 3 &&
			inode == agent->code_inode && makedev(major, minor) == agent->code_device;
	}
	free(line);
	return found;
}

struct error *inject_find_children(const struct agent *agent, struct tids *ret_pids)
{
	_cleanup_(cleanup_closedir) DIR *dir = opendir("/proc");
	struct tids pids = { 0 };
	struct dirent *entry;

	if (!dir)
		return error_new(ERROR_FAILED, "/proc can't be read");
	while ((entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || !maps_code(entry->d_name, agent))
			continue;
		if (!vec_push(&pids, (pid_t)atoi(entry->d_name))) {
			vec_free(&pids);
			return error_new(ERROR_FAILED, "out of memory");
		}
	}
	*ret_pids = pids;
	return NULL;
}
