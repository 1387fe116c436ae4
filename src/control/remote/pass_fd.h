/*
 * pass_fd.h - give the target a descriptor of ours.
 *
 * Uses a socket pair made in the target: needs no rights but ptrace's, and neither /proc nor a
 * common root.
 */
#ifndef DYNTRACE_PASS_FD_H
#define DYNTRACE_PASS_FD_H

#include "remote.h"

/* *ret_there: the descriptor's number in the target, close-on-exec. */
struct error *pass_fd(struct remote *remote, struct proc *proc, int fd, int *ret_there);

#endif
