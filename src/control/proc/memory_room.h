/*
 * memory_room.h - the memory that a process's cgroups leave it.
 *
 * Memory that is taken in a process whose cgroup has none left ends the process (H17): the kernel
 * asks nobody. Looks in the usual places of cgroup mounts; what can't be read is no limit.
 */
#ifndef DYNTRACE_MEMORY_ROOM_H
#define DYNTRACE_MEMORY_ROOM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* *ret_bytes: what the process can still take, if files in memory give way. False: no limit. */
bool memory_room_of(pid_t pid, uint64_t *ret_bytes);

#endif
