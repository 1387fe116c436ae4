/*
 * trace_peer.h - how a second `dyntrace trace` of a process reaches the first one, and who may.
 *
 * A recording `trace` listens at an abstract socket with its pid in the name. Nobody gains a right
 * by that: it talks only to a process that has its own rights exactly (proc_guise.h: user, groups,
 * capabilities) in its own user namespace and runs the same file, so the same version. The second
 * one talks only to the process that has the target's code memory writable, which is the
 * controller (H25).
 */
#ifndef DYNTRACE_TRACE_PEER_H
#define DYNTRACE_TRACE_PEER_H

#include <sys/types.h>

/* -1: others can't be served. */
int trace_peer_listen(void);
/* Takes the next one that may ask. *ret_pidfd: its process. -1: none. */
int trace_peer_accept(int listener, int *ret_pidfd);
/* Reaches the controller. *ret_pidfd: its process. -1: it doesn't listen, or is someone else's. */
int trace_peer_connect(pid_t controller, int *ret_pidfd);

#endif
