/*
 * pass_fd.h - give the target a descriptor of ours. Private to inject/.
 *
 * By a socket pair of its own: that needs no rights but ptrace's, and neither /proc nor a common
 * root.
 */
#ifndef DYNTRACE_PASS_FD_H
#define DYNTRACE_PASS_FD_H

#include "remote.h"

/* *ret_there: the number it has in the target, closed on exec. */
struct error *pass_fd(struct remote *remote, struct proc *proc, int fd, int *ret_there);

#endif
