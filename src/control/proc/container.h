/*
 * container.h - the container, or service, that a process is in: by its control group.
 */
#ifndef DYNTRACE_CONTAINER_H
#define DYNTRACE_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CONTAINER_NAME_SIZE 65

/* The path of the process's control group, as seen from ours. Caller frees; NULL: unknown. */
char *container_cgroup(pid_t pid);

/* The name of what a control group is for: the first twelve digits of a container's id, or the unit
 * of a service. False: neither is in the path. */
bool container_name(const char *cgroup, char ret_name[CONTAINER_NAME_SIZE]);

#endif
