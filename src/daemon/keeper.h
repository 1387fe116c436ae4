/*
 * keeper.h - who makes a trace's files: a process with the rights of the client's user.
 *
 * It makes one directory, and files in that, and does nothing else. Its other end is the worker's (keeper_dir): a request is a
 * struct keeper_request, an answer a struct keeper_answer, with a descriptor where one was asked for. It ends when the
 * worker closes the socket.
 *
 * The worker isn't believed: names are names of files in that directory, which is held open, and links aren't followed.
 */
#ifndef DYNTRACE_DAEMON_KEEPER_H
#define DYNTRACE_DAEMON_KEEPER_H

#include <stdbool.h>

#include "../control/ctf/trace_dir.h"

/* In the keeper; descriptor 3 is the socket. `exact`: the directory has that name or isn't made; else a number is added. */
int keeper_main(const char *folder, const char *name, bool exact);

/* In the worker: takes the socket. The path is known when the directory was made. */
struct error *keeper_dir(int fd, struct trace_dir **ret_dir);
/* Another directory beside it, as NAME and the suffix: for a snapshot. */
struct error *keeper_beside(struct trace_dir *dir, const char *suffix, struct trace_dir **ret_dir);
/* A file that is named in the keeper's words, to write behind its end. Takes the socket. */
struct error *keeper_append(int socket, int *ret_fd);
bool keeper_has_made(const struct trace_dir *dir);

#endif
