/*
 * keeper.h - the keeper: a process with the rights of the client's user that makes a trace's files.
 *
 * It makes one directory and files in it, and nothing else. The worker has the other end of its
 * socket (keeper_dir): a request is a struct keeper_request, an answer a struct keeper_answer, with
 * a descriptor where one was asked for. The keeper ends when the worker closes the socket.
 *
 * The keeper doesn't believe the worker: names are those of files in that directory, which it holds
 * open, and it follows no links.
 */
#ifndef DYNTRACE_KEEPER_H
#define DYNTRACE_KEEPER_H

#include <stdbool.h>

#include "control/ctf/trace_dir.h"

enum keeper_way {
	KEEPER_NUMBERED, /* make the directory; add a number if the name is taken */
	KEEPER_EXACT, /* make it with that name or fail */
	KEEPER_AGAIN, /* open it: a keeper of the same user made it */
};

/* The keeper itself; descriptor 3 is the socket. */
int keeper_main(const char *folder, const char *name, enum keeper_way way);

/* ---- the worker's end ------------------------------------------------------------------------ */

/* Takes the socket. The path is known when the directory was made or, with KEEPER_AGAIN, opened. */
struct error *keeper_dir(int fd, struct trace_dir **ret_dir);
/* Another directory beside it, with the suffix behind its name: for a snapshot. */
struct error *keeper_beside(struct trace_dir *dir, const char *suffix, struct trace_dir **ret_dir);
/* Removes such a directory with its files, and frees `dir`. */
void keeper_drop(struct trace_dir *dir);
/* Opens the file that the keeper was started for, to write behind its end. Takes the socket. */
struct error *keeper_append(int socket, int *ret_fd);
/* Opens the directory of a keeper with KEEPER_AGAIN. */
struct error *keeper_open_again(struct trace_dir *dir);
bool keeper_has_made(const struct trace_dir *dir);

#endif
