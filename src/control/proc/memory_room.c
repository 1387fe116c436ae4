#include "memory_room.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

/* A hierarchy of cgroups: where it is mounted, and the names of its files. */
static const struct hierarchy {
	const char *mount, *limit, *usage;
	const char *files[2]; /* in memory.stat: bytes that give way */
} hierarchies[] = {
	{ "/sys/fs/cgroup", "memory.max", "memory.current", { "active_file ", "inactive_file " } },
	{ "/sys/fs/cgroup/memory",
	  "memory.limit_in_bytes",
	  "memory.usage_in_bytes",
	  { "total_active_file ", "total_inactive_file " } },
};

static char *read_file(const char *folder, const char *name)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return NULL;
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? NULL : proc_status_slurp(fd, NULL);
}

/* The number after a word at the start of a line; 0: no such line. */
static uint64_t number_after(const char *text, const char *word)
{
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (!strncmp(line, word, strlen(word)))
			return strtoull(line + strlen(word), NULL, 10);
	}
	return 0;
}

/* Of one cgroup, without those around it. */
static uint64_t room_in(const struct hierarchy *hierarchy, const char *folder)
{
	_cleanup_free_ char *limit = read_file(folder, hierarchy->limit);
	_cleanup_free_ char *usage = read_file(folder, hierarchy->usage);

	if (!limit || !usage || *limit < '0' || *limit > '9') /* "max" */
		return UINT64_MAX;
	uint64_t most = strtoull(limit, NULL, 10), used = strtoull(usage, NULL, 10), files = 0;
	if (most >= INT64_MAX / 2)
		return UINT64_MAX;
	_cleanup_free_ char *stat = read_file(folder, "memory.stat");
	for (size_t i = 0; stat && i < 2; i++)
		files += number_after(stat, hierarchy->files[i]);
	used -= files < used ? files : used;
	return used < most ? most - used : 0;
}

/* The path of the process's cgroup in a hierarchy, from a line "N:CONTROLLERS:PATH". */
static const char *path_in(const struct hierarchy *hierarchy, char *line)
{
	char *controllers = strchr(line, ':'), *path = controllers ? strchr(controllers + 1, ':') :
								     NULL;
	bool unified = hierarchy == &hierarchies[0];

	if (!path)
		return NULL;
	*path = '\0';
	bool found = unified ? !controllers[1] : strstr(controllers, "memory") != NULL;
	*path = ':';
	return found ? path + 1 : NULL;
}

static uint64_t room_around(const struct hierarchy *hierarchy, const char *path)
{
	char folder[PATH_MAX];
	size_t root = strlen(hierarchy->mount);
	uint64_t least = UINT64_MAX;

	if (strstr(path, "..") || /* of another namespace */
	    snprintf(folder, sizeof(folder), "%s%s", hierarchy->mount, path) >= (int)sizeof(folder))
		return least;
	while (strlen(folder) > root) {
		uint64_t room = room_in(hierarchy, folder);

		least = room < least ? room : least;
		*strrchr(folder, '/') = '\0';
	}
	return least;
}

bool memory_room_of(pid_t pid, uint64_t *ret_bytes)
{
	char folder[32], *save = NULL;
	uint64_t least = UINT64_MAX;

	snprintf(folder, sizeof(folder), "/proc/%d", pid);
	_cleanup_free_ char *text = read_file(folder, "cgroup");
	for (char *line = text ? strtok_r(text, "\n", &save) : NULL; line;
	     line = strtok_r(NULL, "\n", &save)) {
		for (size_t i = 0; i < sizeof(hierarchies) / sizeof(hierarchies[0]); i++) {
			const char *path = path_in(&hierarchies[i], line);
			uint64_t room = path ? room_around(&hierarchies[i], path) : UINT64_MAX;

			least = room < least ? room : least;
		}
	}
	*ret_bytes = least;
	return least != UINT64_MAX;
}
