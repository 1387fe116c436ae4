/*
 * container.c
 *
 * Container managers call the group of a container by its id, 64 hexadecimal digits, with words of
 * their own around it: libpod-ID.scope, docker-ID.scope, /docker/ID, cri-containerd-ID.scope. A
 * process may be in a group below it.
 */
#include "container.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "proc_status.h"

#define ID_DIGITS 64
#define ID_SHOWN 12

/* Of the first hierarchy the line is "0::PATH". With several hierarchies (version 1), systemd's
 * tells. */
static const char *find_path(const char *text)
{
	const char *best = strstr(text, ":name=systemd:");

	if (best)
		return best + strlen(":name=systemd:");
	best = !strncmp(text, "0::", 3) ? text : strstr(text, "\n0::");
	return best ? strstr(best, "::") + 2 : NULL;
}

char *container_cgroup(pid_t pid)
{
	_cleanup_close_ int fd = proc_status_open(pid, "cgroup", O_RDONLY);
	_cleanup_free_ char *text = fd < 0 ? NULL : proc_status_slurp(fd, NULL);
	const char *path = text ? find_path(text) : NULL;

	return path ? strndup(path, strcspn(path, "\n")) : NULL;
}

static bool find_id(const char *cgroup, char ret_name[CONTAINER_NAME_SIZE])
{
	size_t digits = 0;

	for (const char *at = cgroup; *at; at++) {
		digits = isxdigit((unsigned char)*at) ? digits + 1 : 0;
		if (digits != ID_DIGITS || isxdigit((unsigned char)at[1]))
			continue;
		snprintf(ret_name, CONTAINER_NAME_SIZE, "%.*s", ID_SHOWN, at + 1 - ID_DIGITS);
		return true;
	}
	return false;
}

/* The innermost service: a process of a service's own group below it counts, too. */
static bool find_service(const char *cgroup, char ret_name[CONTAINER_NAME_SIZE])
{
	static const char ending[] = ".service";
	bool found = false;

	for (const char *at = cgroup; (at = strstr(at, ending)); at += strlen(ending)) {
		const char *from = at;

		if (at[strlen(ending)] && at[strlen(ending)] != '/')
			continue;
		while (from > cgroup && from[-1] != '/')
			from--;
		snprintf(ret_name, CONTAINER_NAME_SIZE, "%.*s",
			 (int)(at + strlen(ending) - from), from);
		found = true;
	}
	return found;
}

bool container_name(const char *cgroup, char ret_name[CONTAINER_NAME_SIZE])
{
	return find_id(cgroup, ret_name) || find_service(cgroup, ret_name);
}
