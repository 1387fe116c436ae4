/*
 * spawn.h - workers and keepers: this program again, with other rights.
 */
#ifndef DYNTRACE_SPAWN_H
#define DYNTRACE_SPAWN_H

#include "daemon/keeper/keeper.h"
#include "daemon/supervisor/requests/identity.h"

struct supervisor;
struct target;

/* A worker; its socket is connected. */
struct error *spawn_worker(struct supervisor *supervisor, struct target *target, int *ret_fd);
/* A keeper with that user's rights; the worker's end of its socket. */
struct error *spawn_keeper(const struct identity *who, const char *folder, const char *name,
			   enum keeper_way way, int *ret_fd);
/* Where the worker of a process listens. Caller frees; NULL: out of memory. */
char *spawn_socket_path(const struct supervisor *supervisor, pid_t pid);
/* Connects to the worker that listens at a path. */
struct error *spawn_connect(const char *path, int *ret_fd);

#endif
