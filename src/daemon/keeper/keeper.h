/*
 * keeper.h - who makes a trace's files: a process with the rights of the client's user.
 *
 * It makes one directory, and files in that, and does nothing else. Its other end is the worker's
 * (keeper_dir): a request is a struct keeper_request, an answer a struct keeper_answer, with a
 * descriptor where one was asked for. It ends when the worker closes the socket.
 *
 * The worker isn't believed: names are names of files in that directory, which is held open, and
 * links aren't followed.
 */
#ifndef DYNTRACE_KEEPER_H
#define DYNTRACE_KEEPER_H

#include <stdbool.h>

#include "control/ctf/trace_dir.h"

enum keeper_way {
	KEEPER_NUMBERED, /* a number is added to the directory's name, if it is taken */
	KEEPER_EXACT, /* it has that name or isn't made */
	KEEPER_AGAIN, /* it is there: a keeper of the same user's made it */
};

/* In the keeper; descriptor 3 is the socket. */
int keeper_main(const char *folder, const char *name, enum keeper_way way);

/* In the worker: takes the socket. The path is known when the directory was made, or, with
 * KEEPER_AGAIN, opened. */
struct error *keeper_dir(int fd, struct trace_dir **ret_dir);
/* Another directory beside it, as NAME and the suffix: for a snapshot. */
struct error *keeper_beside(struct trace_dir *dir, const char *suffix, struct trace_dir **ret_dir);
/* A file that is named in the keeper's words, to write behind its end. Takes the socket. */
struct error *keeper_append(int socket, int *ret_fd);
/* KEEPER_AGAIN: opens it. */
struct error *keeper_open_again(struct trace_dir *dir);
bool keeper_has_made(const struct trace_dir *dir);

#endif
